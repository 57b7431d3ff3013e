//! Why a call may not go on.

use std::fmt;

use serde_json::{Value, json};

use super::failure::Failure;

/// Why a call may not go on: what [`SpanExt::allowed`](crate::SpanExt::allowed) returns to the agent. Nothing
/// stops by itself; the agent decides what to do.
///
/// Recorded as the error of a span ([`recorded`](crate::FutureExt::recorded) does that for a turn or run that
/// returns it), it keeps the limit, its threshold and what was counted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Refused {
    /// A limit is reached.
    #[non_exhaustive]
    Stopped {
        /// The limit: `max_tool_calls`, `max_model_calls`, `max_turns`, `max_duration_s`, `max_tokens`,
        /// `max_cost_usd`, or `loop`.
        limit: &'static str,
        /// The limit's value.
        threshold: f64,
        /// What was counted.
        actual: f64,
        /// The same in words.
        why: String,
    },
    /// A hook denied the call.
    #[non_exhaustive]
    Denied {
        /// The hook's name.
        hook: String,
        /// The reason that it gave.
        reason: String,
    },
    /// A hook wants a person to decide. The span is still open: ask, record the answer, then run the tool or
    /// finish the span as denied.
    #[non_exhaustive]
    Ask {
        /// The hook's name.
        hook: String,
        /// The reason that it gave.
        reason: String,
    },
}

impl Refused {
    /// `counted` says what was counted.
    pub(crate) fn stopped(limit: &'static str, threshold: f64, actual: f64, counted: &str) -> Self {
        let limit_is = format!("the limit {limit} is {}", number(threshold));
        Self::Stopped {
            limit,
            threshold,
            actual,
            why: format!("{limit_is}, and {counted}"),
        }
    }

    /// The error as a line has it.
    pub(crate) fn to_failure(&self) -> Failure {
        let error_type = match self {
            Self::Stopped { .. } => "Stopped",
            Self::Denied { .. } => "Denied",
            Self::Ask { .. } => "Ask",
        };
        self.add_to(Failure::new(error_type, self.to_string()))
    }

    /// Adds the limit, its threshold and what was counted to the error that a stop led to.
    pub(super) fn add_to(&self, failure: Failure) -> Failure {
        match self {
            Self::Stopped {
                limit,
                threshold,
                actual,
                ..
            } => failure.guardrail(*limit, number(*threshold), number(*actual)),
            _ => failure,
        }
    }
}

/// A number as JSON, a whole one without a fraction.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => json!(value as i64),
        // Rounded to what a person reads: 2.3 and not 2.3000000000000003.
        false => json!((value * 1e6).round() / 1e6),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { why, .. } => f.write_str(why),
            Self::Denied { hook, reason } => write!(f, "denied by {hook}: {reason}"),
            Self::Ask { hook, reason } => write!(f, "{hook} asks for a decision: {reason}"),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests;
