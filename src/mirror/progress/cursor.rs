//! Where progress is stored: beside the trace, or in a state directory if the trace is read-only.
//!
//! In a state directory every cursor and dead letter names its segment by a digest of the segment's
//! header line, which contains the writer, a random number, the time and the segment's number. The path
//! of a root doesn't identify it: it may be mounted elsewhere tomorrow, and another root in its place. A
//! cursor of another segment is ignored, so that its spans are sent from the beginning and never skipped.
//!
//! A cursor moves only when the server has acknowledged everything before it. If it can't be read, the segment
//! is sent again from its beginning: delivery is at least once.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::Value;

use super::dead_letters::{self, DeadLetters};
use super::ownership::mirror_lock;
use crate::error::Error;
use crate::trace::{Dir, RawLine, first_line, hex_digest, make_root, open_private, segment_name};

/// Room for the two longest numbers and an identity in a cursor's file, so that a write always replaces the whole
/// content.
const WIDTH: usize = 128;

/// How far a segment has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Everything before this byte was accepted, or is in the dead letters.
    pub offset: u64,
    /// The spans accepted so far.
    pub sent: u64,
}

/// The directory of all progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressDir {
    /// `None` for beside the trace.
    dir: Option<PathBuf>,
}

/// The cursor and the dead letters of one segment, as files.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFiles {
    dir: PathBuf,
    /// The number of the segment.
    pub seg: u32,
    /// The identity of the segment, in a state directory.
    pub identity: Option<String>,
}

impl SegmentFiles {
    /// Files beside the trace.
    pub fn beside(session: &Path, seg: u32) -> Self {
        Self {
            dir: session.to_owned(),
            seg,
            identity: None,
        }
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let path = self.dir.join(name);
        let opened = open_private(&path, OFlags::RDONLY);
        opened.map_err(|error| self.named(&path, error))
    }

    /// Opens a file and writes to it. A session's own directory is not created again: it was removed with
    /// the session.
    pub fn write(
        &self,
        name: &str,
        flags: OFlags,
        write: impl FnOnce(File) -> io::Result<()>,
    ) -> io::Result<()> {
        let dir = match self.identity {
            Some(_) => Dir::make(&self.dir, 2),
            None => Dir::open(&self.dir, 2),
        };
        let opened = dir.and_then(|dir| dir.file(name, flags | OFlags::CREATE));
        let written = opened.and_then(write);
        written.map_err(|error| self.named(&self.dir.join(name), error))
    }

    fn cursor_name(&self) -> String {
        format!("trace.{:04}.cursor", self.seg)
    }

    /// The segment's cursor. One that is missing, invalid or of another segment is at the beginning.
    fn read_cursor(&self) -> Cursor {
        let read = || -> Option<Cursor> {
            let mut text = String::new();
            let file = self.open(&self.cursor_name()).ok()?;
            file.take(4096).read_to_string(&mut text).ok()?;
            let value: Value = serde_json::from_str(&text).ok()?;
            if value.get("segment").and_then(Value::as_str) != self.identity.as_deref() {
                return None;
            }
            Some(Cursor {
                offset: value.get("offset")?.as_u64()?,
                sent: value.get("sent")?.as_u64()?,
            })
        };
        read().unwrap_or_default()
    }

    /// Overwrites the cursor's file in place, in one write that fits into a sector. A new file per write would
    /// cost more than sending the spans.
    pub fn write_cursor(&self, Cursor { offset, sent }: Cursor) -> io::Result<()> {
        let of = self.identity.iter();
        let of: String = of.map(|of| format!(",\"segment\":\"{of}\"")).collect();
        let text = format!("{{\"v\":1,\"offset\":{offset},\"sent\":{sent}{of}}}");
        self.write(&self.cursor_name(), OFlags::WRONLY, |file| {
            file.write_all_at(format!("{text:<WIDTH$}\n").as_bytes(), 0)?;
            // A longer file was not written by us.
            match file.metadata()?.len() > WIDTH as u64 + 1 {
                true => file.set_len(WIDTH as u64 + 1),
                false => Ok(()),
            }
        })
    }

    /// Adds the path where it is not the session's, which callers add.
    fn named(&self, path: &Path, error: io::Error) -> io::Error {
        match &self.identity {
            Some(_) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
            None => error,
        }
    }
}

impl ProgressDir {
    pub fn in_dir(dir: PathBuf) -> Self {
        Self { dir: Some(dir) }
    }

    pub fn is_separate(&self) -> bool {
        self.dir.is_some()
    }

    /// The lock of the process that sends from a root with this state.
    pub fn lock(&self, root: &Path) -> PathBuf {
        mirror_lock(self.dir.as_deref().unwrap_or(root))
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
            Some(dir) => make_root(dir).map_err(Error::at(dir)),
            None => Ok(()),
        }
    }

    /// Where the progress of a segment is written.
    pub fn files(&self, session: &Path, seg: u32) -> io::Result<SegmentFiles> {
        let Some(dir) = &self.dir else {
            return Ok(SegmentFiles::beside(session, seg));
        };
        let identity = identity(session, seg)?;
        let name = session.file_name().unwrap_or_default();
        Ok(SegmentFiles {
            seg,
            dir: dir.join("sessions").join(name),
            identity: Some(identity),
        })
    }

    /// How far a segment was sent, by this state or beside the trace, and how long it is.
    pub fn cursor(&self, session: &Path, seg: u32) -> io::Result<(Cursor, u64)> {
        let beside = SegmentFiles::beside(session, seg).read_cursor();
        let own = match self.is_separate() {
            true => self.files(session, seg)?.read_cursor(),
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
        let own = self
            .is_separate()
            .then(|| self.files(session, seg))
            .transpose()?;
        dead_letters::read(&SegmentFiles::beside(session, seg), own.as_ref())
    }
}

/// Identifies the segment that has this name now.
pub(crate) fn identity(session: &Path, seg: u32) -> io::Result<String> {
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
