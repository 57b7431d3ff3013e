//! How a span went, in words.

use super::describe::{Liveness, denying_limit};
use super::text::duration;
use crate::session::{Node, NodeState};
use crate::trace::Outcome;

/// The outcome in capitals, unless it is ok or unset.
pub(super) fn bad_outcome(node: &Node) -> Option<String> {
    let good = [Outcome::Ok, Outcome::Unset].map(Outcome::as_str);
    let name = node.outcome_name()?;
    (!good.contains(&&*name)).then(|| name.to_uppercase())
}

/// The mark of a span whose outcome was not set: it was dropped, and may have failed.
pub(super) const UNSET: &str = " ?";

/// How long a span took. One that was interrupted took at least that long: when its process died is not known.
pub(super) fn duration_of(node: &Node, ns: u64) -> String {
    match node.outcome() {
        Some(Outcome::Interrupted) => format!("≥{}", duration(ns)),
        _ => duration(ns),
    }
}

/// How long a span took, and how it ended if not well.
pub(super) fn how_it_went(node: &Node, liveness: Liveness) -> String {
    let mut text = String::new();
    match (node.state, node.duration) {
        (NodeState::Open, _) => text.push_str(match liveness {
            Liveness::Unknown => "",
            Liveness::Live { .. } => "  still open",
            Liveness::Over => "  left open",
        }),
        // What was denied took no time of its own.
        _ if node.outcome() == Some(Outcome::Denied) => {}
        (_, Some(ns)) => text.push_str(&format!("  {}", duration_of(node, ns))),
        _ => {}
    }
    if node.outcome() == Some(Outcome::Unset) {
        text.push_str(UNSET);
    }
    if let Some(outcome) = bad_outcome(node) {
        let by = denying_limit(node).unwrap_or_default();
        text.push_str(&format!("  {outcome}{by}"));
    }
    text
}
