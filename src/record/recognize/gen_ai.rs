//! The GenAI conventions of OpenTelemetry, in the spelling of their last versions.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Recognized;
use super::content::Content;
use crate::record::raw_fields::{RawFields, Rewrite};
use crate::trace::{Outcome, SpanKind};

pub(super) const OPERATION: &str = "gen_ai.operation.name";

pub(super) fn kind_of(operation: &str) -> SpanKind {
    match operation {
        "invoke_agent" | "invoke_workflow" => SpanKind::Run,
        "chat" | "generate_content" | "text_completion" | "embeddings" => SpanKind::Model,
        "execute_tool" => SpanKind::Tool,
        _ => SpanKind::Other,
    }
}

pub(super) const fn identity(kind: SpanKind) -> Option<&'static str> {
    match kind {
        SpanKind::Run => Some("gen_ai.conversation.id"),
        SpanKind::Model => Some("gen_ai.request.model"),
        SpanKind::Tool => Some("gen_ai.tool.name"),
        _ => None,
    }
}

/// Our name of an attribute, given without `gen_ai.`. The versions' names of one thing stand side
/// by side, the newest first.
fn our_name(kind: SpanKind, name: &str) -> Option<&'static str> {
    use SpanKind::{Model, Run, Tool};
    Some(match (kind, name) {
        (Run | Model, "provider.name" | "system") => "provider_id",
        (Run | Model, "request.model") => "model_id",
        (Run | Model, "request.temperature") => "temperature",
        (Run | Model, "usage.input_tokens" | "usage.prompt_tokens") => "input_tokens",
        (Run | Model, "usage.output_tokens" | "usage.completion_tokens") => "output_tokens",
        (Run | Model, "usage.total_tokens") => "total_tokens",
        (Run | Model, "usage.cache_read.input_tokens" | "usage.cache_read_input_tokens") => {
            "cache_read_tokens"
        }
        (
            Run | Model,
            "usage.cache_write.input_tokens"
            | "usage.cache_creation.input_tokens"
            | "usage.cache_creation_input_tokens",
        ) => "cache_write_tokens",
        (Run | Model, "usage.reasoning.output_tokens" | "usage.reasoning_tokens") => {
            "reasoning_tokens"
        }
        (Run, "agent.name" | "workflow.name") => "agent",
        (Run, "conversation.id") => "session_id",
        (Model, "request.max_tokens") => "max_tokens",
        (Model, "request.stream") => "stream",
        (Model, "response.id") => "response_id",
        (Model, "response.model") => "response_model",
        (Model, "response.finish_reasons" | "response.finish_reason") => "finish_reason",
        (Tool, "tool.name") => "tool_id",
        (Tool, "tool.call.id") => "tool_call_id",
        (Tool, "tool.type") => "tool_type",
        (Tool, "tool.call.arguments" | "tool.arguments") => "args",
        (Tool, "tool.call.result" | "tool.result") => "result",
        _ => return None,
    })
}

/// The usual operation of a kind, which need not be recorded.
const fn usual_operation(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Run => "invoke_agent",
        SpanKind::Model => "chat",
        SpanKind::Tool => "execute_tool",
        _ => "",
    }
}

/// Outcome and error, which the conventions spread over several attributes.
#[derive(Default)]
struct Ending {
    outcome: Outcome,
    error: Map<String, Value>,
}

impl Ending {
    /// `false`: it is another attribute, or has an unknown value.
    fn take(&mut self, name: &str, text: &str) -> bool {
        let outcome = match (name, text) {
            ("gen_ai.tool.call.outcome", "success") => Outcome::Ok,
            ("gen_ai.tool.call.outcome", "error") => Outcome::Error,
            ("gen_ai.tool.call.outcome", "denied") => Outcome::Denied,
            ("otel.status_code", code) if code.eq_ignore_ascii_case("ok") => Outcome::Ok,
            ("otel.status_code", code) if code.eq_ignore_ascii_case("error") => Outcome::Error,
            ("error.type" | "gen_ai.tool.error.type", kind) => {
                self.error.insert("error_type".to_owned(), kind.into());
                return true;
            }
            ("error.message" | "exception.message" | "otel.status_description", message) => {
                self.error.insert("message".to_owned(), message.into());
                return true;
            }
            _ => return false,
        };
        self.outcome = outcome;
        true
    }
}

pub(super) fn read(kind: SpanKind, mut raw: RawFields) -> Recognized {
    let mut content = Content::default();
    let mut ending = Ending::default();
    // A span that is none of the six keeps all its fields under their own names.
    let known = kind != SpanKind::Other;
    raw.rewrite(|field, text| {
        if known && ending.take(field, text) {
            return Rewrite::Take;
        }
        // An internal marker of the library `rig`.
        if field == "rig.completion_parent" {
            return Rewrite::Take;
        }
        let Some(name) = field.strip_prefix("gen_ai.").filter(|_| known) else {
            return Rewrite::Keep;
        };
        if name == "operation.name" {
            return match text == usual_operation(kind) {
                true => Rewrite::Take,
                false => Rewrite::Keep,
            };
        }
        if matches!(kind, SpanKind::Run | SpanKind::Model) && content.take(name, text) {
            return Rewrite::Take;
        }
        our_name(kind, name).map_or(Rewrite::Keep, rename)
    });
    if let Some(reason) = raw.get("finish_reason").and_then(only_one) {
        raw.remove("finish_reason");
        raw.text("finish_reason", &reason);
    } else if let Some(reason) = content.finish_reason()
        && kind == SpanKind::Model
        && raw.get("finish_reason").is_none()
    {
        raw.text("finish_reason", reason);
    }
    if !ending.error.is_empty() {
        raw.json("error", &ending.error);
    }
    Recognized {
        fields: raw,
        content,
        outcome: ending.outcome,
    }
}

const fn rename(to: &'static str) -> Rewrite {
    Rewrite::Rename {
        to: Cow::Borrowed(to),
        skip: 0,
    }
}

/// The reason of a list of one: a field of `tracing` can hold no list, so it comes as text.
fn only_one(list: &str) -> Option<String> {
    match serde_json::from_str(list) {
        Ok(Value::Array(reasons)) => match reasons.as_slice() {
            [Value::String(reason)] => Some(reason.clone()),
            _ => None,
        },
        _ => None,
    }
}
