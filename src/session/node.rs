//! One thing that happened: a span, or an event.

use std::borrow::Cow;

use serde_json::Value;

use crate::ledger::parse_time;
use crate::reader::{Address, Payload, RawLine, RawValue};

/// Whether a node is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// A span that no line has closed.
    Open,
    /// A span that was closed.
    Closed,
    /// An event: it has no end of its own.
    Event,
}

/// A span or an event of a session, with the fields of the line that tells most of it.
#[derive(Clone, Debug)]
pub struct Node {
    /// The line that tells most: the close line of a span that has one.
    pub address: Address,
    /// What it is, by the kind of the line that opened it: `tool_call`, `message_user`, ….
    pub kind: Box<str>,
    /// Whether it is over.
    pub state: NodeState,
    /// A span's own id; none for an event.
    pub span_id: Option<u64>,
    /// The span it lies in.
    pub parent: Option<u64>,
    /// The trace it belongs to.
    pub trace_id: Option<Box<str>>,
    /// The enclosing turn.
    pub turn: Option<u32>,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// How long it took, where that is known.
    pub duration: Option<u64>,
    payload: Box<str>,
    updates: Vec<Box<str>>,
    /// Text that has arrived piece by piece and not been told whole yet.
    pub(super) streamed: Option<String>,
}

fn hex(id: Option<&str>) -> Option<u64> {
    u64::from_str_radix(id?, 16).ok()
}

impl Node {
    /// From the line of an event.
    pub(super) fn event(line: &RawLine<'_>) -> Self {
        Self {
            address: line.address(),
            kind: line.kind.as_ref().into(),
            state: NodeState::Event,
            span_id: None,
            parent: hex(line.span_id),
            trace_id: line.trace_id.map(Into::into),
            turn: line.turn,
            start: parse_time(line.ts).unwrap_or(0),
            duration: None,
            payload: line.payload().as_str().into(),
            updates: Vec::new(),
            streamed: None,
        }
    }

    /// From the close line of a run.
    pub(super) fn end(line: &RawLine<'_>) -> Self {
        let mut node = Self::event(line);
        let start = node.text("start").and_then(|text| parse_time(&text));
        let took = node.get("duration_ns").and_then(|value| value.u64());
        // Whoever closes what the dead left open does that later than it ended.
        if let (true, Some(start), Some(took)) = (line.kind == "interrupted", start, took) {
            node.start = start.saturating_add(took);
        }
        node
    }

    /// From the open line of a span, or from a close line whose open line is missing.
    pub(super) fn span(line: &RawLine<'_>) -> Self {
        let mut node = Self {
            span_id: hex(line.span_id),
            parent: hex(line.parent_span_id),
            state: NodeState::Open,
            ..Self::event(line)
        };
        if let Some(start) = node.text("start").and_then(|text| parse_time(&text)) {
            node.start = start;
        }
        if let Some(kind) = line.closes() {
            node.kind = kind.open_kind().into();
        }
        node
    }

    /// Takes over a close line, which repeats all that was said before.
    pub(super) fn close(&mut self, line: &RawLine<'_>) {
        self.address = line.address();
        self.state = NodeState::Closed;
        self.payload = line.payload().as_str().into();
        self.updates.clear();
        self.duration = self.get("duration_ns").and_then(|value| value.u64());
        if let Some(start) = self.text("start").and_then(|text| parse_time(&text)) {
            self.start = start;
        }
    }

    pub(super) fn update(&mut self, payload: &str) {
        self.updates.push(payload.into());
    }

    /// The span it lies in, also where that is in a trace which had grown too long for it: then a
    /// link says so.
    pub fn within(&self) -> Option<u64> {
        let goes_on = matches!(&*self.kind, "tool_call" | "model_call" | "compaction_start");
        if self.parent.is_some() || !goes_on {
            return self.parent;
        }
        let link = self.get("links")?.items().next()?;
        hex(link.get("span_id")?.text().as_deref())
    }

    /// A field, the newest value first.
    pub fn get(&self, name: &str) -> Option<RawValue<'_>> {
        let updates = self.updates.iter().rev();
        updates
            .chain([&self.payload])
            .find_map(|text| Payload::new(text).get(name))
    }

    /// A text field.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name)?.text()
    }

    /// The fields of the line that tells most, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, RawValue<'_>)> {
        Payload::new(&self.payload).members()
    }

    /// All its fields, parsed, the updates taken in.
    pub fn payload_json(&self) -> Value {
        let mut all = serde_json::Map::new();
        for text in [&self.payload].into_iter().chain(&self.updates) {
            if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
                all.extend(fields);
            }
        }
        Value::Object(all)
    }

    /// Puts values that were moved out back where they stood. One whose blob can't be read stays
    /// as it is: a marker that says where it should be. Which these are, and why.
    pub fn fetch_blobs(&mut self, session: &std::path::Path) -> Vec<std::io::Error> {
        let mut lost = Vec::new();
        if !self.payload.contains("\"$blob\"") {
            return lost;
        }
        let Value::Object(mut fields) = self.payload_json() else {
            return lost;
        };
        for value in fields.values_mut() {
            let blob = value.get("$blob").and_then(Value::as_str);
            match blob.map(|sha256| super::blob(session, sha256)) {
                Some(Ok(text)) => *value = text.into(),
                Some(Err(error)) => lost.push(error),
                None => {}
            }
        }
        self.payload = Value::Object(fields).to_string().into();
        self.updates.clear();
        lost
    }

    /// How it ended: ok, error, denied, cancelled, interrupted, unset; nothing while it is open.
    pub fn outcome(&self) -> Option<Cow<'_, str>> {
        self.text("outcome")
    }

    /// The text of a message, as far as it has arrived.
    pub fn content(&self) -> Option<Cow<'_, str>> {
        match &self.streamed {
            Some(text) => Some(Cow::Borrowed(text)),
            None => self.text("content"),
        }
    }

    /// Whether a message was told piece by piece, and not yet that this was all.
    pub fn is_arriving(&self) -> bool {
        self.streamed.is_some()
    }

    /// Whether a message stopped before it was whole.
    pub fn streamed_or_incomplete(&self) -> bool {
        self.streamed.is_some()
            || self.get("complete").and_then(|value| value.bool()) == Some(false)
    }

    /// The error's message, with its type where that is known, and with its causes.
    pub fn error(&self) -> Option<String> {
        Some(error_text(self.get("error")?))
    }
}

/// An error in words: its type where that is known, its message, and each cause that this does not
/// tell already.
pub(crate) fn error_text(error: RawValue<'_>) -> String {
    let part = |name| error.get(name).and_then(|value| value.text());
    match (part("error_type"), caused(error)) {
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
pub(super) fn caused(error: RawValue<'_>) -> Option<String> {
    let mut text = error.get("message")?.text()?.into_owned();
    let causes = error.get("source").into_iter();
    for cause in causes.flat_map(|causes| causes.items()) {
        // Some errors repeat their cause in their own message.
        if let Some(cause) = cause.text().filter(|cause| !text.contains(cause.as_ref())) {
            text.push_str(&format!(": {cause}"));
        }
    }
    Some(text)
}
