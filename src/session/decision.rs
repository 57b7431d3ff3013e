//! Permissions: the result of the rules, and the answer of a person who was asked.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::item::Item;
use super::node::Node;
use super::turns::Turn;
use crate::trace::typed::{Hitl, Permission};
use crate::trace::{Kind, Outcome, RawValue, named_enum};

named_enum! {
    /// The result of a permission request.
    #[non_exhaustive]
    pub enum Action {
        /// A rule allows the call.
        Allow = "allow",
        /// A person decides.
        Ask = "ask",
        /// A rule denies the call.
        Deny = "deny",
        /// A word that this version does not know.
        Other = "other",
    }
}

impl Action {
    /// The action of a decided permission.
    pub fn of(permission: &Permission<'_>) -> Option<Self> {
        let action = permission.action().filter(|action| !action.is_empty())?;
        Some(Self::parse(&action).unwrap_or(Self::Other))
    }
}

/// A permission of a tool call: the result of the rules, and the answer of a person who was asked.
#[derive(Clone, Debug)]
pub struct PermissionDecision<'a> {
    /// Its span.
    pub node: &'a Node,
    /// The fields of the span.
    pub permission: Permission<'a>,
    /// The question to a person.
    pub request: Option<Hitl<'a>>,
    /// The person's answer.
    pub response: Option<Hitl<'a>>,
}

/// A time when a person was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The span that the permission or the question lies in.
    pub parent: Option<u64>,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// A question or an answer, and its interrupt id.
type HitlNode<'a> = (&'a Node, Option<Cow<'a, str>>);

impl Turn {
    fn hitl(&self, kind: Kind) -> Vec<HitlNode<'_>> {
        let nodes = self.nodes.iter().filter(|node| node.kind == kind);
        let with_id = |node| (node, Node::view::<Hitl<'_>>(node).interrupt_id());
        nodes.map(with_id).collect()
    }

    /// When the turn waited for a person: while a permission was asked for, and from each question to its
    /// answer. The intervals may overlap.
    pub fn waits(&self) -> Vec<Wait> {
        let asked = self.decisions().into_iter();
        let asked = asked.filter(|one| one.is_asked() && one.node.duration.is_some());
        let wait = |node: &Node, end| Wait {
            parent: node.within(),
            start: node.start,
            end,
        };
        let mut waits: Vec<_> = asked.map(|one| wait(one.node, one.node.end())).collect();
        let responses = self.hitl(Kind::HitlResponse);
        for (request, id) in self.hitl(Kind::HitlRequest) {
            let answers = |(node, its): &&HitlNode<'_>| {
                id.is_some() && *its == id && node.start >= request.start
            };
            let answer = responses.iter().find(answers);
            waits.extend(answer.map(|(node, _)| wait(request, node.start)));
        }
        waits
    }

    /// The permission decisions of a turn, in the order they began. The question to a person and the answer
    /// belong to a permission if they are inside its span, have its `interrupt_id`, are inside the tool call
    /// that it guards, or if it is the only one that was open then.
    pub fn decisions(&self) -> Vec<PermissionDecision<'_>> {
        let (requests, responses) = (self.hitl(Kind::HitlRequest), self.hitl(Kind::HitlResponse));
        let permissions = || {
            let nodes = self.nodes.iter();
            nodes.filter(|node| node.kind == Kind::PermissionRequest)
        };
        let open_at = |time| {
            permissions()
                .filter(move |node| is_open_at(node, time))
                .count()
        };
        let decision = |node| {
            let Item::Permission(permission) = Node::item(node) else {
                return None;
            };
            let own = permission.interrupt_id();
            let request = belongs(node, &requests, own.as_deref(), open_at);
            let id = own.or_else(|| request.as_ref()?.interrupt_id());
            let response = belongs(node, &responses, id.as_deref(), open_at);
            Some(PermissionDecision {
                node,
                permission,
                request,
                response,
            })
        };
        permissions().filter_map(decision).collect()
    }
}

fn is_open_at(node: &Node, time: u64) -> bool {
    node.start <= time && (node.duration.is_none() || time <= node.end())
}

/// The question or answer that belongs to a permission: one inside it, one with its interrupt id, or, if no
/// ids contradict that, one inside the same tool call, or one at a time when no other permission was open.
/// `open_at` counts the permissions that were open at a time.
fn belongs<'a>(
    permission: &Node,
    all: &[HitlNode<'a>],
    id: Option<&str>,
    open_at: impl Fn(u64) -> usize,
) -> Option<Hitl<'a>> {
    let is_inside =
        |(node, _): &&HitlNode<'_>| node.parent.is_some() && node.parent == permission.span_id;
    let later = || {
        all.iter()
            .filter(|(node, _)| node.start >= permission.start)
    };
    let has_id = |(_, its): &&HitlNode<'_>| id.is_some() && its.as_deref() == id;
    let tool = permission.within();
    let may_belong = |its: &Option<Cow<'_, str>>| id.is_none() || its.is_none();
    let is_beside =
        |(node, its): &&HitlNode<'_>| tool.is_some() && node.parent == tool && may_belong(its);
    let is_alone = |(node, its): &&HitlNode<'_>| {
        may_belong(its) && is_open_at(permission, node.start) && open_at(node.start) == 1
    };
    let found = all.iter().find(is_inside);
    let found = found.or_else(|| later().find(has_id));
    let found = found.or_else(|| later().find(is_beside));
    let found = found.or_else(|| all.iter().find(is_alone));
    found.map(|(node, _)| node.view())
}

impl<'a> PermissionDecision<'a> {
    /// What was set as the action, once that is known.
    pub fn action(&self) -> Option<Action> {
        Action::of(&self.permission)
    }

    /// Whether a person was asked.
    pub fn is_asked(&self) -> bool {
        self.action() == Some(Action::Ask)
            || self.request.is_some()
            || self.response.is_some()
            || self.permission.decided_by().is_some()
            || self.permission.interrupt_id().is_some()
    }

    /// The result of the rules: `ask` if a person was asked, also where the action that was set afterwards
    /// is that person's answer.
    pub fn rule_action(&self) -> Option<Cow<'a, str>> {
        match self.is_asked() {
            true => Some("ask".into()),
            false => self.permission.action(),
        }
    }

    /// The person's answer, as it was recorded.
    pub fn answer(&self) -> Option<RawValue<'a>> {
        let own = self.permission.decision();
        own.or_else(|| self.response.as_ref()?.decision())
    }

    /// The person's answer in a word: as it was recorded, else by the action or the outcome that were set.
    /// None if no person was asked or none has answered.
    pub fn answer_text(&self) -> Option<Cow<'a, str>> {
        if !self.is_asked() {
            return None;
        }
        if let Some(answer) = self.answer() {
            return Some(answer.text().unwrap_or_else(|| answer.json().into()));
        }
        match (self.action(), self.node.outcome()) {
            (Some(Action::Ask) | None, Some(Outcome::Denied)) => Some("denied".into()),
            (Some(Action::Ask) | None, Some(Outcome::Ok)) => {
                self.decided_by().map(|_| "allowed".into())
            }
            (Some(Action::Ask) | None, _) => None,
            _ => self.permission.action(),
        }
    }

    /// The person or program that decided.
    pub fn decided_by(&self) -> Option<Cow<'a, str>> {
        let own = self.permission.decided_by();
        own.or_else(|| self.response.as_ref()?.decided_by())
    }

    /// The pattern that matched, of the permission or of its rule.
    pub fn pattern(&self) -> Option<Cow<'a, str>> {
        let own = self.permission.pattern();
        own.or_else(|| self.permission.rule()?.get("pattern")?.text())
    }

    /// Where the deciding rule comes from.
    pub fn source(&self) -> Option<Cow<'a, str>> {
        let own = self.permission.source();
        own.or_else(|| self.permission.rule()?.get("source")?.text())
    }

    /// As JSON, with stable names.
    pub(super) fn to_json(&self) -> Value {
        let permission = &self.permission;
        json!({
            "address": self.node.address.to_string(),
            "tool_id": permission.tool_id(),
            "pattern": self.pattern(),
            "action": permission.action(),
            "asked": self.is_asked(),
            "source": self.source(),
            "decided_by": self.decided_by(),
            "decision": self.answer().and_then(|value| value.value()).or_else(|| {
                self.answer_text().map(|text| text.into())
            }),
            "waited_ns": self.node.duration.filter(|_| self.is_asked()),
            "rule": permission.rule().and_then(|value| value.value()),
            "permission_rules_digest": permission.permission_rules_digest(),
        })
    }
}
