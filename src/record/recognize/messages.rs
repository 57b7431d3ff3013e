//! Messages as the conventions spell them, `[{"role": …, "parts": [{"type": "text", "content": …}]}]`, and the
//! events that a message is recorded as.

use serde_json::Value;

use crate::record::raw_fields::RawFields;
use crate::request::Message;
use crate::trace::Kind;

/// Reads a list of messages. Nothing where any of it has another shape: then it is better kept as
/// it is.
pub(super) fn parse(text: &str) -> Option<Vec<Message>> {
    let Ok(Value::Array(list)) = serde_json::from_str(text) else {
        return None;
    };
    list.into_iter().map(Message::from_json).collect()
}

fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or_default()
}

/// The events that a message is recorded as.
pub(crate) fn events(message: &Message) -> Vec<(Kind, RawFields)> {
    let mut events = Vec::new();
    let is_reasoning = |part: &&Value| kind(part) == "reasoning";
    let thoughts = message.parts.iter().filter(is_reasoning);
    let thoughts: Vec<_> = thoughts
        .filter_map(|part| part["content"].as_str())
        .collect();
    if !thoughts.is_empty() {
        let mut fields = RawFields::new();
        fields.text(field!(Message.content), &thoughts.join("\n"));
        events.push((Kind::MessageReasoning, fields));
    }
    let parts: Vec<_> = message.parts.iter().filter(|p| !is_reasoning(p)).collect();
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
    let mut fields = RawFields::new();
    if !matches!(
        message.role.as_str(),
        "user" | "assistant" | "model" | "system" | "tool"
    ) {
        fields.text("role", &message.role);
    }
    if let Some(text) = message.text_of_parts() {
        fields.text(field!(Message.content), &text);
    }
    if parts.iter().any(|part| kind(part) != "text") {
        fields.json(field!(Message.parts), &parts);
    }
    events.push((kind_of_line, fields));
    events
}
