//! The ledger: durable append of lines to segments, and nothing else.
//!
//! ```text
//! <root>/                           $SPANLEDGER_DIR, else $XDG_STATE_HOME/spanledger,
//!                                   else ~/.local/state/spanledger
//!   writers/<writer id>             locked for as long as that process lives
//!   sessions/<session>/
//!     trace.0001.jsonl              a segment: the lines of one writer, one JSON object each
//!     trace.0001.cursor             how far the mirror got in it
//!     dead.0001.jsonl               what a backend refused of it for good, with the reason
//!     blobs/<sha256>                values too large for a line, stored once
//!     lock                          held briefly for recovery and removal
//!   sessions/.gone-…                a session that is being removed
//!   outbox/<session>.<segment>      present while something of the segment is left to send
//!   mirror.lock                     held by the one process that sends what others recorded
//!   redaction.key                   keys the digests of masked secrets
//! ```
//!
//! Directories are 0700, files 0600, all descriptors close-on-exec.
//!
//! **A segment has one writer for its whole life.** Each process takes a writer id, locks its
//! file under `writers/`, and creates a segment of its own in every session that it writes. So
//! no segment ever changes hands, and a session written by two processes has two segments. A writer
//! is dead when its lock is free. A child that is forked without an exec inherits the descriptor of the
//! lock: its parent looks alive until the child ends or execs, too.
//!
//! A `SessionWriter` appends the lines of one session. Ids, times and payloads are its caller's; so is
//! what has to be written again after a fault, by `SessionHooks`. Other parts of the process learn of lines and
//! spans through a `Listener`.
//!
//! Nothing here waits for anything but the local disk, or panics on what it reads.
//!
//! Not handled: a limit on the size of files (`RLIMIT_FSIZE`) below the size of a segment.

mod blobs;
mod dead_spans;
mod fd_cache;
mod file_lock;
mod gap;
mod health;
mod listener;
mod marker;
mod noop_subscriber;
mod prune;
mod recovery;
mod segment;
mod segment_io;
mod session_writer;
mod sync;
mod writer_lock;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use rustix::io::Errno;
use serde_json::Value;

pub use prune::{
    Removal, can_remove_session, can_remove_sessions, remove_leftovers, remove_session,
    remove_sessions,
};
pub use sync::SyncPolicy;

pub(crate) use dead_spans::{SegmentEnd, is_written, may_get_header, segment_end};
pub(crate) use file_lock::FileLock;
pub(crate) use health::{Counters, FORKED, warn_once};
pub(crate) use listener::{ClosedSpan, Listener, SegmentListener};
pub(crate) use marker::{mark, marked, marker, unmark};
pub(crate) use noop_subscriber::NoopSubscriber;
pub(crate) use prune::dir_size;
pub(crate) use recovery::{close_left_open, left_open_in, lock_file};
pub(crate) use segment::SharedSegment;
pub(crate) use segment_io::{Disk, Storage};
pub(crate) use session_writer::{Appended, Context, SessionHooks, SessionWriter};
pub(crate) use writer_lock::is_alive as writer_is_alive;

pub(crate) use crate::trace::{LineMeta, SessionHeader};
use crate::trace::{Root, fork_generation, lock};
use fd_cache::FdCache;
use sync::Syncer;
use writer_lock::WriterLock;

/// The description of this process, as JSON, made when it is first needed.
pub(crate) type ProcessJson = LazyLock<String, Box<dyn FnOnce() -> String + Send>>;

/// The settings of a ledger, and the parts that it is given.
#[derive(Clone, Debug)]
pub(crate) struct LedgerConfig {
    pub root: PathBuf,
    pub sync: SyncPolicy,
    /// A session continues in another segment when one is this long.
    pub segment_size: u64,
    pub process: Arc<ProcessJson>,
    /// The OpenTelemetry resource, as an object.
    pub resource: Arc<Value>,
    /// The `mirror` member of the headers, as JSON: where the trace is sent.
    pub policy: Option<Arc<str>>,
    /// The `digest_salt` member of the headers.
    pub digest_salt: Arc<str>,
    pub listeners: Vec<Arc<dyn Listener>>,
    pub storage: Arc<dyn Storage>,
    pub counters: Arc<Counters>,
}

impl LedgerConfig {
    /// The settings of a ledger that closes what dead writers left open.
    pub fn for_recovery(&self) -> Self {
        Self {
            listeners: Vec::new(),
            counters: Arc::default(),
            ..self.clone()
        }
    }
}

/// What the [`SessionWriter`]s of a process share. A child that is forked without an exec does not write with
/// it.
#[derive(Debug)]
pub(crate) struct Ledger {
    config: LedgerConfig,
    root: Root,
    generation: u64,
    writer: Mutex<Option<WriterLock>>,
    writer_id: OnceLock<String>,
    fd_cache: FdCache,
    syncer: OnceLock<Option<Arc<Syncer>>>,
}

impl Ledger {
    /// Nothing on the disk is touched yet.
    pub fn new(config: LedgerConfig) -> Self {
        Self {
            root: Root::new(config.root.clone()),
            config,
            generation: fork_generation(),
            writer: Mutex::new(None),
            writer_id: OnceLock::new(),
            fd_cache: FdCache::new(),
            syncer: OnceLock::new(),
        }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.config.counters
    }

    /// They are called for lines and closed spans.
    pub fn listeners(&self) -> &[Arc<dyn Listener>] {
        &self.config.listeners
    }

    /// Whether this process was forked from the one that made the ledger. It must not wait for any lock:
    /// a thread that is not in this process may have held it.
    pub fn is_forked(&self) -> bool {
        self.generation != fork_generation()
    }

    /// The same, before a line is recorded: counts the line as lost, and warns once.
    pub fn refuses_fork(&self) -> bool {
        let forked = self.is_forked();
        if forked {
            self.counters().count_forked();
        }
        forked
    }

    /// Removes the lock files of dead writers.
    pub fn remove_dead_writers(&self) {
        writer_lock::sweep(&self.root);
    }

    /// Syncs the lines and blobs that are not synced yet.
    pub fn sync_now(&self) -> std::io::Result<()> {
        match self.syncer.get() {
            Some(Some(syncer)) => syncer.sync_now(),
            _ => Ok(()),
        }
    }

    /// Closes a few descriptors if the process has none left. Whether it is worth trying again.
    pub fn free_descriptors(&self, error: &std::io::Error) -> bool {
        is_out_of_files(error) && self.fd_cache.close_some()
    }

    /// Opens a file, and tries once more after closing others if no descriptor was left.
    fn retry_open<T>(&self, open: impl Fn() -> std::io::Result<T>) -> std::io::Result<T> {
        match open() {
            Err(error) if self.free_descriptors(&error) => open(),
            opened => opened,
        }
    }

    fn note_error(&self, error: &str) {
        self.counters().note_error(error);
    }

    pub(crate) fn writer_id(&self) -> Option<&str> {
        self.writer_id.get().map(String::as_str)
    }

    /// Locks the writer's file, if it is not locked. Returns the writer's id.
    pub fn lock_writer(&self) -> std::io::Result<&str> {
        self.ensure_writer()?;
        Ok(self.writer_id().unwrap_or_default())
    }

    /// Takes the writer's lock, or takes it again where its file was removed.
    fn ensure_writer(&self) -> std::io::Result<()> {
        let mut writer = lock(&self.writer);
        match &*writer {
            Some(lock) if lock.is_named() => Ok(()),
            _ => {
                // First drop the old one: that removes the name which the new one gets.
                *writer = None;
                let lock = WriterLock::take(&self.root, self.writer_id())?;
                let _ = self.writer_id.set(lock.id.clone());
                *writer = Some(lock);
                Ok(())
            }
        }
    }

    fn syncer(&self) -> Option<&Arc<Syncer>> {
        let SyncPolicy::Interval(every) = self.config.sync else {
            return None;
        };
        let started = self.syncer.get_or_init(|| match Syncer::start(every) {
            Ok(syncer) => Some(syncer),
            Err(error) => {
                self.note_error(&format!("start the sync thread: {error}"));
                None
            }
        });
        started.as_ref()
    }

    /// A directory was made or got a new entry.
    fn sync_new_entry(&self, dir: &Path) {
        match self.config.sync {
            SyncPolicy::Os => {}
            SyncPolicy::Interval(_) => {
                if let Some(syncer) = self.syncer() {
                    syncer.dir(dir);
                }
            }
            SyncPolicy::Always => {
                if let Err(error) = sync::sync_dir(dir) {
                    self.note_error(&format!("sync {}: {error}", dir.display()));
                }
            }
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if !self.is_forked()
            && let Some(Some(syncer)) = self.syncer.get()
        {
            syncer.stop();
        }
    }
}

/// Whether the process, or the system, has no descriptor left.
pub(crate) fn is_out_of_files(error: &std::io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}
