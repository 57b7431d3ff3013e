//! Performs operations on a real ledger and on the model, side by side.

use std::path::PathBuf;

use proptest::sample::Index;
use serde_json::json;
use spanledger::read::session_dir;
use spanledger::{Guard, Outcome, SpanExt, events, spans};
use tempfile::TempDir;
use tracing::{Dispatch, Span};
use tracing_subscriber::layer::SubscriberExt;

use crate::model::expect::{ModelSpan, Part, usage};
use crate::model::{Kind, Op, SESSIONS};

/// A span that the agent holds.
struct Held {
    span: Span,
    model: usize,
    /// The index of its parent in `held`.
    parent: Option<usize>,
    /// The agent dropped it; it ends with the last span inside it.
    dropped: bool,
    /// How many of its children have not ended.
    inside: usize,
}

/// What became of one process.
#[derive(Debug, Default)]
pub struct Life {
    pub parts: [Part; SESSIONS.len()],
    pub crashed: bool,
    /// It ended while nothing could be written, so its pending lines are unknown.
    pub cut_off: bool,
}

pub struct World {
    dir: TempDir,
    running: Option<(Dispatch, Guard)>,
    held: Vec<Option<Held>>,
    pub spans: Vec<(usize, ModelSpan)>,
    pub lives: Vec<Life>,
    numbers: u64,
    blocked: bool,
    faults: bool,
    /// Sessions whose directory was removed at some time.
    pub removed: [bool; SESSIONS.len()],
    /// Sessions that were recovered after the last crash.
    pub recovered: [bool; SESSIONS.len()],
}

/// All there is to check.
pub struct Done {
    pub dir: TempDir,
    pub spans: Vec<(usize, ModelSpan)>,
    pub lives: Vec<Life>,
    pub removed: [bool; SESSIONS.len()],
    pub recovered: [bool; SESSIONS.len()],
}

const WORDS: &str = "one two three four five six seven eight";

impl World {
    pub fn new(faults: bool) -> Self {
        let mut world = Self {
            dir: tempfile::tempdir().unwrap(),
            running: None,
            held: Vec::new(),
            spans: Vec::new(),
            lives: Vec::new(),
            numbers: 0,
            blocked: false,
            faults,
            removed: [false; SESSIONS.len()],
            recovered: [true; SESSIONS.len()],
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let builder = spanledger::builder().root(self.dir.path());
        let builder = builder.resource("life", self.lives.len());
        let (layer, guard) = builder.build().unwrap();
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        self.running = Some((dispatch, guard));
        self.lives.push(Life::default());
        if self.blocked {
            self.mark_faulty();
        }
    }

    fn mark_faulty(&mut self) {
        let life = self.lives.last_mut().unwrap();
        life.parts.iter_mut().for_each(|part| part.faulty = true);
    }

    fn part(&mut self, session: usize) -> &mut Part {
        &mut self.lives.last_mut().unwrap().parts[session]
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// One of the spans that are held.
    fn pick(&self, index: &Index, fits: impl Fn(&ModelSpan) -> bool) -> Option<usize> {
        let held = self.held.iter().enumerate().filter_map(|(at, held)| {
            let held = held.as_ref().filter(|held| !held.dropped)?;
            fits(&self.spans[held.model].1).then_some(at)
        });
        let fitting: Vec<usize> = held.collect();
        (!fitting.is_empty()).then(|| fitting[index.index(fitting.len())])
    }

    pub fn perform(&mut self, op: &Op) {
        let (dispatch, _) = self.running.as_ref().unwrap();
        let dispatch = dispatch.clone();
        tracing::dispatcher::with_default(&dispatch, || self.act(op));
        drop(dispatch);
        match op {
            Op::Restart => {
                self.stop();
                self.start();
            }
            Op::Crash => {
                self.crash();
                self.start();
            }
            _ => {}
        }
    }

    fn act(&mut self, op: &Op) {
        match op {
            Op::Open {
                session,
                kind,
                under,
            } => self.open(*session, *kind, under.as_ref()),
            Op::Record { span } => self.on(span, |world, span, session| {
                let number = world.number();
                span.set("note", number);
                world.part(session).event("span_update", number);
            }),
            Op::Event { span } => self.on(span, |world, span, session| {
                let number = world.number();
                events::custom("mine", json!({"n": number})).on(span).emit();
                world.part(session).event("mine", number);
            }),
            Op::EventInSession { session } => {
                let number = self.number();
                let handle = self.running.as_ref().unwrap().1.handle();
                let event = events::custom("mine", json!({"n": number}));
                handle.session(SESSIONS[*session]).record(event);
                self.part(*session).event("mine", number);
            }
            Op::Stream { span } => self.on(span, |world, span, session| {
                let number = world.number();
                let mut stream = span.stream("m").part(number);
                stream.push(WORDS);
                stream.end();
                let part = world.part(session);
                part.event("message_delta", number * 2);
                part.event("message_delta", number * 2 + 1);
                part.event("message_assistant", number);
            }),
            Op::Finish { span, failed } => {
                let Some(at) = self.pick(span, |_| true) else {
                    return;
                };
                let held = self.held[at].as_ref().unwrap();
                held.span
                    .finish(if *failed { Outcome::Error } else { Outcome::Ok });
                let model = held.model;
                self.close(model, *failed);
            }
            Op::Drop { span } => {
                if let Some(at) = self.pick(span, |_| true) {
                    self.drop_span(at);
                }
            }
            Op::Recover { session } => {
                let handle = self.running.as_ref().unwrap().1.handle();
                handle.session(SESSIONS[*session]).recover();
                self.recovered[*session] |= !self.blocked;
            }
            Op::Flush => {
                self.running.as_ref().unwrap().1.handle().flush();
            }
            Op::Remove { session } => self.remove(*session),
            Op::Block => self.block(),
            Op::Unblock => self.unblock(),
            Op::Restart | Op::Crash => {}
        }
    }

    fn on(&mut self, span: &Index, f: impl FnOnce(&mut Self, &Span, usize)) {
        let Some(at) = self.pick(span, |_| true) else {
            return;
        };
        let held = self.held[at].as_ref().unwrap();
        let (span, session) = (held.span.clone(), self.spans[held.model].1.session);
        f(self, &span, session);
    }

    fn open(&mut self, session: usize, kind: Kind, under: Option<&Index>) {
        let number = self.number();
        // What is opened inside a span that has ended is marked as late, as is what had to be
        // written again: with faults, only the latter is to be found.
        let faults = self.faults;
        let fits = |span: &ModelSpan| span.session == session && !(faults && span.closed);
        let parent = under.and_then(|index| self.pick(index, fits));
        let above = parent.map(|at| self.held[at].as_ref().unwrap().span.clone());
        let handle = self.running.as_ref().unwrap().1.handle();
        let here = handle.session(SESSIONS[session]);
        macro_rules! start {
            ($builder:expr) => {{
                let builder = $builder.set("n", number);
                match &above {
                    Some(span) => builder.child_of(span).start(),
                    None => builder.in_session(&here).start(),
                }
            }};
        }
        let span = match kind {
            Kind::Run => start!(spans::session_run(SESSIONS[session], "agent")),
            Kind::Turn => start!(spans::session_turn()),
            Kind::Model => start!(spans::model_call("p", "m").usage(&usage(number))),
            Kind::Tool => start!(spans::tool_call("bash", "c")),
            Kind::Permission => start!(spans::permission_evaluate("bash")),
            Kind::Compaction => start!(spans::compaction_run()),
        };
        let model = ModelSpan {
            number,
            kind,
            session,
            closed: false,
        };
        self.part(session).open(&model);
        if kind == Kind::Run {
            self.recovered[session] |= !self.blocked;
        }
        if let Some(at) = parent {
            self.held[at].as_mut().unwrap().inside += 1;
        }
        self.held.push(Some(Held {
            span,
            model: self.spans.len(),
            parent,
            dropped: false,
            inside: 0,
        }));
        self.spans.push((self.lives.len() - 1, model));
    }

    fn close(&mut self, model: usize, failed: bool) {
        let (_, span) = &mut self.spans[model];
        let part = &mut self.lives.last_mut().unwrap().parts[span.session];
        part.close(span, failed);
    }

    /// Drops a span. It ends, and so do parents that waited for it only.
    fn drop_span(&mut self, at: usize) {
        let held = self.held[at].as_mut().unwrap();
        held.dropped = true;
        held.span = Span::none();
        let mut next = Some(at);
        while let Some(at) = next {
            let held = self.held[at].as_ref().unwrap();
            if !held.dropped || held.inside > 0 {
                return;
            }
            let (model, parent) = (held.model, held.parent);
            self.close(model, false);
            self.held[at] = None;
            if let Some(parent) = parent {
                self.held[parent].as_mut().unwrap().inside -= 1;
            }
            next = parent;
        }
    }

    fn stop(&mut self) {
        self.lives.last_mut().unwrap().cut_off = self.blocked;
        self.drop_all();
        self.running = None;
    }

    fn drop_all(&mut self) {
        let dispatch = self.running.as_ref().unwrap().0.clone();
        tracing::dispatcher::with_default(&dispatch, || {
            for at in (0..self.held.len()).rev() {
                if self.held[at].as_ref().is_some_and(|held| !held.dropped) {
                    self.drop_span(at);
                }
            }
        });
        self.held.clear();
    }

    /// Leaks everything and removes the writer's file, as the next process that sweeps
    /// would: then the leaked state looks like that of a dead process.
    fn crash(&mut self) {
        std::mem::forget(std::mem::take(&mut self.held));
        std::mem::forget(self.running.take());
        let writers = std::fs::read_dir(self.dir.path().join("writers"));
        for writer in writers.into_iter().flatten() {
            std::fs::remove_file(writer.unwrap().path()).unwrap();
        }
        self.lives.last_mut().unwrap().crashed = true;
        self.recovered = [false; SESSIONS.len()];
    }

    fn sessions(&self) -> (PathBuf, PathBuf) {
        (
            self.dir.path().join("sessions"),
            self.dir.path().join("sessions.away"),
        )
    }

    fn remove(&mut self, session: usize) {
        let dir = session_dir(self.dir.path(), SESSIONS[session]);
        if !self.blocked && dir.exists() {
            std::fs::remove_dir_all(dir).unwrap();
            self.removed[session] = true;
        }
    }

    fn block(&mut self) {
        let (here, away) = self.sessions();
        if !std::mem::replace(&mut self.blocked, true) {
            if here.exists() {
                std::fs::rename(&here, &away).unwrap();
            }
            std::fs::write(here, "in the way").unwrap();
        }
        self.mark_faulty();
    }

    fn unblock(&mut self) {
        let (here, away) = self.sessions();
        if std::mem::replace(&mut self.blocked, false) {
            std::fs::remove_file(&here).unwrap();
            if away.exists() {
                std::fs::rename(away, here).unwrap();
            }
        }
    }

    pub fn end(mut self) -> Done {
        self.unblock();
        // The last process ends normally, so nothing is pending afterwards.
        self.drop_all();
        let handle = self.running.as_ref().unwrap().1.handle();
        assert_eq!(handle.flush(), 0);
        drop(handle);
        self.stop();
        Done {
            dir: self.dir,
            spans: self.spans,
            lives: self.lives,
            removed: self.removed,
            recovered: self.recovered,
        }
    }
}
