//! A span or an event of a session.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};

use super::lookup::blob_of;
use crate::cost::Cost;
use crate::trace::typed::{ErrorInfo, Fields, Log, Message, Span, SpanLink, Subagent};
use crate::trace::{
    Address, Kind, Outcome, RawLine, RawValue, SpanKind, Usage, named_enum, parse_time, time_text,
};

named_enum! {
    /// Whether a node is over.
    #[non_exhaustive]
    pub enum NodeState {
        /// A span without a close line.
        Open = "open",
        /// A span with a close line.
        Closed = "closed",
        /// An event: it has no end of its own.
        Event = "event",
    }
}

/// A span or an event of a session, with the fields of its most complete line.
#[derive(Clone, Debug)]
pub struct Node {
    /// The most complete line: the close line of a span that has one.
    pub address: Address,
    /// What it is, by the kind of the line that opened it. A message whose deltas have arrived and
    /// whose whole line has not is a [`Kind::MessageAssistant`] or a [`Kind::ToolInputDelta`].
    pub kind: Kind,
    /// Whether it is over.
    pub state: NodeState,
    /// A span's own id; none for an event.
    pub span_id: Option<u64>,
    /// The span that contains it.
    pub parent: Option<u64>,
    /// The trace that it belongs to.
    pub trace_id: Option<Box<str>>,
    /// The index of its turn.
    pub turn: Option<u32>,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// How long it took, if known.
    pub duration: Option<u64>,
    /// The name of a kind that is [`Kind::Other`].
    other: Option<Box<str>>,
    payload: Box<str>,
    updates: Vec<Box<str>>,
    /// Text that has arrived in deltas, as long as no line has the whole message.
    pub(super) streamed: Option<String>,
}

fn hex(id: Option<&str>) -> Option<u64> {
    u64::from_str_radix(id?, 16).ok()
}

impl Node {
    /// From a line by itself: an event, or a span as far as that line describes it.
    pub fn of_line(line: &RawLine<'_>) -> Self {
        let kind = line.kind();
        if kind.is_close() {
            let mut node = Self::span(line);
            node.close(line);
            return node;
        }
        match kind.opens() {
            Some(_) => Self::span(line),
            None => Self::event(line),
        }
    }

    /// From the line of an event.
    pub(super) fn event(line: &RawLine<'_>) -> Self {
        Self::begin(line, parse_time(line.ts).unwrap_or(0))
    }

    fn begin(line: &RawLine<'_>, start: u64) -> Self {
        let kind = line.kind();
        Self {
            address: line.address(),
            kind,
            state: NodeState::Event,
            span_id: None,
            parent: hex(line.span_id),
            trace_id: line.trace_id.map(Into::into),
            turn: line.turn,
            start,
            duration: None,
            other: (kind == Kind::Other).then(|| line.kind.as_ref().into()),
            payload: line.payload().json().into(),
            updates: Vec::new(),
            streamed: None,
        }
    }

    /// A message or a tool input of which only deltas have arrived: from the first one's line.
    pub(super) fn arriving(line: &RawLine<'_>, text: String) -> Self {
        let mut node = Self::event(line);
        if node.kind == Kind::MessageDelta {
            node.kind = Kind::MessageAssistant;
        }
        node.streamed = Some(text);
        node
    }

    /// From the close line of a run.
    pub(super) fn run_end(line: &RawLine<'_>) -> Self {
        let mut node = Self::event(line);
        let span: Span<'_> = line.into();
        // Recovery writes the line later than the run ended.
        if node.kind == Kind::Interrupted
            && let (Some(start), Some(ns)) = (span.start(), span.duration_ns())
        {
            node.start = start.saturating_add(ns);
        }
        node
    }

    /// From the open line of a span, or from a close line whose open line is missing.
    pub(super) fn span(line: &RawLine<'_>) -> Self {
        let span: Span<'_> = line.into();
        let start = span.start().or_else(|| parse_time(line.ts));
        let mut node = Self {
            span_id: hex(line.span_id),
            parent: hex(line.parent_span_id),
            state: NodeState::Open,
            ..Self::begin(line, start.unwrap_or(0))
        };
        if let Some(kind) = line.closes() {
            node.kind = kind.opening();
        }
        node
    }

    /// Adds a close line, which repeats all earlier fields.
    pub(super) fn close(&mut self, line: &RawLine<'_>) {
        self.address = line.address();
        self.state = NodeState::Closed;
        self.payload = line.payload().json().into();
        self.updates.clear();
        let span: Span<'_> = line.into();
        self.duration = span.duration_ns();
        self.start = span.start().unwrap_or(self.start);
    }

    pub(super) fn update(&mut self, payload: &str) {
        self.updates.push(payload.into());
    }

    /// The kind's name in the trace.
    pub fn kind_name(&self) -> &str {
        match (self.kind, &self.other) {
            (Kind::Other, Some(name)) => name,
            (Kind::ToolInputDelta, _) => "tool_input",
            (kind, _) => kind.as_str(),
        }
    }

    /// The span that contains it. If its trace had grown too long and it started another one, a link
    /// names that span.
    pub fn within(&self) -> Option<u64> {
        let can_move = [
            Kind::TurnStart,
            Kind::ToolCall,
            Kind::ModelCall,
            Kind::CompactionStart,
            Kind::SpanStart,
        ];
        match self.parent {
            None if can_move.contains(&self.kind) => self.first_link(),
            parent => parent,
        }
    }

    /// The span that its first link names.
    fn first_link(&self) -> Option<u64> {
        let link = self.view::<Span<'_>>().links()?.items().next()?;
        hex(SpanLink::from(link).span_id().as_deref())
    }

    /// Its fields as a typed view, the newest values first.
    ///
    /// ```
    /// use spanledger::session::Node;
    /// use spanledger::trace::{Kind, RawLine, typed::ToolCall};
    /// # let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"s","payload":{"tool_id":"bash"}}"#;
    /// let node = Node::of_line(&RawLine::parse(bytes)?);
    /// if node.kind == Kind::ToolCall {
    ///     let call: ToolCall = node.view();
    ///     assert_eq!(call.tool_id().as_deref(), Some("bash"));
    /// }
    /// # Ok::<(), spanledger::trace::LineError>(())
    /// ```
    pub fn view<'a, V: From<Fields<'a>>>(&'a self) -> V {
        let updates = self.updates.iter().rev().map(AsRef::as_ref);
        Fields::newest_first(updates.chain([&*self.payload])).into()
    }

    /// A field by its name, the newest value first. [`view`](Self::view) has the known ones typed.
    pub fn get(&self, name: &str) -> Option<RawValue<'_>> {
        self.view::<Fields<'_>>().get(name)
    }

    /// The fields of its most complete line, in order.
    pub fn members(&self) -> impl Iterator<Item = (&str, RawValue<'_>)> {
        RawValue::new(&self.payload).members()
    }

    /// The names and newest values of all its fields, in order.
    pub fn fields(&self) -> Vec<(&str, RawValue<'_>)> {
        let mut all: Vec<(&str, RawValue<'_>)> = Vec::new();
        for text in [&self.payload].into_iter().chain(&self.updates) {
            for (name, value) in RawValue::new(text).members() {
                match all.iter_mut().find(|(known, _)| *known == name) {
                    Some(known) => known.1 = value,
                    None => all.push((name, value)),
                }
            }
        }
        all
    }

    /// All its fields, parsed, with the updates.
    pub fn payload_json(&self) -> Value {
        let mut all = serde_json::Map::new();
        for text in [&self.payload].into_iter().chain(&self.updates) {
            if let Some(Value::Object(fields)) = RawValue::new(text).value() {
                all.extend(fields);
            }
        }
        Value::Object(all)
    }

    /// Puts values that were moved to blobs back. A value whose blob can't be read stays a marker;
    /// returns the errors.
    pub fn fetch_blobs(&mut self, session: &Path) -> Vec<std::io::Error> {
        let mut errors = Vec::new();
        if !self.payload.contains("\"$blob\"") {
            return errors;
        }
        let Value::Object(mut fields) = self.payload_json() else {
            return errors;
        };
        for value in fields.values_mut() {
            match blob_of(value).map(|(sha256, size)| super::blob(session, sha256, size)) {
                Some(Ok(text)) => *value = text.into(),
                Some(Err(error)) => errors.push(error),
                None => {}
            }
        }
        self.payload = Value::Object(fields).to_string().into();
        self.updates.clear();
        errors
    }

    /// When it ended, or began if it has no end, in nanoseconds since 1970.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration.unwrap_or(0))
    }

    /// How it ended; none while it is open.
    pub fn outcome(&self) -> Option<Outcome> {
        self.view::<Span<'_>>().outcome()
    }

    /// The name of the outcome, also of one that this version does not know.
    pub fn outcome_name(&self) -> Option<Cow<'_, str>> {
        self.get("outcome")?.text()
    }

    /// Tokens and cost of a run, turn or model call.
    pub fn usage(&self) -> Option<Usage> {
        self.get("usage").map(|usage| Usage::of(&usage.into()))
    }

    /// What a model call cost: as recorded, else by list prices. Of another span, what was recorded on it.
    pub fn cost(&self) -> Cost {
        if self.kind != Kind::ModelCall {
            return Cost::recorded(&self.usage().unwrap_or_default());
        }
        let mut cost = Cost::default();
        cost.add_call(&self.view(), None, "", self.start);
        cost
    }

    /// The text of a message, as far as it has arrived.
    pub fn content(&self) -> Option<Cow<'_, str>> {
        match &self.streamed {
            Some(text) => Some(Cow::Borrowed(text)),
            None => self.view::<Message<'_>>().content()?.text(),
        }
    }

    /// Whether a message has arrived in deltas, and no line has it whole.
    pub fn is_arriving(&self) -> bool {
        self.streamed.is_some()
    }

    /// Whether a message stopped before its end.
    pub fn is_incomplete(&self) -> bool {
        self.streamed.is_some() || self.view::<Message<'_>>().complete() == Some(false)
    }

    /// The error's message, with its type if that is known, and with its causes.
    pub fn error(&self) -> Option<String> {
        self.get("error").map(error_text)
    }

    /// The session of the subagent that starts here.
    pub fn subagent(&self) -> Option<Cow<'_, str>> {
        match self.kind {
            Kind::Subagent => self.view::<Subagent<'_>>().child_session_id(),
            _ => None,
        }
    }

    /// Whether a run starts or resumes here.
    pub fn starts_run(&self) -> bool {
        self.kind.opens() == Some(SpanKind::Run)
    }

    /// Whether this is an error or a gap, or a span that failed.
    pub fn is_failure(&self) -> bool {
        use Outcome::{Cancelled, Error, Interrupted, TimedOut};
        let level = || self.view::<Log<'_>>().level();
        matches!(self.kind, Kind::Error | Kind::Gap | Kind::Interrupted)
            || matches!(
                self.outcome(),
                Some(Error | TimedOut | Interrupted | Cancelled)
            )
            || self.get("error").is_some()
            || (self.kind == Kind::Log && level().as_deref() == Some("ERROR"))
    }

    /// As JSON, with stable names.
    pub fn to_json(&self, session_id: &str) -> Value {
        let hex = |id: Option<u64>| id.map(|id| format!("{id:016x}"));
        json!({
            "type": "node",
            "session_id": session_id,
            "address": self.address.to_string(),
            "kind": self.kind_name(),
            "state": self.state.as_str(),
            "turn": self.turn,
            "trace_id": self.trace_id,
            "span_id": hex(self.span_id),
            "parent_span_id": hex(self.parent),
            "start": time_text(self.start, 9),
            "duration_ns": self.duration,
            "outcome": self.outcome_name(),
            "content": self.content(),
            "payload": self.payload_json(),
        })
    }
}

/// An error in words: its type if that is known, its message, and each cause that the message does
/// not repeat.
pub(crate) fn error_text(error: RawValue<'_>) -> String {
    let info = ErrorInfo::from(error);
    match (info.error_type(), message_with_causes(&info)) {
        (Some(kind), Some(message)) => {
            let kind = kind.rsplit("::").next().unwrap_or(&kind);
            format!("{kind}: {message}")
        }
        (None, Some(message)) => message,
        (Some(kind), None) => kind.into_owned(),
        _ => error
            .text()
            .map_or_else(|| error.json().to_owned(), Cow::into_owned),
    }
}

/// The error's message, and after it those of its causes.
pub(crate) fn message_with_causes(error: &ErrorInfo<'_>) -> Option<String> {
    let mut text = error.message()?.text()?.into_owned();
    let causes = error.source().into_iter();
    for cause in causes.flat_map(|causes| causes.items()) {
        // Some errors repeat their cause in their own message.
        if let Some(cause) = cause.text().filter(|cause| !text.contains(cause.as_ref())) {
            text.push_str(&format!(": {cause}"));
        }
    }
    Some(text)
}
