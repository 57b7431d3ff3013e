//! Messages of OpenAI's chat completions.

use serde_json::Value;

use super::message::{Message, call_part, reasoning_part, result_part, text_part};

pub(super) fn message(message: &Value) -> Message {
    let role = message["role"].as_str().unwrap_or_default();
    let content = message.get("content");
    if matches!(role, "tool" | "function") {
        let id = message.get("tool_call_id").or_else(|| message.get("name"));
        return Message::new("tool", vec![result_part(id, content)]);
    }
    let mut parts = Vec::new();
    for name in ["reasoning_content", "reasoning"] {
        let text = message.get(name).and_then(Value::as_str);
        parts.extend(text.filter(|text| !text.is_empty()).map(reasoning_part));
    }
    match content {
        Some(Value::String(text)) => parts.push(text_part(text)),
        Some(Value::Array(items)) => parts.extend(items.iter().map(part)),
        _ => {}
    }
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str) {
        parts.push(serde_json::json!({"type": "refusal", "content": refusal}));
    }
    let calls = message.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        let function = call.get("function").or_else(|| call.get("custom"));
        let of = |name: &str| function.and_then(|function| function.get(name));
        let arguments = of("arguments").or_else(|| of("input"));
        parts.push(call_part(call.get("id"), of("name"), arguments));
    }
    if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
        parts.push(call_part(None, call.get("name"), call.get("arguments")));
    }
    Message::new(role, parts)
}

fn part(part: &Value) -> Value {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => text_part(text),
        _ => part.clone(),
    }
}
