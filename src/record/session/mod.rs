//! The state of a session: open spans, turns, totals, stored prompts. Its lines are appended under the mutex
//! that guards it, which orders them.
//!
//! After a fault, open lines that were lost are written again if their spans are still open, then short close
//! lines of the spans whose close line was lost.

mod context_asset;
mod conversation;
mod family;
mod hooks;
mod known_sessions;
mod notes;
mod open_span;
#[cfg(feature = "mirror")]
mod otel;
mod request_parts;
mod resume;
mod spans;
mod synthetic_turn;
mod trace;
mod watched;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub(crate) use context_asset::ContextAsset;
pub(crate) use known_sessions::KnownSessions;
pub(crate) use notes::Note;
pub(crate) use open_span::OpenSpan;
pub(crate) use spans::Change;
pub(crate) use trace::{Trace, TraceLimits};
pub(crate) use watched::Asked;

use super::fields::Fields;
use super::process_state::{OF_PROCESS, ProcessState};
use crate::gen_ai::History;
use crate::ledger::{Appended, Context, Ledger, LineMeta, SessionWriter};
use crate::trace::{
    ErrorChain, IdHasher, Ids, Kind, Marks, Moment, SpanKind, Totals, Usage, lock, put, try_lock,
};
use crate::watch::Loops;
use conversation::Conversation;
use family::Family;
use hooks::{Hooks, LostClose};
use open_span::write_late;
use request_parts::StoredParts;
use synthetic_turn::SyntheticTurn;

/// The trace id and the span id of a span.
pub(crate) type Link = (u128, u64);

/// Which span a line belongs to: its ids, and the turn and run around it.
#[derive(Clone, Debug)]
pub(crate) struct SpanContext {
    pub ids: Ids,
    pub trace: Arc<Trace>,
    pub kind: SpanKind,
    pub turn: Option<u32>,
    pub turn_span: Option<u64>,
    /// The run around it, which may be of an earlier trace. A run contains itself, except in its own lines.
    pub run: Option<Link>,
}

impl SpanContext {
    pub fn link(&self) -> Link {
        (self.ids.trace, self.ids.span)
    }

    pub fn run_span(&self) -> Option<u64> {
        self.run.map(|(_, id)| id)
    }
}

/// A session that this process records.
#[derive(Debug)]
pub(crate) struct SessionLog {
    pub id: Arc<str>,
    pub dir: PathBuf,
    /// Why the session exists although no run named it.
    implicit: Option<&'static str>,
    /// This process may have written to the session before, and dropped its totals.
    again: bool,
    /// The session that its calls count for, where limits are set.
    family: OnceLock<Arc<Family>>,
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
    /// The segment that the totals count from, where the header has to name it.
    counts_from: Option<u32>,
    /// Spans whose open line was lost and has not been written again, in order. Some may have closed.
    lost_opens: VecDeque<u64>,
    lost_closes: VecDeque<LostClose>,
    /// By span id. Boxed, because they are large and a map moves its values.
    spans: HashMap<u64, Box<OpenSpan>, BuildHasherDefault<IdHasher>>,
    /// The line being appended opens a span that is not in `spans` yet.
    opening: bool,
    totals: Totals,
    marks: Marks,
    next_turn: u32,
    /// The outermost run that was opened last, here or in an earlier segment.
    last_run: Option<Link>,
    /// The digests of the assets in force, by [`ContextAsset`].
    current: [Option<String>; 3],
    /// The digests of the assets whose text the session has.
    known: HashSet<String>,
    /// The parts of requests that the session has lines for.
    parts: StoredParts,
    /// The context was compacted, and no model call has opened since.
    compacted: bool,
    /// What is sent with model calls, where content is sent.
    conversation: Conversation,
    /// Turns of libraries that report none.
    synthetic_turns: Vec<SyntheticTurn>,
    /// The last tool calls, where limits are set.
    loops: Option<Box<Loops>>,
}

impl SessionLog {
    pub fn new(ledger: &Ledger, id: &str, implicit: Option<&'static str>, again: bool) -> Self {
        let writer = SessionWriter::new(ledger, id);
        Self {
            id: id.into(),
            dir: writer.dir().to_owned(),
            implicit,
            again,
            family: OnceLock::new(),
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

    pub fn lock<'a>(&'a self, process: &'a ProcessState) -> LockedSession<'a> {
        LockedSession {
            log: self,
            process,
            state: lock(&self.state),
        }
    }

    /// The messages that it has recorded.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    /// Closes the file, unless a thread is writing.
    pub fn close_file(&self) {
        if let Some(state) = try_lock(&self.state) {
            state.writer.close_file();
        }
    }

    /// Whether nothing would be lost if the state in memory were dropped.
    pub fn is_idle(&self) -> bool {
        self.state
            .try_lock()
            .is_ok_and(|state| state.writer.owes_nothing() && !state.content.leaves_open())
    }
}

/// A session whose mutex this thread holds. Everything that reads or changes the session is a method of it.
pub(crate) struct LockedSession<'a> {
    log: &'a SessionLog,
    process: &'a ProcessState,
    state: MutexGuard<'a, State>,
}

impl LockedSession<'_> {
    /// Calls the session's writer, with what it needs.
    fn with_writer<T>(&mut self, f: impl FnOnce(&mut SessionWriter, &mut Context<'_>) -> T) -> T {
        let State { writer, content } = &mut *self.state;
        let mut hooks = Hooks {
            log: self.log,
            process: self.process,
            content,
        };
        f(writer, &mut Context::new(&self.process.ledger, &mut hooks))
    }

    /// Appends a line. `None`: it was lost.
    fn append(
        &mut self,
        meta: LineMeta<'_>,
        payload: impl Fn(&mut Vec<u8>, u32),
    ) -> Option<Appended> {
        let (log, process) = (self.log, self.process);
        let appended = self.with_writer(|writer, cx| writer.append(cx, meta, &payload))?;
        if log.implicit == Some(OF_PROCESS) {
            process.ledger.counters().warn_no_session(&log.id);
        }
        if log.implicit.is_some() {
            process.counters.add_orphaned();
        }
        Some(appended)
    }

    fn read_past(&mut self) {
        Hooks {
            log: self.log,
            process: self.process,
            content: &mut self.state.content,
        }
        .read_past();
    }

    /// Closes the spans that dead writers of this session left open. Returns how many.
    pub fn recover(&mut self) -> usize {
        self.read_past();
        self.with_writer(SessionWriter::recover)
    }

    /// The same, but a thread reads a large session, and later lines close the spans.
    fn start_recovery(&mut self) {
        self.read_past();
        self.with_writer(|writer, cx| writer.recover_some(cx, false));
    }

    /// Tries again to write what is missing. Returns how many lines are still missing.
    pub fn flush(&mut self) -> u64 {
        self.with_writer(SessionWriter::flush)
    }

    /// Appends an event, and notes it on its span.
    pub fn event(&mut self, kind: &str, at: Option<&SpanContext>, fields: &Fields, note: Note<'_>) {
        self.read_past();
        let sends_content = self.process.sends_content;
        let content = &mut self.state.content;
        let known = Kind::parse(kind);
        let message = sends_content.then(|| content.message(known, at, fields));
        let note = Note {
            attributes: message
                .as_ref()
                .and_then(Option::as_ref)
                .or(note.attributes),
            ..note
        };
        content.parts.note_spoken(known, fields);
        let mut late = false;
        if let Some(at) = at {
            match content.spans.get_mut(&at.ids.span) {
                // Streamed pieces are too many to be noted.
                Some(_) if matches!(known, Kind::MessageDelta | Kind::ToolInputDelta) => {}
                Some(span) => {
                    span.note(kind, fields, &note);
                    if known == Kind::HitlResponse && at.kind == SpanKind::Permission {
                        span.note_answer(fields);
                    }
                }
                None => late = true,
            }
        }
        if known == Kind::Error {
            let chain = fields.value(field!(ErrorEvent.error)).map(ErrorChain::of);
            content.count_failure(at.map(|at| at.ids.span), chain, |_| false);
        }
        self.append(event_meta(kind, at), |out, _| {
            write_late(late, out);
            fields.write_members(out);
        });
    }

    /// The first piece of a model's answer has arrived.
    pub fn first_token(&mut self, at: &SpanContext, now: Moment) {
        if let Some(span) = self.state.content.spans.get_mut(&at.ids.span) {
            span.note_first_token(now);
        }
    }

    /// Counts a `model_usage` event, unless the model call it belongs to reports its own usage.
    pub fn count_usage(&mut self, at: Option<&SpanContext>, usage: &Usage) {
        let content = &mut self.state.content;
        match at.and_then(|at| content.spans.get_mut(&at.ids.span)) {
            Some(span) if span.at.kind == SpanKind::Model => {
                span.event_usage.get_or_insert_default().merge(usage);
            }
            _ => {
                content.totals.add_usage(usage);
                if let Some(at) = at {
                    content.add_used(at, usage);
                    content.mark_counted([Some(at.ids.span), at.turn_span, at.run_span()]);
                    self.watch_usage(None, at, usage, Moment::now().wall);
                }
            }
        }
    }

    /// Appends a prompt, catalog or rule set: in full the first time, by digest afterwards. The one that is in
    /// force already is appended only with `again`.
    pub fn asset(
        &mut self,
        asset: ContextAsset,
        at: Option<&SpanContext>,
        digest: &str,
        fields: &Fields,
        again: bool,
    ) {
        self.read_past();
        let content = &mut self.state.content;
        if self.process.sends_content {
            let span = at.and_then(|at| content.spans.get_mut(&at.ids.span));
            let call = span.and_then(|span| span.conversation.as_deref_mut());
            content.conversation.set(asset, fields, call);
        }
        let before = content.current[asset as usize].replace(digest.to_owned());
        if !again && before.as_deref() == Some(digest) {
            return;
        }
        let known = content.known.contains(digest);
        let written = self.append(event_meta(asset.kind().as_str(), at), |out, _| {
            put(out, [b"\"digest\":\"", digest.as_bytes(), b"\","]);
            if known {
                fields.write_without(asset.body(), out);
            } else {
                fields.write_members(out);
            }
        });
        if written.is_some() {
            self.state.content.known.insert(digest.to_owned());
        }
    }

    /// Whether the text in force has this digest.
    pub fn is_in_force(&self, asset: ContextAsset, digest: &str) -> bool {
        self.state.content.current[asset as usize].as_deref() == Some(digest)
    }
}

impl Content {
    /// A message that is sent: with the model call that it belongs to, else with the next one and, as the
    /// attribute that is returned, with the event.
    fn message(&mut self, kind: Kind, at: Option<&SpanContext>, fields: &Fields) -> Option<Fields> {
        let message = conversation::message(kind, conversation::role(kind)?, fields);
        let span = at.and_then(|at| self.spans.get_mut(&at.ids.span));
        if let Some(call) = span.and_then(|span| span.conversation.as_deref_mut()) {
            call.add(kind, &message);
            return None;
        }
        self.conversation.wait(&message);
        let mut attributes = Fields::default();
        let name = match conversation::is_answer(kind) {
            true => "gen_ai.output.messages",
            false => "gen_ai.input.messages",
        };
        let list = [b"[", &message[..message.len() - 1], b"]"].concat();
        attributes.set(name, &list);
        Some(attributes)
    }
}

/// The line of an event that happens now. It carries the span it belongs to, but not that span's parent.
fn event_meta<'a>(kind: &'a str, at: Option<&SpanContext>) -> LineMeta<'a> {
    LineMeta {
        time: Moment::now().wall,
        kind,
        turn: at.and_then(|at| at.turn),
        ids: at.map(|at| Ids {
            parent: None,
            ..at.ids
        }),
    }
}
