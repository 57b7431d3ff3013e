//! Spans in the shapes that rig creates, made by hand.

use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::support::Trace;

/// As rig's agent opens it outside any span.
pub fn invoke_agent(name: &str) -> Span {
    info_span!(
        parent: None,
        "invoke_agent",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = name,
        gen_ai.system_instructions = Empty,
        gen_ai.prompt = Empty,
        gen_ai.completion = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
    )
}

/// As rig's agent opens it for every call of a model.
pub fn chat() -> Span {
    info_span!(
        target: "rig::agent_chat",
        "chat",
        rig.completion_parent = true,
        gen_ai.operation.name = "chat",
        gen_ai.system_instructions = Empty,
        gen_ai.provider.name = Empty,
        gen_ai.request.model = Empty,
        gen_ai.request.stream = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.tool_use_prompt_tokens = Empty,
        gen_ai.usage.reasoning_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        gen_ai.tool.definitions = Empty,
        gen_ai.agent.name = "adder",
    )
}

/// As rig's agent opens it for every call of a tool.
pub fn execute_tool() -> Span {
    info_span!(
        "execute_tool",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.type = "function",
        gen_ai.tool.name = Empty,
        gen_ai.tool.call.id = Empty,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        gen_ai.tool.call.outcome = Empty,
        gen_ai.tool.error.type = Empty
    )
}

pub fn text(role: &str, content: &str) -> Value {
    json!({"role": role, "parts": [{"type": "text", "content": content}]})
}

/// A whole call: what was sent, what came back.
pub fn call(sent: &[Value], answer: Option<&str>) {
    let chat = chat();
    chat.record("gen_ai.input.messages", json!(sent).to_string());
    let _in_chat = chat.enter();
    chat.record("gen_ai.provider.name", "openai");
    chat.record("gen_ai.request.model", "gpt-4o");
    let Some(answer) = answer else { return };
    chat.record("gen_ai.response.id", "chatcmpl-1");
    chat.record("gen_ai.usage.input_tokens", 100_u64);
    chat.record("gen_ai.usage.output_tokens", 10_u64);
    let output = json!([{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]);
    chat.record("gen_ai.output.messages", output.to_string());
}

pub fn tool(name: &str, id: &str) {
    let tool = execute_tool();
    let _in_tool = tool.enter();
    tool.record("gen_ai.tool.name", name);
    tool.record("gen_ai.tool.call.id", id);
    tool.record("gen_ai.tool.call.arguments", r#"{"x":1}"#);
    tool.record("gen_ai.tool.call.outcome", "success");
    tool.record("gen_ai.tool.call.result", "2");
}

/// The messages in order, as role and text.
pub fn messages(trace: &Trace) -> Vec<(&str, &str)> {
    let messages_of = trace.lines().filter_map(|line| {
        let who = line.kind.strip_prefix("message_")?;
        Some((who, line.payload.get("content")?.as_str()?))
    });
    messages_of.collect()
}

pub fn only_session(trace: &Trace) -> &str {
    assert_eq!(trace.sessions.len(), 1, "{:?}", trace.sessions.keys());
    trace.sessions.keys().next().unwrap()
}
