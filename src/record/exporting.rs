//! The thread that keeps exports current while the agent runs.
//!
//! It looks at the sizes of the segments that this process writes, so a line costs the agent's thread
//! nothing more with an export than without.
//!
//! Each segment has a marker until it is exported, so that the next process with the same exports goes on
//! where a killed one stopped.

mod markers;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::export::{Export, Live};
use crate::ledger::{
    LedgerConfig, Listener, NoopSubscriber, SegmentListener, SharedSegment, close_left_open,
    warn_once,
};
use crate::trace::{Root, lock};
use markers::{Marked, Markers};

/// How often sessions are looked at while they grow, and while they don't.
const BUSY: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_millis(400);
/// How long after an error an export is tried again, at first and after many errors.
const RETRY: Duration = Duration::from_secs(1);
const MOST_RETRY: Duration = Duration::from_secs(30);

/// Why exports are behind after a shutdown.
const TOO_SHORT: &str = "the shutdown ended before the exports were complete; the next process with the same exports completes them";

/// Exports the sessions that this process writes.
#[derive(Debug)]
pub(crate) struct Exporting {
    shared: Arc<Shared>,
    markers: Markers,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Segments that were created since the thread looked.
    created: Vec<Watched>,
    /// What is recorded from now on is not exported by this process.
    stopping: bool,
    ended: bool,
    error: Option<String>,
}

/// A segment that this process writes.
#[derive(Debug)]
struct Watched {
    segment: Arc<SharedSegment>,
    /// Its size when the session was last exported.
    size: u64,
    has_marker: bool,
}

impl Watched {
    /// Whether it may have grown since the last call, and whether it may grow later.
    fn look(&mut self) -> (bool, bool) {
        // Its writer drops it after the last line.
        let has_writer = Arc::strong_count(&self.segment) > 1;
        fence(Ordering::Acquire);
        let size = self.segment.size();
        let grown = size != Some(self.size);
        self.size = size.unwrap_or(self.size);
        (grown, has_writer || size.is_none())
    }
}

impl Shared {
    /// Waits until the state changes, at most this long.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Reports why an export is behind.
    fn note_error(&self, error: String) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, &error);
        lock(&self.state).error = Some(error);
    }
}

impl Exporting {
    /// Starts the thread. `config` is the ledger's that records.
    pub fn start(exports: Vec<Export>, config: &LedgerConfig) -> io::Result<Self> {
        let exporting = Self {
            shared: Arc::default(),
            markers: Markers::new(&Root::new(config.root.clone()), &exports),
        };
        let thread = Thread {
            live: exports.iter().map(Export::live).collect(),
            markers: exporting.markers.clone(),
            recovery: config.for_recovery(),
            shared: Arc::clone(&exporting.shared),
            watched: Vec::new(),
            ended: Vec::new(),
            behind: BTreeSet::new(),
            open: BTreeSet::new(),
        };
        std::thread::Builder::new()
            .name("spanledger-export".into())
            .spawn(move || tracing::subscriber::with_default(NoopSubscriber, || thread.run()))?;
        Ok(exporting)
    }

    /// Why an export is behind, if one is.
    pub fn error(&self) -> Option<String> {
        lock(&self.shared.state).error.clone()
    }

    /// Has the thread export what is left, and end.
    pub fn stop(&self) {
        lock(&self.shared.state).stopping = true;
        self.shared.changed.notify_all();
    }

    /// Waits until the thread has ended. After the deadline that is an error, and the thread goes on alone.
    pub fn wait(&self, deadline: Instant) {
        let mut state = lock(&self.shared.state);
        while !state.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return self.shared.note_error(TOO_SHORT.to_owned());
            }
            state = self.shared.wait(state, left);
        }
    }
}

impl Listener for Exporting {
    /// Returns no listener for its lines.
    fn segment_opened(&self, segment: &Arc<SharedSegment>) -> Option<Box<dyn SegmentListener>> {
        let marked = self.markers.add(segment.session(), segment.number);
        let mut state = lock(&self.shared.state);
        if let Err(error) = &marked {
            state.error = Some(format!("mark what is to be exported: {error}"));
        }
        if !state.stopping {
            state.created.push(Watched {
                segment: Arc::clone(segment),
                size: 0,
                has_marker: marked.is_ok(),
            });
            self.shared.changed.notify_all();
        }
        None
    }
}

struct Thread {
    live: Vec<Live>,
    markers: Markers,
    /// The ledger that closes what dead processes left open.
    recovery: LedgerConfig,
    shared: Arc<Shared>,
    watched: Vec<Watched>,
    /// Segments that have no writer any more, and still a marker.
    ended: Vec<Marked>,
    /// Sessions that could not be exported.
    behind: BTreeSet<PathBuf>,
    /// Sessions in which a span is open.
    open: BTreeSet<PathBuf>,
}

impl Thread {
    fn run(mut self) {
        self.take_left();
        let (mut pause, mut retry, mut retry_at) = (BUSY, RETRY, Instant::now());
        loop {
            let stopping = self.wait(pause);
            let mut sessions = self.grown();
            pause = match sessions.is_empty() {
                true => (pause * 2).min(IDLE),
                false => BUSY,
            };
            let retries = stopping || Instant::now() >= retry_at;
            match retries {
                true => sessions.append(&mut self.behind),
                false => sessions.retain(|session| !self.behind.contains(session)),
            }
            sessions.iter().for_each(|session| self.export(session));
            if self.behind.is_empty() {
                lock(&self.shared.state).error = None;
                retry = RETRY;
            } else if retries {
                retry_at = Instant::now() + retry;
                retry = (retry * 2).min(MOST_RETRY);
            }
            if stopping {
                self.end_watched();
            }
            self.remove_markers();
            if stopping {
                break;
            }
        }
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_all();
    }

    /// Takes over what dead processes have left to export.
    fn take_left(&mut self) {
        self.ended = self.markers.left().unwrap_or_default();
        let sessions = self.ended.iter().map(|segment| segment.session.clone());
        self.behind = sessions.collect();
        let mut ledger = None;
        for session in &self.behind {
            // Where that fails the session is exported as it is.
            let _ = close_left_open(session, &self.recovery, &mut ledger);
        }
    }

    /// Waits for new lines. Returns whether nothing more follows.
    fn wait(&mut self, time: Duration) -> bool {
        let mut state = lock(&self.shared.state);
        if !state.stopping && state.created.is_empty() {
            state = self.shared.wait(state, time);
        }
        self.watched.append(&mut state.created);
        state.stopping
    }

    /// The sessions that have grown.
    fn grown(&mut self) -> BTreeSet<PathBuf> {
        let mut sessions = BTreeSet::new();
        self.watched.retain_mut(|watched| {
            let (grown, stays) = watched.look();
            let (session, seg) = (watched.segment.session(), watched.segment.number);
            if !watched.has_marker {
                watched.has_marker = self.markers.add(session, seg).is_ok();
            }
            if !stays {
                self.ended.push(self.markers.of(session, seg));
            }
            if grown {
                sessions.insert(session.to_owned());
            }
            stays
        });
        sessions
    }

    /// Brings the exports of a session up to date.
    fn export(&mut self, session: &Path) {
        let mut is_over = true;
        for live in &mut self.live {
            let synced = live.sync(session);
            // Damage is reported to those who read the trace.
            drop(live.exported());
            match synced {
                Ok(over) => is_over &= over,
                // It was pruned.
                Err(_) if !session.exists() => {}
                Err(error) => {
                    let why = "it is tried again, and the agent goes on";
                    let error = format!("can't export to {live}: {error}; {why}");
                    self.shared.note_error(error);
                    self.behind.insert(session.to_owned());
                }
            }
        }
        match is_over {
            true => self.open.remove(session),
            false => self.open.insert(session.to_owned()),
        };
    }

    /// At the end: a session that is over needs no marker. In others, spans may close after the shutdown.
    fn end_watched(&mut self) {
        for watched in self.watched.drain(..) {
            let session = watched.segment.session();
            if !self.open.contains(session) {
                self.ended
                    .push(self.markers.of(session, watched.segment.number));
            }
        }
    }

    /// Removes the markers of segments that are exported and have no writer. While a segment can grow its marker
    /// stays, because a crash may come before the next look.
    fn remove_markers(&mut self) {
        let behind = &self.behind;
        self.ended
            .retain(|segment| behind.contains(&segment.session) || segment.unmark().is_err());
    }
}
