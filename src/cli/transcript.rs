//! `transcript`: a session as a page.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, one_of, warn};
use spanledger::session;
use spanledger::view::{self, TranscriptDetail, TranscriptFormat, Written, write_bundle};

/// Write a session as a page: HTML or Markdown
///
/// The HTML page is one file. It needs no script, makes no request, follows the light or dark theme of the reader's
/// system, and contains the images of artifacts that are in a blob or below the run's `output_dir`, each with the code
/// that made it. Subagents are inside the rows that started them. Secrets are masked as they are in the trace; the
/// files of artifacts are included as they are.
///
/// Exit codes: 0 for success, 2 if the session or turn is not there or the file can't be written, 3 if parts of the
/// trace are damaged and were left out.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger transcript last -o session.html
  spanledger transcript ses_0193 --turn 2 --format markdown  for an issue
  spanledger transcript last --detail full -o session.html   every text in full
  spanledger transcript last --bundle -o session.zip         with all its files")]
pub(crate) struct Transcript {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// The format [default: markdown if -o ends with .md, else html]
    #[arg(long, value_parser = one_of::<TranscriptFormat>(TranscriptFormat::ALL.map(TranscriptFormat::as_str)))]
    format: Option<TranscriptFormat>,
    /// How much is shown. brief: the conversation, a row for each tool call, and errors. normal: every row of `show`,
    /// and the beginnings of long texts. full: every text and field
    #[arg(long, default_value = "normal", value_parser = one_of::<TranscriptDetail>(TranscriptDetail::ALL.map(TranscriptDetail::as_str)))]
    detail: TranscriptDetail,
    /// Only this turn
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Show what rewinds and edits have hidden, too, and mark it
    #[arg(long)]
    hidden: bool,
    /// Write a zip file with the page, the artifacts that it names, and its blobs in full
    #[arg(long, requires = "output")]
    bundle: bool,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Transcript {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if context.json && self.output.is_none() {
            let why = "--json describes the file that was written: give -o FILE";
            return Err(Failed::Usage(why.into()));
        }
        let dir = context.resolve(&self.session)?;
        if let Some(index) = self.turn {
            let excerpt = session::turn(&dir, index)?;
            if excerpt.turn.is_none() {
                let id = context.store.peek(&dir)?.summary.session_id;
                let missing = format!("{id} has no turn {index}");
                context.damages = excerpt.damages;
                return Err(Failed::NotFound(missing));
            }
        }
        let store = context.store.clone();
        let style = context.style.clone();
        let mut transcript = view::Transcript::new(&store, &style);
        transcript.format = self.format();
        transcript.detail = self.detail;
        transcript.turn = self.turn;
        transcript.hidden = self.hidden;
        let written = self.write(transcript, &dir)?;
        for (name, why) in &written.missing {
            warn(&format!("not in the bundle: {name}: {why}"));
        }
        if context.json {
            context.document(&self.report(&written))?;
        }
        context.lost = written.lost;
        context.damages = written.damages;
        Ok(())
    }

    fn format(&self) -> TranscriptFormat {
        let path = self.output.as_deref();
        let is_markdown = path.is_some_and(|path| path.extension().is_some_and(|e| e == "md"));
        let by_name = match is_markdown {
            true => TranscriptFormat::Markdown,
            false => TranscriptFormat::Html,
        };
        self.format.unwrap_or(by_name)
    }

    /// Writes the page or the bundle.
    fn write(&self, transcript: view::Transcript<'_>, dir: &Path) -> Result<Written, Failed> {
        let Some(path) = &self.output else {
            let mut out = BufWriter::new(io::stdout());
            let written = transcript.write(dir, &mut out)?;
            out.flush()?;
            return Ok(written);
        };
        // A page that is not complete never has the name that was asked for.
        let part = path.with_file_name(match path.file_name() {
            Some(name) => format!(".{}.part", name.to_string_lossy()),
            None => return Err(Failed::Usage(format!("{} is not a file", path.display()))),
        });
        let refused = |error: io::Error| {
            Failed::Usage(format!("{} can't be written: {error}", path.display()))
        };
        let file = create_part(path, &part).map_err(refused)?;
        let failed = |error: io::Error| {
            let _ = std::fs::remove_file(&part);
            refused(error)
        };
        let done = self.write_file(transcript, dir, file).map_err(failed)?;
        std::fs::rename(&part, path).map_err(failed)?;
        Ok(done)
    }

    fn write_file(
        &self,
        transcript: view::Transcript<'_>,
        dir: &Path,
        file: File,
    ) -> io::Result<Written> {
        if self.bundle {
            return write_bundle(transcript, dir, BufWriter::new(file));
        }
        let mut out = BufWriter::new(file);
        let written = transcript.write(dir, &mut out)?;
        out.flush()?;
        Ok(written)
    }

    fn report(&self, written: &Written) -> Value {
        let missing = written.missing.iter();
        let missing = missing.map(|(name, why)| json!({"file": name, "why": why}));
        json!({
            "file": self.output,
            "sessions": written.sessions,
            "turns": written.turns,
            "rows": written.rows,
            "files": written.files,
            "missing": missing.collect::<Vec<_>>(),
        })
    }
}

/// Creates the file that becomes `path`. `/dev/stdout` must not become one, and a link in the place of an unfinished file
/// is not followed.
fn create_part(path: &Path, part: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let why = "not a regular file; without -o, the page goes to standard output";
        return Err(io::Error::other(why));
    }
    if std::fs::symlink_metadata(part).is_ok_and(|left| left.is_file()) {
        std::fs::remove_file(part)?;
    }
    File::create_new(part)
}
