//! Which sessions to let go.

use super::family::{Family, families};
use super::store::Entry;

/// What is to be kept. Each limit that is set is heeded: a session goes if any of them says so.
///
/// A family, which is a session with its subagents and theirs, goes or stays as a whole. It was
/// last active when any of its members was: so a session never goes before its subagents, nor
/// stays without them.
///
/// ```
/// use spanledger::session::Retention;
/// let retention = Retention { keep: Some(100), ..Retention::default() };
/// assert!(retention.over(&[], &|_| 0, 0).is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Nothing that was last active longer ago than this, in nanoseconds.
    pub older_than: Option<u64>,
    /// So many sessions with their subagents, those last active.
    pub keep: Option<usize>,
    /// So many bytes, of the families last active.
    pub max_size: Option<u64>,
}

impl Retention {
    /// Which of `entries`, the most recently active first, are to go, the oldest first. `size`
    /// tells how large each is, `now` is in nanoseconds since 1970. Live families count, and
    /// never go.
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
        let mut goes: Vec<bool> = families
            .iter()
            .enumerate()
            .map(|(at, family)| {
                let extra = self.keep.is_some_and(|keep| at >= keep);
                !family.is_live() && (extra || is_old(family))
            })
            .collect();
        if let Some(limit) = self.max_size {
            let size_of = |family: &Family<'_>| -> u64 {
                let sizes = family.members().iter().map(|entry| size(entry));
                sizes.sum()
            };
            let sizes: Vec<u64> = families.iter().map(size_of).collect();
            let kept = sizes.iter().zip(&goes).filter(|(_, goes)| !**goes);
            let mut total: u64 = kept.map(|(size, _)| size).sum();
            for at in (0..families.len()).rev() {
                if total <= limit {
                    break;
                }
                if !goes[at] && !families[at].is_live() {
                    goes[at] = true;
                    total -= sizes[at];
                }
            }
        }
        let chosen = families.into_iter().zip(goes).filter(|(_, goes)| *goes);
        let mut chosen: Vec<_> = chosen.map(|(family, _)| family).collect();
        chosen.reverse();
        chosen
    }
}
