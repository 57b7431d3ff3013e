//! The OpenTelemetry resource of this process: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, and the
//! attributes that every SDK adds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use opentelemetry::{Array, Value as Otel};
use opentelemetry_sdk::Resource;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The resource, sorted. Code beats the environment.
pub(crate) fn detected(code: Map<String, Value>) -> Map<String, Value> {
    let mut found = BTreeMap::new();
    for (key, value) in Resource::builder().build().iter() {
        // The SDK leaves values as they stand in the variable, where they are percent-encoded.
        if let Some(value) = json(value) {
            found.insert(decoded(key.as_str()).into_owned(), value);
        }
    }
    // By the specification this beats the list, and it is not encoded; the SDK does it the other way.
    if let Some(name) = std::env::var("OTEL_SERVICE_NAME")
        .ok()
        .filter(|n| !n.is_empty())
    {
        found.insert("service.name".to_owned(), name.into());
    }
    // The SDK doesn't make our spans.
    let ours = [
        ("telemetry.sdk.name", env!("CARGO_PKG_NAME")),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    found.extend(ours.map(|(key, value)| (key.to_owned(), Value::from(value))));
    found.extend(code);
    found.into_iter().collect()
}

fn json(value: &Otel) -> Option<Value> {
    Some(match value {
        Otel::Bool(value) => (*value).into(),
        Otel::I64(value) => (*value).into(),
        Otel::F64(value) => (*value).into(),
        Otel::String(value) => decoded(value.as_str()).into_owned().into(),
        Otel::Array(Array::Bool(list)) => list.clone().into(),
        Otel::Array(Array::I64(list)) => list.clone().into(),
        Otel::Array(Array::F64(list)) => list.clone().into(),
        Otel::Array(Array::String(list)) => list.iter().map(|text| text.as_str()).collect(),
        _ => return None,
    })
}

/// Percent-decodes a text, unless the result is not UTF-8.
fn decoded(text: &str) -> Cow<'_, str> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.unwrap_or(Cow::Borrowed(text))
}
