//! Messages of Anthropic's API.

use serde_json::{Value, json};

use super::message::{Message, call_part, reasoning_part, result_part, text_part};

/// The types of content that only this API has.
const OWN_TYPES: [&str; 6] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "image",
    "document",
];

/// Whether a body with these messages is for this API.
pub(super) fn is_anthropic(body: &Value, messages: &[Value]) -> bool {
    let has_own = |message: &Value| {
        let content = message.get("content").and_then(Value::as_array);
        let mut types = content.into_iter().flatten().map(|block| &block["type"]);
        types.any(|of| of.as_str().is_some_and(|of| OWN_TYPES.contains(&of)))
    };
    let tools = body.get("tools").and_then(Value::as_array);
    let mut tools = tools.into_iter().flatten();
    body.get("system").is_some()
        || body.get("anthropic_version").is_some()
        || tools.any(|tool| tool.get("input_schema").is_some())
        || messages.iter().any(has_own)
}

pub(super) fn message(message: &Value) -> Message {
    let parts = match &message["content"] {
        Value::String(text) => vec![text_part(text)],
        Value::Array(blocks) => blocks.iter().map(part).collect(),
        _ => Vec::new(),
    };
    Message::new(message["role"].as_str().unwrap_or_default(), parts)
}

fn part(block: &Value) -> Value {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match text("type") {
        "text" => text_part(text("text")),
        "thinking" => reasoning_part(text("thinking")),
        "tool_use" => call_part(block.get("id"), block.get("name"), block.get("input")),
        "tool_result" => {
            let content = block.get("content").map(result);
            let mut part = result_part(block.get("tool_use_id"), content.as_ref());
            if block["is_error"] == true {
                part["is_error"] = json!(true);
            }
            part
        }
        _ => block.clone(),
    }
}

/// A result that is one text, as that text.
fn result(content: &Value) -> Value {
    match content.as_array().map(Vec::as_slice) {
        Some([block]) if block["type"] == "text" => block["text"].clone(),
        _ => content.clone(),
    }
}
