//! The thread that keeps exports current while the agent runs.
//!
//! It looks at the sizes of the segments that this process writes, so a line costs the agent's thread
//! nothing more with an export than without.
//!
//! A marker in `exports/` exists while a session has something left to export, so that the next process
//! with the same exports goes on where a killed one stopped.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::export::{Export, Live};
use crate::ledger::{
    Listener, NoopSubscriber, SegmentListener, SharedSegment, mark, unmark, warn_once,
};
use crate::trace::{Root, hex_digest, if_exists, lock};

/// How often sessions are looked at while they grow, and while they don't.
const BUSY: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_millis(400);
/// How long after an error an export is tried again.
const RETRY: Duration = Duration::from_secs(1);

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
    /// Nothing more will be recorded.
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
    fn note_error(&self, error: &str) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let text = format!("can't export to {error}; it is tried again, and the agent goes on");
        warn_once(&WARNED, &text);
        lock(&self.state).error = Some(error.to_owned());
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
            watched: Vec::new(),
            over: BTreeSet::new(),
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
    /// Returns no listener for its lines.
    fn segment_opened(&self, segment: &Arc<SharedSegment>) -> Option<Box<dyn SegmentListener>> {
        let marked = self.markers.add(segment.session());
        let mut state = lock(&self.shared.state);
        if let Err(error) = marked {
            state.error = Some(error.to_string());
        }
        state.created.push(Watched {
            segment: Arc::clone(segment),
            size: 0,
        });
        self.shared.changed.notify_all();
        None
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
    watched: Vec<Watched>,
    /// Sessions of which nothing is left to export, unless they grow.
    over: BTreeSet<PathBuf>,
}

impl Thread {
    fn run(mut self) {
        let left = self.markers.left(&self.root).unwrap_or_default();
        let mut owed: BTreeSet<PathBuf> = left.into_iter().collect();
        let (mut pause, mut retry_at) = (BUSY, Instant::now());
        loop {
            let stopping = self.wait(pause);
            let mut sessions = self.grown();
            pause = match sessions.is_empty() {
                true => (pause * 2).min(IDLE),
                false => BUSY,
            };
            if stopping || Instant::now() >= retry_at {
                sessions.append(&mut owed);
                retry_at = Instant::now() + RETRY;
            }
            for session in sessions {
                if !self.export(&session) {
                    owed.insert(session);
                }
            }
            if owed.is_empty() {
                lock(&self.shared.state).error = None;
            }
            if stopping {
                self.watched.clear();
            }
            self.remove_markers();
            if stopping {
                break;
            }
        }
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_all();
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
            if grown {
                sessions.insert(watched.segment.session().to_owned());
            }
            stays
        });
        sessions
    }

    /// Brings the exports of a session up to date. Returns whether all of them are.
    fn export(&mut self, session: &Path) -> bool {
        let (mut over, mut current) = (true, true);
        for live in &mut self.live {
            match live.sync(session) {
                Ok(is_over) => over &= is_over,
                // It was pruned.
                Err(_) if !session.exists() => {}
                Err(error) => {
                    self.shared.note_error(&format!("{live}: {error}"));
                    current = false;
                }
            }
        }
        match over && current {
            true => self.over.insert(session.to_owned()),
            false => self.over.remove(session),
        };
        current
    }

    /// Removes the markers of sessions that are over. While a session can grow its marker stays, because a crash may
    /// come before the next look.
    fn remove_markers(&mut self) {
        let growing: BTreeSet<&Path> = self.watched.iter().map(|it| it.segment.session()).collect();
        self.over.retain(|session| {
            let stays = growing.contains(session.as_path());
            if !stays {
                let _ = self.markers.remove(session);
            }
            stays
        });
    }
}
