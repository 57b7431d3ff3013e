//! Items of OpenAI's responses.

use serde_json::Value;

use super::message::{Message, call_part, reasoning_part, result_part, text_part};

pub(super) fn message(item: &Value) -> Message {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match text("type") {
        "function_call" | "custom_tool_call" => {
            let arguments = item.get("arguments").or_else(|| item.get("input"));
            let call = call_part(item.get("call_id"), item.get("name"), arguments);
            Message::new("assistant", vec![call])
        }
        "function_call_output" | "custom_tool_call_output" => {
            let result = result_part(item.get("call_id"), item.get("output"));
            Message::new("tool", vec![result])
        }
        "reasoning" => {
            let summary = item["summary"].as_array().into_iter().flatten();
            let texts = summary.filter_map(|part| part["text"].as_str());
            Message::new("assistant", texts.map(reasoning_part).collect())
        }
        "message" | "" => {
            let parts = match &item["content"] {
                Value::String(text) => vec![text_part(text)],
                Value::Array(parts) => parts.iter().map(part).collect(),
                _ => Vec::new(),
            };
            Message::new(text("role"), parts)
        }
        _ => Message::new("assistant", vec![item.clone()]),
    }
}

fn part(part: &Value) -> Value {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("input_text" | "output_text" | "text"), Some(text)) => text_part(text),
        _ => part.clone(),
    }
}
