//! The class of a session's end.

use crate::session::Status;
use crate::trace::{Outcome, named_enum};

named_enum! {
    /// How a session ended, by the first rule that applies to its last run and turn:
    ///
    /// | class | rule |
    /// |---|---|
    /// | `running` | a run is open, and its process is alive |
    /// | `interrupted` | the process died over it; or the outcome is `interrupted` or `cancelled`; or the stop reason is a word for that |
    /// | `loop` | the error names a guardrail with `loop` in its name; or the stop reason is `loop`; or it failed after a `loop_warning` in the same turn |
    /// | `limit` | the error names any other guardrail; or the stop reason, of the turn, the run or the last model call, is a word for a limit |
    /// | `denied` | the outcome is `denied`, or the stop reason is a word for that; or the last tool call was denied and no answer followed |
    /// | `error` | the outcome is `error` or `timed_out` |
    /// | `completed` | everything else |
    ///
    /// ```
    /// assert_eq!(spanledger::inspect::summary::Ending::Limit.as_str(), "limit");
    /// ```
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Ending {
        /// It has not ended.
        #[default]
        Running = "running",
        /// It ended by itself, without an error.
        Completed = "completed",
        /// A limit ended it: of tokens, steps, cost, time.
        Limit = "limit",
        /// An error ended it.
        Error = "error",
        /// It repeated itself.
        Loop = "loop",
        /// A rule or a person denied what it needed.
        Denied = "denied",
        /// A person, a signal or the death of its process ended it.
        Interrupted = "interrupted",
    }
}

impl Ending {
    /// The class that a stop reason names. Case, `-` and spaces don't matter.
    fn of_reason(reason: &str) -> Option<Self> {
        let reason = reason.to_ascii_lowercase().replace(['-', ' '], "_");
        Some(match reason.as_str() {
            "length"
            | "limit"
            | "budget"
            | "timeout"
            | "context_length_exceeded"
            | "model_context_window_exceeded"
            | "token_limit"
            | "turn_limit"
            | "step_limit"
            | "budget_exceeded" => Self::Limit,
            "loop" | "loop_detected" | "stuck" | "doom_loop" => Self::Loop,
            "denied" | "permission_denied" | "rejected" | "refusal" => Self::Denied,
            "cancelled" | "canceled" | "aborted" | "abort" | "interrupted" | "killed" => {
                Self::Interrupted
            }
            "error" | "failed" => Self::Error,
            word if word.starts_with("max_") => Self::Limit,
            _ => return None,
        })
    }
}

/// What is known of the last run and turn.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub turn: Option<End>,
    pub run: Option<End>,
    /// Why the last model call stopped.
    pub finish_reason: Option<String>,
    /// A `loop_warning` was recorded in the last turn.
    pub loop_warned: bool,
    /// The last tool call was denied, and no answer followed.
    pub last_denied: bool,
}

/// How a span ended.
#[derive(Debug, Default)]
pub(super) struct End {
    pub outcome: Outcome,
    pub stop_reason: Option<String>,
    /// The limit that its error names.
    pub guardrail: Option<String>,
}

impl Evidence {
    pub fn start_run(&mut self) {
        *self = Self::default();
    }

    pub fn start_turn(&mut self) {
        let run = self.run.take();
        *self = Self {
            run,
            ..Self::default()
        };
    }

    fn ends(&self) -> impl Iterator<Item = &End> {
        [&self.turn, &self.run].into_iter().flatten()
    }

    pub fn stop_reason(&self) -> Option<String> {
        self.ends().find_map(|end| end.stop_reason.clone())
    }

    pub fn ending(&self, status: Status) -> Ending {
        if status.is_live() {
            return Ending::Running;
        }
        let outcome = |wanted: Outcome| self.ends().any(|end| end.outcome == wanted);
        let failed = self.ends().any(|end| end.outcome.is_error());
        let guardrail = self.ends().find_map(|end| end.guardrail.as_deref());
        let reasons = self.ends().filter_map(|end| end.stop_reason.as_deref());
        let mut reasons = reasons.chain(self.finish_reason.as_deref());
        let named = reasons.find_map(Ending::of_reason);
        let is = |class: Ending| named == Some(class);
        let is_loop = |name: &str| name.to_ascii_lowercase().contains("loop");
        if status == Status::Interrupted
            || outcome(Outcome::Interrupted)
            || outcome(Outcome::Cancelled)
            || is(Ending::Interrupted)
        {
            Ending::Interrupted
        } else if guardrail.is_some_and(is_loop)
            || is(Ending::Loop)
            || (failed && self.loop_warned && guardrail.is_none())
        {
            Ending::Loop
        } else if guardrail.is_some() || is(Ending::Limit) {
            Ending::Limit
        } else if outcome(Outcome::Denied) || is(Ending::Denied) || self.last_denied {
            Ending::Denied
        } else if failed || is(Ending::Error) || status == Status::Error {
            Ending::Error
        } else {
            Ending::Completed
        }
    }
}
