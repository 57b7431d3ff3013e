//! What the turns of a session are shown with.

use std::cell::RefCell;
use std::collections::HashSet;

use serde_json::Value;

use spanledger::session::{Branch, Hidden, Node, Store, Turn, TurnFilter};

/// What the turns of a session are shown with.
pub(super) struct Marks {
    pub session_id: String,
    /// The sessions that were shown. A subagent that is resumed is named again, and a damaged one may
    /// name itself.
    pub shown: RefCell<HashSet<String>>,
    pub hidden: Hidden,
    /// Only errors are shown.
    pub errors: bool,
    /// What is hidden is shown, too.
    pub shows_hidden: bool,
    pub branches: Vec<Branch>,
}

impl Marks {
    /// Whether a session was not shown yet.
    pub fn is_first(&self, session_id: &str) -> bool {
        self.shown.borrow_mut().insert(session_id.to_owned())
    }

    /// The part of a subagent's turn that is shown.
    pub fn narrow(&self, store: &Store, turn: Turn) -> Option<Turn> {
        let mut filter = TurnFilter::default();
        filter.errors = self.errors;
        filter.failed_subagents = super::failed_subagents(store, &turn, self.errors);
        filter.apply(turn)
    }

    /// Adds the line that hides a node, and the sessions that were branched from it.
    pub fn add_to(&self, object: &mut Value, node: &Node) {
        if let Some(by) = self.hidden.by(node) {
            object["hidden_by"] = by.to_string().into();
        }
        let id = node.get("message_id").and_then(|id| id.text());
        let here = |branch: &&Branch| id.is_some() && branch.message_id.as_deref() == id.as_deref();
        let ids: Vec<_> = self.branches.iter().filter(here).collect();
        if !ids.is_empty() && node.role().is_some() {
            object["branches"] = ids
                .iter()
                .map(|branch| branch.session_id.as_str())
                .collect();
        }
    }
}
