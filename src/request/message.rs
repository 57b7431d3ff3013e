//! A message in one form for all APIs, and what the readers of the APIs share.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::canonical::digest;

/// A message of a conversation. Its parts are those of the GenAI conventions: `{type: text, content}`,
/// `{type: reasoning, content}`, `{type: tool_call, id, name, arguments}`, `{type: tool_call_response, id,
/// response}`. A part of another type is as the body has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The author: `user`, `assistant`, `system`, `tool`, or another word.
    pub role: String,
    /// The parts.
    pub parts: Vec<Value>,
    /// Why the model stopped, of an answer.
    pub finish_reason: Option<String>,
}

impl Message {
    /// A message with these parts.
    pub fn new(role: &str, parts: Vec<Value>) -> Self {
        Self {
            role: role.to_owned(),
            parts,
            finish_reason: None,
        }
    }

    /// A message that is one text.
    pub fn text(role: &str, text: &str) -> Self {
        Self::new(role, vec![text_part(text)])
    }

    /// Reads a message of the GenAI conventions. `None`: it has another shape.
    pub(crate) fn from_json(value: Value) -> Option<Self> {
        let Value::Object(mut message) = value else {
            return None;
        };
        let parts = match (message.remove("parts"), message.remove("content")) {
            (Some(Value::Array(parts)), _) | (None, Some(Value::Array(parts))) => parts,
            (None, Some(Value::String(text))) => vec![text_part(&text)],
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

    /// As the GenAI conventions have it.
    pub(crate) fn to_json(&self) -> Value {
        json!({"role": self.role, "parts": self.parts})
    }

    /// Identifies the message, also when it is sent again: then an answer often has neither its finish reason nor
    /// its reasoning.
    pub(crate) fn key(&self) -> u128 {
        let mut hash = Sha256::new();
        hash.update(self.role.as_bytes());
        for part in self.parts.iter().filter(|part| kind(part) != "reasoning") {
            hash.update([0]);
            hash.update(part.to_string().as_bytes());
        }
        let bytes: [u8; 32] = hash.finalize().into();
        u128::from_be_bytes(bytes[..16].try_into().unwrap_or_default())
    }

    /// A digest of what it says: without the ids of calls, which differ from run to run, without reasoning, and
    /// with the results of parallel calls in no order.
    pub fn meaning(&self) -> String {
        let mut results = Vec::new();
        let mut others = Vec::new();
        for part in self.parts.iter().filter(|part| kind(part) != "reasoning") {
            let mut part = part.clone();
            if is_call(&part)
                && let Some(members) = part.as_object_mut()
            {
                members.remove("id");
            }
            match kind(&part) {
                "tool_call_response" => results.push(digest(&part)),
                _ => others.push(part),
            }
        }
        results.sort_unstable();
        digest(&json!([self.role, others, results]))
    }

    /// Whether the model wrote it.
    pub fn is_from_model(&self) -> bool {
        matches!(self.role.as_str(), "assistant" | "model")
    }

    /// Whether it is part of the instructions.
    pub fn is_system(&self) -> bool {
        matches!(self.role.as_str(), "system" | "developer")
    }

    /// Whether it holds nothing but results of tools.
    pub fn is_tool(&self) -> bool {
        let is_result = |part: &Value| kind(part) == "tool_call_response";
        self.role == "tool" || (!self.parts.is_empty() && self.parts.iter().all(is_result))
    }

    /// The author, by what the message holds: results of tools are the tools'.
    pub fn author(&self) -> &str {
        match self.role.as_str() {
            _ if self.is_tool() => "tool",
            _ if self.is_system() => "system",
            _ if self.is_from_model() => "assistant",
            role => role,
        }
    }

    /// The text of its text parts, if there is any.
    pub fn text_of_parts(&self) -> Option<String> {
        texts(&self.parts)
    }

    /// Its parts of a type.
    pub(crate) fn parts_of<'a>(&'a self, of: &'a str) -> impl Iterator<Item = &'a Value> {
        self.parts.iter().filter(move |part| kind(part) == of)
    }
}

/// The type of a part.
pub(crate) fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or_default()
}

fn is_call(part: &Value) -> bool {
    matches!(kind(part), "tool_call" | "tool_call_response")
}

/// The text of the text parts, if there is any.
pub(crate) fn texts(parts: &[Value]) -> Option<String> {
    let parts = parts.iter().filter(|part| kind(part) == "text");
    join_texts(parts.filter_map(|part| part["content"].as_str().or_else(|| part["text"].as_str())))
}

pub(crate) fn join_texts<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// A text, or the text of a list of parts.
pub(super) fn text_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| {
                let text = part.get("text").or_else(|| part.get("content"));
                text.and_then(Value::as_str)
            });
            join_texts(texts)
        }
        _ => None,
    }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

/// A call of a tool. Arguments that are a text of JSON are read.
pub(super) fn call_part(
    id: Option<&Value>,
    name: Option<&Value>,
    arguments: Option<&Value>,
) -> Value {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let arguments = match arguments {
        Some(Value::String(text)) => read(text).unwrap_or_else(|| text.as_str().into()),
        Some(value) => value.clone(),
        None => Value::Null,
    };
    json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
}

pub(super) fn result_part(id: Option<&Value>, response: Option<&Value>) -> Value {
    json!({"type": "tool_call_response", "id": id, "response": response})
}

pub(super) fn reasoning_part(text: &str) -> Value {
    json!({"type": "reasoning", "content": text})
}

/// A tool as a catalog has it: `{name, description, schema}`. Other members stay.
pub(crate) fn tool(tool: &Value) -> Value {
    let Value::Object(tool) = tool else {
        return tool.clone();
    };
    let mut tool: Map<String, Value> = tool.clone();
    if let Some(Value::Object(function)) = tool.remove("function") {
        tool.extend(function);
    }
    for name in ["parameters", "input_schema"] {
        if !tool.contains_key("schema")
            && let Some(schema) = tool.remove(name)
        {
            tool.insert("schema".to_owned(), schema);
        }
    }
    Value::Object(tool)
}
