//! The thread that keeps exports current while the agent runs.
//!
//! A marker in `exports/` exists while a session has something left to export, so that the next process
//! with the same exports goes on where a killed one stopped.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::export::{Export, Live};
use crate::ledger::{
    Listener, NoopSubscriber, SegmentListener, SharedSegment, mark, unmark, warn_once,
};
use crate::trace::{Root, hex_digest, if_exists, lock};

/// How long lines are collected before they are exported.
const BATCH: Duration = Duration::from_millis(50);
/// How long after an error an export is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Queues sessions that have grown for the thread.
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
    grown: Vec<Arc<Grown>>,
    /// Nothing more will be recorded.
    stopping: bool,
    ended: bool,
    error: Option<String>,
}

/// A session that this process writes to.
#[derive(Debug)]
struct Grown {
    dir: PathBuf,
    queued: AtomicBool,
}

impl Shared {
    /// Waits until the state changes, at most this long.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Exporting {
    /// Starts the thread.
    pub fn start(exports: Vec<Export>, root: &Root) -> io::Result<Self> {
        let exporting = Self {
            shared: Arc::default(),
            markers: Markers::new(root, &exports),
        };
        let thread = Thread {
            live: exports.iter().map(Export::live).collect(),
            root: root.clone(),
            markers: exporting.markers.clone(),
            shared: Arc::clone(&exporting.shared),
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

    /// Exports what is left, for at most this long, and stops.
    pub fn stop(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout.min(Duration::from_secs(3600));
        let mut state = lock(&self.shared.state);
        state.stopping = true;
        self.shared.changed.notify_all();
        while !state.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.wait(state, left);
        }
    }
}

impl Listener for Exporting {
    fn segment_opened(&self, segment: &Arc<SharedSegment>) -> Option<Box<dyn SegmentListener>> {
        let dir = segment.path.parent()?.to_owned();
        if let Err(error) = self.markers.add(&dir) {
            lock(&self.shared.state).error = Some(error.to_string());
        }
        Some(Box::new(Lines {
            session: Arc::new(Grown {
                dir,
                queued: AtomicBool::new(false),
            }),
            shared: Arc::clone(&self.shared),
        }))
    }
}

/// Queues a session when it grows.
#[derive(Debug)]
struct Lines {
    session: Arc<Grown>,
    shared: Arc<Shared>,
}

impl SegmentListener for Lines {
    fn appended(&self, _: u64) {
        if !self.session.queued.swap(true, Ordering::AcqRel) {
            lock(&self.shared.state)
                .grown
                .push(Arc::clone(&self.session));
            self.shared.changed.notify_all();
        }
    }
}

/// The markers of the sessions that have something left to export.
#[derive(Clone, Debug)]
struct Markers {
    dir: PathBuf,
    /// Names the targets.
    prefix: String,
}

impl Markers {
    fn new(root: &Root, exports: &[Export]) -> Self {
        let mut names: Vec<_> = exports.iter().map(ToString::to_string).collect();
        names.sort();
        let mut prefix = hex_digest(names.join("\n").as_bytes());
        prefix.truncate(16);
        Self {
            dir: root.path().join("exports"),
            prefix,
        }
    }

    fn path(&self, session: &Path) -> PathBuf {
        let name = session.file_name().unwrap_or_default().to_string_lossy();
        self.dir.join(format!("{}.{name}", self.prefix))
    }

    fn add(&self, session: &Path) -> io::Result<()> {
        mark(&self.path(session))
    }

    fn remove(&self, session: &Path) -> io::Result<()> {
        unmark(&self.path(session))
    }

    /// The sessions that an earlier process left behind.
    fn left(&self, root: &Root) -> io::Result<Vec<PathBuf>> {
        let Some(entries) = if_exists(std::fs::read_dir(&self.dir))? else {
            return Ok(Vec::new());
        };
        let mut left = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.split_once('.'));
            if let Some((prefix, session)) = name
                && prefix == self.prefix
            {
                left.push(root.sessions().join(session));
            }
        }
        Ok(left)
    }
}

struct Thread {
    live: Vec<Live>,
    root: Root,
    markers: Markers,
    shared: Arc<Shared>,
}

impl Thread {
    fn run(mut self) {
        let left = self.markers.left(&self.root).unwrap_or_default();
        let mut waiting: VecDeque<PathBuf> = left.into();
        loop {
            let (grown, stopping) = self.next(!waiting.is_empty());
            for session in grown {
                session.queued.store(false, Ordering::Release);
                waiting.push_back(session.dir.clone());
            }
            let failed = self.export(&mut waiting);
            if stopping {
                break;
            }
            waiting.extend(failed);
        }
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_all();
    }

    /// The sessions that have grown, and whether nothing more follows.
    fn next(&self, retries: bool) -> (Vec<Arc<Grown>>, bool) {
        let mut state = lock(&self.shared.state);
        let wait = if retries {
            RETRY
        } else {
            Duration::from_secs(3600)
        };
        if state.grown.is_empty() && !state.stopping {
            state = self.shared.wait(state, wait);
        }
        // Lines come in bursts.
        let until = Instant::now() + BATCH;
        while !state.stopping && !state.grown.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            state = self.shared.wait(state, left);
        }
        (take(&mut state.grown), state.stopping)
    }

    /// Exports sessions. Returns those that could not be.
    fn export(&mut self, sessions: &mut VecDeque<PathBuf>) -> HashSet<PathBuf> {
        let mut failed = HashSet::new();
        let mut last = None;
        for session in sessions.drain(..) {
            let mut over = true;
            for live in &mut self.live {
                match live.sync(&session) {
                    Ok(is_over) => over &= is_over,
                    // It was pruned.
                    Err(_) if !session.exists() => {}
                    Err(error) => {
                        last = Some(format!("{live}: {error}"));
                        failed.insert(session.clone());
                    }
                }
            }
            if over && !failed.contains(&session) {
                let _ = self.markers.remove(&session);
            }
        }
        if let Some(error) = &last {
            static WARNED: AtomicBool = AtomicBool::new(false);
            warn_once(
                &WARNED,
                &format!("can't export to {error}; it is tried again, and the agent goes on"),
            );
        }
        lock(&self.shared.state).error = last;
        failed
    }
}
