//! Whether the traces under a root are whole.

use std::io;

use super::store::{Store, Survey, Unreadable};
use crate::session::Entry;
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
    /// Checks what a survey read. With `deep`, reads the sessions whole that it did not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use spanledger::session::{Checks, Store};
    /// let store = Store::new(dir.path());
    /// let checks = Checks::run(&store, &store.survey()?, true);
    /// assert!(checks.damages.is_empty() && checks.whole);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(store: &Store, survey: &Survey, deep: bool) -> Self {
        let mut checks = Self {
            whole: true,
            damages: Vec::new(),
            torn: 0,
            marks: Marks::default(),
            at_least: false,
            unreadable: survey.unreadable.clone(),
        };
        for entry in &survey.entries {
            if !deep || entry.whole {
                checks.add(entry);
                continue;
            }
            match store.read(&entry.dir) {
                Ok(entry) => checks.add(&entry),
                // Pruned in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => checks.unreadable.push(Unreadable::new(&entry.dir, &error)),
            }
        }
        checks
    }

    fn add(&mut self, entry: &Entry) {
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
