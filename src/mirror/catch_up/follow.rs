//! Waits until a root has more to send.

mod watcher;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Error;
use crate::read::follow::Watch;
use crate::session::Store;
use watcher::Watcher;

/// How often it checks. No file system reports that a lock is free, and some report nothing.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// How often it asks whether to stop.
const STEP: Duration = Duration::from_millis(100);

/// What may have something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// All sessions: a writer has ended.
    All,
    /// These, to which live writers without an endpoint have written.
    Sessions(Vec<PathBuf>),
}

/// Waits until [`CatchUp`](crate::mirror::CatchUp) has something to send.
///
/// ```no_run
/// use spanledger::mirror::{CatchUp, Changed, Follow, Otlp};
/// use spanledger::session::Store;
/// let to = Otlp::resolve(None, |name| std::env::var(name).ok())?.expect("an endpoint");
/// let store = Store::new("./traces");
/// let mut follow = Follow::new(&store, None, to.linger, || false);
/// let mut changed = Changed::All;
/// loop {
///     let mut catch_up = CatchUp::new(store.root(), to.clone());
///     match changed {
///         Changed::All => follow.begin(&store)?,
///         Changed::Sessions(sessions) => catch_up = catch_up.sessions(sessions),
///     }
///     catch_up.run(&mut |_, _| {})?;
///     changed = match follow.next(&store)? {
///         Some(changed) => changed,
///         None => break,
///     };
/// }
/// # Ok::<(), spanledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Follow {
    watch: Watch,
    watched: HashSet<PathBuf>,
    watcher: Watcher,
    /// The writers that were alive since everything was sent last.
    writers: BTreeSet<String>,
    /// How long to wait for more, so that requests are worth sending.
    linger: Duration,
    /// The modification time of the writers' directory, if it exists.
    modified: Option<SystemTime>,
    stop: fn() -> bool,
}

impl Follow {
    /// Waits for all sessions or for one, by its directory, until `stop` returns true.
    pub fn new(
        store: &Store,
        session: Option<PathBuf>,
        linger: Duration,
        stop: fn() -> bool,
    ) -> Self {
        Self {
            watch: Watch::new(),
            watched: HashSet::new(),
            watcher: Watcher::new(store, session),
            writers: BTreeSet::new(),
            linger,
            modified: None,
            stop,
        }
    }

    /// To be called before everything is sent, so that changes in the meantime are seen after it.
    pub fn begin(&mut self, store: &Store) -> Result<(), Error> {
        let dir = store.root().join("writers");
        self.watch.dir(&dir);
        self.modified = modified(&dir);
        self.writers = writers(store, &dir)?;
        self.grown(store)?;
        Ok(())
    }

    /// Waits until there is something to send. `None`: it is to stop.
    pub fn next(&mut self, store: &Store) -> Result<Option<Changed>, Error> {
        let dir = store.root().join("writers");
        let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        loop {
            let until = Instant::now() + CHECK_EVERY;
            let events = self.watch.wait_unless(until, false, self.stop);
            if (self.stop)() {
                return Ok(None);
            }
            let before = std::mem::replace(&mut self.modified, modified(&dir));
            let alive = writers(store, &dir)?;
            let ended = |writer: &String| !alive.contains(writer);
            // A directory that does not exist can't be watched.
            let created = before.is_none() && self.modified.is_some();
            // A writer came and ended, and the file system may not have reported it.
            let passed = before != self.modified && alive.is_subset(&self.writers);
            if self.writers.iter().any(ended) || created || passed {
                return Ok(Some(Changed::All));
            }
            if let Some(events) = &events {
                let is_writer = |path: &&PathBuf| {
                    let parent = path.parent();
                    parent == Some(&dir) || parent == Some(&real)
                };
                let writers = events.paths.iter().filter(is_writer);
                let names = writers.filter_map(|path| path.file_name()?.to_str());
                // A writer may have come and ended between two checks.
                let mut names = names.filter(|name| !name.starts_with('.'));
                if names.any(|name| !alive.contains(name)) {
                    return Ok(Some(Changed::All));
                }
                if events.all {
                    self.pause(CHECK_EVERY);
                    return Ok(Some(Changed::All));
                }
                self.pause(self.linger);
            }
            self.writers.extend(alive);
            // Without a live writer no segment grows.
            if !self.writers.is_empty() {
                let grown = self.grown(store)?;
                if !grown.is_empty() {
                    return Ok(Some(Changed::Sessions(grown)));
                }
            }
        }
    }

    /// Waits before a retry, unless it is to stop.
    pub fn back_off(&self) {
        self.pause(CHECK_EVERY);
    }

    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !(self.stop)() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            std::thread::sleep(rest.min(STEP));
        }
    }

    /// The sessions that have grown since the last check.
    fn grown(&mut self, store: &Store) -> Result<Vec<PathBuf>, Error> {
        let grown = self.watcher.check(store)?;
        let mut wanted: HashSet<_> = self.watcher.sessions().map(PathBuf::from).collect();
        wanted.insert(store.root().join("sessions"));
        for dir in self.watched.difference(&wanted) {
            self.watch.forget(dir);
        }
        self.watched.retain(|dir| wanted.contains(dir));
        for dir in wanted {
            if !self.watched.contains(&dir) && self.watch.dir(&dir) {
                self.watched.insert(dir);
            }
        }
        Ok(grown)
    }
}

fn modified(dir: &Path) -> Option<SystemTime> {
    dir.metadata().and_then(|meta| meta.modified()).ok()
}

/// The live writers.
fn writers(store: &Store, dir: &Path) -> Result<BTreeSet<String>, Error> {
    store.live_writers().map_err(Error::at(dir))
}
