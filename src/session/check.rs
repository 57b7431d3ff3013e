//! Whether the traces under a root are whole.

use std::io;

use super::store::{Entry, Store, Unreadable};
use crate::trace::{Damage, LineError, Marks};

/// What is damaged, lost, masked and truncated in a root's sessions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checks {
    /// Every line was read, and not just the first and last ones.
    pub whole: bool,
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
    /// Nothing is checked yet.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use spanledger::session::{Checks, Store};
    /// let store = Store::new(dir.path());
    /// let mut checks = Checks::new();
    /// for entry in store.newest()? {
    ///     checks.add(&store, &entry, true);
    /// }
    /// assert!(checks.damages.is_empty() && checks.whole);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            whole: true,
            damages: Vec::new(),
            torn: 0,
            marks: Marks::default(),
            at_least: false,
            unreadable: Vec::new(),
        }
    }

    /// Checks a session by what was read of it. With `deep`, reads it whole if that was not done.
    pub fn add(&mut self, store: &Store, entry: &Entry, deep: bool) {
        if !deep || entry.whole {
            return self.add_entry(entry);
        }
        match store.read(&entry.dir) {
            Ok(entry) => self.add_entry(&entry),
            // Pruned in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable.push(Unreadable::new(&entry.dir, &error)),
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        self.whole &= entry.whole;
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
