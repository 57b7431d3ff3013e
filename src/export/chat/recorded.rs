//! Parts of messages as they were recorded.

use serde_json::{Map, Value, json};

use super::super::values::text_of;
use crate::trace::RawValue;

/// A recorded part: verbatim if the AI SDK accepts it, else as a part that it accepts, `data-…` if no other fits.
pub(super) fn part(part: RawValue<'_>) -> Value {
    let Some(Value::Object(mut part)) = part.value() else {
        return json!({"type": "text", "text": text_of(part), "state": "done"});
    };
    // A null is a value only as what a tool was given and gave back.
    let is_output = part
        .get("state")
        .is_some_and(|state| state == "output-available");
    part.retain(|name, value| {
        !value.is_null() || name == "input" || (name == "output" && is_output)
    });
    let text = |name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
    let has = |names: &[&str]| {
        names
            .iter()
            .all(|name| part.get(*name).is_some_and(Value::is_string))
    };
    let kind = text("type").unwrap_or_default();
    match kind.as_str() {
        "text" | "reasoning" => {
            let words = text("text").or_else(|| text("content")).unwrap_or_default();
            let state = text("state").filter(|state| state == "streaming");
            part.remove("content");
            part.insert("text".into(), words.into());
            part.insert(
                "state".into(),
                state.unwrap_or_else(|| "done".into()).into(),
            );
            part.into()
        }
        "step-start" => json!({"type": "step-start"}),
        "file" if has(&["mediaType", "url"]) => part.into(),
        "source-url" if has(&["sourceId", "url"]) => part.into(),
        "source-document" if has(&["sourceId", "mediaType", "title"]) => part.into(),
        "tool_call" | "tool_call_response" | "dynamic-tool" => tool(part),
        kind if kind.starts_with("tool-") => tool(part),
        kind if kind.starts_with("data-") && part.contains_key("data") => part.into(),
        kind => json!({"type": format!("data-{kind}"), "data": part}),
    }
}

/// A tool call that has no span, or not yet: verbatim if the AI SDK accepts it.
fn tool(part: Map<String, Value>) -> Value {
    if is_valid_tool(&part) {
        return part.into();
    }
    let get = |names: &[&str]| names.iter().find_map(|name| part.get(*name)).cloned();
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let name = kind.strip_prefix("tool-").map(Value::from);
    let name = name
        .or_else(|| get(&["toolName", "name"]))
        .unwrap_or_else(|| "unknown".into());
    let mut made = json!({
        "type": format!("tool-{}", name.as_str().unwrap_or_default()),
        "toolCallId": get(&["toolCallId", "id"]).and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_default(),
        "state": "input-available",
        "input": get(&["input", "arguments"]).unwrap_or_else(|| json!({})),
    });
    let denied = get(&["approval"])
        .filter(|approval| approval["approved"] == false && approval["id"].is_string());
    let error = get(&["errorText"]).and_then(|error| error.as_str().map(str::to_owned));
    if let Some(approval) = denied {
        made["state"] = "output-denied".into();
        made["approval"] = approval;
    } else if let Some(error) = error {
        made["state"] = "output-error".into();
        made["errorText"] = error.into();
    } else if let Some(output) = get(&["output", "response", "result"]) {
        made["state"] = "output-available".into();
        made["output"] = output;
    }
    made
}

/// Whether the AI SDK accepts a part of a tool call: each state has its own members.
fn is_valid_tool(part: &Map<String, Value>) -> bool {
    let is_text = |name: &str| part.get(name).is_some_and(Value::is_string);
    let has = |name: &str| part.contains_key(name);
    let is_named = match part.get("type").and_then(Value::as_str) {
        Some("dynamic-tool") => is_text("toolName"),
        kind => kind.is_some_and(|kind| kind.starts_with("tool-")),
    };
    let approval = part.get("approval");
    let approved = approval.and_then(|approval| approval.get("approved"));
    let approved = approved.map(|approved| approved.as_bool());
    let asked = approval.is_some_and(|approval| approval["id"].is_string());
    let is_allowed = approval.is_none() || (asked && approved == Some(Some(true)));
    let has_none = |names: &[&str]| !names.iter().any(|name| has(name));
    let fits = match part.get("state").and_then(Value::as_str) {
        Some("input-streaming") => has_none(&["output", "errorText", "approval"]),
        Some("input-available") => has("input") && has_none(&["output", "errorText", "approval"]),
        Some("approval-requested") => {
            let is_open = asked && approved.is_none();
            has("input") && is_open && has_none(&["output", "errorText"])
        }
        Some("approval-responded") => {
            let is_answered = asked && matches!(approved, Some(Some(_)));
            has("input") && is_answered && has_none(&["output", "errorText"])
        }
        Some("output-available") => {
            has("input") && has("output") && is_allowed && has_none(&["errorText"])
        }
        Some("output-error") => is_text("errorText") && is_allowed && has_none(&["output"]),
        Some("output-denied") => {
            let is_denied = asked && approved == Some(Some(false));
            has("input") && is_denied && has_none(&["output", "errorText"])
        }
        _ => false,
    };
    is_named && is_text("toolCallId") && fits
}
