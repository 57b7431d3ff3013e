//! Waits until a root has more to send.

mod watcher;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::error::Error;
use crate::session::Store;
use watcher::Watcher;

/// The longest time between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// How often it asks whether to stop, and the shortest time between two checks.
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
/// let mut follow = Follow::new(None, to.linger, || false);
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
    watcher: Watcher,
    /// The writers that were alive since everything was sent last.
    writers: BTreeSet<String>,
    /// How often it checks: no file system reports that a lock is free.
    every: Duration,
    /// The modification time of the writers' directory, if it exists.
    modified: Option<SystemTime>,
    stop: fn() -> bool,
}

impl Follow {
    /// Waits for all sessions or for one, by its directory, until `stop` returns true. What is written within
    /// `linger` is sent together, so that requests are worth sending.
    pub fn new(session: Option<PathBuf>, linger: Duration, stop: fn() -> bool) -> Self {
        Self {
            watcher: Watcher::new(session),
            writers: BTreeSet::new(),
            every: linger.clamp(STEP, CHECK_EVERY),
            modified: None,
            stop,
        }
    }

    /// To be called before everything is sent, so that changes in the meantime are seen after it.
    pub fn begin(&mut self, store: &Store) -> Result<(), Error> {
        self.modified = modified(store);
        self.writers = live_writers(store)?;
        // The segments of dead writers don't grow any more.
        self.watcher.clear();
        self.watcher.check(store)?;
        Ok(())
    }

    /// Waits until there is something to send. `None`: it is to stop.
    pub fn next(&mut self, store: &Store) -> Result<Option<Changed>, Error> {
        loop {
            self.pause(self.every);
            if (self.stop)() {
                return Ok(None);
            }
            let before = std::mem::replace(&mut self.modified, modified(store));
            let alive = live_writers(store)?;
            // One has ended, or one came and ended since the last check. (If another one came too, what the
            // first one wrote is sent when that ends.)
            let came_and_ended = before != self.modified && alive.is_subset(&self.writers);
            if !self.writers.is_subset(&alive) || came_and_ended {
                return Ok(Some(Changed::All));
            }
            self.writers = alive;
            // Without a live writer no segment grows.
            if !self.writers.is_empty() {
                let grown = self.watcher.check(store)?;
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
}

fn modified(store: &Store) -> Option<SystemTime> {
    let meta = store.layout().writers().metadata();
    meta.and_then(|meta| meta.modified()).ok()
}

fn live_writers(store: &Store) -> Result<BTreeSet<String>, Error> {
    let writers = store.live_writers();
    writers.map_err(Error::at(&store.layout().writers()))
}
