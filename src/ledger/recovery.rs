//! Closes the spans that dead writers left open, by appending.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::dead_spans::{DeadSpan, LeftBehind, left_behind, left_open};
use super::file_lock::FileLock;
use super::noop_subscriber::NoopSubscriber;
use super::session_writer::{Context, LAST_BACKOFF_NS, SessionWriter};
use super::{Ledger, LedgerConfig, writer_lock};
use crate::trace::{
    Dir, FILE, Kind, LineMeta, Moment, Root, first_line, if_exists, segments, steady_ns,
};

/// A session up to this size is read at once when it is resumed; a larger one by a thread.
const READ_AT_ONCE: u64 = 4 << 20;
/// What opening a segment costs, beside its bytes.
const OPENING: u64 = 64 << 10;
/// How many spans are closed at once. The others follow with the next lines.
const MOST_AT_ONCE: usize = 4096;
/// How long the next line waits for the thread, or for more spans to close.
const SOON_NS: u64 = 1_000_000;

/// What dead writers left open in a session, which stays locked until all of it is closed.
#[derive(Debug)]
pub(super) struct FoundDead {
    _lock: FileLock,
    spans: VecDeque<DeadSpan>,
}

/// A recovery that is under way.
#[derive(Debug)]
pub(super) enum Recovery {
    Searching(JoinHandle<io::Result<Option<FoundDead>>>),
    Closing(FoundDead),
}

/// A search for what dead writers left open in a session.
struct Search {
    root: Root,
    session: PathBuf,
    /// The id of this process as a writer.
    writer: Option<String>,
    /// The segments when the search began, without the one that this process writes.
    segments: Vec<(u32, PathBuf)>,
}

impl Search {
    fn new(ledger: &Ledger, session: &Path, own: Option<u32>) -> io::Result<Self> {
        let mut segments = if_exists(segments(session))?.unwrap_or_default();
        segments.retain(|(number, _)| Some(*number) != own);
        Ok(Self {
            root: ledger.root.clone(),
            session: session.to_owned(),
            writer: ledger.writer_id().map(str::to_owned),
            segments,
        })
    }

    /// Whether reading the segments takes long.
    fn is_large(&self) -> bool {
        let size = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
        let costs = self.segments.iter().map(|(_, path)| OPENING + size(path));
        costs.sum::<u64>() > READ_AT_ONCE
    }

    fn spawn(self) -> io::Result<JoinHandle<io::Result<Option<FoundDead>>>> {
        let thread = std::thread::Builder::new().name("spanledger-recover".into());
        thread.spawn(move || {
            // Nothing that happens on this thread is ever traced.
            let _muted = tracing::subscriber::set_default(NoopSubscriber);
            self.run()
        })
    }

    /// Finds what dead writers left open, and locks the session. `None` if there is nothing to close, or another
    /// process is recovering or removing the session. Looks at the ends of the segments first: a session that
    /// ended well costs no more than that.
    fn run(&self) -> io::Result<Option<FoundDead>> {
        let alive =
            |id: &str| self.writer.as_deref() == Some(id) || writer_lock::is_alive(&self.root, id);
        let left_behind = || left_behind(&alive, &self.session, &self.segments);
        if left_behind()?.dead.is_empty() {
            return Ok(None);
        }
        let Some(_lock) = lock_session(&self.session)? else {
            return Ok(None);
        };
        let LeftBehind { dead, closed } = left_behind()?;
        let mut spans = VecDeque::new();
        for (number, path) in &dead {
            spans.extend(left_open(*number, path, &self.segments)?);
        }
        spans.retain(|span| !closed.contains(&span.ids.span));
        Ok(Some(FoundDead { _lock, spans }))
    }
}

/// Opens the file that is locked while a session is recovered: the first that a recovery writes.
pub(crate) fn lock_file(session: &Path) -> io::Result<File> {
    Dir::open(session, 2)?.file("lock", FILE)
}

/// Locks a session. `None`: another process has locked it.
pub(super) fn lock_session(session: &Path) -> io::Result<Option<FileLock>> {
    FileLock::try_new(lock_file(session)?)
}

/// The segments of dead writers that leave a span open which no other segment closes.
pub(crate) fn left_open_in(root: &Root, session: &Path) -> io::Result<Vec<u32>> {
    let alive = |id: &str| writer_lock::is_alive(root, id);
    let segments = if_exists(segments(session))?.unwrap_or_default();
    let left = left_behind(&alive, session, &segments)?;
    Ok(left.dead.into_iter().map(|(number, _)| number).collect())
}

/// Closes what dead writers left open in a session, with a ledger that is made when it is first needed.
pub(crate) fn close_left_open(
    session: &Path,
    config: &LedgerConfig,
    ledger: &mut Option<Ledger>,
) -> io::Result<()> {
    let root = Root::new(config.root.clone());
    let mut id = None;
    for (_, path) in segments(session)? {
        if id.is_none() {
            id = first_line(&path, |line| line.session_id.to_string())?;
        }
    }
    // A copy of a session under another name is not that session.
    let Some(id) = id.filter(|id| root.session(id) == session) else {
        return Ok(());
    };
    if !left_open_in(&root, session)?.is_empty() {
        let ledger = match ledger {
            Some(ledger) => ledger,
            None => ledger.insert(Ledger::new(config.clone())),
        };
        SessionWriter::new(ledger, &id).recover(&mut Context::new(ledger, &mut ()));
    }
    Ok(())
}

impl SessionWriter {
    /// Closes what dead writers of this session left open. How many spans that were.
    pub fn recover(&mut self, cx: &mut Context<'_>) -> usize {
        let mut closed = self.recover_some(cx, true);
        while self.recovery.is_some() {
            closed += self.recover_some(cx, true);
        }
        closed
    }

    /// The same for a moment only: a thread reads a large session, and later lines close the rest. With `wait`,
    /// waits for the thread. Returns how many spans were closed.
    pub fn recover_some(&mut self, cx: &mut Context<'_>, wait: bool) -> usize {
        self.recover_at = None;
        match self.search(cx.ledger, wait) {
            Ok(Some(found)) => self.close_some(cx, found),
            Ok(None) => 0,
            Err(error) => {
                self.recover_later();
                let error = format!("recover {}: {error}", self.dir().display());
                cx.ledger.note_error(&error);
                0
            }
        }
    }

    /// What is left to close. `None`: nothing, or that is not known yet.
    fn search(&mut self, ledger: &Ledger, wait: bool) -> io::Result<Option<FoundDead>> {
        let search = match self.recovery.take() {
            Some(Recovery::Closing(found)) => return Ok(Some(found)),
            Some(Recovery::Searching(search)) => search,
            None => {
                let own = self.segment.as_ref().map(|s| s.shared.number);
                let search = Search::new(ledger, self.dir(), own)?;
                if wait || !search.is_large() {
                    return search.run();
                }
                search.spawn()?
            }
        };
        if wait || search.is_finished() {
            let panicked = |_| Err(io::Error::other("the search panicked"));
            return search.join().unwrap_or_else(panicked);
        }
        self.go_on_soon(Recovery::Searching(search));
        Ok(None)
    }

    fn close_some(&mut self, cx: &mut Context<'_>, mut found: FoundDead) -> usize {
        let count = found.spans.len().min(MOST_AT_ONCE);
        let spans: Vec<_> = found.spans.drain(..count).collect();
        let mut closed = 0;
        for spans in spans.chunk_by(|a, b| a.policy == b.policy) {
            let policy = &spans[0].policy;
            closed += match *policy == cx.ledger.config.policy {
                true => self.close_dead(cx, spans),
                false => self.close_apart(cx, policy.clone(), spans),
            };
        }
        // After a failure, another search finds these and the others.
        if !found.spans.is_empty() && self.recover_at.is_none() {
            self.go_on_soon(Recovery::Closing(found));
        }
        closed
    }

    fn go_on_soon(&mut self, recovery: Recovery) {
        self.recovery = Some(recovery);
        self.recover_at = Some(steady_ns() + SOON_NS);
    }

    /// Closes spans that were recorded for another endpoint, or for none, in a segment of their own with
    /// that policy.
    fn close_apart(
        &mut self,
        cx: &mut Context<'_>,
        policy: Option<Arc<str>>,
        spans: &[DeadSpan],
    ) -> usize {
        // What this process itself has to write does not belong there.
        if self.is_behind(cx) && !self.is_ready(cx) {
            return 0;
        }
        let (own, checkpoint_at) = (self.segment.take(), self.checkpoint_at);
        self.recovering = Some(policy);
        let closed = self.close_dead(cx, spans);
        self.recovering = None;
        (self.segment, self.checkpoint_at) = (own, checkpoint_at);
        closed
    }

    fn close_dead(&mut self, cx: &mut Context<'_>, spans: &[DeadSpan]) -> usize {
        if !self.is_ready(cx) {
            return 0;
        }
        let mut closed = 0;
        for span in spans {
            let meta = LineMeta {
                time: Moment::now().wall,
                kind: Kind::Interrupted.as_str(),
                turn: span.turn,
                ids: Some(span.ids),
            };
            let written = self.append(cx, meta, &|out, _| span.write(out));
            closed += usize::from(written.is_some());
        }
        closed
    }

    /// Prepares the segment before the first close line. If that fails, the recovery is tried again later.
    fn is_ready(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.time_of_line(None);
        match self.prepare(cx, now) {
            Ok(()) => true,
            Err(cause) => {
                self.recover_later();
                cx.ledger.note_error(&cause);
                false
            }
        }
    }

    fn recover_later(&mut self) {
        self.recover_at = Some(steady_ns() + LAST_BACKOFF_NS);
    }
}
