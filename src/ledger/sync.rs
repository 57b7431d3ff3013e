//! When lines that the kernel has reach the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::listener::SegmentListener;
use super::noop_subscriber::NoopSubscriber;
use crate::trace::{if_exists, lock};

/// How much a power cut may cost. `kill -9` costs nothing with any of them.
///
/// By default [`SyncPolicy::Os`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// The kernel has each line when the call returns, and writes it out when it sees fit
    /// (commonly within 30 seconds): a power cut may lose that much.
    #[default]
    Os,
    /// A thread of this crate syncs new lines this often, once a millisecond at most: a power cut may
    /// lose that much.
    Interval(Duration),
    /// Each call waits for the disk. A power cut loses nothing that had returned.
    Always,
}

type Listeners = Arc<[Box<dyn SegmentListener>]>;

#[derive(Debug, Default)]
struct Dirty {
    blobs: BTreeSet<PathBuf>,
    segments: BTreeMap<PathBuf, Listeners>,
    dirs: BTreeSet<PathBuf>,
    stop: bool,
}

/// Collects the files and directories that are not synced yet; its thread syncs them.
#[derive(Debug, Default)]
pub(crate) struct Syncer {
    dirty: Mutex<Dirty>,
    wake: Condvar,
    /// Held while a thread syncs; keeps an error until a caller gets it.
    syncing: Mutex<Option<std::io::Error>>,
}

impl Syncer {
    /// Starts the thread. It ends when the ledger does.
    pub fn start(every: Duration) -> std::io::Result<Arc<Self>> {
        let syncer = Arc::new(Self::default());
        let worker = Arc::clone(&syncer);
        // No time at all would keep a processor busy with nothing.
        let every = every.max(Duration::from_millis(1));
        std::thread::Builder::new()
            .name("spanledger-sync".into())
            .spawn(move || {
                // Nothing that happens on this thread is ever traced.
                let _muted = tracing::subscriber::set_default(NoopSubscriber);
                worker.run(every);
            })?;
        Ok(syncer)
    }

    fn run(&self, every: Duration) {
        loop {
            let dirty = lock(&self.dirty);
            let waited = self
                .wake
                .wait_timeout_while(dirty, every, |dirty| !dirty.stop);
            let stop = waited.unwrap_or_else(PoisonError::into_inner).0.stop;
            if let Err(error) = self.sync_now() {
                *lock(&self.syncing) = Some(error);
            }
            if stop {
                return;
            }
        }
    }

    /// The listeners learn what the disk has as soon as it has it.
    pub fn segment(&self, path: &Path, listeners: &Listeners) {
        let mut dirty = lock(&self.dirty);
        if !dirty.segments.contains_key(path) {
            let listeners = Arc::clone(listeners);
            dirty.segments.insert(path.to_owned(), listeners);
        }
    }

    pub fn blob(&self, path: PathBuf) {
        lock(&self.dirty).blobs.insert(path);
    }

    pub fn dir(&self, path: &Path) {
        lock(&self.dirty).dirs.insert(path.to_owned());
    }

    pub fn stop(&self) {
        lock(&self.dirty).stop = true;
        self.wake.notify_all();
    }

    /// Syncs new blobs, then the segments that name them, then new directories. When it returns, those that
    /// another thread was syncing are synced too. Also returns an error of the thread that no caller got yet.
    pub fn sync_now(&self) -> std::io::Result<()> {
        let mut syncing = lock(&self.syncing);
        let mut result = syncing.take().map_or(Ok(()), Err);
        let taken = {
            let mut dirty = lock(&self.dirty);
            let stop = dirty.stop;
            let taken = std::mem::take(&mut *dirty);
            dirty.stop = stop;
            taken
        };
        for path in &taken.blobs {
            result = result.and(sync_file(path).map(drop));
        }
        let mut synced = Vec::new();
        for (path, listeners) in taken.segments {
            match sync_file(&path) {
                Ok(size) => synced.extend(size.map(|size| (listeners, size))),
                Err(error) => result = result.and(Err(error)),
            }
        }
        for path in &taken.dirs {
            result = result.and(sync_dir(path));
        }
        // Lines in a directory that may be lost are not published: the next line publishes them.
        if result.is_ok() {
            for (listeners, size) in synced {
                listeners
                    .iter()
                    .for_each(|listener| listener.appended(size));
            }
        }
        result
    }
}

/// How many bytes of it the disk has at least. What was removed meanwhile needs no sync.
fn sync_file(path: &Path) -> std::io::Result<Option<u64>> {
    let Some(file) = if_exists(File::open(path))? else {
        return Ok(None);
    };
    let size = file.metadata()?.len();
    file.sync_data().map(|()| Some(size))
}

/// A directory and the two above it that the ledger may have made with it.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    path.ancestors()
        .take(3)
        .try_for_each(|dir| match File::open(dir) {
            Ok(file) => file.sync_all(),
            Err(_) => Ok(()),
        })
}
