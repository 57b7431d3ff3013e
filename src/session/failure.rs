//! Errors that are one failure: an inner span fails, and `?` passes its error to the spans around it.

use std::collections::{HashMap, VecDeque};

use super::node::Node;
use super::turns::Turn;
use crate::trace::{Address, ErrorChain};

/// How many failures inside one span are remembered.
const REMEMBERED: usize = 64;

/// A failure, and the line that has it first.
#[derive(Clone, Debug)]
pub(super) struct KnownFailure {
    pub chain: ErrorChain,
    pub origin: Address,
}

/// The failures inside spans that are still open.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFailures {
    /// By the id of the span that contains them, the newest last.
    inside: HashMap<String, VecDeque<KnownFailure>>,
}

impl OpenFailures {
    /// Takes the failure inside a span that closes with the error `chain`, if it closes with the same.
    pub fn close(&mut self, span_id: &str, chain: Option<&ErrorChain>) -> Option<KnownFailure> {
        if self.inside.is_empty() {
            return None;
        }
        let failures = self.inside.remove(span_id)?;
        let mut newest = failures.into_iter().rev();
        newest.find(|inner| chain.is_some_and(|chain| chain.wraps(&inner.chain)))
    }

    /// A span inside this one has closed after the failures so far.
    pub fn closed_inside(&mut self, span_id: &str) {
        if let Some(failures) = self.inside.get_mut(span_id) {
            failures.retain(|inner| !inner.chain.is_vague());
        }
    }

    /// Remembers a failure inside a span.
    pub fn add(&mut self, span_id: &str, failure: KnownFailure) {
        let failures = self.inside.entry(span_id.to_owned()).or_default();
        if failures.len() == REMEMBERED {
            failures.pop_front();
        }
        failures.push_back(failure);
    }
}

impl Node {
    fn error_chain(&self) -> Option<ErrorChain> {
        self.get("error").map(ErrorChain::of)
    }
}

impl Turn {
    /// The innermost node that failed with the turn's own error. `?` passed its error to the turn.
    pub fn failure_origin(&self) -> Option<&Node> {
        let mut outer = self.span.as_ref()?;
        let mut origin = None;
        let mut chain = outer.error_chain()?;
        // Each step goes to a node that ended no later, or to another span: a cycle ends.
        for _ in 0..REMEMBERED {
            let inside = self.nodes.iter().filter(|node| {
                node.within().is_some() && node.within() == outer.span_id && node.span_id.is_some()
            });
            let last = inside.clone().map(Node::end).max();
            let same = inside.filter_map(|node| Some((node, node.error_chain()?)));
            let same = same.filter(|(node, inner)| {
                chain.wraps(inner) && (!inner.is_vague() || Some(node.end()) == last)
            });
            let Some((node, inner)) = same.max_by_key(|(node, _)| node.end()) else {
                break;
            };
            (outer, chain, origin) = (node, inner, Some(node));
        }
        origin
    }
}

#[cfg(test)]
mod tests;
