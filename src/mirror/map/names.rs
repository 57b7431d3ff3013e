//! The attribute names of fields, and when each of them leaves.

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
            None => out.field_as(key, name, value),
        },
        TIME_TO_FIRST_CHUNK => match value.u64() {
            Some(ms) => out.put(key, Val::Double(ms as f64 / 1000.0)),
            None => out.field(name, value),
        },
        _ => out.field_as(key, name, value),
    }
}

/// When a field leaves. `docs/sending.md` has the table for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// Names, ids, counts, durations, outcomes.
    Always,
    /// With content; else its length and keyed digest.
    Content,
    /// With content; else a keyed digest of this digest.
    Digest,
    /// As the setting `paths` says.
    Path,
    /// As the setting `custom_fields` says; else its length and keyed digest.
    Custom,
    /// The resource or another attribute has it.
    Never,
}

/// When a field of a span of this kind leaves, or of an event.
#[rustfmt::skip]
fn leaves(kind: Option<SpanKind>, field: &str) -> Leaves {
    match field {
        "title" if kind == Some(SpanKind::Tool) => Leaves::Content,
        // The recorder's, on an interrupted span; a text on an event.
        "reason" if kind.is_none() => Leaves::Content,
        "permission_rules_digest" if kind == Some(SpanKind::Model) => Leaves::Never,
        "system_prompt_digest" | "tool_catalog_digest" | "permission_rules_digest"
        | "request_digest" | "digest" | "sha256" | "blob" | "raw_blob" => Leaves::Digest,
        "workspace_root" | "output_dir" | "locations" | "path" | "candidate_path"
        | "plot_artifact_path" | "cwd" | "exe" | "argv" => Leaves::Path,
        _ if is_content(field) => Leaves::Content,
        _ if is_fact(field) => Leaves::Always,
        _ => Leaves::Custom,
    }
}

/// Whether a field of the schema may hold what people, models and tools wrote.
#[rustfmt::skip]
fn is_content(field: &str) -> bool {
    matches!(
        field,
        "abort_reason" | "args" | "params" | "result" | "adaptation" | "artifact" | "attachments"
        | "body" | "caption" | "config" | "diff" | "final" | "kept" | "loop_key" | "media"
        | "message" | "metadata" | "notes" | "offloaded" | "options" | "parameters_changed"
        | "pattern" | "payload" | "pending" | "raw" | "rationale" | "request" | "rules"
        | "source_code" | "sources" | "state" | "text" | "tool_versions" | "tools" | "value"
    )
}

/// Whether a field of the schema is a name, an id, a count, a duration or an outcome, or was set to find a
/// session by.
fn is_fact(field: &str) -> bool {
    matches!(
        field,
        // Spans.
        "action" | "added_at" | "agent" | "attempt" | "auto" | "blocked_ms" | "compacted"
            | "context_window" | "decided_by" | "decision" | "detected_at" | "exit_code"
            | "finish_reason" | "http_status" | "input_message_ids" | "input_tokens"
            | "interrupt_id" | "last_seen" | "level" | "manual" | "max_tokens" | "message_id"
            | "messages_after" | "messages_before" | "model_id" | "model_span_id"
            | "output_tokens" | "parent_session_id" | "parent_span_id" | "part_index"
            | "permission" | "platform" | "provider_id" | "purpose" | "reason" | "response_id"
            | "response_model" | "retry_after" | "retry_of" | "run_name" | "session_id" | "source"
            | "stop_reason" | "stream" | "summarized_message_count" | "summary_tokens"
            | "synthetic" | "tail_start_id" | "target" | "temperature" | "timeout_ms" | "title"
            | "tool_call_id" | "tool_id" | "tool_kind" | "tool_state" | "tool_type" | "trigger"
            | "truncated" | "ttft_ms" | "turn_index" | "variant" | "version"
            // Events.
            | "adapter_revision" | "archived_at" | "author" | "backend" | "bytes"
            | "child_session_id" | "client" | "complete" | "cost_usd" | "daemon" | "dataset_id"
            | "direction" | "dpi" | "end" | "evidence" | "experiment_id" | "final_verdict"
            | "format" | "grounded" | "harness" | "hidden_ids" | "id" | "image" | "iteration"
            | "iterations" | "kind" | "max_iterations" | "method" | "mime" | "name" | "next_at"
            | "parent_id" | "point" | "queued_at" | "repetitions" | "replaces" | "role"
            | "size_px" | "slot" | "snapshot_id" | "source_id" | "span_id" | "start" | "status"
            | "task_id" | "task_revision" | "to_message_id" | "trial_id" | "verdict" | "verdict_kind"
            | "waiting_for" | "window_size"
            // Usage.
            | "cache_read_tokens" | "cache_write_tokens" | "input_uncached_tokens"
            | "output_text_tokens" | "reasoning_tokens" | "total_tokens"
    )
}

/// Whether the conventions say that an attribute holds no content.
#[rustfmt::skip]
fn is_convention(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("gen_ai.") else {
        return matches!(name, "error.type" | "server.address" | "server.port");
    };
    let group = rest.split_once('.').map(|(group, _)| group);
    matches!(
        group,
        Some("usage" | "request" | "response" | "operation" | "provider" | "conversation" | "workflow")
    ) || matches!(
        rest,
        "agent.id" | "agent.name" | "agent.version" | "data_source.id" | "output.type" | "system"
        | "tool.call.id" | "tool.name" | "tool.type"
    )
}

/// Adds attributes under the names that they were given: those of the OpenTelemetry API, which are meant for a
/// backend, and the fields of other `tracing` spans, which are the user's own.
pub(crate) fn put_given<'a>(
    given: impl Iterator<Item = (&'a str, RawValue<'a>)>,
    from_api: bool,
    out: &mut Attributes<'_>,
) {
    for (name, value) in given {
        let name = member_name(name);
        match content_key(&name) {
            Some(key) => out.content(key.of(&name), name, value),
            None if matches!(&*name, "exception.message" | "exception.stacktrace") => {
                if out.policy().texts.error_text {
                    out.field_as(Key::from(name.clone()), name, value);
                }
            }
            None if from_api || is_convention(&name) => {
                out.field_as(Key::from(name.clone()), name, value);
            }
            None => out.custom(Key::from(name.clone()), name, value),
        }
    }
}

/// Adds a field that the conventions have no name for, of a span of this kind or of an event.
pub(crate) fn put_other<'a>(
    kind: Option<SpanKind>,
    name: Cow<'a, str>,
    value: RawValue<'a>,
    out: &mut Attributes<'_>,
) {
    // An event with results is no tool call.
    let is_call = kind.is_some() || !matches!(&*name, "args" | "result");
    if let Some(key) = content_key(&name).filter(|_| is_call) {
        let key = key.of(&name);
        return out.content(key, name, value);
    }
    match &*name {
        "usage_details" => out.flat("usage".into(), value),
        "params" if kind == Some(SpanKind::Model) => {
            for (param, value) in value.members() {
                put_param(&member_name(param), value, out);
            }
        }
        "branched_from" | "external_ids" | "git" | "runtime" | "tags" => out.flat(name, value),
        "metrics" | "scores" => out.numbers(&name, value),
        "conversation" if kind == Some(SpanKind::Model) => {
            for (member, value) in value.members() {
                put_other(None, member_name(member), value, out);
            }
        }
        "process" | "rule" => put_parts(kind, &name, value, out),
        "totals" => {
            let is_sent = |name: &str| {
                let counts = ["turns", "model_calls", "tool_calls", "errors"];
                kind == Some(SpanKind::Run) && counts.contains(&name)
            };
            for (member, value) in value.members().filter(|(name, _)| is_sent(name)) {
                out.field(format!("totals.{member}"), value);
            }
        }
        convention if is_convention(convention) => {
            out.field_as(Key::from(name.clone()), name, value);
        }
        _ => put_as(leaves(kind, &name), name, value, out),
    }
}

/// The members of an object, each by its own name.
fn put_parts<'a>(
    kind: Option<SpanKind>,
    name: &str,
    value: RawValue<'a>,
    out: &mut Attributes<'_>,
) {
    for (member, value) in value.members() {
        let member = member_name(member);
        let whole = format!("{name}.{member}").into();
        match &*member {
            "git" | "runtime" => out.flat(whole, value),
            // The resource has them.
            "pid" | "host" => {}
            _ => put_as(leaves(kind, &member), whole, value, out),
        }
    }
}

fn put_as<'a>(leaves: Leaves, name: Cow<'a, str>, value: RawValue<'a>, out: &mut Attributes<'_>) {
    let key = Key::ours(name.clone());
    match leaves {
        Leaves::Always => out.field_as(key, name, value),
        Leaves::Content => out.content(key, name, value),
        Leaves::Digest => out.digest(&name, value),
        Leaves::Path => out.path(key, value),
        Leaves::Custom => out.custom(key, name, value),
        Leaves::Never => {}
    }
}

fn put_param<'a>(name: &str, value: RawValue<'a>, out: &mut Attributes<'_>) {
    let own = format!("params.{name}");
    match name {
        "top_p" | "top_k" | "frequency_penalty" | "presence_penalty" | "seed" => {
            out.field_as(format!("gen_ai.request.{name}"), own, value);
        }
        "stop" | "stop_sequences" if value.json().starts_with('[') => {
            out.field_as("gen_ai.request.stop_sequences", own, value);
        }
        _ => out.custom(Key::ours(own.clone().into()), own, value),
    }
}
