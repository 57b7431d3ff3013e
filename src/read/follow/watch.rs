//! Changes on disk, as the file system reports them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::trace::lock;

/// How often to look where the file system reports nothing.
const BLIND: Duration = Duration::from_millis(200);

/// What has changed. A set, so that a busy writer costs no memory.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// The files and directories whose parent was watched.
    pub paths: HashSet<PathBuf>,
    /// A change may have been missed: look everywhere.
    pub all: bool,
}

impl Dirty {
    fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.all
    }
}

#[derive(Debug, Default)]
struct Shared {
    dirty: Mutex<Dirty>,
    changed: Condvar,
}

impl Shared {
    fn take(&self, event: notify::Result<notify::Event>) {
        let mut dirty = lock(&self.dirty);
        match event {
            // A read, which is our own.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => return,
            Ok(event) if event.need_rescan() => dirty.all = true,
            Ok(event) => dirty.paths.extend(event.paths),
            Err(_) => dirty.all = true,
        }
        self.changed.notify_one();
    }
}

#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    watcher: Option<RecommendedWatcher>,
    /// Some directory can't be watched (a limit, a file system that reports nothing): look now and then
    /// instead.
    blind: bool,
}

impl Watch {
    pub fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let taker = Arc::clone(&shared);
        let watcher = notify::recommended_watcher(move |event| taker.take(event)).ok();
        Self {
            shared,
            blind: watcher.is_none(),
            watcher,
        }
    }

    /// Watches the entries of a directory. Whether it is there.
    pub fn dir(&mut self, dir: &Path) -> bool {
        if let Some(watcher) = &mut self.watcher {
            let watched = watcher.watch(dir, RecursiveMode::NonRecursive);
            if watched.is_err() && dir.is_dir() {
                self.blind = true;
            }
        }
        dir.is_dir()
    }

    /// Stops watching a directory that is gone.
    pub fn forget(&mut self, dir: &Path) {
        if let Some(watcher) = &mut self.watcher {
            // As a rule the system has done so already.
            let _ = watcher.unwatch(dir);
        }
    }

    /// Waits for a change until `deadline`. `None`: nothing changed.
    pub fn wait(&self, deadline: Instant, blind: bool) -> Option<Dirty> {
        let mut dirty = lock(&self.shared.dirty);
        let started = Instant::now();
        loop {
            if !dirty.is_empty() {
                return Some(std::mem::take(&mut *dirty));
            }
            let now = Instant::now();
            let mut rest = deadline.saturating_duration_since(now);
            if rest.is_zero() {
                return None;
            }
            if self.blind || blind {
                let until_look = BLIND.saturating_sub(now - started);
                if until_look.is_zero() {
                    let paths = HashSet::new();
                    return Some(Dirty { paths, all: true });
                }
                rest = rest.min(until_look);
            }
            let waited = self.shared.changed.wait_timeout(dirty, rest);
            dirty = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
