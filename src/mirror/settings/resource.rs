//! The OpenTelemetry resource of this process: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, and the
//! attributes that every SDK adds.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The resource, sorted. Code beats the environment.
pub(crate) fn detected(code: Map<String, Value>) -> Map<String, Value> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let exe = std::env::current_exe().ok();
    let service = match exe.as_ref().and_then(|exe| exe.file_name()?.to_str()) {
        Some(file) => format!("unknown_service:{file}"),
        None => "unknown_service".to_owned(),
    };
    let listed = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let listed = listed.split(',').filter_map(|entry| entry.split_once('='));
    let mut found = BTreeMap::from([("service.name".to_owned(), service)]);
    found.extend(listed.map(|(key, value)| (decoded(key), decoded(value))));
    // By the specification this beats the list, and it is not encoded.
    found.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    let ours = [
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.name", env!("CARGO_PKG_NAME")),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    found.extend(ours.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let found = found.into_iter().map(|(key, value)| (key, value.into()));
    let all: BTreeMap<String, Value> = found.chain(code).collect();
    all.into_iter().collect()
}

/// Percent-decodes a text, unless the result is not UTF-8.
fn decoded(text: &str) -> String {
    let decoded = percent_decode_str(text.trim()).decode_utf8();
    decoded.map_or_else(|_| text.trim().to_owned(), |decoded| decoded.into_owned())
}
