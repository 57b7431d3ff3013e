//! Messages as the conventions spell them, `[{"role": …, "parts": [{"type": "text", "content": …}]}]`, and the
//! events that a message is recorded as.

use serde_json::{Map, Value, json};

use super::MessageKey;
use crate::request::{Message, join_texts, kind};
use crate::trace::Kind;

/// Reads a list of messages. Nothing where any of it has another shape: then it is better kept as
/// it is.
pub(super) fn parse(text: &str) -> Option<Vec<Message>> {
    let Ok(Value::Array(list)) = serde_json::from_str(text) else {
        return None;
    };
    list.into_iter().map(Message::from_json).collect()
}

impl MessageKey {
    pub fn of(message: &Message) -> Self {
        Self {
            digest: message.key(),
            from_model: message.is_from_model(),
            is_system: message.is_system(),
        }
    }
}

/// The events that a message is recorded as.
pub(crate) fn events(message: &Message) -> Vec<(Kind, Map<String, Value>)> {
    let mut events = Vec::new();
    let thoughts = message.parts_of("reasoning");
    if let Some(thought) = join_texts(thoughts.filter_map(|part| part["content"].as_str())) {
        let mut fields = Map::new();
        fields.insert("content".to_owned(), thought.into());
        events.push((Kind::MessageReasoning, fields));
    }
    let is_other = |part: &&Value| kind(part) != "reasoning";
    let parts: Vec<_> = message.parts.iter().filter(is_other).collect();
    if parts.is_empty() {
        return events;
    }
    let is_response = |part: &&Value| kind(part) == "tool_call_response";
    let kind_of_line = if message.is_from_model() {
        Kind::MessageAssistant
    } else if message.is_system() {
        Kind::MessageSystem
    } else if message.role == "tool" || parts.iter().all(is_response) {
        Kind::MessageTool
    } else {
        Kind::MessageUser
    };
    let mut fields = Map::new();
    if !matches!(
        message.role.as_str(),
        "user" | "assistant" | "model" | "system" | "tool"
    ) {
        fields.insert("role".to_owned(), message.role.as_str().into());
    }
    if let Some(text) = message.text_of_parts() {
        fields.insert("content".to_owned(), text.into());
    }
    if parts.iter().any(|part| kind(part) != "text") {
        fields.insert("parts".to_owned(), json!(parts));
    }
    events.push((kind_of_line, fields));
    events
}
