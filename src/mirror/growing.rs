//! The segments of living writers that were recorded for nobody: which of them have grown.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::others::{Sorter, Whose, found};
use crate::error::Error;
use crate::ledger::{Root, segment_name, segments};
use crate::session::Store;

/// A directory that had changed within this time before it was listed may have changed again without
/// its time telling.
const TICK: Duration = Duration::from_secs(2);

/// Costs a look at the time of each session's directory and at the size of each such segment. Only
/// where a directory has changed or a segment has grown are first lines read.
#[derive(Debug)]
pub(crate) struct Growing {
    root: Root,
    /// Only this one, by its directory.
    session: Option<PathBuf>,
    known: HashMap<PathBuf, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// When its directory had changed last, if that tells whether it has changed since.
    changed: Option<SystemTime>,
    /// Those that may grow, and that nobody else sends.
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    number: u32,
    size: u64,
    /// `None` while it has no line that says.
    writer: Option<String>,
}

impl Growing {
    pub fn new(store: &Store, session: Option<PathBuf>) -> Self {
        Self {
            root: Root::new(store.root().to_owned()),
            session,
            known: HashMap::new(),
        }
    }

    /// The sessions that have more to send than at the last look.
    pub fn look(&mut self, store: &Store) -> Result<Vec<PathBuf>, Error> {
        let failed = |path: &Path, source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let dirs = match &self.session {
            Some(dir) => vec![dir.clone()],
            None => store.dirs().map_err(|error| failed(store.root(), error))?,
        };
        let mut before = std::mem::take(&mut self.known);
        let mut sorter = Sorter::new(&self.root, None);
        let mut grown = Vec::new();
        for dir in dirs {
            let mut session = before.remove(&dir).unwrap_or_default();
            // Removed meanwhile, it has nothing to send; one that can't be read is a pass's to tell of.
            if session.look(&dir, &mut sorter).unwrap_or(false) {
                grown.push(dir.clone());
            }
            self.known.insert(dir, session);
        }
        Ok(grown)
    }

    /// The sessions that have such segments.
    pub fn sessions(&self) -> impl Iterator<Item = &Path> {
        let sessions = self.known.iter();
        let growing = sessions.filter(|(_, session)| !session.segments.is_empty());
        growing.map(|(dir, _)| dir.as_path())
    }
}

impl Session {
    /// Whether any of its segments has grown.
    fn look(&mut self, dir: &Path, sorter: &mut Sorter<'_>) -> io::Result<bool> {
        let changed = dir.metadata()?.modified()?;
        if self.changed != Some(changed) {
            let settled = changed + TICK < SystemTime::now();
            self.take_in(dir)?;
            self.changed = settled.then_some(changed);
        }
        let mut grown = false;
        for at in (0..self.segments.len()).rev() {
            match found(self.segments[at].look(dir, sorter))? {
                Some(Look::Nothing) => {}
                Some(Look::Grown) => grown = true,
                Some(Look::NoMore) | None => drop(self.segments.remove(at)),
            }
        }
        Ok(grown)
    }

    /// Takes in the segments that may have come. Their numbers alone don't say: a session that was
    /// removed and begun again has the same ones.
    fn take_in(&mut self, dir: &Path) -> io::Result<()> {
        for (number, _) in segments(dir)? {
            if self.segments.iter().all(|known| known.number != number) {
                self.segments.push(Segment {
                    number,
                    size: 0,
                    writer: None,
                });
            }
        }
        Ok(())
    }
}

/// What became of a segment.
enum Look {
    Nothing,
    Grown,
    /// It is dead, or another's to send.
    NoMore,
}

impl Segment {
    fn look(&mut self, dir: &Path, sorter: &mut Sorter<'_>) -> io::Result<Look> {
        let path = dir.join(segment_name(self.number));
        let size = path.metadata()?.len();
        // One that has become smaller is another one by the same name.
        if size != std::mem::replace(&mut self.size, size) {
            let (whose, first) = sorter.whose(&path)?;
            self.writer = first.map(|first| first.writer);
            return Ok(match whose {
                Whose::Untended => Look::Grown,
                _ if self.writer.is_none() => Look::Nothing,
                _ => Look::NoMore,
            });
        }
        match &self.writer {
            Some(writer) if !sorter.lives(writer) => Ok(Look::NoMore),
            _ => Ok(Look::Nothing),
        }
    }
}
