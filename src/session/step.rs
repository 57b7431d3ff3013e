//! A turn as a tree: each node with the nodes inside it, and each tool call with its permissions.

use std::collections::HashMap;
use std::iter::Peekable;

use super::decision::PermissionDecision;
use super::family::depth_first;
use super::node::Node;
use super::turns::Turn;
use crate::cost::Cost;
use crate::trace::{Kind, Usage};

/// A deeper tree is damaged, and would overflow the stack.
const DEEPEST: usize = 64;

/// A node, and the nodes inside it.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The node.
    pub node: &'a Node,
    /// The steps inside it, in the order they began.
    pub inside: Vec<Step<'a>>,
    /// The decision, if it is a permission.
    pub decision: Option<PermissionDecision<'a>>,
}

impl<'a> Step<'a> {
    /// The permissions that were requested for a tool call.
    pub fn permissions(&self) -> impl Iterator<Item = &PermissionDecision<'a>> {
        self.inside.iter().filter_map(|step| step.decision.as_ref())
    }
}

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
        let mut nodes: Vec<&Node> = self.nodes.iter().collect();
        nodes.sort_by_key(|node| (node.start, node.address));
        let mut spans = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            if let Some(id) = node.span_id {
                // Where two nodes have the same id, the first one gets the children.
                spans.entry(id).or_insert(at);
            }
        }
        let parent = |node: &&Node| spans.get(&node.within()?).copied();
        let parents: Vec<_> = nodes.iter().map(parent).collect();
        let decisions = self.decisions().into_iter();
        let decisions = decisions.map(|decision| (decision.node.address, decision));
        let mut decisions: HashMap<_, _> = decisions.collect();
        let steps = depth_first(&parents).into_iter().map(|(depth, at)| {
            let node = nodes[at];
            let decision = decisions.remove(&node.address);
            (depth.min(DEEPEST), node, decision)
        });
        level(&mut steps.peekable(), 0)
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

    /// The cost of its model calls, as recorded or by list prices; of a turn whose calls have none, what was recorded
    /// on it.
    pub fn cost(&self) -> Cost {
        let calls = self.nodes.iter().filter(|n| n.kind == Kind::ModelCall);
        let mut sum = Cost::default();
        calls.for_each(|call| sum.merge(&call.cost()));
        let own = self.span.as_ref().map(Node::cost).unwrap_or_default();
        match sum.usd() {
            None if own.usd().is_some() => own,
            _ => sum,
        }
    }
}

/// A node with its depth in the tree, and its decision.
type FlatStep<'a> = (usize, &'a Node, Option<PermissionDecision<'a>>);

/// Takes the steps that are at least this deep, each with those inside it.
fn level<'a>(
    rest: &mut Peekable<impl Iterator<Item = FlatStep<'a>>>,
    depth: usize,
) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    while let Some((_, node, decision)) = rest.next_if(|(own, ..)| *own >= depth) {
        steps.push(Step {
            node,
            inside: level(rest, depth + 1),
            decision,
        });
    }
    steps
}

#[cfg(test)]
mod tests;
