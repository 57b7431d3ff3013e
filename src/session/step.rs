//! A turn as a tree: each node with the nodes inside it, and each tool call with its permissions.

use std::collections::{HashMap, HashSet};

use super::decision::PermissionDecision;
use super::node::Node;
use super::turns::Turn;
use crate::cost::Cost;
use crate::trace::{Address, Kind, Usage};

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

/// The nodes inside each span, by its id.
type Children<'a> = HashMap<u64, Vec<&'a Node>>;

/// What is left to put into the tree.
struct Rest<'a> {
    children: Children<'a>,
    decisions: HashMap<Address, PermissionDecision<'a>>,
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
        let ids: HashSet<u64> = self.nodes.iter().filter_map(|node| node.span_id).collect();
        let mut children = Children::new();
        let mut top = Vec::new();
        for node in &self.nodes {
            match node.within().filter(|parent| ids.contains(parent)) {
                Some(parent) => children.entry(parent).or_default().push(node),
                None => top.push(node),
            }
        }
        let decisions = self.decisions().into_iter();
        let decisions = decisions.map(|decision| (decision.node.address, decision));
        let mut rest = Rest {
            children,
            decisions: decisions.collect(),
        };
        let mut steps = rest.level(top, 0);
        // Nodes that no top node contains: spans that contain each other, or too deep a tree.
        let first = |inside: &[&Node]| inside.iter().map(|node| (node.start, node.address)).min();
        let mut left: Vec<_> = rest
            .children
            .iter()
            .map(|(id, n)| (first(n), *id))
            .collect();
        left.sort_unstable();
        for (_, id) in left {
            if let Some(inside) = rest.children.remove(&id) {
                steps.extend(rest.level(inside, 0));
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

impl<'a> Rest<'a> {
    fn level(&mut self, mut nodes: Vec<&'a Node>, depth: usize) -> Vec<Step<'a>> {
        nodes.sort_by_key(|node| (node.start, node.address));
        let step = |node: &'a Node| {
            // Removed: where two nodes have the same id, the first one gets the children.
            let own = node.span_id.filter(|_| depth < DEEPEST);
            let inside = own.and_then(|id| self.children.remove(&id));
            Step {
                node,
                inside: self.level(inside.unwrap_or_default(), depth + 1),
                decision: self.decisions.remove(&node.address),
            }
        };
        nodes.into_iter().map(step).collect()
    }
}

#[cfg(test)]
mod tests;
