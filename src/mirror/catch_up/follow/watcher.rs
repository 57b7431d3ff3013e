//! Watches segments of live writers that have no endpoint, to send what they write.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::mirror::progress::ownership::{Owner, Ownership};
use crate::session::Store;
use crate::trace::{Root, if_exists, segment_name, segments};

/// A directory that changed within this time before it was listed may change again without a new
/// modification time.
const TIME_RESOLUTION: Duration = Duration::from_secs(2);

/// Each check reads the modification time of each session's directory and the size of each watched
/// segment. Header lines are read only where a directory has changed or a segment has grown.
#[derive(Debug)]
pub(crate) struct Watcher {
    root: Root,
    /// Only this session, by its directory.
    session: Option<PathBuf>,
    sessions: HashMap<PathBuf, WatchedSession>,
}

#[derive(Debug, Default)]
struct WatchedSession {
    /// The modification time of its directory, if a later change would change it.
    modified: Option<SystemTime>,
    segments: Vec<WatchedSegment>,
}

#[derive(Debug)]
struct WatchedSegment {
    number: u32,
    size: u64,
    /// `None` while it has no header line.
    writer: Option<String>,
}

impl Watcher {
    pub fn new(store: &Store, session: Option<PathBuf>) -> Self {
        Self {
            root: Root::new(store.root().to_owned()),
            session,
            sessions: HashMap::new(),
        }
    }

    /// The sessions that have more to send than at the last check.
    pub fn check(&mut self, store: &Store) -> Result<Vec<PathBuf>, Error> {
        let dirs = match &self.session {
            Some(dir) => vec![dir.clone()],
            None => store.dirs().map_err(Error::at(store.root()))?,
        };
        let mut before = std::mem::take(&mut self.sessions);
        let mut ownership = Ownership::new(&self.root, None);
        let mut grown = Vec::new();
        for dir in dirs {
            let mut session = before.remove(&dir).unwrap_or_default();
            // A removed session has nothing to send; catching up reports those that can't be read.
            if session.check(&dir, &mut ownership).unwrap_or(false) {
                grown.push(dir.clone());
            }
            self.sessions.insert(dir, session);
        }
        Ok(grown)
    }

    /// The sessions that have such segments.
    pub fn sessions(&self) -> impl Iterator<Item = &Path> {
        let sessions = self.sessions.iter();
        let watched = sessions.filter(|(_, session)| !session.segments.is_empty());
        watched.map(|(dir, _)| dir.as_path())
    }
}

impl WatchedSession {
    /// Whether any of its segments has grown.
    fn check(&mut self, dir: &Path, ownership: &mut Ownership<'_>) -> io::Result<bool> {
        let modified = dir.metadata()?.modified()?;
        if self.modified != Some(modified) {
            let is_settled = modified + TIME_RESOLUTION < SystemTime::now();
            self.add_segments(dir)?;
            self.modified = is_settled.then_some(modified);
        }
        let mut grown = false;
        for at in (0..self.segments.len()).rev() {
            match if_exists(self.segments[at].check(dir, ownership))? {
                Some(Change::None) => {}
                Some(Change::Grown) => grown = true,
                Some(Change::Ended) | None => drop(self.segments.remove(at)),
            }
        }
        Ok(grown)
    }

    /// Adds the segments that may be new. Known numbers are no proof: a session that was removed and
    /// started again has the same ones.
    fn add_segments(&mut self, dir: &Path) -> io::Result<()> {
        for (number, _) in segments(dir)? {
            if self.segments.iter().all(|known| known.number != number) {
                self.segments.push(WatchedSegment {
                    number,
                    size: 0,
                    writer: None,
                });
            }
        }
        Ok(())
    }
}

/// What happened to a segment.
enum Change {
    None,
    Grown,
    /// Its writer is dead, or another process sends it.
    Ended,
}

impl WatchedSegment {
    fn check(&mut self, dir: &Path, ownership: &mut Ownership<'_>) -> io::Result<Change> {
        let path = dir.join(segment_name(self.number));
        let size = path.metadata()?.len();
        // A smaller file is another segment of the same name.
        if size != std::mem::replace(&mut self.size, size) {
            let (owner, header) = ownership.owner_of(&path)?;
            self.writer = header.map(|header| header.writer);
            return Ok(match owner {
                Owner::LiveUnassigned => Change::Grown,
                _ if self.writer.is_none() => Change::None,
                _ => Change::Ended,
            });
        }
        match &self.writer {
            Some(writer) if !ownership.is_alive(writer) => Ok(Change::Ended),
            _ => Ok(Change::None),
        }
    }
}
