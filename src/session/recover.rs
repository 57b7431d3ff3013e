//! Closing the spans that dead processes left open.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use tracing_subscriber::Registry;

use super::status::OpenSpan;
use super::store::{Entry, Store};
use crate::ledger::lock_file;
use crate::trace::typed::Span;
use crate::trace::{Kind, ReadItem, SegmentReader, segments};
use crate::{Error, Guard, builder};

impl Store {
    /// The spans that dead processes left open in a session, children first.
    pub fn left_open(&self, entry: &Entry) -> Vec<OpenSpan> {
        let open = entry.summary.open.values();
        let mut left: Vec<_> = open
            .filter(|span| !self.is_written(&entry.summary, span.seg))
            .cloned()
            .collect();
        left.sort_by(|a, b| (b.since, &b.span_id).cmp(&(a.since, &a.span_id)));
        left
    }
}

/// Closes what [`Store::left_open`] finds, session by session, by appending `interrupted` lines.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::session::{Recovery, Store};
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
                read_closed(entry, &path, &mut closed)?;
            }
        }
        Ok(closed)
    }
}

fn ledger(root: &Path) -> io::Result<Guard> {
    let builder = builder().root(root).disabled(false);
    #[cfg(feature = "mirror")]
    let builder = builder.mirror(false);
    let built = builder.build::<Registry>().map_err(io::Error::other);
    built.map(|(_, guard)| guard)
}

/// The spans that a new segment closes.
fn read_closed(entry: &Entry, segment: &Path, closed: &mut Vec<OpenSpan>) -> io::Result<()> {
    let mut reader = SegmentReader::open(segment)?;
    while let Some(found) = reader.next()? {
        let ReadItem::Line(line) = found else {
            continue;
        };
        let Some(closes) = line.closes().filter(|_| line.kind() == Kind::Interrupted) else {
            continue;
        };
        let id = line.span_id.unwrap_or_default();
        let known = entry.summary.open.get(id).cloned();
        let span = known.unwrap_or_else(|| OpenSpan {
            span_id: id.to_owned(),
            address: line.address(),
            kind: closes.opening(),
            name: String::new(),
            input: None,
            since: 0,
            seg: line.seg,
            parent: None,
        });
        let since = Span::from(line.payload()).start().unwrap_or(0);
        closed.push(OpenSpan { since, ..span });
    }
    Ok(())
}
