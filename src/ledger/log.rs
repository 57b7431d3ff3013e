//! One session's log: the lines of this process, appended under the session's mutex.
//!
//! Invariants kept here:
//! - A line is one `write(2)`; `seq` is taken under the mutex, and so is `ts` unless it is known from
//!   just before and no line came in between: the order of lines is the order of both. A `seq` is
//!   used up only when its line is whole.
//! - When a call returns and nothing was counted as failed, the kernel has the line.
//! - After a fault comes, in this order: the segment's first line if it is missing, the `gap`,
//!   the open lines that were lost of spans still open, the closes that were lost. Only then
//!   what is new.

mod append;
mod checkpoint;
mod made_up;
#[cfg(feature = "metrics")]
mod measure;
#[cfg(feature = "mirror")]
mod otel;
mod recover;
mod spans;

#[cfg(feature = "mirror")]
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
#[cfg(feature = "mirror")]
use std::sync::{OnceLock, Weak};

use super::Core;
use super::clock::{APART_NS, Moment};
use super::digested::Digested;
use super::fork::fork_generation;
use super::format::Common;
use super::gap::{Gap, LostClose};
use super::history::History;
use super::open_span::OpenSpan;
use super::past::Past;
use super::segment::Segment;
use super::trace::Trace;
use crate::event::{Fields, IdHasher, Ids, Marks, SpanKind, Totals};
use crate::redact::write_string;
use append::{About, is_out_of_files};
use made_up::MadeUp;
use spans::mark_counted;

const LAST_BACKOFF_NS: u64 = 1_000_000_000;

/// The span an event belongs to.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub ids: Ids,
    pub trace: Arc<Trace>,
    pub turn: Option<u32>,
    pub kind: SpanKind,
    pub turn_span: Option<u64>,
    /// The run around it, which may be of an earlier trace.
    pub run: Option<(u128, u64)>,
    /// The fork generation that opened the span.
    pub generation: u64,
}

/// How an event is to be noted on its span, beside its own line.
#[derive(Clone, Copy, Default)]
pub(crate) struct Note<'a> {
    /// What it is called there, if not as its line.
    pub name: Option<&'a str>,
    /// When it happened, if not now.
    pub time: Option<u64>,
    pub level: Option<&'a str>,
    pub message: Option<&'a [u8]>,
    /// What OpenTelemetry knows of it, as the members of an object.
    pub attributes: Option<&'a Fields>,
    /// Streamed pieces are too many to be events of a span.
    pub quiet: bool,
}

#[derive(Debug)]
pub(crate) struct SessionLog {
    pub id: Arc<str>,
    id_json: Vec<u8>,
    pub dir: PathBuf,
    pub generation: u64,
    /// Why the session exists although no run named it.
    pub implicit: Option<&'static str>,
    /// This process may have written to the session before, and forgotten what it had counted.
    again: bool,
    used: AtomicBool,
    state: Mutex<State>,
    history: Mutex<History>,
    /// Who records here, as far as a context of the OpenTelemetry API has to know.
    #[cfg(feature = "mirror")]
    recorder: OnceLock<Weak<dyn Any + Send + Sync>>,
}

#[derive(Debug, Default)]
struct State {
    past_read: bool,
    /// What the dead left open could not be closed when it was to be: when to try again.
    owes_recovery: Option<u64>,
    started: bool,
    segment: Option<Segment>,
    /// The segment that the totals count from, where it has to be said.
    counts_from: Option<u32>,
    gap: Gap,
    lost_closes: Vec<LostClose>,
    /// Some span's open line was lost and has not been written again.
    lost_opens: bool,
    backoff: u64,
    retry_at: u64,
    /// What went wrong before the wait until then.
    waits_for: String,
    /// By span id, and too large to be moved about.
    spans: HashMap<u64, Box<OpenSpan>, BuildHasherDefault<IdHasher>>,
    totals: Totals,
    marks: Marks,
    next_turn: u32,
    /// The run that was opened last, here or in an earlier segment.
    last_run: Option<(u128, u64)>,
    current: [Option<String>; 3],
    known: HashSet<String>,
    /// Turns of libraries that have none of their own.
    made_up: Vec<MadeUp>,
    checkpoint_at: u64,
    /// The time of the line that was appended last.
    last_ts: u64,
    /// What is to be said of sending in the segment that takes up what a dead writer left.
    recovering: Option<Option<Arc<str>>>,
    common: Common,
    /// How long the line was that was appended last, whatever came after it by itself. A line that
    /// was lost takes no room.
    line_size: usize,
    /// The segment that has it; 0 if none.
    line_seg: u32,
}

impl State {
    /// The time of a line about what has just happened, if it is known.
    fn time_of_line(&self, just_now: Option<u64>) -> u64 {
        let after_last = just_now.filter(|time| *time > self.last_ts);
        after_last.unwrap_or_else(|| self.in_order(Moment::now().wall))
    }

    /// Not before the last line's, as far as clocks are a little apart. One that was set back stays
    /// so.
    fn in_order(&self, time: u64) -> u64 {
        match self.last_ts.checked_sub(time) {
            Some(behind) if behind <= APART_NS => self.last_ts,
            _ => time,
        }
    }

    /// The number of the segment that is written to, 0 before there is one.
    fn seg(&self) -> u32 {
        self.segment.as_ref().map_or(0, |segment| segment.number)
    }
}

impl SessionLog {
    pub fn new(id: &str, dir: PathBuf, implicit: Option<&'static str>, again: bool) -> Self {
        let mut id_json = Vec::new();
        write_string(id, &mut id_json);
        Self {
            id: id.into(),
            id_json,
            dir,
            generation: fork_generation(),
            implicit,
            again,
            used: AtomicBool::new(false),
            state: Mutex::new(State {
                next_turn: 1,
                ..State::default()
            }),
            history: Mutex::default(),
            #[cfg(feature = "mirror")]
            recorder: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The messages it has told.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was used since the last look, and forgets it.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Closes the file if nobody is writing right now.
    pub fn close_file(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if let Some(segment) = &mut state.segment {
            segment.file = None;
        }
        true
    }

    /// Whether nothing would be lost by forgetting what is in memory.
    pub fn is_idle(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| {
            let owes = state.gap.count > 0 || !state.lost_closes.is_empty();
            let unterminated = state.segment.as_ref().is_some_and(Segment::is_unterminated);
            state.spans.is_empty() && !owes && !unterminated && state.owes_recovery.is_none()
        })
    }

    /// Reads what earlier segments say, once; again where that failed before anything was read.
    fn read_past(&self, core: &Core, state: &mut State) {
        if std::mem::replace(&mut state.past_read, true) {
            return;
        }
        let mut past = Past::read(&self.dir);
        if let Some((_, error)) = &past.error
            && is_out_of_files(error)
            && core.files.close_some()
        {
            past = Past::read(&self.dir);
        }
        if let Some((path, error)) = &past.error {
            core.note_error(&format!("read {}: {error}", path.display()));
            state.past_read = *path != self.dir && !is_out_of_files(error);
        }
        state.next_turn = state.next_turn.max(past.next_turn);
        state.last_run = state.last_run.or(past.last_run);
        for (current, before) in state.current.iter_mut().zip(past.current) {
            *current = current.take().or(before);
        }
        state.known.extend(past.known);
        self.history().recall(&past.messages);
        if past.started {
            state.started = true;
            // A run whose open line waits for the disk took the session for a new one.
            let unwritten = state.spans.values_mut().filter(|span| span.lost);
            for run in unwritten.filter(|span| span.kind == SpanKind::Run) {
                run.open_kind = "session_resume";
                if let Some((trace, span)) = past.last_run {
                    run.link(trace, span);
                }
            }
        }
    }

    /// Appends an event.
    pub fn event(
        self: &Arc<Self>,
        core: &Core,
        kind: &str,
        at: Option<&At>,
        fields: &Fields,
        note: Note<'_>,
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.read_past(core, state);
        let mut late = false;
        if let Some(at) = at {
            match state.spans.get_mut(&at.ids.span) {
                Some(_) if note.quiet => {}
                Some(span) => span.note(kind, &note),
                None => late = at.generation == self.generation,
            }
        }
        if kind == "error" {
            state.totals.errors += 1;
        }
        let ids = at.map(|at| Ids {
            parent: None,
            ..at.ids
        });
        let about = About::now(kind, at.and_then(|at| at.turn), ids);
        self.append(core, state, about, |out, _| {
            if late {
                out.extend_from_slice(b"\"late\":true,");
            }
            fields.write_members(out);
        });
    }

    /// A `model_usage` event: counts unless the model call it belongs to says better.
    pub fn count_usage(&self, at: Option<&At>, usage: &crate::event::Usage) {
        let mut state = self.lock();
        let state = &mut *state;
        match at.and_then(|at| state.spans.get_mut(&at.ids.span)) {
            Some(span) if span.kind == SpanKind::Model => {
                span.event_usage.get_or_insert_default().merge(usage);
            }
            _ => {
                state.totals.add_usage(usage);
                if let Some(at) = at {
                    mark_counted(
                        state,
                        [Some(at.ids.span), at.turn_span, at.run.map(|(_, id)| id)],
                    );
                }
            }
        }
    }

    /// Appends a prompt, catalog or rule set: in full the first time, by digest afterwards. The one
    /// that is in force is appended only if it is to be said `again`.
    pub fn digested(
        self: &Arc<Self>,
        core: &Core,
        what: Digested,
        at: Option<&At>,
        digest: &str,
        fields: &Fields,
        again: bool,
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.read_past(core, state);
        let slot = Digested::ALL.iter().position(|d| *d == what).unwrap_or(0);
        let before = state.current[slot].replace(digest.to_owned());
        if !again && before.as_deref() == Some(digest) {
            return;
        }
        let known = state.known.contains(digest);
        let ids = at.map(|at| Ids {
            parent: None,
            ..at.ids
        });
        let turn = at.and_then(|at| at.turn);
        let about = About::now(what.kind(), turn, ids);
        let written = self.append(core, state, about, |out, _| {
            out.extend_from_slice(b"\"digest\":");
            write_string(digest, out);
            out.push(b',');
            if known {
                fields.write_without(what.body(), out);
            } else {
                fields.write_members(out);
            }
        });
        if written {
            state.known.insert(digest.to_owned());
        }
    }

    /// Whether the text in force has this digest.
    pub fn is_in_force(&self, what: Digested, digest: &str) -> bool {
        let slot = Digested::ALL.iter().position(|d| *d == what).unwrap_or(0);
        self.lock().current[slot].as_deref() == Some(digest)
    }

    /// Tries again to say what is missing, back-off or not. What is still missing.
    pub fn flush(self: &Arc<Self>, core: &Core) -> u64 {
        let mut guard = self.lock();
        let state = &mut *guard;
        let now = state.time_of_line(None);
        if let Some(segment) = &mut state.segment
            && segment.is_removed(now, true)
        {
            self.segment_removed(core, state, now);
        }
        if state.gap.count > 0 || state.lost_opens || !state.lost_closes.is_empty() {
            state.retry_at = 0;
            if let Err(lost) = self.prepare(core, state, now, &|_, _| {}) {
                core.note_error(&lost.cause);
            }
        }
        if state.owes_recovery.is_some() {
            state.retry_at = 0;
            self.recover_locked(core, state);
        }
        let whole = match &mut state.segment {
            // Most are whole, and none of those has to be opened for it.
            Some(segment) if segment.is_unterminated() => {
                if segment.file.is_none() && matches!(segment.reopen(), Ok(true)) {
                    core.files.admit(self);
                }
                let whole = segment.terminate();
                match core.sync {
                    _ if !whole => {}
                    super::Sync::Os => segment.tell(),
                    _ => core.mark_dirty(&segment.path, segment.live.as_ref()),
                }
                whole
            }
            _ => true,
        };
        state.gap.count + u64::from(!whole)
    }
}
