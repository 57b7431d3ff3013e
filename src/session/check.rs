//! Whether the traces under a root are whole.

use super::store::{Entry, Store, Unreadable};
use crate::trace::{Damage, LineError, Marks};

/// What is damaged, lost, masked and truncated in a root's sessions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Checks {
    /// Lines between the first and the last ones of a session were not read.
    pub skipped: bool,
    /// Damaged places, without torn ends.
    pub damages: Vec<Damage>,
    /// Segments that end mid-line because their process was killed.
    pub torn: u64,
    /// Gaps, missing events, masked and truncated values.
    pub marks: Marks,
    /// The marks are a lower bound: lines were not read, and their writers did not count.
    pub at_least: bool,
    /// Sessions that can't be read.
    pub unreadable: Vec<Unreadable>,
}

impl Checks {
    /// Checks a session by what was read of it. With `deep`, reads it whole if that was not done.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use spanledger::session::{Checks, Store};
    /// let store = Store::new(dir.path());
    /// let mut checks = Checks::default();
    /// for entry in store.newest()? {
    ///     checks.add(&store, &entry, true);
    /// }
    /// assert!(checks.damages.is_empty() && !checks.skipped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn add(&mut self, store: &Store, entry: &Entry, deep: bool) {
        if !deep || entry.whole {
            return self.add_entry(entry);
        }
        let (dir, read) = (&entry.dir, store.read(&entry.dir));
        if let Some(entry) = Unreadable::or_gone(read, dir, &mut self.unreadable) {
            self.add_entry(&entry);
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        self.skipped |= !entry.whole;
        for damage in &entry.damages {
            match damage.why {
                LineError::Torn => self.torn += 1,
                _ => self.damages.push(damage.clone()),
            }
        }
        let (marks, known) = entry.summary.marks();
        self.marks.add(&marks);
        self.at_least |= !known;
    }
}
