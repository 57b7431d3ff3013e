//! Permissions, and the decisions of hooks, in the words that a row has for them.

use super::text::duration;
use crate::session::{Action, Item, Node, NodeState, PermissionDecision, Step};
use crate::trace::{Kind, Outcome};

/// The result of the permissions of a tool call that need no rows of their own, or of one permission.
#[derive(Clone, Debug, Default)]
pub struct PermissionWords {
    /// Always shown: that it was denied, or that a person was asked.
    facts: Vec<String>,
    /// The rules that allowed it, each in several wordings, the shortest last.
    pub(super) rules: Vec<Vec<String>>,
    /// The patterns of other rules, shown if there is room.
    pub(super) patterns: Vec<String>,
    /// The answer of a person, for the row of the permission itself.
    pub(super) asked: Option<String>,
}

impl PermissionWords {
    /// What the row of a permission shows that its own span may not have.
    pub(super) fn of(decision: &PermissionDecision<'_>) -> Self {
        Self {
            asked: asked_fact(decision),
            ..Self::default()
        }
    }

    /// Adds a step if it is a permission that words can cover. A permission that is open, or in
    /// which more happened than a question and its answer, keeps its rows.
    pub(super) fn covers(&mut self, step: &Step<'_>) -> bool {
        let Some(decision) = &step.decision else {
            return false;
        };
        let kinds = step.inside.iter().map(|inner| inner.node.kind);
        let simple = |kind| matches!(kind, Kind::HitlRequest | Kind::HitlResponse);
        if step.node.state == NodeState::Open || !kinds.into_iter().all(simple) {
            return false;
        }
        let by = decision.source().map(|source| format!(" by {source}"));
        let by = by.unwrap_or_default();
        let pattern = decision.pattern().filter(|pattern| pattern != "*");
        let pattern = pattern.map(|pattern| format!("({pattern})"));
        let fact = match decision.action() {
            _ if decision.is_asked() => asked_fact(decision),
            Some(Action::Deny) => Some(format!("denied{by}")),
            Some(Action::Allow) => {
                let whole = pattern.map(|pattern| format!("allowed{by} {pattern}"));
                let words = [format!("allowed{by}"), "allowed".into()];
                self.rules.push(whole.into_iter().chain(words).collect());
                return true;
            }
            _ => None,
        };
        let Some(fact) = fact else {
            return false;
        };
        self.facts.push(fact);
        self.patterns.extend(pattern);
        true
    }

    /// Adds a step if it is a hook whose decision about the call needs no row: it allowed the call, or it denied
    /// it, and the call's error has the hook's name and reason.
    pub(super) fn covers_hook(&mut self, call: &Node, step: &Step<'_>) -> bool {
        let Item::Hook(hook) = step.node.item() else {
            return false;
        };
        let is_denied = call.outcome() == Some(Outcome::Denied) && call.get("error").is_some();
        match hook.decision().as_deref() {
            _ if hook.point().as_deref() != Some("tool.before") => return false,
            Some("allow") if hook.reason().is_none() => {
                let name = hook.name().unwrap_or_default();
                let words = [format!("allowed by hook {name}"), "allowed by hook".into()];
                self.rules.push(words.into());
            }
            Some("deny") if is_denied => self.facts.push("denied by hook".into()),
            _ => return false,
        }
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
fn asked_fact(decision: &PermissionDecision<'_>) -> Option<String> {
    let answer = decision.answer_text()?;
    let who = decision.decided_by().map(|who| format!(" {who}"));
    let took = decision.node.duration;
    let took = took.map(|ns| format!(", {}", duration(ns)));
    let (who, took) = (who.unwrap_or_default(), took.unwrap_or_default());
    Some(format!("asked{who}: {answer}{took}"))
}
