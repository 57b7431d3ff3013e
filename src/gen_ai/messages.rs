//! Messages as the conventions spell them: `[{"role": …, "parts": [{"type": "text", "content": …}]}]`.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::MessageKey;
use crate::trace::Kind;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    role: String,
    parts: Vec<Value>,
    pub finish_reason: Option<String>,
}

/// Reads a list of messages. Nothing where any of it has another shape: then it is better kept as
/// it is.
pub(super) fn parse(text: &str) -> Option<Vec<Message>> {
    let Ok(Value::Array(list)) = serde_json::from_str(text) else {
        return None;
    };
    list.into_iter().map(Message::from_json).collect()
}

/// The text of the text parts, if there is any.
pub(super) fn text_of(parts: &[Value]) -> Option<String> {
    let texts = parts.iter().filter(|part| kind(part) == "text");
    join(texts.filter_map(|part| part["content"].as_str().or_else(|| part["text"].as_str())))
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or_default()
}

fn is_tool_response(part: &Value) -> bool {
    kind(part) == "tool_call_response"
}

impl Message {
    fn from_json(value: Value) -> Option<Self> {
        let Value::Object(mut message) = value else {
            return None;
        };
        let text = |value: Value| json!({"type": "text", "content": value});
        let parts = match (message.remove("parts"), message.remove("content")) {
            (Some(Value::Array(parts)), _) | (None, Some(Value::Array(parts))) => parts,
            (None, Some(content @ Value::String(_))) => vec![text(content)],
            _ => return None,
        };
        Some(Self {
            role: message.get("role")?.as_str()?.to_owned(),
            parts,
            finish_reason: message
                .get("finish_reason")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }

    /// Identifies the message, also when it is sent again: then an answer often has neither its finish reason nor
    /// its reasoning.
    pub fn digest(&self) -> u128 {
        let mut hash = Sha256::new();
        hash.update(self.role.as_bytes());
        for part in self.parts.iter().filter(|part| kind(part) != "reasoning") {
            hash.update([0]);
            hash.update(part.to_string().as_bytes());
        }
        let bytes: [u8; 32] = hash.finalize().into();
        u128::from_be_bytes(bytes[..16].try_into().unwrap_or_default())
    }

    /// What a conversation is compared by.
    pub fn key(&self) -> MessageKey {
        MessageKey {
            digest: self.digest(),
            from_model: self.is_from_model(),
            is_system: self.is_system(),
        }
    }

    pub fn is_from_model(&self) -> bool {
        matches!(self.role.as_str(), "assistant" | "model")
    }

    pub fn is_system(&self) -> bool {
        matches!(self.role.as_str(), "system" | "developer")
    }

    pub fn text(&self) -> Option<String> {
        text_of(&self.parts)
    }

    /// The events that it is recorded as.
    pub fn events(&self) -> Vec<(Kind, Map<String, Value>)> {
        let mut events = Vec::new();
        let is_reasoning = |part: &&Value| kind(part) == "reasoning";
        let thoughts = self.parts.iter().filter(is_reasoning);
        if let Some(thought) = join(thoughts.filter_map(|part| part["content"].as_str())) {
            let mut fields = Map::new();
            fields.insert("content".to_owned(), thought.into());
            events.push((Kind::MessageReasoning, fields));
        }
        let parts: Vec<_> = self.parts.iter().filter(|p| !is_reasoning(p)).collect();
        if parts.is_empty() {
            return events;
        }
        let kind_of_line = if self.is_from_model() {
            Kind::MessageAssistant
        } else if self.is_system() {
            Kind::MessageSystem
        } else if self.role == "tool" || parts.iter().all(|part| is_tool_response(part)) {
            Kind::MessageTool
        } else {
            Kind::MessageUser
        };
        let mut fields = Map::new();
        if !matches!(
            self.role.as_str(),
            "user" | "assistant" | "model" | "system" | "tool"
        ) {
            fields.insert("role".to_owned(), self.role.as_str().into());
        }
        if let Some(text) = self.text() {
            fields.insert("content".to_owned(), text.into());
        }
        if parts.iter().any(|part| kind(part) != "text") {
            fields.insert("parts".to_owned(), json!(parts));
        }
        events.push((kind_of_line, fields));
        events
    }
}
