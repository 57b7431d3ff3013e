//! `import`: sessions that other tools recorded.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, warn};
use super::progress::Progress;
use spanledger::import::{Import as Importer, ImportedSession, Source, TornLine};
use spanledger::view::text::{line, plural};

/// Bring in sessions that other tools recorded
///
/// Imported sessions are ordinary sessions: secrets are masked, times and ids are the source's, and every command works
/// on them. The source is kept with the session, redacted. A session that is there already is left as it
/// is. `--list` describes the formats.
///
/// Exit codes: 0 for success, 2 if something can't be read. Of a file with an error nothing is imported.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger import --list\n  spanledger import auto ~/.claude/projects/*/*.jsonl\n  spanledger import agentdbg ~/.agentdbg/runs/* --dry-run\n  spanledger import trajectory conversation.jsonl\n  spanledger import trace-sqlite sessions/*/trace.sqlite\n  spanledger import otlp-json spans.jsonl\n  spanledger import prime eval/          # samples.json and evaluation.json"
)]
pub(super) struct Import {
    /// The format, or `auto` to look at the beginning of each file
    #[arg(value_name = "FORMAT", required_unless_present = "list")]
    format: Option<String>,
    /// Files or directories
    #[arg(value_name = "PATH", required_unless_present = "list")]
    paths: Vec<PathBuf>,
    /// Check everything and import nothing
    #[arg(long)]
    dry_run: bool,
    /// Describe the formats
    #[arg(long, conflicts_with_all = ["format", "paths", "dry_run"])]
    list: bool,
}

impl Import {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let given = match self.format.as_deref() {
            None => return list(context),
            Some("auto") => None,
            Some(name) => Some(
                name.parse()
                    .map_err(|error| Failed::Usage(format!("{error}")))?,
            ),
        };
        let progress = Arc::new(Mutex::new(Progress::new()));
        let mut importer = Importer::new(context.store.root())?
            .dry_run(self.dry_run)
            .on_progress(show_events(&progress));
        let mut failed = None;
        for (done, path) in self.paths.iter().enumerate() {
            shown(&progress).show_count(done as u64, self.paths.len() as u64, "files");
            let imported = import(&mut importer, given, path);
            shown(&progress).clear();
            match imported {
                Ok(sessions) => {
                    warn_of_torn_lines(&sessions);
                    for session in sessions {
                        self.print(&session, path, context)?;
                    }
                    context.flush()?;
                }
                Err(error) => {
                    if let Some(before) = failed.replace(error) {
                        warn(&before);
                    }
                }
            }
        }
        context.flush()?;
        failed.map_or(Ok(()), |error| Err(Failed::Usage(error)))
    }

    fn print(
        &self,
        session: &ImportedSession,
        path: &Path,
        context: &mut Context,
    ) -> Result<(), Failed> {
        let what = match (session.known, self.dry_run) {
            (true, _) if session.changed => "is there already, and its source has changed since",
            (true, _) => "is there already",
            (false, true) => "could be imported",
            (false, false) => "imported",
        };
        context.print(
            || {
                json!({
                    "session_id": session.id,
                    "path": path,
                    "events": session.events,
                    "known": session.known,
                    "changed": session.changed,
                    "imported": !session.known && !self.dry_run,
                    "torn_lines": session.torn_lines.iter().map(torn_json).collect::<Vec<_>>(),
                })
            },
            |_| {
                vec![format!(
                    "{}  {what}, {} events",
                    line(&session.id),
                    session.events
                )]
            },
        )
    }
}

fn shown(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show_events(progress: &Arc<Mutex<Progress>>) -> impl FnMut(u64) + Send + 'static {
    let progress = Arc::clone(progress);
    move |events| shown(&progress).show(&plural(events, "event"))
}

fn torn_json(torn: &TornLine) -> Value {
    json!({"path": torn.path, "line": torn.line})
}

/// All sessions of a source have the same.
fn warn_of_torn_lines(sessions: &[ImportedSession]) {
    for TornLine { path, line, .. } in sessions.iter().take(1).flat_map(|one| &one.torn_lines) {
        let path = path.display();
        warn(&format!(
            "{path}, line {line}: cut off and left out; its writer was killed, or is still writing"
        ));
    }
}

fn list(context: &mut Context) -> Result<(), Failed> {
    for format in Source::ALL {
        context.print(
            || json!({"format": format.name(), "about": format.about()}),
            |_| vec![format!("{:<12}  {}", format.name(), format.about())],
        )?;
    }
    context.flush()
}

fn import(
    importer: &mut Importer,
    given: Option<Source>,
    path: &Path,
) -> Result<Vec<ImportedSession>, String> {
    let source = match given {
        Some(source) => source,
        None => Source::detect(path).map_err(|error| error.to_string())?,
    };
    importer
        .read(source, path)
        .map_err(|error| error.to_string())
}
