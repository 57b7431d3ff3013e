//! Which process is responsible for sending a segment, and the lock of the process that sends those of
//! dead writers.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::ledger::{FileLock, writer_is_alive};
use crate::mirror::map::origin::{HeaderError, Origin};
use crate::mirror::settings::resolve::Resolved;
use crate::session::Unreadable;
use crate::trace::typed::SegmentHeader;
use crate::trace::{FILE, Root, first_line, if_exists, open_private, segments};

/// A segment without a complete header line doesn't name its writer. If it is younger than this, the
/// writer may be about to write the header.
const YOUNG: Duration = Duration::from_secs(60);

/// Held by the one process that sends the segments of others. The file holds its process id.
#[derive(Debug)]
pub(crate) struct MirrorLock {
    _lock: FileLock,
}

impl MirrorLock {
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("mirror.lock")
    }

    /// Takes the lock, unless another process has it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let lock = FileLock::try_new(open_private(path, FILE)?)?;
        if let Some(lock) = &lock {
            // Only error messages need it.
            let _ = lock.write(&format!("{}\n", std::process::id()));
        }
        Ok(lock.map(|_lock| Self { _lock }))
    }

    /// The process that has the lock.
    pub fn holder(path: &Path) -> Option<u32> {
        let file = open_private(path, OFlags::RDONLY).ok()?;
        let mut text = String::new();
        file.take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

/// Who is responsible for sending a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Its writer, which is alive.
    LiveWriter,
    /// Its writer is alive and has no endpoint: `spanledger mirror` sends what is written so far.
    LiveUnassigned,
    /// It was recorded for this other endpoint.
    OtherEndpoint(String),
    /// It was recorded by a version whose spans this one can't make.
    OtherVersion(HeaderError),
    /// It was recorded for this endpoint or for none, by a writer that is dead.
    ThisEndpoint,
    /// Its writer died before it wrote a line.
    NoHeader,
}

/// Finds the owners of segments. Caches which writers are alive.
pub(crate) struct Ownership<'a> {
    root: &'a Root,
    /// The endpoint that is sent to; any if `None`.
    to: Option<&'a Resolved>,
    alive: HashMap<String, bool>,
}

/// The first line of a segment.
pub(crate) struct Header {
    pub session_id: String,
    pub writer: String,
    origin: Result<Origin, HeaderError>,
}

impl Header {
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        first_line(path, |line| {
            let writer = SegmentHeader::of(line).and_then(|header| header.writer());
            Self {
                session_id: line.session_id.to_string(),
                writer: writer.unwrap_or_default().into_owned(),
                origin: Origin::parse(line),
            }
        })
    }

    /// The endpoint that was configured, without credentials.
    pub fn endpoint(&self) -> Result<Option<&str>, &HeaderError> {
        let origin = self.origin.as_ref()?;
        Ok(origin.policy().endpoint.as_deref())
    }
}

impl<'a> Ownership<'a> {
    pub fn new(root: &'a Root, to: Option<&'a Resolved>) -> Self {
        Self {
            root,
            to,
            alive: HashMap::new(),
        }
    }

    /// The owner of a segment whose writer is dead.
    pub fn after_writer(&self, header: &Header) -> Owner {
        match (header.endpoint(), self.to) {
            (Err(why), _) => Owner::OtherVersion(why.clone()),
            (Ok(Some(recorded)), Some(to)) if !to.is_same_server(recorded) => {
                Owner::OtherEndpoint(recorded.to_owned())
            }
            _ => Owner::ThisEndpoint,
        }
    }

    pub fn is_alive(&mut self, writer: &str) -> bool {
        if let Some(alive) = self.alive.get(writer) {
            return *alive;
        }
        let alive = writer_is_alive(self.root, writer);
        self.alive.insert(writer.to_owned(), alive);
        alive
    }

    pub fn owner_of(&mut self, path: &Path) -> io::Result<(Owner, Option<Header>)> {
        let Some(header) = Header::read(path)? else {
            let age = path.metadata()?.modified()?.elapsed();
            let owner = match age.is_ok_and(|age| age < YOUNG) {
                true => Owner::LiveWriter,
                false => Owner::NoHeader,
            };
            return Ok((owner, None));
        };
        let owner = match self.is_alive(&header.writer) {
            true if header.endpoint() == Ok(None) => Owner::LiveUnassigned,
            true => Owner::LiveWriter,
            false => self.after_writer(&header),
        };
        Ok((owner, Some(header)))
    }
}

/// Why a session can't be read, if it can't.
pub(crate) fn unreadable(dir: &Path) -> Option<Unreadable> {
    let read = || -> io::Result<()> {
        for (_, path) in segments(dir)? {
            // Some files can be opened and not be read.
            let _ = File::open(path)?.read(&mut [0])?;
        }
        Ok(())
    };
    if_exists(read()).err().map(|error| Unreadable {
        dir: dir.to_owned(),
        why: error.to_string(),
    })
}
