//! Our names of attributes. What has none is kept under the name it was given, in `attributes`, from which a
//! span is sent with the same attribute again.

use serde_json::{Map, Value, json};

use crate::gen_ai::{Content, Ending, OPERATION, only_reason, our_name, usual_operation};
use crate::import::history::Fields;
use crate::trace::{FieldRole, Kind, Outcome, SpanKind, UsageField, is_json_field};

/// Attributes in their places.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub fields: Fields,
    pub attributes: Fields,
    pub error: Fields,
    usage: Fields,
    pub outcome: Outcome,
    pub turn: Option<u32>,
    pub content: Content,
}

impl Mapped {
    /// A field under our name. Counts of tokens go to `usage`.
    fn set(&mut self, kind: SpanKind, name: &str, value: Value) {
        match kind.role(name) {
            FieldRole::Usage(UsageField::Count(_)) => {
                self.usage.insert(name.to_owned(), whole(value));
            }
            FieldRole::Usage(UsageField::Cost) => {
                self.usage.insert(name.to_owned(), value);
            }
            FieldRole::Own | FieldRole::Error | FieldRole::Usage(_) => {
                self.attributes.insert(format!("agent.{name}"), value);
            }
            _ => {
                let value = parsed(name, value);
                self.fields.insert(name.to_owned(), value);
            }
        }
    }

    fn end(mut self, kind: SpanKind) -> Self {
        if !self.usage.is_empty() {
            let name = if kind == SpanKind::Model {
                "usage"
            } else {
                "used"
            };
            self.fields
                .insert(name.to_owned(), self.usage.clone().into());
        }
        self
    }
}

/// A number that is whole as an integer.
fn whole(value: Value) -> Value {
    match value.as_f64() {
        Some(number) if !value.is_u64() && number >= 0.0 && number.fract() == 0.0 => {
            json!(number as u64)
        }
        _ => value,
    }
}

/// JSON in a text, for a field that holds JSON.
fn parsed(name: &str, value: Value) -> Value {
    match (&value, name) {
        (Value::String(text), "finish_reason") => only_reason(text).map_or(value, Value::from),
        (Value::Array(list), "finish_reason") => match list.as_slice() {
            [only] => only.clone(),
            _ => value,
        },
        (Value::String(text), name) if is_json_field(name) => match serde_json::from_str(text) {
            Ok(json @ (Value::Object(_) | Value::Array(_))) => json,
            _ => value,
        },
        _ => value,
    }
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), String::from)
}

/// The attributes of a span that another library made.
pub(super) fn theirs(kind: SpanKind, attributes: Fields) -> Mapped {
    let mut mapped = Mapped::default();
    if kind == SpanKind::Other {
        mapped.fields.insert("fields".into(), attributes.into());
        return mapped;
    }
    let mut ending = Ending::default();
    for (key, value) in attributes {
        let text = text_of(&value);
        if ending.take(&key, &text) {
            continue;
        }
        let Some(name) = key.strip_prefix("gen_ai.") else {
            mapped.attributes.insert(key, value);
            continue;
        };
        match our_name(kind, name) {
            _ if key == OPERATION => {
                if text != usual_operation(kind) {
                    mapped.fields.insert(key, value);
                }
            }
            // The line has it.
            _ if name == "conversation.id" => {}
            _ if takes_content(kind) && mapped.content.take(name, &text) => {}
            Some(ours) => mapped.set(kind, ours, value),
            None => drop(mapped.attributes.insert(key, value)),
        }
    }
    if kind == SpanKind::Model
        && !mapped.fields.contains_key("finish_reason")
        && let Some(reason) = mapped.content.finish_reason()
    {
        let reason = reason.to_owned();
        mapped.fields.insert("finish_reason".into(), reason.into());
    }
    mapped.outcome = ending.outcome;
    mapped.error = ending.error;
    mapped.end(kind)
}

fn takes_content(kind: SpanKind) -> bool {
    matches!(kind, SpanKind::Run | SpanKind::Model)
}

/// The attributes of a span that was exported from a trace of ours.
pub(super) fn ours(kind: SpanKind, attributes: Fields) -> Mapped {
    let mut mapped = Mapped::default();
    let outcome = attributes.get("agent.outcome").and_then(Value::as_str);
    mapped.outcome = outcome.and_then(Outcome::parse).unwrap_or_default();
    for (key, value) in attributes {
        if let Some(name) = key.strip_prefix("agent.") {
            our_attribute(kind, name, value, &mut mapped);
        } else if let Some(name) = key.strip_prefix("gen_ai.") {
            conventional(kind, name, value, &mut mapped);
        } else if key == "error.type" {
            let made = ["_OTHER", "timeout", "interrupted"];
            if !made.iter().any(|made| value == *made) {
                mapped.error.insert("error_type".into(), value);
            }
        } else if kind == SpanKind::Other {
            let fields = mapped.fields.entry("fields").or_insert(json!({}));
            fields[key] = value;
        } else {
            mapped.attributes.insert(key, value);
        }
    }
    if kind == SpanKind::Turn
        && let Some(turn) = mapped.turn
    {
        mapped.fields.insert("turn_index".into(), turn.into());
    }
    mapped.end(kind)
}

/// An attribute with our prefix.
fn our_attribute(kind: SpanKind, name: &str, value: Value, mapped: &mut Mapped) {
    match name {
        // The line has them, or they say where the line was.
        "span" | "outcome" | "trace.address" => {}
        "turn_index" => mapped.turn = value.as_u64().and_then(|turn| u32::try_from(turn).ok()),
        "late" => drop(mapped.fields.insert(name.to_owned(), value)),
        // Of a span that is none of the six.
        "target" | "level" => drop(mapped.fields.insert(name.to_owned(), value)),
        _ if name.starts_with("totals.") => {}
        _ if !name.contains('.') => mapped.set(kind, name, value),
        _ => match name.split_once('.') {
            Some(("tokens", count)) if kind.role("total_tokens") != FieldRole::Input => {
                mapped.usage.insert(format!("{count}_tokens"), value);
            }
            Some((of @ ("external_ids" | "tags" | "branched_from"), member)) => {
                let object = mapped.fields.entry(of).or_insert(json!({}));
                object[member] = value;
            }
            Some(("error", member)) if !member.contains('.') => {
                let member = if member == "type" {
                    "error_type"
                } else {
                    member
                };
                mapped
                    .error
                    .insert(member.to_owned(), parsed(member, value));
            }
            _ => drop(mapped.attributes.insert(format!("agent.{name}"), value)),
        },
    }
}

/// An attribute of the conventions, as we send them. `name` is without `gen_ai.`.
fn conventional(kind: SpanKind, name: &str, value: Value, mapped: &mut Mapped) {
    let key = || format!("gen_ai.{name}");
    match (kind, name) {
        (_, "conversation.id") => {}
        (_, "operation.name") if value == usual_operation(kind) => {}
        (_, "operation.name") => drop(mapped.fields.insert(key(), value)),
        (_, "usage.cost") => {}
        (SpanKind::Model | SpanKind::Tool, "agent.name") => mapped.set(kind, "agent", value),
        (SpanKind::Model, "conversation.compacted") => mapped.set(kind, "compacted", value),
        (SpanKind::Model, "response.time_to_first_chunk") => {
            let ms = value
                .as_f64()
                .map(|seconds| (seconds * 1000.0).round() as u64);
            mapped.set(kind, "ttft_ms", json!(ms));
        }
        (SpanKind::Model, name) if is_message(name) => {
            mapped.content.take(name, &text_of(&value));
            let member = name.replace('.', "_");
            let json = serde_json::from_str(&text_of(&value)).unwrap_or(value);
            let conversation = mapped.fields.entry("conversation").or_insert(json!({}));
            conversation[member] = json;
        }
        _ => match our_name(kind, name) {
            Some(ours) => mapped.set(kind, ours, value),
            None => drop(mapped.attributes.insert(key(), value)),
        },
    }
}

fn is_message(name: &str) -> bool {
    let names = [
        "input.messages",
        "output.messages",
        "system_instructions",
        "tool.definitions",
    ];
    names.contains(&name)
}

/// The attributes of an event inside a span of ours, as members of the event.
pub(super) fn of_our_event(kind: Kind, given: Fields, out: &mut Map<String, Value>) {
    let (mut fields, mut rest, mut error) = (Fields::new(), Fields::new(), Fields::new());
    for (key, value) in given {
        let is_error = kind == Kind::Error;
        match (key.strip_prefix("agent."), &*key) {
            (Some(name @ ("level" | "target" | "message")), _) if kind == Kind::Log => {
                out.insert(name.to_owned(), value);
            }
            (Some(name), _) if kind == Kind::Log && name.starts_with("fields.") => {
                fields.insert(name["fields.".len()..].to_owned(), value);
            }
            (Some(name), _) if !name.contains('.') => {
                let value = parsed(name, value);
                fields.insert(name.to_owned(), value);
            }
            (None, "exception.type") if is_error && value == "_OTHER" => {}
            (None, "exception.type") if is_error => drop(error.insert("error_type".into(), value)),
            (None, "exception.message") if is_error => drop(error.insert("message".into(), value)),
            (None, "exception.stacktrace") if is_error => drop(error.insert("stack".into(), value)),
            _ => drop(rest.insert(key, value)),
        }
    }
    if kind == Kind::Error {
        fields.insert("error".into(), error.into());
    }
    for (name, members) in [("fields", fields), ("attributes", rest)] {
        if !members.is_empty() {
            out.insert(name.into(), members.into());
        }
    }
}
