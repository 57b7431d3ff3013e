//! What there is to do for a mirror that goes on: the file system tells, and every now and then it is
//! looked, since no file system tells of a lock that is free, and some tell nothing.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::super::context::Failed;
use super::super::interrupt;
use crate::mirror::Growing;
use crate::reader::Watch;
use crate::session::Store;

/// How often it is looked.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What may have something to send.
pub(super) enum Next {
    /// All sessions: a writer has gone.
    All,
    /// These, whose living writers have written more that nobody else sends.
    Grown(Vec<PathBuf>),
    /// None: an end was asked for.
    Nothing,
}

pub(super) struct Follow {
    watch: Watch,
    watched: HashSet<PathBuf>,
    growing: Growing,
    /// The writers that were seen alive since all was sent last.
    writers: BTreeSet<String>,
    /// How long more is waited for, so that a request is worth its while.
    linger: Duration,
    /// When the directory of the writers had changed last; `None` while there was none.
    changed: Option<SystemTime>,
}

impl Follow {
    pub fn new(store: &Store, session: Option<PathBuf>, linger: Duration) -> Self {
        Self {
            watch: Watch::new(),
            watched: HashSet::new(),
            growing: Growing::new(store, session),
            writers: BTreeSet::new(),
            linger,
            changed: None,
        }
    }

    /// Before everything is sent: what happens during that is seen after it.
    pub fn begin(&mut self, store: &Store) -> Result<(), Failed> {
        let dir = store.root().join("writers");
        self.watch.dir(&dir);
        self.changed = changed(&dir);
        self.writers = writers(store)?;
        self.look(store)?;
        Ok(())
    }

    /// Waits until there is something to do.
    pub fn next(&mut self, store: &Store) -> Result<Next, Failed> {
        let dir = store.root().join("writers");
        let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        loop {
            let until = Instant::now() + LOOK_EVERY;
            let told = self.watch.wait_unless(until, false, interrupt::asked);
            if interrupt::asked() {
                return Ok(Next::Nothing);
            }
            let before = std::mem::replace(&mut self.changed, changed(&dir));
            let living = writers(store)?;
            let gone = |writer: &String| !living.contains(writer);
            // One that isn't there can't be watched.
            let made = before.is_none() && self.changed.is_some();
            // Somebody came and went, and the file system may not have told.
            let passed = before != self.changed && living.is_subset(&self.writers);
            if self.writers.iter().any(gone) || made || passed {
                return Ok(Next::All);
            }
            if let Some(told) = &told {
                let of_writers = told.paths.iter().filter(|path| {
                    let parent = path.parent();
                    parent == Some(&dir) || parent == Some(&real)
                });
                let names = of_writers.filter_map(|path| path.file_name());
                let mut names = names.map(|name| name.to_string_lossy().into_owned());
                // It may have come and gone between two looks.
                if names.any(|name| !name.starts_with('.') && gone(&name)) {
                    return Ok(Next::All);
                }
                if told.all {
                    interrupt::sleep(LOOK_EVERY);
                    return Ok(Next::All);
                }
                interrupt::sleep(self.linger);
            }
            self.writers.extend(living);
            // Without a writer nothing grows.
            let grown = match self.writers.is_empty() {
                true => Vec::new(),
                false => self.look(store)?,
            };
            if !grown.is_empty() {
                return Ok(Next::Grown(grown));
            }
        }
    }

    /// What has grown since the last look.
    fn look(&mut self, store: &Store) -> Result<Vec<PathBuf>, Failed> {
        let grown = self.growing.look(store);
        let grown = grown.map_err(|error| Failed::Usage(error.to_string()))?;
        let sessions = store.root().join("sessions");
        let mut wanted: HashSet<_> = self.growing.sessions().map(PathBuf::from).collect();
        wanted.insert(sessions);
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

fn changed(dir: &Path) -> Option<SystemTime> {
    dir.metadata().and_then(|meta| meta.modified()).ok()
}

/// The writers that live.
fn writers(store: &Store) -> Result<BTreeSet<String>, Failed> {
    store.forget_writers();
    let entries = match std::fs::read_dir(store.root().join("writers")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut living = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && store.is_alive(&name) {
            living.insert(name);
        }
    }
    Ok(living)
}
