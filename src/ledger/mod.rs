//! The local trace: the authority on what happened.
//!
//! ```text
//! <root>/                           $SPANLEDGER_DIR, else $XDG_STATE_HOME/spanledger,
//!                                   else ~/.local/state/spanledger
//!   writers/<writer id>             locked for as long as that process lives
//!   sessions/<session>/
//!     trace.0001.jsonl              a segment: the events of one writer, one JSON object a line
//!     trace.0001.cursor             how far the mirror got in it
//!     dead.0001.jsonl               what a backend refused of it for good, with the reason
//!     blobs/<sha256>                values too large for a line, stored once
//!     lock                          held briefly for recovery and removal
//!   sessions/.gone-…                a session that is being removed
//!   outbox/<session>.<segment>      present while the mirror still owes something of it
//!   mirror.lock                     held by the one process that sends what others recorded
//!   redaction.key                   keys the digests of what was masked
//! ```
//!
//! Directories are 0700, files 0600, all descriptors close-on-exec.
//!
//! **A segment has one writer for its whole life.** Each process takes a writer id, locks its
//! file under `writers/`, and creates a segment of its own in every session that it writes. So
//! nothing is ever taken over, no torn tail is ever repaired, and a session joined by two
//! processes just has two segments. A writer is dead when its lock can be had.
//!
//! Nothing here ever waits for anything but the local disk, and nothing here panics on what it
//! reads or is given.

mod blobs;
mod clock;
mod digested;
mod file_size;
mod files;
mod fork;
pub mod format;
mod gap;
mod health;
mod history;
mod key;
mod log;
#[cfg(feature = "metrics")]
mod meter;
mod nobody;
mod open_span;
mod outbox;
mod past;
mod process;
mod prune;
mod recovery;
mod root;
mod segment;
mod sessions;
mod sync;
mod trace;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value, json};

pub use format::{Line, NotALine, VERSION};
pub use health::Health;
#[cfg(feature = "metrics")]
pub use health::MetricsHealth;
#[cfg(feature = "mirror")]
pub use health::MirrorHealth;
pub use prune::{
    Removal, can_remove_session, can_remove_sessions, remove_leftovers, remove_session,
    remove_sessions,
};
pub use sync::Sync;

pub(crate) use blobs::NoStore;
#[cfg(feature = "mirror")]
pub(crate) use clock::wall_ns;
pub(crate) use clock::{Moment, parse_time, time_text};
pub(crate) use digested::Digested;
pub(crate) use fork::fork_generation;
#[cfg(feature = "mirror")]
pub(crate) use fork::{close_in_child, keep_in_child};
pub(crate) use format::event_kind;
pub(crate) use history::{End, Heard};
pub(crate) use log::{At, Note, SessionLog};
#[cfg(feature = "metrics")]
pub(crate) use meter::{Closed, Meter, Metering, Source};
#[cfg(feature = "mirror")]
pub(crate) use nobody::Nobody;
pub(crate) use open_span::OpenSpan;
pub(crate) use outbox::Live;
pub(crate) use outbox::Mirroring;
#[cfg(feature = "mirror")]
pub(crate) use outbox::{Outbox, marked, marker, unmark};
pub(crate) use past::kind_of;
pub(crate) use past::lines as whole_lines;
#[cfg(feature = "cli")]
pub(crate) use prune::dir_size;
#[cfg(feature = "cli")]
pub(crate) use recovery::lock_file;
#[cfg(feature = "mirror")]
pub(crate) use recovery::{first_line, left_open_in};
pub(crate) use root::{Root, hex_digest, segments};
#[cfg(feature = "mirror")]
pub(crate) use root::{make_dir, open_private, segment_name};
pub(crate) use trace::{Trace, TraceLimits};

use crate::event::{Cleaner, random_bytes};
use crate::redact::{Limits, MaskKey, PatternError, Redaction, Redactor, Tally};
use blobs::Blobs;
use files::OpenFiles;
use health::Counters;
use sessions::Sessions;
use sync::Syncer;
use writer::WriterLock;

pub(crate) use writer::is_alive as writer_is_alive;

/// Everything that is decided before the first line.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Nothing is recorded, and nothing on the disk is touched.
    pub disabled: bool,
    pub root: PathBuf,
    pub sync: Sync,
    pub limits: Limits,
    pub redaction: Redaction,
    pub resource: Map<String, Value>,
    /// Present where what is recorded is sent, too.
    pub mirroring: Option<Mirroring>,
    /// Present where spans are measured.
    #[cfg(feature = "metrics")]
    pub metering: Option<Metering>,
}

/// The ledger of a process. Survives a fork by starting anew in the child.
#[derive(Debug)]
pub(crate) struct Ledger {
    settings: Settings,
    counters: Arc<Counters>,
    core: AtomicPtr<Core>,
}

/// The state of one process: what a forked child must not touch any more.
pub(crate) struct Core {
    generation: u64,
    pub root: Root,
    pub sync: Sync,
    pub redactor: Redactor,
    pub limits: Limits,
    pub counters: Arc<Counters>,
    resource: Value,
    process: OnceLock<String>,
    writer: Mutex<Option<WriterLock>>,
    writer_id: OnceLock<String>,
    sessions: Mutex<Sessions<SessionLog>>,
    implicit: OnceLock<Arc<SessionLog>>,
    files: OpenFiles,
    syncer: OnceLock<Option<Arc<Syncer>>>,
    last_error: Mutex<Option<String>>,
    mirroring: Option<Mirroring>,
    #[cfg(feature = "mirror")]
    outbox: Arc<Outbox>,
    #[cfg(feature = "mirror")]
    mirror: OnceLock<()>,
    #[cfg(feature = "metrics")]
    metering: Option<Metering>,
    #[cfg(feature = "metrics")]
    meter: OnceLock<Arc<dyn Meter>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    pub fn new(settings: Settings) -> Result<Self, PatternError> {
        let counters = Arc::new(Counters::default());
        let core = Core::new(&settings, &counters)?;
        Ok(Self {
            settings,
            counters,
            core: AtomicPtr::new(Box::into_raw(Box::new(core))),
        })
    }

    /// The state of this very process.
    pub fn core(&self) -> &Core {
        // SAFETY: the pointer always comes from `Box::into_raw` and what it points at is freed
        // only when `self` is dropped, which the borrow of `self` rules out; a core that a fork
        // made obsolete is leaked.
        let core = unsafe { &*self.core.load(Ordering::Acquire) };
        if core.generation == fork_generation() {
            return core;
        }
        // The rules compiled once already; should they not now, the parent's serve (the masks
        // are the same, only its locks may be stuck).
        let Ok(fresh) = Core::new(&self.settings, &self.counters) else {
            return core;
        };
        let fresh = Box::into_raw(Box::new(fresh));
        let old = std::ptr::from_ref(core).cast_mut();
        match self
            .core
            .compare_exchange(old, fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: as above; the old one is leaked on purpose.
            Ok(_) => unsafe { &*fresh },
            Err(won) => {
                // SAFETY: `fresh` was never shared; `won` came from `Box::into_raw`.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*won
                }
            }
        }
    }

    /// The log of a session, by the id it was given.
    pub fn session(&self, id: &str) -> Arc<SessionLog> {
        self.core().session(id, None)
    }

    /// The log to write to in this process, where `log` may have come through a fork.
    pub fn here<'a>(&self, log: &'a Arc<SessionLog>) -> std::borrow::Cow<'a, Arc<SessionLog>> {
        if log.generation == fork_generation() {
            std::borrow::Cow::Borrowed(log)
        } else {
            std::borrow::Cow::Owned(self.core().session(&log.id, log.implicit))
        }
    }

    pub fn health(&self) -> Health {
        let last_error = self.core().last_error.lock();
        let last_error = last_error.unwrap_or_else(PoisonError::into_inner).clone();
        #[allow(unused_mut)]
        let mut health = self.counters.snapshot(last_error);
        #[cfg(feature = "mirror")]
        if self.settings.mirroring.is_some() {
            health.mirror = Some(self.core().outbox.health());
        }
        #[cfg(feature = "metrics")]
        if self.settings.metering.is_some() {
            let meter = self.core().meter.get();
            health.metrics = Some(meter.map(|meter| meter.health()).unwrap_or_default());
        }
        health
    }

    pub fn root(&self) -> &Path {
        &self.settings.root
    }

    pub fn is_disabled(&self) -> bool {
        self.settings.disabled
    }

    /// Tries once more to write what is owed, and syncs. How many events are still missing.
    pub fn flush(&self) -> (u64, std::io::Result<()>) {
        let core = self.core();
        let logs: Vec<_> = {
            let sessions = core.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.iter().cloned().collect()
        };
        let missing = logs.iter().map(|log| log.flush(core)).sum();
        let synced = match core.syncer.get() {
            Some(Some(syncer)) => syncer.sync_now(),
            _ => Ok(()),
        };
        (missing, synced)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let core = *self.core.get_mut();
        // SAFETY: made by `Box::into_raw`; nobody can borrow it any more.
        let core = unsafe { Box::from_raw(core) };
        if core.generation == fork_generation() {
            if let Some(Some(syncer)) = core.syncer.get() {
                syncer.stop();
            }
            #[cfg(feature = "mirror")]
            core.outbox.stop(std::time::Instant::now());
            // A log may be kept for longer, by a thread that remembers a span or by a context.
            let sessions = core.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.iter().for_each(|log| _ = log.close_file());
        } else {
            Box::leak(core);
        }
    }
}

impl Core {
    fn new(settings: &Settings, counters: &Arc<Counters>) -> Result<Self, PatternError> {
        let root = Root::new(settings.root.clone());
        // A root that can't be written yet has no key yet: masks then name one that is kept
        // nowhere, and recording starts all the same.
        let key = if settings.disabled {
            Ok(random_bytes())
        } else {
            key::load_or_make(&root)
        };
        let no_key = key
            .as_ref()
            .err()
            .map(|error| format!("redaction key: {error}"));
        let redactor = Redactor::new(
            &settings.redaction,
            MaskKey::new(key.unwrap_or_else(|_| random_bytes())),
        )?;
        if !settings.disabled {
            writer::sweep(&root);
        }
        let mut tally = Tally::default();
        let resource = clean_map(&redactor, &settings.limits, &settings.resource, &mut tally);
        let core = Self {
            generation: fork_generation(),
            root,
            sync: settings.sync,
            redactor,
            limits: settings.limits,
            counters: Arc::clone(counters),
            resource,
            process: OnceLock::new(),
            writer: Mutex::new(None),
            writer_id: OnceLock::new(),
            sessions: Mutex::new(Sessions::new()),
            implicit: OnceLock::new(),
            files: OpenFiles::new(),
            syncer: OnceLock::new(),
            last_error: Mutex::new(no_key),
            mirroring: settings.mirroring.clone(),
            #[cfg(feature = "mirror")]
            outbox: Arc::default(),
            #[cfg(feature = "mirror")]
            mirror: OnceLock::new(),
            #[cfg(feature = "metrics")]
            metering: settings.metering.clone(),
            #[cfg(feature = "metrics")]
            meter: OnceLock::new(),
        };
        core.count(tally);
        Ok(core)
    }

    fn session(&self, id: &str, implicit: Option<&'static str>) -> Arc<SessionLog> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let make = |again| SessionLog::new(id, self.root.session(id), implicit, again);
        sessions.get_or_make(id, SessionLog::is_idle, make)
    }

    /// A session that nobody named, for what belongs together without one.
    pub fn implicit_session(&self, why: &'static str) -> Arc<SessionLog> {
        self.session(&crate::event::new_session_id(), Some(why))
    }

    /// The one session of the process for what has nothing around it.
    pub fn process_session(&self) -> Arc<SessionLog> {
        Arc::clone(
            self.implicit
                .get_or_init(|| self.implicit_session("process")),
        )
    }

    /// Cleans fields for a session: masks, blobs in its directory, counts in health.
    pub fn clean<T>(&self, session: &Path, f: impl FnOnce(&mut Cleaner<'_>) -> T) -> T {
        let mut blobs = Blobs::new(session, self.sync == Sync::Always);
        let mut cleaner = Cleaner {
            redactor: &self.redactor,
            limits: &self.limits,
            store: &mut blobs,
            tally: Tally::default(),
        };
        let result = f(&mut cleaner);
        self.count(cleaner.tally);
        if let Some(error) = &blobs.error {
            self.note_error(error);
            self.counters.tell_once(error);
        }
        if !blobs.fresh.is_empty() && matches!(self.sync, Sync::Interval(_)) {
            let dirs: Vec<_> = blobs
                .fresh
                .iter()
                .filter_map(|p| p.parent().map(Path::to_owned))
                .collect();
            if let Some(syncer) = self.syncer() {
                syncer.blobs(std::mem::take(&mut blobs.fresh));
                dirs.iter().for_each(|dir| syncer.dir(dir));
            }
        }
        result
    }

    fn count(&self, tally: Tally) {
        if tally != Tally::default() {
            Counters::add(&self.counters.masked, tally.masked);
            Counters::add(&self.counters.cut, tally.cut);
        }
    }

    fn note_error(&self, error: &str) {
        let mut last = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(error.to_owned());
    }

    fn writer_id(&self) -> Option<String> {
        self.writer_id.get().cloned()
    }

    /// Takes the writer's lock, or takes it again where somebody removed its file.
    fn ensure_writer(&self) -> std::io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*writer {
            Some(lock) if lock.is_named() => Ok(()),
            _ => {
                let id = self.writer_id.get().map(String::as_str);
                // First let go of the old one: it takes the name away that the new one gets.
                *writer = None;
                let lock = WriterLock::take(&self.root, id)?;
                let _ = self.writer_id.set(lock.id.clone());
                *writer = Some(lock);
                Ok(())
            }
        }
    }

    /// The payload of a segment's first line.
    fn segment_head(
        &self,
        implicit: Option<&'static str>,
        policy: Option<&str>,
        counts_from: Option<u32>,
    ) -> Vec<u8> {
        let writer = json!(self.writer_id.get());
        let (version, process, resource) =
            (env!("CARGO_PKG_VERSION"), self.process(), &self.resource);
        let mut out = format!(
            "\"writer\":{writer},\"format\":{VERSION},\"spanledger\":\"{version}\",\"process\":{process},\
             \"resource\":{resource},\"scope\":{{\"name\":\"spanledger\",\"version\":\"{version}\"}},"
        );
        if let Some(policy) = policy {
            out.push_str(&format!("\"mirror\":{policy},"));
        }
        if let Some(why) = implicit {
            out.push_str(&format!("\"implicit\":\"{why}\","));
        }
        if let Some(seg) = counts_from {
            out.push_str(&format!("\"counts_from\":{seg},"));
        }
        out.into_bytes()
    }

    /// What is known of this process.
    pub fn process(&self) -> &str {
        self.process.get_or_init(|| {
            let mut tally = Tally::default();
            let process = process::describe(&self.redactor, &self.limits, &mut tally);
            self.count(tally);
            process.to_string()
        })
    }

    fn syncer(&self) -> Option<&Arc<Syncer>> {
        let Sync::Interval(every) = self.sync else {
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

    fn mark_dirty(&self, segment: &Path, live: Option<&Arc<Live>>) {
        if let Some(syncer) = self.syncer() {
            syncer.segment(segment, live);
        }
    }

    /// A directory was made or got a new entry.
    fn fresh_dir(&self, dir: &Path) {
        match self.sync {
            Sync::Os => {}
            Sync::Interval(_) => {
                if let Some(syncer) = self.syncer() {
                    syncer.dir(dir);
                }
            }
            Sync::Always => {
                if let Err(error) = sync::sync_dir(dir) {
                    self.note_error(&format!("sync {}: {error}", dir.display()));
                }
            }
        }
    }
}

/// The resource as it may be written.
fn clean_map(
    redactor: &Redactor,
    limits: &Limits,
    map: &Map<String, Value>,
    tally: &mut Tally,
) -> Value {
    let mut out = Vec::new();
    let json = serde_json::to_string(map).unwrap_or_default();
    let mut store = NoStore;
    match redactor.write_json("resource", &json, limits, &mut store, &mut out, tally) {
        Ok(()) => serde_json::from_slice(&out).unwrap_or(Value::Null),
        Err(_) => Value::Null,
    }
}
