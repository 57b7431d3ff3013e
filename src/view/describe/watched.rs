//! Limits, loops and hooks in words.

use super::Description;
use crate::session::Node;
use crate::trace::typed::{ErrorInfo, Hook, LoopWarning};
use crate::trace::{Outcome, RawValue};
use crate::view::style::Tone;
use crate::view::text::{Text, join};
use crate::watch::LoopKind;

/// How many calls of a loop a row names.
const MOST_EVIDENCE: usize = 8;

/// The error of a node that says which limit stopped the work.
pub(in crate::view) fn stop_error(node: &Node) -> Option<RawValue<'_>> {
    let error = node.get("error")?;
    ErrorInfo::from(error).guardrail()?;
    Some(error)
}

/// The limit that denied a span: ` by limit max_turns`.
pub(in crate::view) fn denying_limit(node: &Node) -> Option<String> {
    let error = stop_error(node).filter(|_| node.outcome() == Some(Outcome::Denied))?;
    Some(format!(" by limit {}", ErrorInfo::from(error).guardrail()?))
}

impl Description {
    /// An error, and the limit that it comes from.
    pub(super) fn error_event(&mut self, node: &Node) {
        self.named("error", Tone::Bad, "");
        let Some(error) = stop_error(node).map(ErrorInfo::from) else {
            return;
        };
        self.subject = format!("stopped by limit {}", error.guardrail().unwrap_or_default());
        let values = [("threshold", error.threshold()), ("actual", error.actual())];
        let values = values.into_iter().filter_map(|(name, value)| {
            let text = Text::from(value?).text;
            Some(format!("{name} {text}"))
        });
        self.notes.extend(join(values, ", "));
    }

    /// A hook and its decision.
    pub(super) fn hook(&mut self, hook: &Hook<'_>) {
        let decision = hook.decision();
        let (tone, did) = match decision.as_deref() {
            Some("allow") => (Tone::Quiet, "allowed it".to_owned()),
            Some("deny") => (Tone::Bad, "denied it".to_owned()),
            Some("ask") => (Tone::Person, "wants a person to decide".to_owned()),
            Some(other) => (Tone::Quiet, format!("decided {other}")),
            None => (Tone::Quiet, "ran".to_owned()),
        };
        let name = hook.name().unwrap_or_default();
        self.named("hook", tone, format!("{name} {did}"));
        let reason = hook.reason().map(|reason| format!("reason: {reason}"));
        self.notes.extend(reason);
        self.extra(hook.point());
    }

    /// A loop: which calls, what repeats, how often, and where.
    pub(super) fn loop_warning(&mut self, warning: &LoopWarning<'_>) {
        let verdict = warning.verdict();
        let what = match verdict.as_deref().and_then(LoopKind::parse) {
            Some(LoopKind::NoProgress) => ": the same call with the same result",
            Some(LoopKind::Cycle) => ": the same calls in turn, with the same results",
            Some(LoopKind::Polling) => ": the same calls, and the results change",
            Some(LoopKind::Drifting) => ": fails in the same way with any arguments",
            None => "",
        };
        let times = warning.repetitions().map(|n| format!(", {n} times"));
        let (pattern, times) = (
            warning.pattern().unwrap_or_default(),
            times.unwrap_or_default(),
        );
        self.named("loop", Tone::Look, format!("{pattern}{what}{times}"));
        let evidence = warning.evidence().into_iter().flat_map(|list| list.items());
        let mut calls: Vec<_> = evidence.filter_map(|call| call.text()).collect();
        let more = calls.len().saturating_sub(MOST_EVIDENCE);
        calls.truncate(MOST_EVIDENCE);
        if !calls.is_empty() {
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.notes.push(format!("calls {}{more}", calls.join(", ")));
        }
        self.extra(verdict);
    }
}
