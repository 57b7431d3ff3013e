//! Sessions in the order of their last activity, read as they are asked for.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::store::{Entry, Store, Unreadable};
use crate::trace::segments;

/// How many entries wait in memory. Others are read again when their turn comes.
const MOST_KEPT: usize = 512;
/// How many sessions are read at a time, at most.
const MOST_AT_ONCE: usize = 256;
/// From so many on, two threads read them.
const MANY: usize = 128;
/// A file system may round the time of a file down.
const ROUNDED_NS: u64 = 2_000_000_000;

/// The sessions under a root, the most recently active first.
///
/// No session is active after its files were last written, so the first ones are found without reading the
/// others, and few are in memory at a time, however many there are.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let store = spanledger::session::Store::new(dir.path());
/// for entry in store.newest()?.take(20) {
///     println!("{} {}", entry.summary.session_id, entry.status.as_str());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Newest<'a> {
    store: &'a Store,
    /// Not read yet, the newest last: when one can have been active last, and the name of its directory.
    unread: Vec<(u64, Box<OsStr>)>,
    /// Read before their turn, the newest last; those that come later are read again.
    waiting: BTreeMap<Rank, Option<Box<Entry>>>,
    at_once: usize,
    kept: usize,
    most_kept: usize,
    unreadable: Vec<Unreadable>,
}

/// Where a session comes: by the time when it was active last, then by its name.
type Rank = (u64, Reverse<Box<OsStr>>);

impl<'a> Newest<'a> {
    pub(super) fn new(store: &'a Store) -> io::Result<Self> {
        let mut unread = Vec::new();
        store.each_dir(|dir| {
            let name = dir.file_name().unwrap_or_default();
            unread.push((written(&dir), name.into()));
        })?;
        unread.sort_unstable();
        Ok(Self {
            store,
            unread,
            waiting: BTreeMap::new(),
            at_once: 8,
            kept: 0,
            most_kept: MOST_KEPT,
            unreadable: Vec::new(),
        })
    }

    /// Every session, read once: all are in memory.
    pub(super) fn read_all(&mut self) -> Vec<Entry> {
        self.most_kept = usize::MAX;
        self.collect()
    }

    /// The sessions that could not be read, of those that were looked at until now.
    pub fn into_unreadable(mut self) -> Vec<Unreadable> {
        self.unreadable.sort_by(|a, b| a.dir.cmp(&b.dir));
        self.unreadable
    }

    /// Reads some more sessions, those written last.
    fn read_more(&mut self) {
        let rest = self.unread.len().saturating_sub(self.at_once);
        let names: Vec<_> = self.unread.drain(rest..).map(|(_, name)| name).collect();
        self.at_once = (self.at_once * 2).min(MOST_AT_ONCE);
        let look_at =
            |names: &[Box<OsStr>]| -> Vec<_> { names.iter().map(|name| self.look(name)).collect() };
        let (first, second) = names.split_at(match names.len() {
            MANY.. => names.len() / 2,
            few => few,
        });
        let found = std::thread::scope(|scope| {
            let other = (!second.is_empty()).then(|| scope.spawn(|| look_at(second)));
            let mut found = look_at(first);
            found.extend(
                other
                    .into_iter()
                    .flat_map(|other| other.join().unwrap_or_default()),
            );
            found
        });
        for (name, found) in names.into_iter().zip(found) {
            match found {
                Ok(Some(entry)) => self.keep(name, entry),
                Ok(None) => {}
                Err(unreadable) => self.unreadable.push(unreadable),
            }
        }
    }

    fn keep(&mut self, name: Box<OsStr>, entry: Entry) {
        let last = entry.summary.last;
        let entry = (self.kept < self.most_kept).then(|| Box::new(entry));
        self.kept += usize::from(entry.is_some());
        self.waiting.insert((last, Reverse(name)), entry);
    }

    /// A session by its first and last lines. `None`: it is empty or gone.
    fn look(&self, name: &OsStr) -> Result<Option<Entry>, Unreadable> {
        let dir = self.store.sessions().join(name);
        let why = match self.store.peek(&dir) {
            Ok(entry) if entry.summary.last > 0 => return Ok(Some(entry)),
            // Its writer has created the directory and has not written yet.
            Ok(entry) if entry.bytes == 0 => return Ok(None),
            Ok(entry) => match entry.damages.first() {
                Some(damage) => damage.to_string(),
                None => "no line has a time".into(),
            },
            // Pruned in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Unreadable::new(&dir, &error)),
        };
        Err(Unreadable { dir, why })
    }
}

impl Iterator for Newest<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let newest = self.unread.last().map_or(0, |(written, _)| *written);
            let waiting = self.waiting.last_key_value();
            if waiting.is_none_or(|((last, _), _)| *last < newest) && !self.unread.is_empty() {
                self.read_more();
                continue;
            }
            let ((_, name), entry) = self.waiting.pop_last()?;
            let entry = match entry {
                Some(entry) => {
                    self.kept -= 1;
                    Some(*entry)
                }
                None => self.look(&name.0).ok().flatten(),
            };
            if entry.is_some() {
                return entry;
            }
        }
    }
}

/// When the files of a session were last written, at the latest. One that can't be looked at comes first.
fn written(dir: &Path) -> u64 {
    let newest = || -> io::Result<u64> {
        let mut newest = 0;
        for (_, path) in segments(dir)? {
            let modified = path.metadata()?.modified()?.duration_since(UNIX_EPOCH);
            newest = newest.max(modified.map_or(0, |since| since.as_nanos() as u64));
        }
        Ok(newest.saturating_add(ROUNDED_NS))
    };
    newest().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
