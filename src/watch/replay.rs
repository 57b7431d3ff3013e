//! Limits and loops over the lines of a trace.

use std::collections::{HashMap, HashSet};

use super::counts::{Counts, RunClock, Unpriced, Used};
use super::identity::ToolStep;
use super::limits::Limits;
use super::loops::{LoopWarning, Loops};
use crate::trace::typed::{ModelCall, ModelUsage, Run, Span, ToolCall, Turn};
use crate::trace::{Address, Kind, RawLine, Refused, SpanKind, Usage, parse_time};

/// Reads the lines of a session and its subagents in the order of their times, and decides what limits would
/// have decided while they were recorded.
///
/// ```no_run
/// use spanledger::Limits;
/// use spanledger::read::SessionReader;
/// use spanledger::trace::ReadItem;
/// use spanledger::watch::Replay;
/// let mut replay = Replay::new(&Limits::new().tool_calls(50), "ses_1");
/// let mut reader = SessionReader::open("sessions/ses_1")?;
/// while let Some(found) = reader.next()? {
///     if let ReadItem::Line(line) = found
///         && let Some(stop) = replay.take(&line)
///     {
///         println!("{} {}", stop.address, stop.refused);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Replay {
    limits: Limits,
    /// The session that the others are subagents of.
    top: String,
    counts: Counts,
    clock: RunClock,
    unpriced: Unpriced,
    sessions: HashMap<String, SessionReplay>,
    warnings: Vec<(String, LoopWarning)>,
    last: u64,
}

/// A call that would have been refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stop {
    /// The session of the call.
    pub session_id: String,
    /// The line that starts the call.
    pub address: Address,
    /// The kind of that line.
    pub kind: Kind,
    /// Which limit, and what was counted.
    pub refused: Refused,
}

#[derive(Clone, Debug)]
struct SessionReplay {
    loops: Loops,
    /// The segment of its last run.
    run_seg: Option<u32>,
    /// The usage of the turn, by its index, or of the run is counted by what is inside.
    counted_turns: HashSet<u32>,
    run_counted: bool,
    /// The model calls that are open, with the usage that events inside them reported.
    models: HashMap<String, Usage>,
}

impl Replay {
    /// Nothing has happened yet. `top` is the session that the others are subagents of.
    pub fn new(limits: &Limits, top: &str) -> Self {
        Self {
            limits: limits.clone(),
            top: top.to_owned(),
            ..Self::default()
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts_at(self.last)
    }

    fn counts_at(&self, time: u64) -> Counts {
        Counts::at(&self.counts, self.clock.active(time))
    }

    /// The models whose price is not known, eight at most.
    pub fn unpriced_models(&self) -> &[String] {
        &self.unpriced.0
    }

    /// The loops so far, each with the session that it is in.
    pub fn warnings(&self) -> &[(String, LoopWarning)] {
        &self.warnings
    }

    /// Takes the next line. Returns the limit that the call which it starts would have exceeded.
    pub fn take(&mut self, line: &RawLine<'_>) -> Option<Stop> {
        let kind = line.kind();
        if kind == Kind::Segment || kind == Kind::Checkpoint {
            return None;
        }
        if !self.sessions.contains_key(&*line.session_id) {
            let session = SessionReplay::new(&self.limits);
            self.sessions.insert(line.session_id.to_string(), session);
        }
        if let Some(span) = kind.opens() {
            return self.opened(span, line);
        }
        if kind.is_close() {
            self.closed(line);
        } else if let Some(usage) = ModelUsage::of(line) {
            self.usage_event(&usage.usage(), line);
        }
        self.last = self.last.max(parse_time(line.ts).unwrap_or(0));
        None
    }

    fn opened(&mut self, kind: SpanKind, line: &RawLine<'_>) -> Option<Stop> {
        let start = Span::of(line).and_then(|span| span.start());
        let time = start.or_else(|| parse_time(line.ts)).unwrap_or(self.last);
        let is_top = *line.session_id == *self.top;
        let session = self.sessions.get_mut(&*line.session_id)?;
        match kind {
            SpanKind::Run => {
                let is_other = session.run_seg.replace(line.seg) != Some(line.seg);
                if is_other && session.loops.has_run() {
                    session.loops.runs_lost();
                    if is_top {
                        self.clock.lose(self.last);
                    }
                }
                session.loops.run_started();
                session.run_counted = false;
                if is_top {
                    self.clock.start(time);
                }
            }
            SpanKind::Turn => session.loops.turn_started(),
            SpanKind::Model => {
                let id = line.span_id.unwrap_or_default().to_owned();
                session.models.insert(id, Usage::default());
            }
            _ => {}
        }
        let in_loop = matches!(kind, SpanKind::Model | SpanKind::Tool)
            .then(|| session.loops.stopped())
            .flatten();
        self.last = self.last.max(time);
        self.counts.start(kind);
        let refused = self.limits.exceeded(kind, &self.counts_at(time));
        Some(Stop {
            session_id: line.session_id.to_string(),
            address: line.address(),
            kind: line.kind(),
            refused: refused.or(in_loop)?,
        })
    }

    fn closed(&mut self, line: &RawLine<'_>) {
        let Some(span) = line.closes() else { return };
        let common = Span::of(line);
        let start = common.as_ref().and_then(|span| span.start());
        let duration = common.as_ref().and_then(|span| span.duration_ns());
        let end = start
            .zip(duration)
            .map(|(start, ns)| start.saturating_add(ns));
        let end = end.or_else(|| parse_time(line.ts)).unwrap_or(self.last);
        let Some(session) = self.sessions.get_mut(&*line.session_id) else {
            return;
        };
        match span {
            SpanKind::Tool if line.kind() == Kind::ToolResult => {
                let warning = session.tool_ended(line, self.limits.volatile_names());
                let id = line.session_id.to_string();
                self.warnings.extend(warning.map(|warning| (id, warning)));
            }
            SpanKind::Model => {
                let inside = session.models.remove(line.span_id.unwrap_or_default());
                let Some(call) = ModelCall::of(line) else {
                    return;
                };
                let own = call.usage().filter(|usage| !usage.is_empty());
                let Some(usage) = own.or(inside.filter(|usage| !usage.is_empty())) else {
                    return;
                };
                session.counted(line.turn);
                let (provider, model) = (call.provider_id(), call.model_id());
                self.used(&usage, provider.as_deref(), model.as_deref(), end);
            }
            SpanKind::Turn => {
                let is_counted = line
                    .turn
                    .is_some_and(|turn| session.counted_turns.remove(&turn));
                let usage = Turn::of(line).and_then(|turn| turn.usage());
                if let Some(usage) = usage.filter(|usage| !is_counted && !usage.is_empty()) {
                    session.run_counted = true;
                    self.used(&usage, None, None, end);
                }
            }
            SpanKind::Run => {
                session.loops.run_ended();
                let is_counted = session.run_counted;
                if *line.session_id == *self.top {
                    self.clock.end(end);
                }
                let usage = Run::of(line).and_then(|run| run.usage());
                if let Some(usage) = usage.filter(|usage| !is_counted && !usage.is_empty()) {
                    self.used(&usage, None, None, end);
                }
            }
            _ => {}
        }
    }

    /// Usage inside an open model call counts when that ends.
    fn usage_event(&mut self, usage: &Usage, line: &RawLine<'_>) {
        let Some(session) = self.sessions.get_mut(&*line.session_id) else {
            return;
        };
        match line.span_id.and_then(|id| session.models.get_mut(id)) {
            Some(inside) => inside.merge(usage),
            None => {
                session.counted(line.turn);
                let time = parse_time(line.ts).unwrap_or(self.last);
                self.used(usage, None, None, time);
            }
        }
    }

    fn used(&mut self, usage: &Usage, provider: Option<&str>, model: Option<&str>, at: u64) {
        let used = Used {
            usage,
            provider,
            model,
            at,
        };
        if !self.counts.add_used(used, true) {
            self.unpriced.add(model.unwrap_or("unknown"));
        }
    }
}

impl SessionReplay {
    fn new(limits: &Limits) -> Self {
        Self {
            loops: Loops::new(limits),
            run_seg: None,
            counted_turns: HashSet::new(),
            run_counted: false,
            models: HashMap::new(),
        }
    }

    fn counted(&mut self, turn: Option<u32>) {
        self.counted_turns.extend(turn);
        self.run_counted = true;
    }

    fn tool_ended(&mut self, line: &RawLine<'_>, volatile: &[String]) -> Option<LoopWarning> {
        if !self.loops.is_on() {
            return None;
        }
        let outcome = ToolCall::of(line)?.outcome().unwrap_or_default();
        let fields = line.fields();
        let known = |name: &str| self.loops.known_tool(name);
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.json().as_bytes()));
        let step = ToolStep::of(fields, outcome, line.address(), volatile, known)?;
        self.loops.push(step)
    }
}
