//! How a session went, in a few numbers, and how it ended as one of a few words.
//!
//! The class of the end is mechanical: it follows from recorded outcomes, stop reasons and guardrails, never from the
//! text of a message. [`Ending`] lists the rules.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::read::SessionReader;
use crate::session::{ErrorRef, Item, Store, SubagentTotals, Summary};
use crate::trace::typed::{ErrorInfo, owned};
use crate::trace::{Damage, Kind, Outcome, RawLine, SpanKind, Totals, Usage};

mod ending;

pub use ending::Ending;
use ending::{End, Evidence};

/// How a session went.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outline {
    /// What it is, its counts and its first error.
    pub summary: Summary,
    /// What its writers counted.
    pub totals: Totals,
    /// What its subagents, and theirs, add to these.
    pub subagents: SubagentTotals,
    /// Model calls that failed.
    pub model_errors: u64,
    /// Tool calls that failed.
    pub tool_errors: u64,
    /// Tool calls that a rule or a person denied.
    pub denials: u64,
    /// `loop_warning` lines.
    pub loops: u64,
    /// Compactions of the context.
    pub compactions: u64,
    /// How it ended.
    pub ending: Ending,
    /// The stop reason of the last turn, else of the last run.
    pub stop_reason: Option<String>,
    /// What is damaged, and was left out.
    pub damages: Vec<Damage>,
}

/// The fold.
#[derive(Debug, Default)]
struct OutlineFold {
    outline: Outline,
    evidence: Evidence,
}

impl Outline {
    /// Reads a session. Its memory does not depend on the session's length.
    ///
    /// ```no_run
    /// use spanledger::inspect::summary::{Ending, Outline};
    /// use spanledger::session::Store;
    /// let store = Store::new("/var/lib/agent");
    /// let outline = Outline::read(&store, &store.resolve("last")?)?;
    /// println!("{} after {} turns", outline.ending.as_str(), outline.totals.turns);
    /// assert_ne!(outline.ending, Ending::Error);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(store: &Store, session: &Path) -> io::Result<Self> {
        let mut fold = OutlineFold::default();
        let damages = SessionReader::open(session)?.each_line(|line| {
            fold.add_line(line);
            Ok::<(), io::Error>(())
        })?;
        let summary = &fold.outline.summary;
        let status = summary.status(|writer| store.is_alive(writer));
        Ok(Self {
            totals: summary.totals(),
            subagents: store.subagent_totals(summary),
            ending: fold.evidence.ending(status),
            stop_reason: fold.evidence.stop_reason(),
            damages,
            ..fold.outline
        })
    }

    /// From its first line to its last activity, in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.summary.last.saturating_sub(self.summary.first)
    }

    /// Its first error.
    pub fn first_error(&self) -> Option<&ErrorRef> {
        self.summary.first_error.as_ref()
    }

    /// Tokens and cost, those of subagents included.
    pub fn usage(&self) -> Usage {
        let mut usage = self.totals.usage.clone();
        usage.add(&self.subagents.totals.usage);
        usage
    }

    /// As JSON, with stable names. What isn't known is null. The usage includes subagents, the counts don't:
    /// `subagents` has those.
    pub fn to_json(&self) -> Value {
        let first_error = self.first_error().map(|error| {
            json!({
                "address": error.address.to_string(),
                "what": error.what,
                "message": error.message,
            })
        });
        json!({
            "session_id": self.summary.session_id,
            "agent": self.summary.agent,
            "model_id": self.summary.model_id,
            "ending": self.ending.as_str(),
            "stop_reason": self.stop_reason,
            "turns": self.totals.turns,
            "model_calls": self.totals.model_calls,
            "tool_calls": self.totals.tool_calls,
            "errors": self.totals.errors,
            "model_errors": self.model_errors,
            "tool_errors": self.tool_errors,
            "denials": self.denials,
            "loop_warnings": self.loops,
            "compactions": self.compactions,
            "first_error": first_error,
            "duration_ms": self.duration() as f64 / 1e6,
            "usage": self.usage().to_json(),
            "subagents": self.subagents.to_json(),
        })
    }
}

impl OutlineFold {
    fn add_line(&mut self, line: &RawLine<'_>) {
        self.outline.summary.take(line);
        match line.kind() {
            Kind::LoopWarning => {
                self.outline.loops += 1;
                self.evidence.loop_warned = true;
            }
            Kind::MessageAssistant => self.evidence.last_denied = false,
            Kind::TurnStart => self.evidence.start_turn(),
            kind if kind.opens() == Some(SpanKind::Run) => self.evidence.start_run(),
            kind if kind.is_close() => self.close(line),
            _ => {}
        }
    }

    fn close(&mut self, line: &RawLine<'_>) {
        let item = Item::of(line);
        let outcome = || item.span().outcome().unwrap_or_default();
        let outline = &mut self.outline;
        let end = |stop_reason, error: Option<ErrorInfo<'_>>| {
            Some(End {
                outcome: outcome(),
                stop_reason: owned(stop_reason),
                guardrail: owned(error.and_then(|error| error.guardrail())),
            })
        };
        match &item {
            Item::ModelCall(call) => {
                outline.model_errors += u64::from(outcome().is_error());
                let reason = call.finish_reason().or_else(|| call.stop_reason());
                self.evidence.finish_reason = owned(reason);
            }
            Item::ToolCall(_) => {
                let outcome = outcome();
                outline.tool_errors += u64::from(outcome.is_error());
                outline.denials += u64::from(outcome == Outcome::Denied);
                self.evidence.last_denied = outcome == Outcome::Denied;
            }
            Item::Compaction(_) => outline.compactions += 1,
            Item::Turn(turn) => self.evidence.turn = end(turn.stop_reason(), turn.error()),
            Item::Run(run) => self.evidence.run = end(run.stop_reason(), run.error()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
