//! What the close line of a model call has of the conversation, where the mirror sends content: a span is sent
//! from its close line alone. The shape is that of the GenAI conventions.

use std::sync::Arc;

use serde_json::Value;

use super::ContextAsset;
use super::open_span::write_list;
use crate::record::fields::Fields;
use crate::trace::{Kind, put, write_string};

/// The most that waits for the next model call, in bytes.
const MAX_WAITING: usize = 64 * 1024;

/// What of a session's conversation is sent with model calls.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The messages since the last model call opened, each followed by a comma.
    waiting: Vec<u8>,
    in_force: Assets,
}

/// The system instructions and the tool definitions, as JSON, by [`ContextAsset`].
type Assets = [Option<Arc<[u8]>>; 2];

/// What a model call was given, and what it answered.
#[derive(Debug, Default)]
pub(crate) struct CallContent {
    input: Vec<u8>,
    output: Vec<u8>,
    assets: Assets,
}

impl Conversation {
    /// Adds a message for the next model call.
    pub fn wait(&mut self, message: &[u8]) {
        if self.waiting.len() + message.len() > MAX_WAITING {
            self.waiting.clear();
        }
        self.waiting.extend_from_slice(message);
    }

    /// The content of a model call that opens.
    pub fn begin_call(&mut self) -> CallContent {
        CallContent {
            input: std::mem::take(&mut self.waiting),
            output: Vec::new(),
            assets: self.in_force.clone(),
        }
    }

    /// Another prompt or catalog is in force, also for the call that it belongs to.
    pub fn set(&mut self, asset: ContextAsset, fields: &Fields, call: Option<&mut CallContent>) {
        let index = asset as usize;
        let body = fields.get(asset.body()).map(|body| shaped(asset, body));
        if let Some(slot) = call.and_then(|call| call.assets.get_mut(index)) {
            slot.clone_from(&body);
        }
        if let Some(slot) = self.in_force.get_mut(index) {
            *slot = body;
        }
    }
}

impl CallContent {
    pub fn add(&mut self, kind: Kind, message: &[u8]) {
        let list = match is_answer(kind) {
            true => &mut self.output,
            false => &mut self.input,
        };
        list.extend_from_slice(message);
    }

    /// Writes the `conversation` member, without what the call's own fields have.
    pub fn write(&self, fields: &Fields, out: &mut Vec<u8>) {
        let mut members = Vec::new();
        let names = ["system_instructions", "tool_definitions"];
        for (name, json) in names.into_iter().zip(&self.assets) {
            if let Some(json) = json.as_ref().filter(|_| !fields.contains(name)) {
                put(&mut members, [b"\"", name.as_bytes(), b"\":", json, b","]);
            }
        }
        for (name, list) in [
            ("input_messages", &self.input),
            ("output_messages", &self.output),
        ] {
            if !fields.contains(name) {
                write_list(name, list, &mut members);
            }
        }
        if members.pop().is_some() {
            put(out, [b"\"conversation\":{", &members, b"},"]);
        }
    }
}

/// Whether a message is the model's.
pub(super) fn is_answer(kind: Kind) -> bool {
    matches!(kind, Kind::MessageAssistant | Kind::MessageReasoning)
}

/// The role of the author of a message, if the event is one.
pub(super) fn role(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::MessageUser => "user",
        Kind::MessageAssistant | Kind::MessageReasoning => "assistant",
        Kind::MessageSystem => "system",
        Kind::MessageTool => "tool",
        _ => return None,
    })
}

/// A message, followed by a comma: its text as one part, and its parts that are no texts.
pub(super) fn message(kind: Kind, role: &str, fields: &Fields) -> Vec<u8> {
    let mut parts = Vec::new();
    if let Some(content) = fields.get(field!(Message.content)) {
        let of = match kind {
            Kind::MessageReasoning => "reasoning",
            _ => "text",
        };
        write_part(of, content, &mut parts);
    }
    let has_text = !parts.is_empty();
    let given = fields.value(field!(Message.parts)).into_iter();
    for part in given.flat_map(|list| list.items()) {
        let is_text = part.get("type").and_then(|of| of.text()).as_deref() == Some("text");
        if !(has_text && is_text) {
            put(&mut parts, [part.json().as_bytes(), b","]);
        }
    }
    let mut out = b"{\"role\":".to_vec();
    match fields.get("role") {
        Some(role) => out.extend_from_slice(role),
        None => write_string(role, &mut out),
    }
    out.push(b',');
    write_list("parts", &parts, &mut out);
    out.pop();
    out.extend_from_slice(b"},");
    out
}

fn write_part(of: &str, content: &[u8], out: &mut Vec<u8>) {
    put(
        out,
        [
            b"{\"type\":\"",
            of.as_bytes(),
            b"\",\"content\":",
            content,
            b"},",
        ],
    );
}

/// A prompt or a catalog as the conventions have it. A marker stays as it is.
fn shaped(asset: ContextAsset, body: &[u8]) -> Arc<[u8]> {
    let mut out = Vec::new();
    match asset {
        ContextAsset::SystemPrompt => {
            out.push(b'[');
            write_part("text", body, &mut out);
            out.pop();
            out.push(b']');
        }
        _ => match serde_json::from_slice(body) {
            Ok(Value::Array(tools)) => {
                let tools = tools.into_iter().map(definition).collect::<Value>();
                out.extend_from_slice(tools.to_string().as_bytes());
            }
            _ => out.extend_from_slice(body),
        },
    }
    out.into()
}

/// A tool of a catalog: `schema` is called `parameters`, and there is a type.
fn definition(mut tool: Value) -> Value {
    if let Value::Object(members) = &mut tool {
        if let Some(schema) = members.remove("schema") {
            members.insert("parameters".to_owned(), schema);
        }
        let of = members.entry("type").or_insert(Value::Null);
        if of.is_null() {
            *of = "function".into();
        }
    }
    tool
}

#[cfg(test)]
mod tests;
