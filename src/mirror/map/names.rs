//! The attribute names of fields.

use std::borrow::Cow;

use super::attributes::{Attributes, member_name};
use super::content::content_key;
use super::wire::{Key, Val};
use crate::trace::RawValue;
use crate::trace::SpanKind;

/// In seconds, where the line has milliseconds.
const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";

/// The field that a span is named after.
pub(crate) fn subject_field(kind: SpanKind) -> Option<&'static str> {
    match kind {
        SpanKind::Run => Some("agent"),
        SpanKind::Model => Some("model_id"),
        SpanKind::Tool => Some("tool_id"),
        SpanKind::Other => Some("name"),
        _ => None,
    }
}

/// The conventions' name of a field; empty for a field that the line itself has.
pub(crate) fn conventional(kind: SpanKind, field: &str) -> Option<&'static str> {
    use SpanKind::{Model, Run, Tool};
    Some(match (kind, field) {
        (Run, "agent") => "gen_ai.agent.name",
        (Run | Model, "provider_id") => "gen_ai.provider.name",
        (Run | Model, "model_id") => "gen_ai.request.model",
        (Run | Model, "temperature") => "gen_ai.request.temperature",
        (Model, "max_tokens") => "gen_ai.request.max_tokens",
        (Model, "finish_reason") => "gen_ai.response.finish_reasons",
        (Model, "response_id") => "gen_ai.response.id",
        (Model, "response_model") => "gen_ai.response.model",
        (Model | Tool, "agent") => "gen_ai.agent.name",
        (Model, "compacted") => "gen_ai.conversation.compacted",
        (Model, "ttft_ms") => TIME_TO_FIRST_CHUNK,
        // Not on permissions: backends count a span with any `gen_ai.tool.…` as a tool call.
        (Tool, "tool_id") => "gen_ai.tool.name",
        (Tool, "tool_call_id") => "gen_ai.tool.call.id",
        (Tool, "tool_type") => "gen_ai.tool.type",
        (Run | SpanKind::Compaction, "session_id") | (SpanKind::Turn, "turn_index") => "",
        (SpanKind::Other, "name") => "",
        _ => return None,
    })
}

pub(crate) fn put_conventional<'a>(
    key: &'static str,
    name: &'a str,
    value: RawValue<'a>,
    out: &mut Attributes<'_>,
) {
    match key {
        "" => {}
        "gen_ai.response.finish_reasons" => match value.text() {
            Some(reason) => out.put(key, Val::List(vec![Val::Text(reason)])),
            None => out.list_or_field(key, name, value),
        },
        TIME_TO_FIRST_CHUNK => match value.u64() {
            Some(ms) => out.put(key, Val::Double(ms as f64 / 1000.0)),
            None => out.field(name, value),
        },
        _ => out.field_as(key, name, value),
    }
    if name == "provider_id" {
        out.field(name, value);
    }
}

/// Adds the members of an object under their own names.
pub(crate) fn put_members<'a>(object: RawValue<'a>, out: &mut Attributes<'_>) {
    for (name, value) in object.members() {
        let name = member_name(name);
        match content_key(&name) {
            Some(key) => out.content(key.of(&name), name, value),
            None => out.list_or_field(Key::from(name.clone()), name, value),
        }
    }
}

/// Adds a field that the conventions have no name for.
pub(crate) fn put_other<'a>(name: Cow<'a, str>, value: RawValue<'a>, out: &mut Attributes<'_>) {
    if let Some(key) = content_key(&name) {
        let key = key.of(&name);
        return out.content(key, name, value);
    }
    match &*name {
        "params" => {
            for (param, value) in value.members() {
                put_param(&member_name(param), value, out);
            }
        }
        "branched_from" | "external_ids" | "process" | "rule" | "tags" | "totals" => {
            out.flat(name, value);
        }
        conventional if conventional.starts_with("gen_ai.") => {
            out.list_or_field(Key::from(name.clone()), name, value);
        }
        _ => out.field(name, value),
    }
}

fn put_param<'a>(name: &str, value: RawValue<'a>, out: &mut Attributes<'_>) {
    let own = format!("params.{name}");
    match name {
        "top_p" | "top_k" | "frequency_penalty" | "presence_penalty" | "seed" => {
            out.field_as(format!("gen_ai.request.{name}"), own, value);
        }
        "stop" | "stop_sequences" if value.json().starts_with('[') => {
            out.list_or_field("gen_ai.request.stop_sequences", own, value);
        }
        _ => out.field(own, value),
    }
}
