//! What dead writers left open is closed here; what was sent is let go.

#[cfg(feature = "mirror")]
use std::io;
use std::sync::Arc;

use super::super::Core;
use super::super::clock::steady_ns;
#[cfg(feature = "mirror")]
use super::super::outbox::Live;
use super::super::recovery::{self, DeadSpan};
use super::{About, LAST_BACKOFF_NS, SessionLog, State};

impl SessionLog {
    /// Closes what dead writers of this session left open. How many spans that were.
    pub fn recover(self: &Arc<Self>, core: &Core) -> usize {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.read_past(core, state);
        self.recover_locked(core, state)
    }

    pub(super) fn recover_locked(self: &Arc<Self>, core: &Core, state: &mut State) -> usize {
        state.owes_recovery = None;
        let own = state.segment.as_ref().map(|s| s.number);
        let found = match recovery::find(core, &self.dir, own) {
            Ok(found) => found,
            Err(error) => {
                state.owes_recovery = Some(steady_ns() + LAST_BACKOFF_NS);
                core.note_error(&format!("recover {}: {error}", self.dir.display()));
                return 0;
            }
        };
        if found.spans.is_empty() {
            return 0;
        }
        let mut closed = 0;
        for spans in found.spans.chunk_by(|a, b| a.policy == b.policy) {
            closed += match spans.first() {
                Some(span) if span.policy.as_ref() != core.policy() => {
                    self.close_apart(core, state, span.policy.clone(), spans)
                }
                _ => self.close_dead(core, state, spans),
            };
        }
        closed
    }

    /// What was recorded for somebody else, or for nobody, stays that: its close lines go to a
    /// segment of their own that says so.
    fn close_apart(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        policy: Option<Arc<str>>,
        spans: &[DeadSpan],
    ) -> usize {
        let behind = state.gap.count > 0 || state.lost_opens || !state.lost_closes.is_empty();
        // What this process itself owes doesn't belong there.
        if behind && !self.ready_to_recover(core, state) {
            return 0;
        }
        let (own, checkpoint_at) = (state.segment.take(), state.checkpoint_at);
        state.recovering = Some(policy);
        let closed = self.close_dead(core, state, spans);
        state.recovering = None;
        (state.segment, state.checkpoint_at) = (own, checkpoint_at);
        closed
    }

    fn close_dead(self: &Arc<Self>, core: &Core, state: &mut State, spans: &[DeadSpan]) -> usize {
        if !self.ready_to_recover(core, state) {
            return 0;
        }
        let mut closed = 0;
        for dead in spans {
            let kind = "interrupted";
            let about = About::now(kind, dead.turn, Some(dead.ids));
            let written = self.append(core, state, about, |out, _| {
                dead.write(out);
            });
            closed += usize::from(written);
        }
        closed
    }

    /// Before the first line: what can't be written now is not lost, it is done later.
    fn ready_to_recover(self: &Arc<Self>, core: &Core, state: &mut State) -> bool {
        let now = state.time_of_line(None);
        match self.prepare(core, state, now, &|_, _| {}) {
            Ok(()) => true,
            Err(lost) => {
                state.owes_recovery = Some(steady_ns() + LAST_BACKOFF_NS);
                core.note_error(&lost.cause);
                false
            }
        }
    }

    /// Takes the marker of a segment away that was sent up to `passed`, unless more of it is owed:
    /// a line that came since, or a span that is still open.
    #[cfg(feature = "mirror")]
    pub fn settle(&self, live: &Live, passed: u64) -> io::Result<()> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let open = !state.spans.is_empty() || !state.lost_closes.is_empty();
        match &mut state.segment {
            Some(segment) if segment.number == live.seg => {
                if !open && segment.size == passed && live.unmark(passed)? {
                    segment.marked = false;
                }
                Ok(())
            }
            // It goes on in another, which has a marker of its own while something is open.
            Some(segment) if open && !segment.marked => Ok(()),
            _ => live.unmark(passed).map(drop),
        }
    }
}
