//! A body in parts: messages, prompt and tools by digest, so that a session stores each of them once.

use serde_json::{Map, Value, json};

use super::canonical::canonical;
use super::{Api, Request};
use crate::trace::hex_digest;

/// The member that names a part. No other member of such an object matters to [`join`].
const PART: &str = "$part";

/// A part of a body by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartRef {
    /// The digest of the part, as [`part_digest`] makes it.
    pub digest: String,
    /// The author of a message; none for the prompt and the tools.
    pub role: Option<String>,
    /// The [`meaning`](super::Message::meaning) of a message.
    pub meaning: Option<String>,
    /// The size of the part in its canonical form.
    pub bytes: Option<u64>,
}

/// The digests of parts that were not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub Vec<String>);

/// The digest of a part: half of its SHA-256, because each request repeats those of the whole conversation.
pub fn part_digest(part: &Value) -> String {
    measured(part).0
}

/// The digest of a part, and its size in the canonical form.
fn measured(part: &Value) -> (String, usize) {
    let text = canonical(part);
    (half(&hex_digest(text.as_bytes())), text.len())
}

fn half(digest: &str) -> String {
    digest[..digest.len() / 2].to_owned()
}

/// Replaces the messages, the prompt and the tools of a body by their digests. Returns the rest, and the parts:
/// first the messages, in their order.
pub fn split(body: &Value, request: &Request) -> (Value, Vec<(String, Value)>) {
    let (mut rest, mut parts) = (body.clone(), Vec::new());
    let Some(members) = rest.as_object_mut() else {
        return (rest, parts);
    };
    let list = request.api.list().and_then(|name| members.get_mut(name));
    let list = list.and_then(Value::as_array_mut);
    for (item, message) in list.into_iter().flatten().zip(&request.messages) {
        let (key, bytes) = measured(item);
        let reference = json!({
            PART: key,
            "role": message.author(),
            "meaning": half(&message.meaning()),
            "bytes": bytes,
        });
        parts.push((key, std::mem::replace(item, reference)));
    }
    for name in request.api.prompt().into_iter().chain(["tools"]) {
        if let Some(value) = members
            .get_mut(name)
            .filter(|_| request.api != Api::Unknown)
        {
            let (key, bytes) = measured(value);
            let reference = json!({PART: key, "bytes": bytes});
            parts.push((key, std::mem::replace(value, reference)));
        }
    }
    (rest, parts)
}

/// The messages of a body that was split, or nothing where that has none.
pub fn part_refs(rest: &Value) -> Vec<PartRef> {
    let mut names = ["messages", "input"].into_iter();
    let list = names.find_map(|name| rest.get(name)?.as_array());
    let items = list.into_iter().flatten();
    items.filter_map(reference).collect()
}

fn reference(value: &Value) -> Option<PartRef> {
    let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
    Some(PartRef {
        digest: text(PART)?,
        role: text("role"),
        meaning: text("meaning"),
        bytes: value.get("bytes").and_then(Value::as_u64),
    })
}

/// Puts the parts back. `find` has them by digest.
pub fn join(rest: &Value, find: impl Fn(&str) -> Option<Value>) -> Result<Value, Missing> {
    let mut missing = Vec::new();
    let mut put = |value: &mut Value| {
        if let Some(PartRef { digest, .. }) = reference(value) {
            match find(&digest) {
                Some(part) => *value = part,
                None => missing.push(digest),
            }
        }
    };
    let mut body = rest.clone();
    let members = body.as_object_mut().into_iter();
    for (name, value) in members.flat_map(Map::iter_mut) {
        match (name.as_str(), value) {
            ("messages" | "input", Value::Array(items)) => items.iter_mut().for_each(&mut put),
            ("system" | "instructions" | "system_instructions" | "tools", value) => put(value),
            _ => {}
        }
    }
    match missing.is_empty() {
        true => Ok(body),
        false => Err(Missing(missing)),
    }
}

/// The parts that a line of a message stands for by itself: one text, as the APIs and the conventions have it.
pub fn simple_parts(role: &str, text: &str) -> Vec<Value> {
    let plain = json!({"role": role, "content": text});
    let gen_ai = json!({"role": role, "parts": [{"type": "text", "content": text}]});
    let mut parts = vec![plain, gen_ai];
    if role == "system" {
        parts.push(json!({"role": "developer", "content": text}));
        // The member of a body.
        parts.push(text.into());
    }
    parts
}
