//! Calls, tokens, cost, durations, errors and waiting, over one session or many.
//!
//! Lines are read once and in any number; what is held are the rows. `errors` are model and tool calls that failed.
//! Durations are of calls that ended, within 1 %. A wait for a person and a denial count once, wherever they were
//! recorded.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! use spanledger::inspect::stats::{By, Stats};
//! use spanledger::session::Store;
//! let store = Store::new(dir.path());
//! let mut stats = Stats::new(Some(By::Model));
//! for session in store.dirs()? {
//!     stats.add(&session)?;
//! }
//! for (model, row) in stats.finish().rows {
//!     println!("{model}: {} calls, {:?} USD", row.model_calls, row.cost.usd());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::read::SessionReader;
use crate::session::{Store, Unreadable};
use crate::trace::{Damage, named_enum};

mod fold;
mod row;

use fold::{SessionFold, Sums};
pub use row::StatsRow;

named_enum! {
    /// What the rows are about.
    #[non_exhaustive]
    pub enum By {
        /// Each model, by the name that answered or was asked for.
        Model = "model",
        /// Each tool.
        Tool = "tool",
        /// Each agent: what happened in runs of its name.
        Agent = "agent",
        /// Each session. Its subagents, and theirs, are counted to it.
        Session = "session",
        /// Each day in UTC.
        Day = "day",
    }
}

/// Adds up sessions.
#[derive(Debug, Default)]
pub struct Stats {
    by: Option<By>,
    since: u64,
    sums: Sums,
    /// The parent of each subagent, by session id, if rows are sessions.
    parents: HashMap<String, String>,
    damages: Vec<Damage>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatsReport {
    /// What the rows are about.
    pub by: Option<By>,
    /// Everything.
    pub total: StatsRow,
    /// The rows. Days are in order; other rows begin with the most expensive, then the one with most calls.
    pub rows: Vec<(String, StatsRow)>,
    /// What is damaged, and was left out.
    pub damages: Vec<Damage>,
}

impl Stats {
    /// Starts with nothing. Without `by` there is only a total.
    pub fn new(by: Option<By>) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    /// Counts only what ended since, in nanoseconds since 1970.
    #[must_use]
    pub fn since(mut self, since: u64) -> Self {
        self.since = since;
        self
    }

    /// Adds a session, by its directory. Returns the ids of the subagents that it started.
    pub fn add(&mut self, session: &Path) -> io::Result<Vec<String>> {
        let reader = SessionReader::open(session)?.with_all_fields();
        let mut fold = SessionFold::new(self.by, self.since, std::mem::take(&mut self.sums));
        let read = reader.each_line(|line| {
            fold.add_line(line);
            Ok::<(), io::Error>(())
        });
        if read.is_ok() {
            fold.finish();
        }
        self.sums = std::mem::take(&mut fold.sums);
        self.damages.extend(read?);
        if self.by == Some(By::Session)
            && let Some(parent) = fold.parent.take()
        {
            self.parents.insert(fold.session.clone(), parent);
        }
        Ok(fold.subagents)
    }

    /// Adds a session with its subagents and theirs. One that is not under this root is left out; one that can't be read
    /// is returned.
    pub fn add_family(&mut self, store: &Store, session: &Path) -> io::Result<Vec<Unreadable>> {
        let mut known = HashSet::from([session.to_owned()]);
        let mut next = self.add(session)?;
        let mut unreadable = Vec::new();
        while let Some(id) = next.pop() {
            let dir = store.dir(&id);
            if !known.insert(dir.clone()) {
                continue;
            }
            let more = Unreadable::or_gone(self.add(&dir), &dir, &mut unreadable);
            next.extend(more.into_iter().flatten());
        }
        Ok(unreadable)
    }

    /// Adds sessions, by their directories. One that was removed in the meantime is left out; one that can't be read is
    /// returned.
    pub fn add_all(&mut self, sessions: impl IntoIterator<Item = PathBuf>) -> Vec<Unreadable> {
        let mut unreadable = Vec::new();
        for dir in sessions {
            let _ = Unreadable::or_gone(self.add(&dir), &dir, &mut unreadable);
        }
        unreadable
    }

    /// The result.
    pub fn finish(self) -> StatsReport {
        let mut rows: BTreeMap<String, StatsRow> = BTreeMap::new();
        for (key, row) in self.sums.rows {
            let key = top_session(&self.parents, key);
            rows.entry(key).or_default().merge(&row);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        if self.by != Some(By::Day) {
            rows.sort_by(|(_, a), (_, b)| b.weight().total_cmp(&a.weight()));
        }
        StatsReport {
            by: self.by,
            total: self.sums.total,
            rows,
            damages: self.damages,
        }
    }
}

/// The session that a subagent is counted to: the first of its parents that has none.
fn top_session(parents: &HashMap<String, String>, mut id: String) -> String {
    // Sessions that start each other are a cycle.
    for _ in 0..64 {
        match parents.get(&id) {
            Some(parent) => id.clone_from(parent),
            None => break,
        }
    }
    id
}
