//! Watches segments of live writers that have no endpoint, to send what they write.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::mirror::progress::ownership::{Owner, Ownership};
use crate::session::Store;
use crate::trace::segments;

/// A directory that changed within this time before it was listed may change again without a new
/// modification time.
const TIME_RESOLUTION: Duration = Duration::from_secs(2);

/// Each check reads the modification time of each session's directory and the size of each watched
/// segment. Header lines are read only where a directory has changed or a segment has grown.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Only this session, by its directory.
    session: Option<PathBuf>,
    sessions: HashMap<PathBuf, WatchedSession>,
}

#[derive(Debug, Default)]
struct WatchedSession {
    /// The modification time of its directory, if a later change would change it.
    modified: Option<SystemTime>,
    /// The sizes of the segments that may grow.
    sizes: HashMap<PathBuf, u64>,
}

impl Watcher {
    pub fn new(session: Option<PathBuf>) -> Self {
        Self {
            session,
            sessions: HashMap::new(),
        }
    }

    /// Forgets what it knows: the next check reads the header lines of all segments.
    pub fn clear(&mut self) {
        self.sessions.clear();
    }

    /// The sessions that have more to send than at the last check.
    pub fn check(&mut self, store: &Store) -> Result<Vec<PathBuf>, Error> {
        let dirs = match &self.session {
            Some(dir) => vec![dir.clone()],
            None => store.dirs().map_err(Error::at(store.root()))?,
        };
        let mut before = std::mem::take(&mut self.sessions);
        let ownership = Ownership::new(store, None);
        let mut grown = Vec::new();
        for dir in dirs {
            let mut session = before.remove(&dir).unwrap_or_default();
            // A removed session has nothing to send; catching up reports those that can't be read.
            if session.check(&dir, &ownership).unwrap_or(false) {
                grown.push(dir.clone());
            }
            self.sessions.insert(dir, session);
        }
        Ok(grown)
    }
}

impl WatchedSession {
    /// Whether any of its segments has grown.
    fn check(&mut self, dir: &Path, ownership: &Ownership<'_>) -> io::Result<bool> {
        let modified = dir.metadata()?.modified()?;
        if self.modified != Some(modified) {
            let is_settled = modified + TIME_RESOLUTION < SystemTime::now();
            for (_, path) in segments(dir)? {
                self.sizes.entry(path).or_default();
            }
            self.modified = is_settled.then_some(modified);
        }
        let mut grown = false;
        let mut check = |path: &Path, size: &mut u64| -> io::Result<bool> {
            let before = std::mem::replace(size, path.metadata()?.len());
            // A smaller file is another segment of the same name.
            if *size == before {
                return Ok(true);
            }
            let (owner, header) = ownership.owner_of(path)?;
            let is_ours = owner == Owner::LiveUnassigned;
            grown |= is_ours;
            // Not again if its writer is dead, or another process sends it.
            Ok(is_ours || header.is_none())
        };
        self.sizes.retain(|path, size| {
            check(path, size).unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound)
        });
        Ok(grown)
    }
}
