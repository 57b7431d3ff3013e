//! A turn as a tree: each node with the nodes inside it, and each tool call with its permissions.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::item::Item;
use super::node::Node;
use super::turns::Turn;
use crate::trace::typed::{Hitl, Permission};
use crate::trace::{Kind, RawValue, Usage};

/// A deeper tree is damaged, and would overflow the stack.
const DEEPEST: usize = 64;

/// A node, and the nodes inside it.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The node.
    pub node: &'a Node,
    /// The steps inside it, in the order they began.
    pub inside: Vec<Step<'a>>,
}

impl<'a> Step<'a> {
    /// The permissions that were requested for a tool call.
    pub fn permissions(&self) -> impl Iterator<Item = Decision<'a>> {
        self.inside.iter().filter_map(Decision::of)
    }
}

/// The nodes inside each span, by its id.
type Children<'a> = HashMap<u64, Vec<&'a Node>>;

impl Turn {
    /// Its nodes as a tree, each level in the order the nodes began. Every node comes once, also
    /// in a damaged trace where spans contain each other.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (layer, guard) = spanledger::builder().root(dir.path()).build()?;
    /// # use tracing_subscriber::prelude::*;
    /// # tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
    /// #     let _run = spanledger::spans::session_run("ses_1", "builder").start().entered();
    /// #     let _turn = spanledger::spans::session_turn().start().entered();
    /// #     let tool = spanledger::spans::tool_call("bash", "call_1").start();
    /// #     drop(spanledger::spans::permission_evaluate("bash").child_of(&tool).start());
    /// # });
    /// # guard.shutdown()?;
    /// use spanledger::session::Item;
    /// let session = spanledger::read::session_dir(dir.path(), "ses_1");
    /// let turn = spanledger::session::turn(session, 1)?.turn.unwrap();
    /// for step in turn.steps() {
    ///     if let Item::ToolCall(call) = step.node.item() {
    ///         assert_eq!(call.tool_call_id().as_deref(), Some("call_1"));
    ///         assert_eq!(step.permissions().count(), 1);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn steps(&self) -> Vec<Step<'_>> {
        let ids: HashSet<u64> = self.nodes.iter().filter_map(|node| node.span_id).collect();
        let mut children = Children::new();
        let mut top = Vec::new();
        for node in &self.nodes {
            match node.within().filter(|parent| ids.contains(parent)) {
                Some(parent) => children.entry(parent).or_default().push(node),
                None => top.push(node),
            }
        }
        let mut steps = level(top, &mut children, 0);
        // Nodes that no top node contains: spans that contain each other, or too deep a tree.
        let first = |inside: &[&Node]| inside.iter().map(|node| (node.start, node.address)).min();
        let mut left: Vec<_> = children.iter().map(|(id, n)| (first(n), *id)).collect();
        left.sort_unstable();
        for (_, id) in left {
            if let Some(inside) = children.remove(&id) {
                steps.extend(level(inside, &mut children, 0));
            }
        }
        steps
    }

    /// Tokens and cost: the sum of its model calls, or its own if they have none.
    pub fn usage(&self) -> Usage {
        let calls = self.nodes.iter().filter(|n| n.kind == Kind::ModelCall);
        let mut sum = Usage::default();
        calls
            .filter_map(Node::usage)
            .for_each(|usage| sum.add(&usage));
        if sum.input_tokens.is_none()
            && sum.output_tokens.is_none()
            && let Some(own) = self.span.as_ref().and_then(Node::usage)
        {
            let cost_usd = sum.cost_usd.or(own.cost_usd);
            sum = Usage { cost_usd, ..own };
        }
        sum
    }
}

fn level<'a>(mut nodes: Vec<&'a Node>, children: &mut Children<'a>, depth: usize) -> Vec<Step<'a>> {
    nodes.sort_by_key(|node| (node.start, node.address));
    let step = |node: &'a Node| {
        // Removed: where two nodes have the same id, the first one gets the children.
        let own = node.span_id.filter(|_| depth < DEEPEST);
        let inside = own.and_then(|id| children.remove(&id)).unwrap_or_default();
        let inside = level(inside, children, depth + 1);
        Step { node, inside }
    };
    nodes.into_iter().map(step).collect()
}

/// The result of a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// A rule allows the call.
    Allow,
    /// A person decides.
    Ask,
    /// A rule denies the call.
    Deny,
    /// A word that this version does not know.
    Other,
}

impl Action {
    /// The action of a decided permission.
    pub fn of(permission: &Permission<'_>) -> Option<Self> {
        Some(match permission.action()?.as_ref() {
            "" => return None,
            "allow" => Self::Allow,
            "ask" => Self::Ask,
            "deny" => Self::Deny,
            _ => Self::Other,
        })
    }
}

/// A permission of a tool call: the result of the rules, and the answer of a person who was asked.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// Its span.
    pub node: &'a Node,
    /// The fields of the span.
    pub permission: Permission<'a>,
    /// The question to a person.
    pub request: Option<Hitl<'a>>,
    /// The person's answer.
    pub response: Option<Hitl<'a>>,
}

impl<'a> Decision<'a> {
    /// The decision of a step, if the step is a permission.
    pub fn of(step: &Step<'a>) -> Option<Self> {
        let Item::Permission(permission) = step.node.item() else {
            return None;
        };
        let hitl = |kind: Kind| {
            let found = step.inside.iter().find(|inner| inner.node.kind == kind);
            found.map(|inner| inner.node.view())
        };
        Some(Self {
            node: step.node,
            permission,
            request: hitl(Kind::HitlRequest),
            response: hitl(Kind::HitlResponse),
        })
    }

    /// What it came to, once that is known.
    pub fn action(&self) -> Option<Action> {
        Action::of(&self.permission)
    }

    /// Whether a person was asked.
    pub fn is_asked(&self) -> bool {
        self.action() == Some(Action::Ask)
            || self.request.is_some()
            || self.permission.decided_by().is_some()
            || self.permission.interrupt_id().is_some()
    }

    /// The person's answer.
    pub fn answer(&self) -> Option<RawValue<'a>> {
        let own = self.permission.decision();
        own.or_else(|| self.response.as_ref()?.decision())
    }

    /// The person or program that decided.
    pub fn decided_by(&self) -> Option<Cow<'a, str>> {
        let own = self.permission.decided_by();
        own.or_else(|| self.response.as_ref()?.decided_by())
    }
}

#[cfg(test)]
mod tests;
