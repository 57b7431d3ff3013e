//! `recover`: closes what dead processes left open.

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, warn};
use spanledger::Recovery;
use spanledger::session::OpenSpan;
use spanledger::trace::time_text;
use spanledger::view::text::{line, plural};
use spanledger::view::{Style, named_span};

/// Close the spans that dead processes left open
///
/// A span whose process was killed has an open line and no close line. This appends the missing
/// ones, in a segment of its own, as `interrupted`, ending with the last line that the process wrote to the
/// session. It changes no line that is there, and nothing of a live process. The next run of a session does
/// the same by itself.
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
        let entries = context.select(self.session.as_deref())?;
        let store = context.store.clone();
        let mut recovery = Recovery::new(&store);
        let (mut sessions, mut spans) = (0, 0);
        let mut failed = Vec::new();
        for entry in &entries {
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
                    let id = &entry.summary.session_id;
                    context.print(
                        || self.to_json(id, &closed),
                        |style| self.lines(id, &closed, style),
                    )?;
                }
                Err(error) => failed.push(error.to_string()),
            }
        }
        recovery.finish()?;
        if !context.json {
            let verb = if self.dry_run { "to close" } else { "closed" };
            let (closed, sessions) = (plural(spans, "span"), plural(sessions, "session"));
            context.line(&match spans {
                0 if failed.is_empty() => "Nothing was left open by a dead process.".into(),
                _ => format!("{closed} {verb} in {sessions}"),
            })?;
        }
        if let Some(last) = failed.pop() {
            if let Err(unreadable) = context.report_damage() {
                warn(&unreadable.to_string());
            }
            failed.iter().for_each(|text| warn(text));
            return Err(Failed::Usage(last));
        }
        Ok(())
    }

    fn to_json(&self, id: &str, closed: &[OpenSpan]) -> Value {
        let closed = closed.iter().map(|span| {
            json!({
                "span_id": span.span_id,
                "kind": span.kind.as_str(),
                "name": span.name,
                "since": time_text(span.since, 6),
            })
        });
        let closed: Vec<_> = closed.collect();
        json!({"session_id": id, "dry_run": self.dry_run, "closed": closed})
    }

    fn lines(&self, id: &str, closed: &[OpenSpan], style: &Style) -> Vec<String> {
        let mut out = vec![style.bold(&line(id))];
        if closed.is_empty() {
            out.push(
                "  skipped: another process is recovering this session, or already has".into(),
            );
        }
        let verb = match self.dry_run {
            true => "would close",
            false => "closed",
        };
        for span in closed {
            let id = style.dim(&line(&span.span_id));
            let named = named_span(span.kind, &span.name);
            let since = style.moment(span.since);
            out.push(format!("  {verb} {id} {named}, open since {since}"));
        }
        out
    }
}
