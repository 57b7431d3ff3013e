//! The sizes of recorded values, and of the requests and messages that a call recorded.

use crate::trace::RawValue;
use crate::trace::typed::ToolCall;

/// The parts that are measured, in the order of `Parts`.
pub(super) const SYSTEM: usize = 0;
pub(super) const TOOLS: usize = 1;
pub(super) const USER: usize = 2;
pub(super) const ASSISTANT: usize = 3;
pub(super) const RESULTS: usize = 4;
pub(super) const SUMMARY: usize = 5;

/// Bytes by part.
pub(super) type Sizes = [u64; 6];

/// How long a value is, as JSON spells it, with what is in a blob or was cut.
pub(super) fn size(value: RawValue<'_>) -> u64 {
    let json = value.json();
    if let Some(marker) = value.marker() {
        let head = marker.head.as_ref().map_or(0, |head| head.len() as u64);
        return match (marker.cut, marker.bytes) {
            (Some(cut), _) => head.saturating_add(cut.bytes.unwrap_or(0)),
            (None, Some(bytes)) => bytes,
            (None, None) => head,
        };
    }
    let quotes = if json.starts_with('"') { 2 } else { 0 };
    (json.len() as u64).saturating_sub(quotes)
}

pub(super) fn size_of(value: Option<RawValue<'_>>) -> u64 {
    value.map_or(0, size)
}

/// What the model is sent of a tool call: its result, else its output and its error.
pub(super) fn result_size(call: &ToolCall<'_>) -> u64 {
    if let Some(result) = call.result() {
        return size(result);
    }
    let error = call.error().and_then(|error| error.message());
    [call.stdout(), call.stderr(), error]
        .map(size_of)
        .iter()
        .sum()
}

/// The sizes of a recorded request, whose messages, prompt and tools are references with a size. `None`: a reference has
/// no size, or there are none.
pub(super) fn request(request: RawValue<'_>) -> Option<Sizes> {
    let mut sizes = Sizes::default();
    let bytes = |reference: RawValue<'_>| {
        reference.get("$part")?;
        reference.get("bytes")?.u64()
    };
    for (name, value) in request.members() {
        match name {
            "messages" | "input" => {
                for message in value.items() {
                    let role = message.get("role").and_then(|role| role.text());
                    sizes[part_of(role.as_deref())] += bytes(message)?;
                }
                // The input may be one text.
                if value.json().starts_with('"') {
                    sizes[USER] += size(value);
                }
            }
            "system" | "instructions" | "system_instructions" => sizes[SYSTEM] += bytes(value)?,
            "tools" => sizes[TOOLS] += bytes(value)?,
            _ => {}
        }
    }
    (sizes != Sizes::default()).then_some(sizes)
}

/// What a message of this author is a part of.
fn part_of(role: Option<&str>) -> usize {
    match role {
        Some("system" | "developer") => SYSTEM,
        Some("assistant" | "model") => ASSISTANT,
        Some("tool") => RESULTS,
        _ => USER,
    }
}

/// The sizes of messages as the GenAI conventions have them: `[{role, parts: [{type, content}]}]`.
pub(super) fn messages(list: RawValue<'_>) -> Sizes {
    let mut sizes = Sizes::default();
    for message in list.items() {
        let role = message.get("role").and_then(|role| role.text());
        let part = part_of(role.as_deref());
        let Some(parts) = message.get("parts") else {
            sizes[part] += size_of(message.get("content"));
            continue;
        };
        for one in parts.items() {
            let kind = one.get("type").and_then(|kind| kind.text());
            let part = match kind.as_deref() {
                Some("tool_call_response" | "tool_result") => RESULTS,
                _ => part,
            };
            sizes[part] += size(one);
        }
    }
    sizes
}
