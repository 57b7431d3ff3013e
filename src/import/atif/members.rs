//! Members of steps, calls and results as fields of ours.

use serde_json::{Value, json};

use super::super::history::{Fields, fields};
use super::super::time::time_of;
use crate::trace::{Outcome, Usage};

/// What our own export writes into `extra`. Anything else there is kept as metadata.
const OURS: &[&str] = &[
    "address",
    "attachments",
    "ended_at",
    "exit_code",
    "finish_reason",
    "hidden",
    "incomplete",
    "is_error",
    "metadata",
    "outcome",
    "started_at",
    "summary",
    "unread_subagents",
];

/// A text, or the texts of a list of parts.
pub(super) fn content(message: &Value) -> String {
    let of_parts = |parts: &Vec<Value>| {
        let texts = parts.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    };
    match message {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.as_array().map_or_else(|| other.to_string(), of_parts),
    }
}

/// The files of a step: those that our export lists, or those among the parts of its message.
pub(super) fn attachments(step: &Value) -> Option<Value> {
    if let Value::Array(files) = &step["extra"]["attachments"] {
        return Some(files.clone().into());
    }
    let parts = step["message"].as_array()?.iter();
    let files = parts.filter(|part| part["type"] != "text").map(|part| {
        let source = &part["source"];
        Value::from(fields(
            json!({"media_type": source["media_type"], "url": source["path"]}),
        ))
    });
    let files: Vec<_> = files.collect();
    (!files.is_empty()).then(|| files.into())
}

/// The metadata that our export has in an `extra`, and the members there that it doesn't write.
pub(super) fn metadata(extra: &Value) -> Fields {
    let members = extra.as_object().into_iter().flatten();
    let others = members.filter(|(name, _)| !OURS.contains(&name.as_str()));
    let others = others.map(|(name, value)| (name.clone(), value.clone()));
    let mut metadata = extra["metadata"].as_object().cloned().unwrap_or_default();
    metadata.extend(others);
    metadata
}

/// The object, unless it is empty.
pub(super) fn filled(object: Fields) -> Option<Value> {
    (!object.is_empty()).then(|| object.into())
}

/// A time in an `extra`.
pub(super) fn time_in(extra: &Value, name: &str) -> Option<u64> {
    time_of(&extra[name])
}

/// How a call with this result ended, as far as the result says so.
pub(super) fn outcome(extra: &Value) -> Outcome {
    let given = extra["outcome"].as_str().and_then(Outcome::parse);
    let by_flag = |is_error: bool| match is_error {
        true => Outcome::Error,
        false => Outcome::Ok,
    };
    let flag = extra["is_error"].as_bool();
    let failed = || extra["exit_code"].as_i64().map(|code| code != 0);
    given
        .or_else(|| flag.or_else(failed).map(by_flag))
        .unwrap_or_default()
}

/// The tokens and the cost of a step. Providers' own counts are in `metrics.extra`.
pub(super) fn usage(metrics: &Value) -> Option<Value> {
    let extra = &metrics["extra"];
    let mut usage = json!({
        "input_tokens": metrics["prompt_tokens"],
        "output_tokens": metrics["completion_tokens"],
        "cache_read_tokens": metrics["cached_tokens"],
        "cost_usd": metrics["cost_usd"],
        "cache_write_tokens": extra["cache_creation_input_tokens"].as_u64(),
        "reasoning_tokens": extra["reasoning_output_tokens"].as_u64(),
    });
    let mut details = extra.as_object().cloned().unwrap_or_default();
    for name in Usage::COUNTS {
        if let Some(count @ Value::Number(_)) = details.remove(name) {
            usage[name] = count;
        }
    }
    usage["usage_details"] = match details.remove("usage_details") {
        Some(ours) => ours,
        None => json!(filled(details)),
    };
    metrics.is_object().then(|| fields(usage).into())
}
