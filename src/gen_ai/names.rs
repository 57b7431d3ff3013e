//! The names of operations and attributes, in the spelling of the last versions.

use serde_json::{Map, Value};

use crate::trace::{Outcome, SpanKind};

pub(crate) const OPERATION: &str = "gen_ai.operation.name";

pub(crate) fn kind_of(operation: &str) -> SpanKind {
    match operation {
        "invoke_agent" | "invoke_workflow" => SpanKind::Run,
        "chat" | "generate_content" | "text_completion" | "embeddings" => SpanKind::Model,
        "execute_tool" => SpanKind::Tool,
        _ => SpanKind::Other,
    }
}

pub(crate) const fn identity(kind: SpanKind) -> Option<&'static str> {
    match kind {
        SpanKind::Run => Some("gen_ai.conversation.id"),
        SpanKind::Model => Some("gen_ai.request.model"),
        SpanKind::Tool => Some("gen_ai.tool.name"),
        _ => None,
    }
}

/// Our name of an attribute, given without `gen_ai.`. The versions' names of one thing stand side
/// by side, the newest first.
pub(crate) fn our_name(kind: SpanKind, name: &str) -> Option<&'static str> {
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
pub(crate) const fn usual_operation(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Run => "invoke_agent",
        SpanKind::Model => "chat",
        SpanKind::Tool => "execute_tool",
        _ => "",
    }
}

/// Outcome and error, which the conventions spread over several attributes.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub outcome: Outcome,
    pub error: Map<String, Value>,
}

impl Ending {
    /// `false`: it is another attribute, or has an unknown value.
    pub fn take(&mut self, name: &str, text: &str) -> bool {
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

/// The reason of a list of one: a field of `tracing` can hold no list, so it comes as text.
pub(crate) fn only_reason(list: &str) -> Option<String> {
    match serde_json::from_str(list) {
        Ok(Value::Array(reasons)) => match reasons.as_slice() {
            [Value::String(reason)] => Some(reason.clone()),
            _ => None,
        },
        _ => None,
    }
}
