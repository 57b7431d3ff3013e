//! What the subagents of a session used.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::store::Store;
use super::summary::Summary;
use crate::trace::{Totals, Usage};

/// What the subagents of a session, and theirs, add up to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SubagentTotals {
    /// How many sessions.
    pub sessions: u64,
    /// What their writers counted.
    pub totals: Totals,
}

impl SubagentTotals {
    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({"sessions": self.sessions, "usage": self.totals.usage.to_json()})
    }
}

impl Store {
    /// What the subagents that a session names, and theirs, add up to. One that can't be read is left
    /// out.
    ///
    /// ```no_run
    /// use spanledger::session::Store;
    /// let store = Store::new("/var/lib/agent");
    /// let entry = store.read(&store.resolve("last")?)?;
    /// let subagents = store.subagent_totals(&entry.summary);
    /// println!("{} subagents: {:?}", subagents.sessions, subagents.totals.usage.cost_usd);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subagent_totals(&self, summary: &Summary) -> SubagentTotals {
        let mut sum = SubagentTotals::default();
        let mut known = HashSet::from([summary.session_id.clone()]);
        let mut next = summary.subagents.clone();
        while let Some(id) = next.pop() {
            if !known.insert(id.clone()) {
                continue;
            }
            if let Ok(entry) = self.peek(&self.dir(&id)) {
                sum.sessions += 1;
                sum.totals.add(&entry.summary.totals());
                next.extend(entry.summary.subagents);
            }
        }
        sum
    }

    /// What a subagent used, its own subagents included. `None`: its session can't be read.
    pub fn usage_of(&self, session_id: &str) -> Option<Usage> {
        let summary = self.peek(&self.dir(session_id)).ok()?.summary;
        let mut totals = summary.totals();
        totals.add(&self.subagent_totals(&summary).totals);
        Some(totals.usage)
    }
}
