//! What the turns of a session are shown with.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;

use serde_json::Value;

use spanledger::session::{Branch, Hidden, HiddenNodes, Node, Store, Turn, TurnFilter, each_turn};
use spanledger::view::{Style, Timeline};

/// What the turns of a session are shown with.
pub(super) struct Marks {
    pub store: Rc<Store>,
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

    /// Removes what `hidden` hides from a turn, unless that is shown, too.
    pub fn remove_hidden(&self, hidden: &Hidden, turn: &mut Turn) -> Option<HiddenNodes> {
        match self.shows_hidden {
            true => None,
            false => hidden.remove_from(turn),
        }
    }

    /// The part of a subagent's turn that is shown.
    pub fn narrow(&self, turn: Turn) -> Option<Turn> {
        let mut filter = TurnFilter::default();
        filter.errors = self.errors;
        filter.failed_subagents = self.failed_subagents(&turn);
        filter.apply(turn)
    }

    /// The subagents that start in a turn and had errors, if only errors are wanted.
    pub fn failed_subagents(&self, turn: &Turn) -> HashSet<String> {
        let result = |id: &str| self.store.subagent(id);
        let failed = |id: &str| result(id).is_some_and(|result| result.has_failed());
        let ids = turn.nodes.iter().filter_map(|node| node.subagent());
        let ids = ids.filter(|id| self.errors && failed(id));
        ids.map(|id| id.into_owned()).collect()
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

    /// The turns of a subagent, as lines below the row that started it. None if it was shown before.
    pub fn nested(&self, style: &Style, id: &str, indent: usize) -> Vec<String> {
        // Deeper than this, no columns are left.
        if indent > 5 || !self.is_first(id) {
            return Vec::new();
        }
        let mut inner = style.clone();
        inner.width = style.width.saturating_sub(4).max(40);
        let mut lines = Vec::new();
        let deeper = |id: &str, _: usize| self.nested(&inner, id, indent + 1);
        let dir = self.store.dir(id);
        let read = self.store.peek(&dir).and_then(|entry| {
            let hidden = Hidden::read(&dir)?;
            let timeline = Timeline::of(&entry, &self.store, &inner);
            let timeline = timeline.with_subagents(&deeper).with_hidden(&hidden);
            each_turn(&dir, |turn| {
                let title = timeline.title(&turn);
                let Some(mut turn) = self.narrow(turn) else {
                    return Ok(());
                };
                let removed = self.remove_hidden(&hidden, &mut turn);
                lines.extend(title);
                lines.extend(timeline.rows(&turn));
                lines.extend(removed.map(|removed| timeline.hidden_row(removed)));
                Ok::<(), io::Error>(())
            })
        });
        if let Err(error) = read {
            lines.push(style.red(&format!("can't be read: {error}")));
        }
        let indented = lines.into_iter().map(|line| format!("    {line}"));
        indented.collect()
    }
}
