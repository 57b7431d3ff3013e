//! The parts of recorded requests, found in the lines of a session.

use std::path::Path;

use serde_json::Value;

use crate::request;
use crate::session::{Node, whole};
use crate::trace::typed::{ContextAsset, Message, ModelCall, RequestPart};
use crate::trace::{Kind, RawLine, RawValue};

/// Whether nothing of a value was cut, and its blob is there.
pub(super) fn is_whole(session: &Path, value: RawValue<'_>) -> bool {
    match value.marker() {
        Some(marker) => {
            marker.cut.is_none() && marker.blob.is_some() && whole(session, value).is_ok()
        }
        None => true,
    }
}

/// The request of a call as recorded: without its parts.
pub(super) fn request_of(call: &Node) -> Option<Value> {
    let view: ModelCall<'_> = call.view();
    view.request_digest()?;
    let request = view.request()?.value()?;
    // One that comes from a blob is a text.
    let read = request
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    Some(read.unwrap_or(request))
}

/// The digests of all parts of a request.
pub(super) fn refs(rest: &Value) -> Vec<String> {
    match request::join(rest, |_| None) {
        Ok(_) => Vec::new(),
        Err(request::Missing(digests)) => digests,
    }
}

/// The parts of requests that a line has, by digest.
pub(super) fn parts_of(session: &Path, line: &RawLine<'_>) -> Vec<(String, Value)> {
    let text = |value: Option<RawValue<'_>>| value.and_then(|value| whole(session, value).ok());
    let kind = line.kind();
    let role = match kind {
        Kind::RequestPart => {
            let part: RequestPart<'_> = line.payload().into();
            let body = text(part.body()).and_then(|text| {
                let is_text = part.body()?.text().is_some();
                match is_text {
                    true => Some(text.into()),
                    false => serde_json::from_str(&text).ok(),
                }
            });
            let digest = part.digest().map(String::from);
            return digest.zip(body).into_iter().collect();
        }
        Kind::SystemPrompt | Kind::MessageSystem => "system",
        Kind::MessageUser => "user",
        Kind::MessageAssistant => "assistant",
        _ => return Vec::new(),
    };
    let said = match kind {
        Kind::SystemPrompt => ContextAsset::from(line.payload()).body(),
        _ => Message::from(line.payload()).content(),
    };
    let Some(said) = text(said) else {
        return Vec::new();
    };
    let parts = request::simple_parts(role, &said).into_iter();
    parts
        .map(|part| (request::part_digest(&part), part))
        .collect()
}
