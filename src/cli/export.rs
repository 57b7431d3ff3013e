//! `export`: sessions in the formats of other tools.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, warn};
use super::interrupt;
use super::progress::Progress;
use spanledger::export::{
    Exported, Format, Live, Options, Shape, Target, TrialSchema, export_with,
};
use spanledger::import::Source;
use spanledger::read::{Follower, Start};

/// Write sessions in the formats of other tools
///
/// A session is exported as it is now, with secrets masked as they are in the trace. `--list` describes the formats.
/// Without -o, formats of one file go to standard output, and trace-sqlite into each session's directory.
///
/// Exit codes: 0 for success, 2 if the target can't be written, 3 if parts of the trace are damaged
/// and were left out. Of several sessions with files or rows of their own, the others are exported if one can't be.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger export trajectory last > trajectory.jsonl\n  spanledger export agentdbg --all -o ~/.agentdbg\n  spanledger export session-log --all -o sessions.jsonl\n  spanledger export chat-sqlite --all -o sessions.db --follow"
)]
pub(super) struct Export {
    /// The format, by its name
    #[arg(value_name = "FORMAT", required_unless_present = "list")]
    format: Option<Format>,
    /// The sessions: ids, the beginnings of ids, directories, or `last`
    #[arg(value_name = "SESSION", default_value = "last", conflicts_with = "all")]
    sessions: Vec<String>,
    /// All sessions
    #[arg(long)]
    all: bool,
    /// Where to write: a file, or a directory for a format of several files and for several sessions
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Go on as the sessions grow, until Ctrl-C. With --all, new sessions too. What the target has already
    /// is not written again
    #[arg(long)]
    follow: bool,
    /// trajectory: leave the header line out, for readers since August 2026
    #[arg(long)]
    no_header: bool,
    /// trial: write a complete record, or none if its provenance is not
    #[arg(long)]
    complete: bool,
    /// trial: the schema of the record: 1, or 2 for aec-bench since August 2026
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    schema: u8,
    /// Describe the formats: whether they can be kept current (live) and imported
    #[arg(long, conflicts_with_all = ["format", "sessions", "all", "output"])]
    list: bool,
}

impl Export {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let Some(format) = self.format.filter(|_| !self.list) else {
            return list(context);
        };
        let dirs = match self.all {
            true => context.dirs(None)?,
            false => {
                let given = self.sessions.iter().map(|session| context.resolve(session));
                given.collect::<Result<_, _>>()?
            }
        };
        context.report_damage()?;
        if self.follow && !format.is_live() {
            let why = format!("{format} is not kept current; export it without --follow");
            return Err(Failed::Usage(why));
        }
        if self.follow {
            return self.follow(format, dirs, context);
        }
        let exported = self.write(format, &dirs)?;
        context.lost = exported.lost;
        context.damages = exported.damages;
        Ok(())
    }

    /// Keeps the target current until Ctrl-C.
    fn follow(&self, format: Format, dirs: Vec<PathBuf>, context: &Context) -> Result<(), Failed> {
        let mut followed = Followed {
            live: self.live(format, &dirs)?.options(self.options()),
            warned: HashSet::new(),
            is_damaged: false,
        };
        interrupt::install();
        let mut follower = match dirs.first().filter(|_| !self.all) {
            Some(first) => Follower::session(first, Start::Now)?,
            None => Follower::new_sessions(context.store.root())?,
        };
        for dir in &dirs {
            follower.add(dir, Start::Now)?;
        }
        let mut grown: BTreeSet<PathBuf> = dirs.into_iter().collect();
        loop {
            let last = interrupt::asked();
            grown = followed.sync(grown);
            if last {
                return followed.end(&grown);
            }
            let until = Instant::now() + interrupt::STEP;
            while Instant::now() < until
                && let Some(found) = follower.next(interrupt::STEP)?
            {
                grown.insert(found.session.to_owned());
            }
        }
    }

    /// The target of `--follow`.
    fn live(&self, format: Format, dirs: &[PathBuf]) -> Result<Live, Failed> {
        let Some(path) = &self.output else {
            return match format.file_in_session() {
                Some(_) => Ok(Live::in_sessions(format)),
                None => Err(Failed::Usage("--follow needs -o PATH".to_owned())),
            };
        };
        let is_one = !self.all && dirs.len() == 1 && !path.is_dir();
        let is_dir = match format.shape() {
            Shape::File => false,
            Shape::FileOfSession => !is_one,
            _ => true,
        };
        let (is_usable, needed) = match is_dir {
            true => (path.is_dir(), "directory"),
            false => (path.is_file(), "regular file, and --follow reads it"),
        };
        if path.exists() && !is_usable {
            let why = format!("{} is not a {needed}", path.display());
            return Err(Failed::Usage(why));
        }
        Ok(match format.shape() {
            Shape::FileOfSession if is_one => Live::file(format, path),
            _ => Live::new(format, path),
        })
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        options.no_header = self.no_header;
        options.complete = self.complete;
        if self.schema == 2 {
            options.trial_schema = TrialSchema::V2;
        }
        options
    }

    fn write(&self, format: Format, dirs: &[PathBuf]) -> Result<Exported, Failed> {
        let output = self.output.as_deref();
        let mut all = ExportedSessions::default();
        let inside = format.file_in_session().filter(|_| output.is_none());
        if format.shape() == Shape::FileOfSession
            && (dirs.len() > 1 || is_dir(output) || inside.is_some())
        {
            let mut progress = Progress::new();
            for (done, dir) in dirs.iter().enumerate() {
                progress.show_count(done as u64, dirs.len() as u64, "sessions");
                let name = dir.file_name().unwrap_or_default().to_string_lossy();
                let path = match (inside, output) {
                    (Some(file), _) => dir.join(file),
                    (None, Some(output)) => output.join(format!("{name}.{}", format.extension())),
                    (None, None) => return Err(needs_path(format, "several sessions need", "DIR")),
                };
                let mut target = Target::file(path);
                let exported = export_with(self.options(), format, dir, &mut target);
                let exported = exported.and_then(|one| target.finish().map(|()| one));
                all.add(exported, dirs)?;
            }
            return all.end();
        }
        let mut target = match (format.shape(), output) {
            (_, Some(path)) => Target::file(path),
            (Shape::Directory, None) => return Err(needs_path(format, "this format needs", "DIR")),
            (_, None) if format.is_database() => {
                return Err(needs_path(format, "a database needs", "FILE"));
            }
            (_, None) => Target::stream(io::BufWriter::new(io::stdout())),
        };
        let mut progress = Progress::new();
        let is_printed = output.is_none() && io::stdout().is_terminal();
        for (done, dir) in dirs.iter().enumerate() {
            if !is_printed {
                progress.show_count(done as u64, dirs.len() as u64, "sessions");
            }
            let exported = export_with(self.options(), format, dir, &mut target);
            match format.is_database() {
                true => all.add(exported, dirs)?,
                // Its rows would be there by halves.
                false => all.add(Ok(exported?), dirs)?,
            }
        }
        if format == Format::SessionLog && target.is_empty() {
            let why = "session-log: nothing was written, because no run has ended";
            warn(&format!(
                "{why}; export again when one has, or use --follow"
            ));
        }
        target.finish()?;
        all.end()
    }
}

/// What was exported of several sessions.
#[derive(Default)]
struct ExportedSessions {
    exported: Exported,
    /// How many sessions could not be exported.
    failed: usize,
}

impl ExportedSessions {
    /// Adds a session. If it is one of several, its error is reported, and the others are exported.
    fn add(&mut self, one: io::Result<Exported>, dirs: &[PathBuf]) -> Result<(), Failed> {
        match one {
            Ok(one) => {
                self.exported.damages.extend(one.damages);
                self.exported.lost.extend(one.lost);
            }
            Err(error) if dirs.len() > 1 && error.kind() != io::ErrorKind::ResourceBusy => {
                warn(&error.to_string());
                self.failed += 1;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn end(self) -> Result<Exported, Failed> {
        match self.failed {
            0 => Ok(self.exported),
            1 => Err(Failed::Usage(
                "one session could not be exported".to_owned(),
            )),
            failed => Err(Failed::Usage(format!(
                "{failed} sessions could not be exported"
            ))),
        }
    }
}

/// A target that is kept current.
struct Followed {
    live: Live,
    /// What was reported.
    warned: HashSet<String>,
    /// Parts of the trace were left out.
    is_damaged: bool,
}

impl Followed {
    /// Exports sessions, and returns those that could not be. Each error is reported once.
    fn sync(&mut self, sessions: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let mut behind = BTreeSet::new();
        for session in sessions {
            if let Err(error) = self.live.sync(&session) {
                self.warn(format!("{error}; it is tried again"));
                behind.insert(session);
            }
            let Exported { damages, lost } = self.live.exported();
            self.is_damaged |= !(damages.is_empty() && lost.is_empty());
            damages.iter().for_each(|one| self.warn(one.to_string()));
            lost.iter().for_each(|one| self.warn(one.to_string()));
        }
        behind
    }

    fn warn(&mut self, message: String) {
        if self.warned.insert(message.clone()) {
            warn(&message);
        }
    }

    /// The end, with the sessions that could not be exported.
    fn end(self, behind: &BTreeSet<PathBuf>) -> Result<(), Failed> {
        if !behind.is_empty() {
            let why = "the target lacks rows; export again when it can be written";
            return Err(Failed::Usage(why.to_owned()));
        }
        match self.is_damaged {
            true => Err(Failed::Damaged(
                "parts of the trace were left out".to_owned(),
            )),
            false => Ok(()),
        }
    }
}

fn is_dir(path: Option<&Path>) -> bool {
    path.is_some_and(Path::is_dir)
}

fn needs_path(format: Format, what: &str, path: &str) -> Failed {
    Failed::Usage(format!("{format}: {what} a target; give -o {path}"))
}

fn list(context: &mut Context) -> Result<(), Failed> {
    for format in Format::ALL {
        let (name, about) = (format.name(), format.about());
        let is_live = format.is_live();
        let is_importable = name.parse::<Source>().is_ok();
        context.print(
            || json!({"format": name, "about": about, "live": is_live, "importable": is_importable}),
            |_| {
                let live = if is_live { "live" } else { "" };
                let import = if is_importable { "import" } else { "" };
                vec![format!("{name:<18}  {live:<4}  {import:<6}  {about}")]
            },
        )?;
    }
    context.flush()
}
