//! Where progress is stored: beside the trace, or in a state directory if the trace is read-only.
//!
//! In a state directory every cursor and dead letter names its segment by a digest of the segment's
//! header line, which contains the writer, a random number, the time and the segment's number. The path
//! of a root doesn't identify it: it may be mounted elsewhere tomorrow, and another root in its place. A
//! cursor of another segment is ignored, so that its spans are sent from the beginning and never skipped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::cursor::Cursor;
use super::dead_letters::{self, DeadLetters};
use super::ownership::MirrorLock;
use crate::error::Error;
use crate::trace::{RawLine, first_line, hex_digest, make_dir, open_private, segment_name};

/// The directory of all progress.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// `None` for beside the trace.
    dir: Option<PathBuf>,
}

/// The cursor and the dead letters of one segment, as files.
#[derive(Clone, Debug)]
pub(super) struct SegmentFiles {
    dir: PathBuf,
    /// The identity of the segment, in a state directory.
    pub identity: Option<String>,
}

impl SegmentFiles {
    /// Files beside the trace.
    pub fn beside(session: &Path) -> Self {
        Self {
            dir: session.to_owned(),
            identity: None,
        }
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let path = self.dir.join(name);
        let opened = open_private(&path, OpenOptions::new().read(true));
        opened.map_err(|error| self.named(&path, error))
    }

    /// Opens a file and writes to it. A session's own directory is not created again: it was removed with
    /// the session.
    pub fn write(
        &self,
        name: &str,
        options: &mut OpenOptions,
        write: impl FnOnce(File) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.dir.join(name);
        let opened = match open_private(&path, options.create(true)) {
            Err(error) if self.identity.is_some() && error.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.dir).and_then(|()| open_private(&path, options))
            }
            opened => opened,
        };
        let written = opened.and_then(write);
        written.map_err(|error| self.named(&path, error))
    }

    /// Adds the path where it is not the session's, which callers add.
    fn named(&self, path: &Path, error: io::Error) -> io::Error {
        match &self.identity {
            Some(_) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
            None => error,
        }
    }
}

impl State {
    pub fn in_dir(dir: PathBuf) -> Self {
        Self { dir: Some(dir) }
    }

    pub fn is_separate(&self) -> bool {
        self.dir.is_some()
    }

    /// The lock of the process that sends from a root with this state.
    pub fn lock(&self, root: &Path) -> PathBuf {
        MirrorLock::path(self.dir.as_deref().unwrap_or(root))
    }

    /// Whether this can be the state of a root.
    pub fn check(&self, root: &Path) -> Result<(), Error> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        let refused = |why| {
            let dir = dir.clone();
            Err(Error::MirrorState { dir, why })
        };
        let (own, root) = (real(dir), real(root));
        // A root may be mounted in several places.
        let same = |dir: &Path| match (dir.metadata(), root.metadata()) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => dir == root,
        };
        if own.ancestors().any(same) || root.starts_with(own.join("sessions")) {
            return refused("it is inside the root");
        }
        if ["writers", "redaction.key"]
            .iter()
            .any(|name| own.join(name).exists())
        {
            return refused("it is a root");
        }
        if own.exists() && !own.is_dir() {
            return refused("it is not a directory");
        }
        Ok(())
    }

    /// Creates the directory after checking it.
    pub fn create(&self, root: &Path) -> Result<(), Error> {
        self.check(root)?;
        match &self.dir {
            Some(dir) => make_dir(dir).map_err(|source| Error::Io {
                path: dir.clone(),
                source,
            }),
            None => Ok(()),
        }
    }

    /// Where the progress of a segment is written.
    pub fn files(&self, session: &Path, seg: u32) -> io::Result<SegmentFiles> {
        let Some(dir) = &self.dir else {
            return Ok(SegmentFiles::beside(session));
        };
        let identity = identity(session, seg)?;
        let name = session.file_name().unwrap_or_default();
        Ok(SegmentFiles {
            dir: dir.join("sessions").join(name),
            identity: Some(identity),
        })
    }

    /// How far a segment was sent, by this state or beside the trace, and how long it is.
    pub fn cursor(&self, session: &Path, seg: u32) -> io::Result<(Cursor, u64)> {
        let beside = Cursor::read(&SegmentFiles::beside(session), seg);
        let own = match self.is_separate() {
            true => Cursor::read(&self.files(session, seg)?, seg),
            false => Cursor::default(),
        };
        // Read after the cursors: the segment may be written and sent in the meantime.
        let size = session.join(segment_name(seg)).metadata()?.len();
        let cursors = [beside, own].into_iter();
        // A cursor beyond the end belongs to another file of that name.
        let further = cursors
            .filter(|cursor| cursor.offset <= size)
            .max_by_key(|cursor| (cursor.offset, cursor.sent));
        Ok((further.unwrap_or_default(), size))
    }

    /// The dead letters of a segment, in this state and beside the trace.
    pub fn dead_letters(&self, session: &Path, seg: u32) -> io::Result<DeadLetters> {
        let beside = SegmentFiles::beside(session);
        match self.is_separate() {
            true => dead_letters::read(&beside, Some(&self.files(session, seg)?), seg),
            false => dead_letters::read(&beside, None, seg),
        }
    }
}

/// Identifies the segment that has this name now.
pub(super) fn identity(session: &Path, seg: u32) -> io::Result<String> {
    let digest = |line: &RawLine<'_>| hex_digest(&[line.as_bytes(), b"\n"].concat());
    let first = first_line(&session.join(segment_name(seg)), digest)?;
    // A segment without a line has nothing to send, so no progress is stored for it.
    Ok(first.map_or_else(String::new, |digest| digest[..32].to_owned()))
}

/// A path with all links resolved, even if it doesn't exist yet.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            part => real.push(part),
        }
        if let Ok(there) = real.canonicalize() {
            real = there;
        }
    }
    real
}
