//! Which old sessions to remove.

use std::collections::{HashMap, HashSet};
use std::io;

use super::family::{Family, families};
use super::store::{Entry, Store, Survey};
use crate::ledger::{self, Removal};

/// Limits on what is kept. A session is removed if it is over any limit that is set.
///
/// A family, which is a session with its subagents and theirs, is kept or removed as a whole. It was
/// last active when any of its members was, so a session is never removed before its subagents.
///
/// ```
/// use spanledger::session::Retention;
/// let retention = Retention { keep: Some(100), ..Retention::default() };
/// assert!(retention.over(&[], &|_| 0, 0).is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Remove what was last active longer ago than this, in nanoseconds.
    pub older_than: Option<u64>,
    /// Keep so many sessions with their subagents, those last active.
    pub keep: Option<usize>,
    /// Keep so many bytes, of the families last active.
    pub max_size: Option<u64>,
}

/// What became of a session that is over a limit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pruned<'a> {
    /// The session.
    pub entry: &'a Entry,
    /// The id of its family's first session.
    pub family: &'a str,
    /// What became of it.
    pub removal: Removal,
    /// Its size.
    pub bytes: u64,
}

impl Retention {
    /// The families among `entries`, the most recently active first, that are over a limit, the oldest
    /// first. `size` returns the size of a session, `now` is in nanoseconds since 1970. Live families
    /// count, and are never over a limit.
    pub fn over<'a>(
        &self,
        entries: &'a [Entry],
        size: &dyn Fn(&Entry) -> u64,
        now: u64,
    ) -> Vec<Family<'a>> {
        let families = families(entries);
        let is_old = |family: &Family<'_>| {
            let age = now.saturating_sub(family.last());
            self.older_than.is_some_and(|limit| age > limit)
        };
        let is_over = |(at, family): (usize, &Family<'_>)| {
            let extra = self.keep.is_some_and(|keep| at >= keep);
            !family.is_live() && (extra || is_old(family))
        };
        let mut over: Vec<bool> = families.iter().enumerate().map(is_over).collect();
        if let Some(limit) = self.max_size {
            let size_of = |family: &Family<'_>| -> u64 {
                family.members().iter().map(|entry| size(entry)).sum()
            };
            let sizes: Vec<u64> = families.iter().map(size_of).collect();
            let kept = sizes.iter().zip(&over).filter(|(_, over)| !**over);
            let mut total: u64 = kept.map(|(size, _)| size).sum();
            for at in (0..families.len()).rev() {
                if total > limit && !over[at] && !families[at].is_live() {
                    over[at] = true;
                    total -= sizes[at];
                }
            }
        }
        let chosen = families.into_iter().zip(over).filter(|(_, over)| *over);
        let mut chosen: Vec<_> = chosen.map(|(family, _)| family).collect();
        chosen.reverse();
        chosen
    }

    /// Removes the families of a survey that are over a limit, unless `dry_run`, and reports each
    /// session. With `force`, also those that the mirror has not sent yet. A family whose parent can't
    /// be read is kept.
    pub fn apply<E: From<io::Error>>(
        &self,
        store: &Store,
        survey: &Survey,
        now: u64,
        (dry_run, force): (bool, bool),
        mut report: impl FnMut(Pruned<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let entries = survey.entries.iter();
        let sizes = entries.map(|entry| (&entry.dir, ledger::dir_size(&entry.dir)));
        let sizes: HashMap<_, _> = sizes.collect();
        let size_of = |entry: &Entry| sizes.get(&entry.dir).copied().unwrap_or(0);
        let unreadable = survey.unreadable.iter();
        let unreadable: HashSet<_> = unreadable.map(|session| &session.dir).collect();
        let is_unreadable = |id: &String| unreadable.contains(&store.dir(id));
        for family in self.over(&survey.entries, &size_of, now) {
            let members = family.members();
            let top = &family.top().summary.session_id;
            // Subagents first: if this is interrupted, the session is still there.
            let dirs: Vec<_> = members.iter().rev().map(|entry| &entry.dir).collect();
            let mut parents = members.iter().flat_map(|entry| entry.summary.parents());
            let done = match dry_run {
                _ if parents.any(is_unreadable) => Ok(vec![Removal::Family; dirs.len()]),
                true => ledger::can_remove_sessions(store.root(), &dirs, force),
                false => ledger::remove_sessions(store.root(), &dirs, force),
            };
            let done = done.map_err(|error| io::Error::other(format!("{top}: {error}")))?;
            for (entry, removal) in members.iter().zip(done.into_iter().rev()) {
                let bytes = match removal {
                    Removal::Removed { bytes } => bytes,
                    _ => size_of(entry),
                };
                report(Pruned {
                    entry,
                    family: top,
                    removal,
                    bytes,
                })?;
            }
        }
        Ok(())
    }
}
