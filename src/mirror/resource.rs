//! What runs here, as the OpenTelemetry SDK finds it: `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES` and what every SDK says of itself.

use std::borrow::Cow;
use std::collections::BTreeMap;

use opentelemetry::{Array, Value as Otel};
use opentelemetry_sdk::Resource;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// What is found, sorted, with what code says on top.
pub(crate) fn detected(code: Map<String, Value>) -> Map<String, Value> {
    let mut found = BTreeMap::new();
    for (key, value) in Resource::builder().build().iter() {
        // The SDK leaves values as they stand in the variable, where they are percent-encoded.
        if let Some(value) = json(value) {
            found.insert(decoded(key.as_str()).into_owned(), value);
        }
    }
    // The SDK lets the list beat this; the specification says otherwise, and it is not encoded.
    if let Some(name) = std::env::var("OTEL_SERVICE_NAME")
        .ok()
        .filter(|n| !n.is_empty())
    {
        found.insert("service.name".to_owned(), name.into());
    }
    // The spans are none of the SDK's.
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

/// What isn't text when decoded stays as it was.
fn decoded(text: &str) -> Cow<'_, str> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.unwrap_or(Cow::Borrowed(text))
}
