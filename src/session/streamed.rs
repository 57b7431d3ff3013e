//! Text that arrives in deltas.

use std::borrow::Cow;
use std::collections::HashMap;

use super::node::Node;
use crate::trace::typed::{Delta, Message, ToolCall};
use crate::trace::{Kind, RawLine, RawValue};

/// Identifies a streamed text: a part of a message, or the input of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    session_id: String,
    /// The id of the message or tool call.
    id: String,
    part: u64,
}

impl StreamKey {
    fn new(line: &RawLine<'_>, id: Option<Cow<'_, str>>, part: Option<u64>) -> Option<Self> {
        Some(Self {
            session_id: line.session_id.to_string(),
            id: id?.into_owned(),
            part: part.unwrap_or(0),
        })
    }

    /// The text that a line has a delta of.
    pub fn of_delta(line: &RawLine<'_>) -> Option<Self> {
        let delta = Delta::of(line)?;
        let id = delta.message_id().or_else(|| delta.tool_call_id());
        Self::new(line, id, delta.part_index())
    }

    /// The text that a line of the model's message has whole.
    pub fn of_message(line: &RawLine<'_>) -> Option<Self> {
        if !matches!(line.kind(), Kind::MessageAssistant | Kind::MessageReasoning) {
            return None;
        }
        let message = Message::of(line)?;
        Self::new(line, message.message_id(), message.part_index())
    }
}

/// Whether lines of a kind are deltas.
pub fn is_delta(kind: Kind) -> bool {
    matches!(kind, Kind::MessageDelta | Kind::ToolInputDelta)
}

/// The text of a delta.
pub(super) fn delta_text<'a>(line: &RawLine<'a>) -> Cow<'a, str> {
    let text = Delta::of(line).and_then(|delta| delta.text()?.text());
    text.unwrap_or_default()
}

/// The deltas of one text, joined.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// The text so far, or the part that was not taken yet.
    pub text: String,
    /// The line of the delta that `text` begins in.
    pub first: Vec<u8>,
    /// Whether the first delta was seen.
    pub from_start: bool,
    /// The session that it belongs to.
    pub session_id: String,
    span_id: Option<String>,
    /// Its number among all texts.
    number: u64,
}

impl Streamed {
    /// The text as the node of an incomplete message or tool input.
    pub(crate) fn node(self) -> Option<Node> {
        let line = RawLine::parse(&self.first).ok()?;
        Some(Node::arriving(&line, self.text))
    }
}

/// The texts that have begun to arrive and that no line has whole yet.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    texts: HashMap<StreamKey, Streamed>,
    begun: u64,
}

impl Streams {
    /// Adds a delta to its text and returns that. A delta at offset 0 starts a new text; `replaced`
    /// gets the older one with the same key.
    pub fn push(
        &mut self,
        line: &RawLine<'_>,
        replaced: &mut Option<Streamed>,
    ) -> Option<&mut Streamed> {
        let key = StreamKey::of_delta(line)?;
        let from_start = Delta::of(line)?.offset() == Some(0);
        if from_start {
            *replaced = self.remove(&key);
        }
        let streamed = self.texts.entry(key).or_insert_with(|| {
            self.begun += 1;
            Streamed {
                text: String::new(),
                first: Vec::new(),
                from_start,
                session_id: line.session_id.to_string(),
                span_id: line.span_id.map(str::to_owned),
                number: self.begun,
            }
        });
        if streamed.text.is_empty() {
            streamed.first = line.as_bytes().to_owned();
        }
        streamed.text.push_str(&delta_text(line));
        Some(streamed)
    }

    /// Removes a text.
    pub fn remove(&mut self, key: &StreamKey) -> Option<Streamed> {
        self.texts.remove(key)
    }

    /// Removes the text that a line has whole: a message of the model, or the arguments of a tool
    /// call. Returns it with that line's content.
    pub(crate) fn finish<'a>(
        &mut self,
        line: &RawLine<'a>,
    ) -> Option<(Streamed, Option<RawValue<'a>>)> {
        if let Some(key) = StreamKey::of_message(line) {
            return Some((self.remove(&key)?, Message::of(line)?.content()));
        }
        if line.kind() != Kind::ToolCall {
            return None;
        }
        let call = ToolCall::of(line)?;
        let key = StreamKey::new(line, call.tool_call_id(), None)?;
        Some((self.remove(&key)?, call.args()))
    }

    /// Removes the texts that an interrupted span had begun, in the order they began.
    pub(crate) fn interrupt(&mut self, span_id: Option<&str>) -> Vec<Streamed> {
        let is_its = |_: &StreamKey, streamed: &mut Streamed| {
            span_id.is_some() && streamed.span_id.as_deref() == span_id
        };
        let its = self.texts.extract_if(is_its);
        let mut its: Vec<_> = its.map(|(_, streamed)| streamed).collect();
        its.sort_by_key(|streamed| streamed.number);
        its
    }

    /// All texts, in the order they began.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Streamed> {
        let mut all: Vec<_> = self.texts.values_mut().collect();
        all.sort_by_key(|streamed| streamed.number);
        all.into_iter()
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Removes the texts without any text left.
    pub fn forget_empty(&mut self) {
        self.texts.retain(|_, streamed| !streamed.text.is_empty());
    }
}
