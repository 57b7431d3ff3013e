//! Closes the spans that dead writers left open, by appending.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dead_spans::{DeadSpan, LeftBehind, left_behind, left_open};
use super::file_lock::FileLock;
use super::session_writer::{Context, LAST_BACKOFF_NS, SessionWriter};
use super::{Ledger, writer_lock};
#[cfg(feature = "mirror")]
use crate::trace::Root;
use crate::trace::{Kind, LineMeta, Moment, steady_ns};

/// Finds what dead writers left open, and locks the session. `None` if there is nothing to close, or another
/// process is recovering or removing the session. Looks at the ends of the segments first: a session that ended
/// well costs no more than that.
fn find(
    ledger: &Ledger,
    session: &Path,
    own: Option<u32>,
) -> io::Result<Option<(FileLock, Vec<DeadSpan>)>> {
    let alive =
        |id: &str| ledger.writer_id() == Some(id) || writer_lock::is_alive(&ledger.root, id);
    if left_behind(&alive, session, own)?.dead.is_empty() {
        return Ok(None);
    }
    let Some(lock) = FileLock::try_new(&lock_path(session))? else {
        return Ok(None);
    };
    let LeftBehind { dead, closed } = left_behind(&alive, session, own)?;
    let mut spans = Vec::new();
    for (number, path) in &dead {
        spans.extend(left_open(*number, path)?);
    }
    spans.retain(|span| !closed.contains(&span.ids.span));
    Ok(Some((lock, spans)))
}

/// Opens the file that is locked while a session is recovered: the first that a recovery writes.
pub(crate) fn lock_file(session: &Path) -> io::Result<File> {
    super::file_lock::open_lock(&lock_path(session))
}

pub(super) fn lock_path(session: &Path) -> PathBuf {
    session.join("lock")
}

/// The segments of dead writers that leave a span open which no other segment closes.
#[cfg(feature = "mirror")]
pub(crate) fn left_open_in(root: &Root, session: &Path) -> io::Result<Vec<u32>> {
    let alive = |id: &str| writer_lock::is_alive(root, id);
    let left = left_behind(&alive, session, None)?;
    Ok(left.dead.into_iter().map(|(number, _)| number).collect())
}

impl SessionWriter {
    /// Closes what dead writers of this session left open. How many spans that were.
    pub fn recover(&mut self, cx: &mut Context<'_>) -> usize {
        self.recover_at = None;
        let own = self.segment.as_ref().map(|s| s.shared.number);
        let (_lock, spans) = match find(cx.ledger, self.dir(), own) {
            Ok(Some(found)) => found,
            Ok(None) => return 0,
            Err(error) => {
                self.recover_later();
                let error = format!("recover {}: {error}", self.dir().display());
                cx.ledger.note_error(&error);
                return 0;
            }
        };
        let mut closed = 0;
        for spans in spans.chunk_by(|a, b| a.policy == b.policy) {
            let policy = &spans[0].policy;
            closed += match *policy == cx.ledger.config.policy {
                true => self.close_dead(cx, spans),
                false => self.close_apart(cx, policy.clone(), spans),
            };
        }
        closed
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
