//! The permissions of a tool call, told on its row.

use super::describe::Text;
use super::text::duration;
use crate::session::{Node, NodeState};
use crate::trace::typed::{Hitl, Permission};
use crate::trace::{Kind, Outcome};

/// What the permissions of a tool call came to, if they need no rows of their own.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Always shown: that it was denied, or that a person was asked.
    facts: Vec<String>,
    /// Shown if there is room: a rule that allowed it, or the pattern of the rule.
    pub(super) extras: Vec<Vec<String>>,
}

impl Verdict {
    /// Adds a permission and what happened inside it. Returns whether the verdict now covers it: a
    /// permission that is open, or in which more happened than a question and its answer, keeps its
    /// rows.
    pub(super) fn add(&mut self, node: &Node, inside: &[&Node]) -> bool {
        let made: Permission<'_> = node.view();
        let action = made.action().unwrap_or_default();
        let simple = |node: &&Node| matches!(node.kind, Kind::HitlRequest | Kind::HitlResponse);
        if node.state == NodeState::Open || action.is_empty() || !inside.iter().all(simple) {
            return false;
        }
        let by = made.source().map(|source| format!(" by {source}"));
        let by = by.unwrap_or_default();
        let pattern = made.pattern().filter(|pattern| pattern != "*");
        let pattern = pattern.map(|pattern| format!("({pattern})"));
        let asked = action == "ask"
            || inside.iter().any(|node| node.kind == Kind::HitlRequest)
            || made.decided_by().is_some()
            || made.interrupt_id().is_some();
        let fact = if asked {
            asked_fact(node, &made, inside)
        } else {
            (action == "deny").then(|| format!("denied{by}"))
        };
        match fact {
            Some(fact) => {
                self.facts.push(fact);
                self.extras.extend(pattern.map(|pattern| vec![pattern]));
                true
            }
            None if !asked && action == "allow" => {
                let whole = pattern.map(|pattern| format!("allowed{by} {pattern}"));
                let words = [format!("allowed{by}"), "allowed".into()];
                self.extras.push(whole.into_iter().chain(words).collect());
                true
            }
            None => false,
        }
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
fn asked_fact(node: &Node, made: &Permission<'_>, inside: &[&Node]) -> Option<String> {
    let answer = inside.iter().find(|node| node.kind == Kind::HitlResponse);
    let answer = answer.map(|node| node.view::<Hitl<'_>>());
    let decision = made.decision().or_else(|| answer.as_ref()?.decision());
    let by_action = || {
        let action = made.action().unwrap_or_default();
        Some(match (action.as_ref(), node.outcome()) {
            ("ask", Some(Outcome::Denied)) => "denied".into(),
            ("ask", Some(Outcome::Ok)) if made.decided_by().is_some() => "allowed".into(),
            ("ask", _) => return None,
            _ => action.into_owned(),
        })
    };
    let decision = decision.map(|decision| Text::from(decision).text);
    let decision = decision.or_else(by_action)?;
    let who = made.decided_by().or_else(|| answer.as_ref()?.decided_by());
    let who = who.map(|who| format!(" {who}")).unwrap_or_default();
    let took = node.duration.map(|ns| format!(", {}", duration(ns)));
    Some(format!(
        "asked{who}: {decision}{}",
        took.unwrap_or_default()
    ))
}
