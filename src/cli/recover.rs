//! `recover`: closes what dead processes left open.

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, tell};
use spanledger::session::{OpenSpan, Recovery};
use spanledger::trace::time_text;
use spanledger::view::named_span;
use spanledger::view::text::{line, plural};

/// Close the spans that dead processes left open
///
/// A span whose process was killed has an open line and no close line. This appends the missing
/// ones, in a segment of its own, as `interrupted`, ending when the process last wrote. It changes no
/// line that is there, and nothing of a live process. The next run of a session does the same by
/// itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  spanledger recover --dry-run\n  spanledger recover ses_0193")]
pub(crate) struct Recover {
    /// Only this session: its id, a prefix of it, its directory, or `last`; all by default
    session: Option<String>,
    /// Only print what would be closed
    #[arg(long)]
    dry_run: bool,
}

impl Recover {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let survey = context.select(self.session.as_deref())?;
        let store = context.store.clone();
        let mut recovery = Recovery::new(&store);
        let (mut sessions, mut spans) = (0, 0);
        let mut failed = Vec::new();
        for entry in &survey.entries {
            let left = store.left_open(entry);
            if left.is_empty() {
                continue;
            }
            let closed = match self.dry_run {
                true => Ok(left),
                false => recovery.close(entry),
            };
            match closed {
                Ok(closed) => {
                    sessions += u64::from(!closed.is_empty());
                    spans += closed.len() as u64;
                    self.print(context, &entry.summary.session_id, &closed)?;
                }
                Err(error) => failed.push(error.to_string()),
            }
        }
        recovery.finish()?;
        if !context.json {
            let verb = if self.dry_run { "to close" } else { "closed" };
            context.line(&match spans {
                0 if failed.is_empty() => "Nothing was left open by a dead process.".into(),
                _ => format!(
                    "{} {verb} in {}",
                    plural(spans, "span"),
                    plural(sessions, "session")
                ),
            })?;
        }
        if let Some(last) = failed.pop() {
            context.flush()?;
            let unreadable = survey.unreadable.iter().map(ToString::to_string);
            unreadable.chain(failed).for_each(|text| tell(&text));
            return Err(Failed::Usage(last));
        }
        context.unreadable(&survey.unreadable)
    }

    fn print(&self, context: &mut Context, id: &str, closed: &[OpenSpan]) -> Result<(), Failed> {
        if context.json {
            let closed = closed.iter().map(|span| {
                json!({
                    "span_id": span.span_id,
                    "kind": span.kind.as_str(),
                    "name": span.name,
                    "since": time_text(span.since, 6),
                })
            });
            let closed: Vec<_> = closed.collect();
            let object = json!({"session_id": id, "dry_run": self.dry_run, "closed": closed});
            return context.object(&object);
        }
        let style = context.style.clone();
        context.line(&style.bold(&line(id)))?;
        if closed.is_empty() {
            return context
                .line("  skipped: another process is recovering this session, or already has");
        }
        let verb = match self.dry_run {
            true => "would close",
            false => "closed",
        };
        for span in closed {
            context.line(&format!(
                "  {verb} {} {}, open since {}",
                style.dim(&line(&span.span_id)),
                named_span(span.kind, &span.name),
                style.moment(span.since),
            ))?;
        }
        Ok(())
    }
}
