//! Which process is responsible for sending a segment, and the lock of the process that sends those of
//! dead writers.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::ledger::{FileLock, may_get_header};
use crate::mirror::map::origin::HeaderError;
use crate::mirror::map::policy::Policy;
use crate::mirror::settings::resolve::Resolved;
use crate::session::{Store, Unreadable};
use crate::trace::typed::SegmentHeader;
use crate::trace::{FILE, Root, first_line, if_exists, open_private, segments};

/// The lock of the one process that sends the segments of others. The file holds its process id.
pub(crate) fn mirror_lock(dir: &Path) -> PathBuf {
    dir.join("mirror.lock")
}

/// Takes that lock, unless another process has it.
pub(crate) fn lock_mirror(path: &Path) -> io::Result<Option<FileLock>> {
    let lock = FileLock::try_new(open_private(path, FILE)?)?;
    if let Some(lock) = &lock {
        // Only error messages need it.
        let _ = lock.write(&format!("{}\n", std::process::id()));
    }
    Ok(lock)
}

/// The process that has that lock.
pub(crate) fn mirror_pid(path: &Path) -> Option<u32> {
    let file = open_private(path, OFlags::RDONLY).ok()?;
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
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

/// Finds the owners of segments.
pub(crate) struct Ownership<'a> {
    store: &'a Store,
    /// The endpoint that is sent to; any if `None`.
    to: Option<&'a Resolved>,
}

/// The first line of a segment.
pub(crate) struct Header {
    writer: String,
    /// The endpoint that was configured, without credentials.
    pub endpoint: Result<Option<String>, HeaderError>,
}

impl Header {
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        first_line(path, |line| {
            let header = SegmentHeader::of(line);
            let writer = header.as_ref().and_then(SegmentHeader::writer);
            let policy = match &header {
                Some(header) => Policy::of(header),
                None => Err(HeaderError::OtherKind(line.kind.to_string())),
            };
            Self {
                writer: writer.unwrap_or_default().into_owned(),
                endpoint: policy.map(|policy| policy.endpoint),
            }
        })
    }
}

impl<'a> Ownership<'a> {
    /// By the writers that are alive now.
    pub fn new(store: &'a Store, to: Option<&'a Resolved>) -> Self {
        store.forget_writers();
        Self { store, to }
    }

    pub fn root(&self) -> &'a Root {
        self.store.layout()
    }

    /// The owner of a segment whose writer is dead.
    pub fn after_writer(&self, header: &Header) -> Owner {
        match (&header.endpoint, self.to) {
            (Err(why), _) => Owner::OtherVersion(why.clone()),
            (Ok(Some(recorded)), Some(to)) if !to.is_same_server(recorded) => {
                Owner::OtherEndpoint(recorded.clone())
            }
            _ => Owner::ThisEndpoint,
        }
    }

    pub fn owner_of(&self, path: &Path) -> io::Result<(Owner, Option<Header>)> {
        let Some(header) = Header::read(path)? else {
            let owner = match may_get_header(path)? {
                true => Owner::LiveWriter,
                false => Owner::NoHeader,
            };
            return Ok((owner, None));
        };
        let owner = match self.store.is_alive(&header.writer) {
            true if header.endpoint == Ok(None) => Owner::LiveUnassigned,
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
