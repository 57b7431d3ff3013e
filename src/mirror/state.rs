//! Where the mirror keeps how far it got: beside the trace, or in a directory of its own where the
//! trace can only be read.
//!
//! In a directory of its own every cursor and letter says which segment it is about, by a digest of
//! that segment's first line: who writes it, a number made by chance, when, and which one it is. A root
//! has no such mark, and its path is none: it is mounted elsewhere tomorrow, and another root, with a
//! session of the same name, in its place. What is said of another segment counts as not said: its
//! spans are sent from the beginning, never passed by.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::cursor::Cursor;
use super::dead::{self, Letters};
use super::others::MirrorLock;
use crate::error::Error;
use crate::ledger::{first_line, hex_digest, make_dir, open_private, segment_name};

/// Where it is kept how far the segments of a root were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// `None`: beside the trace.
    dir: Option<PathBuf>,
}

/// Where the cursor and the dead letters of one segment are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    dir: PathBuf,
    /// Which segment they are about, where its name alone doesn't say.
    pub of: Option<String>,
}

impl Place {
    /// Beside the trace.
    pub fn beside(session: &Path) -> Self {
        Self {
            dir: session.to_owned(),
            of: None,
        }
    }

    /// Opens a file to be read.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let path = self.dir.join(name);
        let opened = open_private(&path, OpenOptions::new().read(true));
        opened.map_err(|error| self.named(&path, error))
    }

    /// Opens a file and writes to it. A session's own directory is not made again: who removed that
    /// removed the session.
    pub fn write(
        &self,
        name: &str,
        options: &mut OpenOptions,
        write: impl FnOnce(File) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.dir.join(name);
        let opened = match open_private(&path, options.create(true)) {
            Err(error) if self.of.is_some() && error.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.dir).and_then(|()| open_private(&path, options))
            }
            opened => opened,
        };
        let written = opened.and_then(write);
        written.map_err(|error| self.named(&path, error))
    }

    /// Who asked names the session, which may be elsewhere.
    fn named(&self, path: &Path, error: io::Error) -> io::Error {
        match &self.of {
            Some(_) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
            None => error,
        }
    }
}

impl State {
    pub fn in_dir(dir: PathBuf) -> Self {
        Self { dir: Some(dir) }
    }

    pub fn is_apart(&self) -> bool {
        self.dir.is_some()
    }

    /// The lock of whoever sends from a root and keeps it here.
    pub fn lock(&self, root: &Path) -> PathBuf {
        MirrorLock::path(self.dir.as_deref().unwrap_or(root))
    }

    /// Whether this can be the state of that root.
    pub fn check(&self, root: &Path) -> Result<(), Error> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        let refused = |why| {
            let dir = dir.clone();
            Err(Error::MirrorState { dir, why })
        };
        let (own, root) = (real(dir), real(root));
        // One root can be mounted in several places.
        let same = |dir: &Path| match (dir.metadata(), root.metadata()) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => dir == root,
        };
        if own.ancestors().any(same) || root.starts_with(own.join("sessions")) {
            return refused("it is in the root, which is only read");
        }
        if ["writers", "redaction.key"]
            .iter()
            .any(|name| own.join(name).exists())
        {
            return refused("it is a root itself");
        }
        if own.exists() && !own.is_dir() {
            return refused("it is no directory");
        }
        Ok(())
    }

    /// Makes its directory, once it is known that it can be.
    pub fn make(&self, root: &Path) -> Result<(), Error> {
        self.check(root)?;
        match &self.dir {
            Some(dir) => make_dir(dir).map_err(|source| Error::Io {
                path: dir.clone(),
                source,
            }),
            None => Ok(()),
        }
    }

    /// Where the cursor and the dead letters of a segment are to be written.
    pub fn place(&self, session: &Path, seg: u32) -> io::Result<Place> {
        let Some(dir) = &self.dir else {
            return Ok(Place::beside(session));
        };
        let of = identity(session, seg)?;
        let name = session.file_name().unwrap_or_default();
        Ok(Place {
            dir: dir.join("sessions").join(name),
            of: Some(of),
        })
    }

    /// How far a segment was sent, by whoever got further, and how long it is.
    pub fn cursor(&self, session: &Path, seg: u32) -> io::Result<(Cursor, u64)> {
        let beside = Cursor::read(&Place::beside(session), seg);
        let own = match self.is_apart() {
            true => Cursor::read(&self.place(session, seg)?, seg),
            false => Cursor::default(),
        };
        // After the cursors: somebody may write to it and send it meanwhile.
        let size = session.join(segment_name(seg)).metadata()?.len();
        let cursors = [beside, own].into_iter();
        // A cursor beyond the end is of another file of that name.
        let further = cursors
            .filter(|cursor| cursor.offset <= size)
            .max_by_key(|cursor| (cursor.offset, cursor.sent));
        Ok((further.unwrap_or_default(), size))
    }

    /// The dead letters of a segment, noted here or beside the trace.
    pub fn letters(&self, session: &Path, seg: u32) -> io::Result<Letters> {
        let beside = Place::beside(session);
        match self.is_apart() {
            true => dead::read(&beside, Some(&self.place(session, seg)?), seg),
            false => dead::read(&beside, None, seg),
        }
    }
}

/// Which segment has this name now.
pub(super) fn identity(session: &Path, seg: u32) -> io::Result<String> {
    let first = first_line(&session.join(segment_name(seg)))?;
    // One without a line has nothing that could be sent, so nothing is ever said of it.
    Ok(first.map_or_else(String::new, |line| hex_digest(&line)[..32].to_owned()))
}

/// Where a path really leads, also one that isn't there yet.
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
