//! The attribute names of content, and what is sent in place of content: its length and its digest.

use std::borrow::Cow;

use crate::mirror::otlp::Span;
use crate::mirror::otlp::any_value::Value;
use crate::mirror::otlp::{ArrayValue, KeyValue};

use super::attributes::{key_value, unsigned};
use super::digest_key::DigestKey;
use super::wire::{Key, Val};
use crate::mirror::otlp_json::plain_list;
use crate::trace::RawValue;
use crate::trace::{floor_char, hex_digest};

/// Texts longer than this are removed from a span that is too large.
const SHORT: usize = 256;

/// The attribute name of a field that is content.
pub(crate) enum ContentKey {
    /// The name of the conventions.
    Named {
        field: &'static str,
        key: &'static str,
    },
    /// The field's own name.
    AsIs,
    /// The field's own name with our prefix.
    Ours,
}

impl ContentKey {
    pub fn of<'a>(self, field: &Cow<'a, str>) -> Key<'a> {
        match self {
            Self::Named { key, .. } => Key::from(key),
            Self::AsIs => Key::from(field.clone()),
            Self::Ours => Key::ours(field.clone()),
        }
    }
}

/// The attribute name of a field, if it is content.
pub(crate) fn content_key(field: &str) -> Option<ContentKey> {
    let named = |field, key| ContentKey::Named { field, key };
    Some(match field {
        "args" | "gen_ai.tool.call.arguments" => named("args", "gen_ai.tool.call.arguments"),
        "result" | "gen_ai.tool.call.result" => named("result", "gen_ai.tool.call.result"),
        "input_messages" | "gen_ai.input.messages" => {
            named("input_messages", "gen_ai.input.messages")
        }
        "output_messages" | "gen_ai.output.messages" => {
            named("output_messages", "gen_ai.output.messages")
        }
        "system_instructions" | "gen_ai.system_instructions" => {
            named("system_instructions", "gen_ai.system_instructions")
        }
        "tool_definitions" | "gen_ai.tool.definitions" => {
            named("tool_definitions", "gen_ai.tool.definitions")
        }
        // Other texts of a conversation, or made from them.
        "gen_ai.completion" | "gen_ai.prompt" => ContentKey::AsIs,
        "command" | "completion" | "content" | "messages" | "parts" | "prompt" | "stderr"
        | "stdout" | "summary" => ContentKey::Ours,
        _ if field.starts_with("gen_ai.prompt.") || field.starts_with("gen_ai.completion.") => {
            ContentKey::AsIs
        }
        _ => return None,
    })
}

/// The field that an attribute came from, if it is content.
fn content_field(key: &str) -> Option<&str> {
    if let Some(ContentKey::Named { field, key: named }) = content_key(key)
        && named == key
    {
        return Some(field);
    }
    let field = key.strip_prefix("agent.").unwrap_or(key);
    let found = content_key(field)?.of(&Cow::Borrowed(field));
    (found == Key::from(key)).then_some(field)
}

/// The length of content in a line or in a blob, and what its digest is made from.
pub(crate) struct Measure<'a> {
    pub bytes: u64,
    digested: Digested<'a>,
    /// The number of bytes that were not recorded.
    pub cut: Option<u64>,
}

enum Digested<'a> {
    Text(Cow<'a, str>),
    /// The content is elsewhere; its marker has its SHA-256.
    Sha256(String),
}

impl<'a> Measure<'a> {
    pub fn of(value: RawValue<'a>) -> Self {
        match value.text() {
            Some(text) => Self::of_text(text),
            None => Self::of_marker(value).unwrap_or_else(|| Self::of_text(value.json().into())),
        }
    }

    /// The same for content that was to be sent as an attribute.
    fn of_attribute(text: &'a str) -> Self {
        let marker = text.starts_with("{\"$").then(|| RawValue::new(text));
        marker
            .and_then(Self::of_marker)
            .unwrap_or_else(|| Self::of_text(text.into()))
    }

    fn of_text(text: Cow<'a, str>) -> Self {
        Self {
            bytes: text.len() as u64,
            digested: Digested::Text(text),
            cut: None,
        }
    }

    /// The marker of a value that was moved out of the line or truncated has its length and digest.
    fn of_marker(value: RawValue<'a>) -> Option<Self> {
        if !is_marker(value) {
            return None;
        }
        let cut = value.get("$cut");
        let cut_bytes = cut.and_then(|cut| cut.get("bytes")?.u64());
        if let Some(blob) = value.get("$blob") {
            return Some(Self {
                bytes: value.get("bytes")?.u64()?,
                digested: Digested::Sha256(digest(blob)?),
                cut: cut_bytes,
            });
        }
        if let Some(cut) = cut {
            return Some(Self {
                bytes: cut_bytes?,
                digested: Digested::Sha256(digest(cut.get("sha256")?)?),
                cut: cut_bytes,
            });
        }
        let lossy = value.get("$lossy")?.get("bytes")?.u64()?;
        let text = value.get("text")?;
        Some(Self {
            bytes: lossy,
            ..Self::of_text(text.text()?)
        })
    }

    /// The digest of content that is not sent: keyed, because short content can be guessed from a plain one.
    pub fn hmac(&self, key: &DigestKey) -> String {
        key.digest(match &self.digested {
            Digested::Text(text) => text.as_bytes(),
            Digested::Sha256(digest) => digest.as_bytes(),
        })
    }

    /// The digest of content that may be sent, but is too large.
    fn sha256(&self) -> String {
        match &self.digested {
            Digested::Text(text) => hex_digest(text.as_bytes()),
            Digested::Sha256(digest) => digest.clone(),
        }
    }
}

fn digest(value: RawValue<'_>) -> Option<String> {
    let text = value.text()?;
    let is_digest = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_digest.then(|| text.into_owned())
}

/// Whether an object is the marker of a text that was moved out, truncated, or not UTF-8.
pub(crate) fn is_marker(value: RawValue<'_>) -> bool {
    // Excludes nearly all values before their first member is parsed.
    let inside = value.json().trim_ascii_start().strip_prefix('{');
    if !inside.is_some_and(|inside| inside.trim_ascii_start().starts_with("\"$")) {
        return false;
    }
    let first = value.members().next();
    first.is_some_and(|(name, _)| matches!(name, "$blob" | "$cut" | "$lossy"))
}

/// The span with its content and other long texts replaced by digests, for a server that refused its size.
/// `agent.content_removed` marks it, and `agent.trace.address` is where the whole of it is.
pub fn without_content(mut span: Span) -> Span {
    for event in &mut span.events {
        event.attributes = shortened(std::mem::take(&mut event.attributes));
    }
    for link in &mut span.links {
        link.attributes = shortened(std::mem::take(&mut link.attributes));
    }
    span.attributes = shortened(std::mem::take(&mut span.attributes));
    if let Some(status) = &mut span.status {
        let keep = floor_char(&status.message, SHORT);
        let cut = status.message.split_off(keep);
        if !cut.is_empty() {
            let cut = unsigned(cut.len() as u64);
            span.attributes.push(key_value("agent.cut.status", cut));
        }
    }
    let removed = "agent.content_removed";
    if span.attributes.iter().all(|a| a.key != removed) {
        let why = Val::Text("too_large".into());
        span.attributes.push(key_value(removed, why));
    }
    span
}

fn shortened(attributes: Vec<KeyValue>) -> Vec<KeyValue> {
    let mut out = Vec::with_capacity(attributes.len() + 4);
    for attribute in attributes {
        let value = attribute.value.as_ref().and_then(|any| any.value.as_ref());
        let field = content_field(&attribute.key);
        let measure = match value {
            Some(Value::StringValue(text)) if field.is_some() || text.len() > SHORT => {
                Some(Measure::of_attribute(text))
            }
            Some(Value::ArrayValue(list)) if list_bytes(list) > SHORT => {
                Some(Measure::of_text(plain_list(list).to_string().into()))
            }
            _ => None,
        };
        let Some(measure) = measure else {
            out.push(attribute.clone());
            continue;
        };
        let name = field.unwrap_or_else(|| {
            let key = attribute.key.as_str();
            key.strip_prefix("agent.").unwrap_or(key)
        });
        let mut put =
            |what: &str, value| out.push(key_value(format!("agent.{name}.{what}"), value));
        put("bytes", unsigned(measure.bytes));
        put("sha256", Val::Text(measure.sha256().into()));
        if let Some(cut) = measure.cut {
            put("cut", unsigned(cut));
        }
    }
    out
}

fn list_bytes(list: &ArrayValue) -> usize {
    let bytes = list.values.iter().map(|any| match &any.value {
        Some(Value::StringValue(text)) => text.len(),
        _ => 8,
    });
    bytes.sum()
}
