//! The segments of other processes: whose they are, and the one that sends them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::origin::{NotAnOrigin, Origin};
use crate::ledger::{Root, close_in_child, keep_in_child, open_private, segments, writer_is_alive};
use crate::reader::{Found, SegmentReader};
use crate::session::Unreadable;

/// A segment whose first line isn't whole says nothing of its writer. If it is younger than this,
/// its writer may be about to write it.
const YOUNG: Duration = Duration::from_secs(60);

/// Held by the one process that sends what others recorded.
#[derive(Debug)]
pub(super) struct MirrorLock(Option<File>);

impl MirrorLock {
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("mirror.lock")
    }

    /// Takes it, unless another process has it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let file = open_private(path, options)?;
        // Before it is locked: a fork in between must not take the lock along.
        close_in_child(file.as_raw_fd());
        let lock = Self(Some(file));
        match lock.0.as_ref().map_or(Ok(()), File::try_lock) {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for MirrorLock {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            keep_in_child(file.as_raw_fd());
        }
    }
}

/// Whose a segment is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Its writer lives: that process's.
    Living,
    /// Its writer lives and has nobody to send to: the command's, as far as it is written.
    Untended,
    /// Recorded for another endpoint, or in a way that isn't known here.
    Elsewhere,
    /// Recorded for the endpoint that was asked about, or for nobody.
    Ours,
    /// Its writer died before it had a line.
    Nobodys,
}

/// Tells whose segments are. Remembers for its life which writers lived.
pub(super) struct Sorter<'a> {
    root: &'a Root,
    /// Sends what was recorded for this endpoint; for any where `None`.
    endpoint: Option<&'a str>,
    alive: HashMap<String, bool>,
}

/// What a segment's first line says.
pub(super) struct First {
    pub session_id: String,
    pub writer: String,
    origin: Result<Origin, NotAnOrigin>,
}

impl First {
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut reader = SegmentReader::open(path)?;
        while let Some(found) = reader.next()? {
            if let Found::Line(line) = found {
                let writer = line.payload().get("writer").and_then(|value| value.text());
                return Ok(Some(Self {
                    session_id: line.session_id.to_string(),
                    writer: writer.unwrap_or_default().into_owned(),
                    origin: Origin::parse(&line),
                }));
            }
        }
        Ok(None)
    }

    fn is_for_nobody(&self) -> bool {
        let origin = self.origin.as_ref();
        origin.is_ok_and(|origin| origin.policy().endpoint.is_none())
    }
}

impl<'a> Sorter<'a> {
    pub fn new(root: &'a Root, endpoint: Option<&'a str>) -> Self {
        Self {
            root,
            endpoint,
            alive: HashMap::new(),
        }
    }

    /// Whether a segment was recorded for the endpoint that was asked about, or for nobody.
    pub fn meant(&self, path: &Path) -> io::Result<bool> {
        Ok(First::read(path)?.is_some_and(|first| self.is_meant(&first)))
    }

    fn is_meant(&self, first: &First) -> bool {
        match (&first.origin, self.endpoint) {
            (Err(_), _) => false,
            (Ok(origin), Some(wanted)) => {
                let recorded = origin.policy().endpoint.as_deref();
                recorded.is_none_or(|recorded| recorded == wanted)
            }
            (Ok(_), None) => true,
        }
    }

    pub fn lives(&mut self, writer: &str) -> bool {
        if let Some(lives) = self.alive.get(writer) {
            return *lives;
        }
        let lives = writer_is_alive(self.root, writer);
        self.alive.insert(writer.to_owned(), lives);
        lives
    }

    pub fn whose(&mut self, path: &Path) -> io::Result<(Whose, Option<First>)> {
        let Some(first) = First::read(path)? else {
            let age = path.metadata()?.modified()?.elapsed();
            let young = age.is_ok_and(|age| age < YOUNG);
            let whose = if young { Whose::Living } else { Whose::Nobodys };
            return Ok((whose, None));
        };
        let lives = self.lives(&first.writer);
        let whose = match (lives, self.is_meant(&first)) {
            (true, _) if first.is_for_nobody() => Whose::Untended,
            (true, _) => Whose::Living,
            (false, true) => Whose::Ours,
            (false, false) => Whose::Elsewhere,
        };
        Ok((whose, Some(first)))
    }
}

/// What is there; `None` where somebody removed it meanwhile.
pub(super) fn found<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

/// Whether a session can't be read, and why.
pub(super) fn unreadable(dir: &Path) -> Option<Unreadable> {
    let read = || -> io::Result<()> {
        for (_, path) in segments(dir)? {
            // Whether a file can be read is known when some of it was.
            let _some = File::open(path)?.read(&mut [0])?;
        }
        Ok(())
    };
    found(read()).err().map(|error| Unreadable {
        dir: dir.to_owned(),
        why: error.to_string(),
    })
}
