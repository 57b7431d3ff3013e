//! The state of a session: open spans, turns, totals, stored prompts. Its lines are appended under the mutex
//! that guards it, which orders them.
//!
//! After a fault the open lines that were lost of spans still open are written again, then short close lines of
//! spans whose close was lost.

mod context_asset;
mod history;
mod hooks;
mod known_sessions;
mod open_span;
#[cfg(feature = "mirror")]
mod otel;
mod resume;
mod spans;
mod synthetic_turn;
mod trace;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

pub(crate) use context_asset::ContextAsset;
pub(crate) use history::{ChainTip, MessageKey};
pub(crate) use known_sessions::KnownSessions;
pub(crate) use open_span::OpenSpan;
pub(crate) use trace::{Trace, TraceLimits};

use super::fields::Fields;
use super::process_state::ProcessState;
use crate::ledger::{Appended, Context, Ledger, LineMeta, SessionWriter, is_out_of_files};
use crate::trace::{IdHasher, Ids, Marks, Moment, SpanKind, Totals, Usage, write_string};
use history::History;
use hooks::{Hooks, LostClose};
use resume::ResumeState;
use spans::mark_counted;
use synthetic_turn::SyntheticTurn;

/// Which span a line belongs to: its ids, and the turn and run around it.
#[derive(Clone, Debug)]
pub(crate) struct SpanContext {
    pub ids: Ids,
    pub trace: Arc<Trace>,
    pub turn: Option<u32>,
    pub kind: SpanKind,
    pub turn_span: Option<u64>,
    /// The run around it, which may be of an earlier trace.
    pub run: Option<(u128, u64)>,
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

/// A session that this process records.
#[derive(Debug)]
pub(crate) struct SessionLog {
    pub id: Arc<str>,
    pub dir: PathBuf,
    /// Why the session exists although no run named it.
    implicit: Option<&'static str>,
    /// This process may have written to the session before, and forgotten what it had counted.
    again: bool,
    state: Mutex<State>,
    history: Mutex<History>,
}

#[derive(Debug)]
struct State {
    writer: SessionWriter,
    content: Content,
}

/// What is known of the session's spans.
#[derive(Debug, Default)]
struct Content {
    past_read: bool,
    started: bool,
    /// The segment that the totals count from, where it has to be said.
    counts_from: Option<u32>,
    /// Spans whose open line was lost and has not been written again, in order. Some may have closed.
    lost_opens: VecDeque<u64>,
    lost_closes: VecDeque<LostClose>,
    /// By span id. They are too large to be moved about.
    spans: HashMap<u64, Box<OpenSpan>, BuildHasherDefault<IdHasher>>,
    /// A span is about to be one of them.
    opening: bool,
    totals: Totals,
    marks: Marks,
    next_turn: u32,
    /// The run that was opened last, here or in an earlier segment.
    last_run: Option<(u128, u64)>,
    /// The digests of the assets in force.
    current: [Option<String>; 3],
    /// The digests of the assets whose text the session has.
    known: HashSet<String>,
    /// Turns of libraries that report none.
    synthetic_turns: Vec<SyntheticTurn>,
}

impl SessionLog {
    pub fn new(ledger: &Ledger, id: &str, implicit: Option<&'static str>, again: bool) -> Self {
        let writer = SessionWriter::new(ledger, id);
        Self {
            id: id.into(),
            dir: writer.dir().to_owned(),
            implicit,
            again,
            state: Mutex::new(State {
                writer,
                content: Content {
                    next_turn: 1,
                    ..Content::default()
                },
            }),
            history: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The messages that it has recorded.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the file, unless a thread is writing.
    pub fn close_file(&self) {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        state.writer.close_file();
    }

    /// Whether nothing would be lost by forgetting what is in memory.
    pub fn is_idle(&self) -> bool {
        self.state
            .try_lock()
            .is_ok_and(|state| state.writer.owes_nothing() && !state.content.leaves_open())
    }

    /// Appends a line. Returns its size and its segment; both are 0 if it was lost.
    fn append(
        &self,
        process: &ProcessState,
        state: &mut State,
        meta: LineMeta<'_>,
        payload: impl Fn(&mut Vec<u8>, u32),
    ) -> Option<Appended> {
        let State { writer, content } = state;
        let mut hooks = Hooks {
            log: self,
            process,
            content,
        };
        let appended = writer.append(
            &mut Context::new(&process.ledger, &mut hooks),
            meta,
            &payload,
        )?;
        if self.implicit.is_some() {
            process.counters().add_orphaned();
        }
        Some(appended)
    }

    /// Closes what dead writers of this session left open. How many spans that were.
    pub fn recover(&self, process: &ProcessState) -> usize {
        let mut state = self.lock();
        self.read_past(process, &mut state.content);
        self.recover_locked(process, &mut state)
    }

    fn recover_locked(&self, process: &ProcessState, state: &mut State) -> usize {
        let State { writer, content } = state;
        let mut hooks = Hooks {
            log: self,
            process,
            content,
        };
        writer.recover(&mut Context::new(&process.ledger, &mut hooks))
    }

    /// Tries again to write what is missing. How many lines still are.
    pub fn flush(&self, process: &ProcessState) -> u64 {
        let State { writer, content } = &mut *self.lock();
        let mut hooks = Hooks {
            log: self,
            process,
            content,
        };
        writer.flush(&mut Context::new(&process.ledger, &mut hooks))
    }

    /// Reads what earlier segments say, once; again where that failed before anything was read.
    fn read_past(&self, process: &ProcessState, content: &mut Content) {
        if std::mem::replace(&mut content.past_read, true) {
            return;
        }
        let mut past = ResumeState::read(&self.dir);
        if let Some((_, error)) = &past.error
            && process.ledger.free_descriptors(error)
        {
            past = ResumeState::read(&self.dir);
        }
        if let Some((path, error)) = &past.error {
            let counters = process.ledger.counters();
            counters.note_error(&format!("read {}: {error}", path.display()));
            content.past_read = *path != self.dir && !is_out_of_files(error);
        }
        content.next_turn = content.next_turn.max(past.next_turn);
        content.last_run = content.last_run.or(past.last_run);
        for (current, before) in content.current.iter_mut().zip(past.current) {
            *current = current.take().or(before);
        }
        content.known.extend(past.known);
        self.history().recall(&past.messages);
        if past.started {
            content.started = true;
            // A run whose open line waits for the disk took the session for a new one.
            let unwritten = content.spans.values_mut().filter(|span| span.lost);
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
        &self,
        process: &ProcessState,
        kind: &str,
        at: Option<&SpanContext>,
        fields: &Fields,
        note: Note<'_>,
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.read_past(process, &mut state.content);
        let mut late = false;
        if let Some(at) = at {
            match state.content.spans.get_mut(&at.ids.span) {
                Some(_) if note.quiet => {}
                Some(span) => span.note(kind, &note),
                None => late = true,
            }
        }
        if kind == "error" {
            state.content.totals.errors += 1;
        }
        let ids = at.map(|at| Ids {
            parent: None,
            ..at.ids
        });
        let meta = line_now(kind, at.and_then(|at| at.turn), ids);
        self.append(process, state, meta, |out, _| {
            if late {
                out.extend_from_slice(b"\"late\":true,");
            }
            fields.write_members(out);
        });
    }

    /// A `model_usage` event: counts unless the model call it belongs to says better.
    pub fn count_usage(&self, at: Option<&SpanContext>, usage: &Usage) {
        let mut state = self.lock();
        let state = &mut *state;
        match at.and_then(|at| state.content.spans.get_mut(&at.ids.span)) {
            Some(span) if span.kind == SpanKind::Model => {
                span.event_usage.get_or_insert_default().merge(usage);
            }
            _ => {
                state.content.totals.add_usage(usage);
                if let Some(at) = at {
                    mark_counted(
                        &mut state.content,
                        [Some(at.ids.span), at.turn_span, at.run.map(|(_, id)| id)],
                    );
                }
            }
        }
    }

    /// Appends a prompt, catalog or rule set: in full the first time, by digest afterwards. The one
    /// that is in force is appended only if it is to be said `again`.
    pub fn asset(
        &self,
        process: &ProcessState,
        what: ContextAsset,
        at: Option<&SpanContext>,
        digest: &str,
        fields: &Fields,
        again: bool,
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.read_past(process, &mut state.content);
        let slot = ContextAsset::ALL
            .iter()
            .position(|d| *d == what)
            .unwrap_or(0);
        let before = state.content.current[slot].replace(digest.to_owned());
        if !again && before.as_deref() == Some(digest) {
            return;
        }
        let known = state.content.known.contains(digest);
        let ids = at.map(|at| Ids {
            parent: None,
            ..at.ids
        });
        let turn = at.and_then(|at| at.turn);
        let meta = line_now(what.kind(), turn, ids);
        let written = self.append(process, state, meta, |out, _| {
            out.extend_from_slice(b"\"digest\":");
            write_string(digest, out);
            out.push(b',');
            if known {
                fields.write_without(what.body(), out);
            } else {
                fields.write_members(out);
            }
        });
        if written.is_some() {
            state.content.known.insert(digest.to_owned());
        }
    }

    /// Whether the text in force has this digest.
    pub fn is_in_force(&self, what: ContextAsset, digest: &str) -> bool {
        let slot = ContextAsset::ALL
            .iter()
            .position(|d| *d == what)
            .unwrap_or(0);
        self.lock().content.current[slot].as_deref() == Some(digest)
    }
}

/// A line about what happens now.
fn line_now(kind: &str, turn: Option<u32>, ids: Option<Ids>) -> LineMeta<'_> {
    LineMeta {
        time: Moment::now().wall,
        kind,
        turn,
        ids,
    }
}
