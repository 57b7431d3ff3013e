//! What changed on disk, as the file system tells it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// How often to look where the file system tells nothing.
const BLIND: Duration = Duration::from_millis(200);
/// How often it is asked whether that is enough.
const ASK: Duration = Duration::from_millis(100);

/// Directories in which something happened. A set, so that a busy writer costs no memory.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// The files and directories whose parent was watched.
    pub paths: HashSet<PathBuf>,
    /// Something was missed: look everywhere.
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
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, event: notify::Result<notify::Event>) {
        let mut dirty = self.lock();
        match event {
            // Somebody read: that is us.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => return,
            Ok(event) if event.need_rescan() => dirty.all = true,
            Ok(event) => dirty.paths.extend(event.paths),
            Err(_) => dirty.all = true,
        }
        self.told.notify_one();
    }
}

#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    watcher: Option<RecommendedWatcher>,
    /// Some directory can't be watched (a limit, a file system that tells nothing): look now
    /// and then instead.
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

    /// Watches what happens right inside a directory. Whether it is there.
    pub fn dir(&mut self, dir: &Path) -> bool {
        if let Some(watcher) = &mut self.watcher {
            let watched = watcher.watch(dir, RecursiveMode::NonRecursive);
            if watched.is_err() && dir.is_dir() {
                self.blind = true;
            }
        }
        dir.is_dir()
    }

    /// A directory that is gone.
    pub fn forget(&mut self, dir: &Path) {
        if let Some(watcher) = &mut self.watcher {
            // The system has done so by itself, as a rule.
            let _ = watcher.unwatch(dir);
        }
    }

    /// Waits until something happened, or until `deadline`. `None`: nothing did.
    pub fn wait(&self, deadline: Instant, blind: bool) -> Option<Dirty> {
        self.wait_unless(deadline, blind, || false)
    }

    /// The same, unless `stop` says that it is enough, which is asked now and then.
    pub fn wait_unless(
        &self,
        deadline: Instant,
        blind: bool,
        stop: impl Fn() -> bool,
    ) -> Option<Dirty> {
        let mut dirty = self.shared.lock();
        let started = Instant::now();
        loop {
            if !dirty.is_empty() {
                return Some(std::mem::take(&mut *dirty));
            }
            let now = Instant::now();
            let mut rest = deadline.saturating_duration_since(now);
            if rest.is_zero() || stop() {
                return None;
            }
            if self.blind || blind {
                let until_look = BLIND.saturating_sub(now - started);
                if until_look.is_zero() {
                    return Some(Dirty {
                        all: true,
                        ..Dirty::default()
                    });
                }
                rest = rest.min(until_look);
            }
            let waited = self.shared.told.wait_timeout(dirty, rest.min(ASK));
            dirty = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
