//! Which sessions to let go.

use super::store::Entry;

/// What is to be kept. Each limit that is set is heeded: a session goes if any of them says so.
/// A subagent counts as a session of its own.
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
    /// So many sessions, those last active.
    pub keep: Option<usize>,
    /// So many bytes, of the sessions last active.
    pub max_size: Option<u64>,
}

impl Retention {
    /// Which of `entries`, the most recently active first, are to go, the oldest first. `size`
    /// tells how large each is, `now` is in nanoseconds since 1970. Live sessions count, and
    /// never go.
    pub fn over<'a>(
        &self,
        entries: &'a [Entry],
        size: &dyn Fn(&Entry) -> u64,
        now: u64,
    ) -> Vec<&'a Entry> {
        let is_old = |entry: &Entry| {
            let age = now.saturating_sub(entry.summary.last);
            self.older_than.is_some_and(|limit| age > limit)
        };
        let mut goes: Vec<bool> = entries
            .iter()
            .enumerate()
            .map(|(at, entry)| {
                let extra = self.keep.is_some_and(|keep| at >= keep);
                !entry.status.is_live() && (extra || is_old(entry))
            })
            .collect();
        if let Some(limit) = self.max_size {
            let sizes: Vec<u64> = entries.iter().map(size).collect();
            let kept = sizes.iter().zip(&goes).filter(|(_, goes)| !**goes);
            let mut total: u64 = kept.map(|(size, _)| size).sum();
            for at in (0..entries.len()).rev() {
                if total <= limit {
                    break;
                }
                if !goes[at] && !entries[at].status.is_live() {
                    goes[at] = true;
                    total -= sizes[at];
                }
            }
        }
        let chosen = entries.iter().zip(goes).filter(|(_, goes)| *goes);
        let mut chosen: Vec<_> = chosen.map(|(entry, _)| entry).collect();
        chosen.reverse();
        chosen
    }
}
