//! Closes the spans that dead processes left open.
//!
//! That takes a recorder: the segment with the close lines has a header, which describes this process, redacted.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use tracing_subscriber::Registry;

use super::{Builder, Guard};
use crate::error::Error;
use crate::ledger::lock_file;
use crate::session::{Entry, OpenSpan, Store, read_interrupted};
use crate::trace::segments;

/// Closes what [`Store::left_open`] finds, session by session, by appending `interrupted` lines.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::{Recovery, session::Store};
/// let store = Store::new(dir.path());
/// let mut recovery = Recovery::new(&store);
/// for entry in store.list()? {
///     println!("{} spans closed", recovery.close(&entry)?.len());
/// }
/// recovery.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recovery<'a> {
    store: &'a Store,
    /// Created for the first session that needs it, because that writes to the root.
    guard: Option<Guard>,
}

impl<'a> Recovery<'a> {
    /// Nothing is written yet.
    pub fn new(store: &'a Store) -> Self {
        Self { store, guard: None }
    }

    /// Closes what dead processes left open in a session, and returns the spans that were closed.
    /// It returns none if another process is recovering the session, or already has.
    pub fn close(&mut self, entry: &Entry) -> io::Result<Vec<OpenSpan>> {
        if self.store.left_open(entry).is_empty() {
            return Ok(Vec::new());
        }
        self.check(entry)?;
        // The first file that a recovery writes. A ledger would try to write elsewhere before it.
        lock_file(&entry.dir).map_err(|error| {
            let (id, dir) = (&entry.summary.session_id, entry.dir.display());
            io::Error::new(error.kind(), format!("session {id:?}: {dir}/lock: {error}"))
        })?;
        let closed = self.append(entry);
        if closed.is_err() {
            // The ledger's health reports the last error, which must not be blamed on the next session.
            self.guard = None;
        }
        closed
    }

    /// Flushes what was written.
    pub fn finish(self) -> Result<(), Error> {
        self.guard
            .map_or(Ok(()), |guard| guard.shutdown().map(drop))
    }

    /// Fails for a copy: the ledger would write to the original.
    fn check(&self, entry: &Entry) -> io::Result<()> {
        let id = &entry.summary.session_id;
        let own = self.store.dir(id);
        if own.canonicalize().ok() == Some(entry.dir.canonicalize()?) {
            return Ok(());
        }
        let why = format!(
            "{} holds session {id:?}, whose directory is {}: a copy can't be recovered",
            entry.dir.display(),
            own.display(),
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    fn append(&mut self, entry: &Entry) -> io::Result<Vec<OpenSpan>> {
        let guard = match &self.guard {
            Some(guard) => guard,
            None => self.guard.insert(ledger(self.store.root())?),
        };
        let numbers = |dir: &Path| -> io::Result<HashSet<u32>> {
            let found = segments(dir)?.into_iter();
            Ok(found.map(|(number, _)| number).collect())
        };
        let before = numbers(&entry.dir)?;
        let id = &entry.summary.session_id;
        let count = guard.handle().session(id).recover();
        let health = guard.health();
        let failed = count == 0 || health.failed > 0;
        if let Some(error) = health.last_error.filter(|_| failed) {
            return Err(io::Error::other(format!("session {id:?}: {error}")));
        }
        let mut closed = Vec::new();
        for (number, path) in segments(&entry.dir)? {
            if count > 0 && !before.contains(&number) {
                read_interrupted(entry, &path, &mut closed)?;
            }
        }
        Ok(closed)
    }
}

fn ledger(root: &Path) -> io::Result<Guard> {
    let builder = Builder::default().root(root).disabled(false).mirror(false);
    let built = builder.build::<Registry>().map_err(io::Error::other);
    built.map(|(_, guard)| guard)
}
