//! What the subagents of a session used, and how they ended.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::status::Status;
use super::store::{Entry, Store};
use super::summary::Summary;
use crate::trace::{Outcome, Totals, Usage};

/// What the subagents of a session, and theirs, add up to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SubagentTotals {
    /// Their directories, each once.
    pub dirs: Vec<PathBuf>,
    /// What their writers counted.
    pub totals: Totals,
}

impl SubagentTotals {
    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let totals = &self.totals;
        json!({
            "sessions": self.dirs.len(),
            "turns": totals.turns,
            "model_calls": totals.model_calls,
            "tool_calls": totals.tool_calls,
            "errors": totals.errors,
            "usage": totals.usage.to_json(),
        })
    }
}

/// How a subagent went.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SubagentResult {
    /// What it used, its own subagents included.
    pub usage: Usage,
    /// How many errors it had, those of its own subagents included.
    pub errors: u64,
    /// Its process is alive and a run is open.
    pub is_live: bool,
    /// The outcome of its last run. `None`: that run is open.
    pub outcome: Option<String>,
    /// The last error, if the last run failed.
    pub error: Option<String>,
    /// When something last happened in it, in nanoseconds since 1970.
    pub last: u64,
    runs: u64,
}

impl SubagentResult {
    fn of(entry: Entry) -> Self {
        let summary = entry.summary;
        let outcome = match entry.status {
            Status::Interrupted => Some(Outcome::Interrupted.as_str().to_owned()),
            _ => summary.ended.map(|(outcome, _)| outcome),
        };
        let error = summary.last_error.filter(|_| entry.status == Status::Error);
        Self {
            is_live: entry.status.is_live(),
            outcome,
            error: error.map(|error| format!("{}: {}", error.what, error.message)),
            last: summary.last,
            runs: summary.runs,
            ..Self::default()
        }
    }

    /// Whether its last run did not end well, or something in it failed.
    pub fn has_failed(&self) -> bool {
        let interrupted = self.outcome.as_deref() == Some(Outcome::Interrupted.as_str());
        self.errors > 0 || self.error.is_some() || interrupted
    }

    /// How long it took, if it was started at `start`. `None`: it is running, or was resumed later.
    pub fn duration_since(&self, start: u64) -> Option<u64> {
        let is_known = !self.is_live && self.runs <= 1;
        is_known.then(|| self.last.saturating_sub(start))
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
    /// println!("{} subagents: {:?}", subagents.dirs.len(), subagents.totals.usage.cost_usd);
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
                sum.dirs.push(entry.dir);
                sum.totals.add(&entry.summary.totals());
                next.extend(entry.summary.subagents);
            }
        }
        sum
    }

    /// How a subagent went. `None`: its session can't be read.
    pub fn subagent(&self, session_id: &str) -> Option<SubagentResult> {
        let entry = self.peek(&self.dir(session_id)).ok()?;
        let mut totals = entry.summary.totals();
        totals.add(&self.subagent_totals(&entry.summary).totals);
        Some(SubagentResult {
            usage: totals.usage,
            errors: totals.errors,
            ..SubagentResult::of(entry)
        })
    }
}
