//! The permissions of a tool call, in the words that its row has for them.

use super::text::{Text, duration};
use crate::session::{Action, Decision, NodeState, Step};
use crate::trace::{Kind, Outcome};

/// The result of the permissions of a tool call that need no rows of their own.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Always shown: that it was denied, or that a person was asked.
    facts: Vec<String>,
    /// Shown if there is room: a rule that allowed it, or the pattern of the rule.
    pub(super) extras: Vec<Vec<String>>,
}

impl Verdict {
    /// Adds a step if it is a permission that the verdict can cover. A permission that is open, or in
    /// which more happened than a question and its answer, keeps its rows.
    pub(super) fn covers(&mut self, step: &Step<'_>) -> bool {
        let Some(decision) = Decision::of(step) else {
            return false;
        };
        let kinds = step.inside.iter().map(|inner| inner.node.kind);
        let simple = |kind| matches!(kind, Kind::HitlRequest | Kind::HitlResponse);
        let Some(action) = decision.action() else {
            return false;
        };
        if step.node.state == NodeState::Open || !kinds.into_iter().all(simple) {
            return false;
        }
        let permission = &decision.permission;
        let by = permission.source().map(|source| format!(" by {source}"));
        let by = by.unwrap_or_default();
        let pattern = permission.pattern().filter(|pattern| pattern != "*");
        let pattern = pattern.map(|pattern| format!("({pattern})"));
        let fact = match action {
            _ if decision.is_asked() => asked_fact(&decision, action),
            Action::Deny => Some(format!("denied{by}")),
            Action::Allow => {
                let whole = pattern.map(|pattern| format!("allowed{by} {pattern}"));
                let words = [format!("allowed{by}"), "allowed".into()];
                self.extras.push(whole.into_iter().chain(words).collect());
                return true;
            }
            _ => None,
        };
        let Some(fact) = fact else {
            return false;
        };
        self.facts.push(fact);
        self.extras.extend(pattern.map(|pattern| vec![pattern]));
        true
    }

    /// Adds the facts to how a tool call went.
    pub(super) fn add_to(&self, mut went: String) -> String {
        for fact in &self.facts {
            match fact.strip_prefix("denied") {
                Some(by) if went.ends_with("DENIED") => went.push_str(by),
                _ => went.push_str(&format!("  {fact}")),
            }
        }
        went
    }
}

/// Who was asked, what they decided, and how long that took.
fn asked_fact(decision: &Decision<'_>, action: Action) -> Option<String> {
    let node = decision.node;
    let by_action = || match (action, node.outcome()) {
        (Action::Ask, Some(Outcome::Denied)) => Some("denied".to_owned()),
        (Action::Ask, Some(Outcome::Ok)) => {
            let decided_by = decision.permission.decided_by();
            decided_by.map(|_| "allowed".to_owned())
        }
        (Action::Ask, _) => None,
        _ => decision.permission.action().map(|word| word.into_owned()),
    };
    let answer = decision.answer().map(|answer| Text::from(answer).text);
    let answer = answer.or_else(by_action)?;
    let who = decision.decided_by().map(|who| format!(" {who}"));
    let took = node.duration.map(|ns| format!(", {}", duration(ns)));
    let (who, took) = (who.unwrap_or_default(), took.unwrap_or_default());
    Some(format!("asked{who}: {answer}{took}"))
}
