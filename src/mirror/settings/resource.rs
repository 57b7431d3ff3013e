//! The OpenTelemetry resource of this process: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, and the
//! attributes that every SDK adds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use opentelemetry::{Array, Value as Otel};
use opentelemetry_sdk::Resource;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

#[cfg(feature = "metrics")]
use crate::mirror::map::attributes::{member_name, plain};
#[cfg(feature = "metrics")]
use crate::mirror::map::wire::Val;
#[cfg(feature = "metrics")]
use crate::trace::RawValue;

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

/// The resource in the header of a segment as the SDK's type, with the values that the mirror sends.
#[cfg(feature = "metrics")]
pub(crate) fn sdk_resource(logged: &Value) -> Resource {
    let json = logged.to_string();
    let members = RawValue::new(&json).members();
    let attributes = members.filter_map(|(name, value)| {
        let name = member_name(name).into_owned();
        Some(opentelemetry::KeyValue::new(name, sdk_value(value)?))
    });
    Resource::builder_empty()
        .with_attributes(attributes)
        .build()
}

#[cfg(feature = "metrics")]
fn sdk_value(value: RawValue<'_>) -> Option<Otel> {
    Some(match plain(value)? {
        Val::Text(text) => Otel::String(text.into_owned().into()),
        Val::Bool(truth) => Otel::Bool(truth),
        Val::Int(number) => Otel::I64(number),
        Val::Double(number) => Otel::F64(number),
        Val::List(list) => {
            let texts = list.iter().map(|item| match item {
                Val::Text(text) => Some(text.clone().into_owned().into()),
                _ => None,
            });
            // The SDK's lists have one type; lists of other values than texts become JSON.
            match texts.collect() {
                Some(texts) => Otel::Array(Array::String(texts)),
                None => Otel::String(value.json().to_owned().into()),
            }
        }
    })
}

/// Percent-decodes a text, unless the result is not UTF-8.
fn decoded(text: &str) -> Cow<'_, str> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.unwrap_or(Cow::Borrowed(text))
}
