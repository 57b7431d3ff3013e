//! OTLP's JSON encoding: ids in hex, 64-bit integers as texts, enums as numbers. Empty and zero members
//! are left out, as in protobuf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value as Json};

use super::otlp::any_value::Value;
use super::otlp::span::{Event, Link};
use super::otlp::{
    AnyValue, ArrayValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource,
    ResourceSpans, ScopeSpans, Span, Status,
};
use crate::trace::hex;

impl ExportTraceServiceRequest {
    /// The request as JSON. Equal requests give equal bytes.
    ///
    /// ```
    /// use spanledger::mirror::otlp::ExportTraceServiceRequest;
    /// assert_eq!(ExportTraceServiceRequest::default().to_json(), b"{}");
    /// ```
    pub fn to_json(&self) -> Vec<u8> {
        let resource_spans = list(&self.resource_spans, resource_spans);
        let request = object([("resourceSpans", resource_spans)]);
        request.to_string().into_bytes()
    }
}

/// An object of those members that are not empty or zero.
fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    let is_set = |value: &Json| match value {
        Json::Null => false,
        Json::String(text) => !text.is_empty(),
        Json::Number(number) => number.as_i64() != Some(0),
        Json::Array(list) => !list.is_empty(),
        Json::Bool(_) | Json::Object(_) => true,
    };
    let members = members.into_iter().filter(|(_, value)| is_set(value));
    let members: Map<_, _> = members
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Json::Object(members)
}

/// An object with one member, whatever its value.
fn single(name: &str, value: impl Into<Json>) -> Json {
    Json::Object(Map::from_iter([(name.to_owned(), value.into())]))
}

fn list<T>(items: &[T], to_json: fn(&T) -> Json) -> Json {
    items.iter().map(to_json).collect()
}

fn message<T>(message: Option<&T>, to_json: fn(&T) -> Json) -> Json {
    message.map_or(Json::Null, to_json)
}

fn long(number: u64) -> Json {
    match number {
        0 => Json::Null,
        number => number.to_string().into(),
    }
}

fn resource_spans(of: &ResourceSpans) -> Json {
    object([
        ("resource", message(of.resource.as_ref(), resource)),
        ("scopeSpans", list(&of.scope_spans, scope_spans)),
        ("schemaUrl", of.schema_url.as_str().into()),
    ])
}

fn scope_spans(of: &ScopeSpans) -> Json {
    object([
        ("scope", message(of.scope.as_ref(), scope)),
        ("spans", list(&of.spans, span)),
        ("schemaUrl", of.schema_url.as_str().into()),
    ])
}

fn resource(of: &Resource) -> Json {
    object([
        ("attributes", list(&of.attributes, attribute)),
        ("droppedAttributesCount", of.dropped_attributes_count.into()),
    ])
}

fn scope(of: &InstrumentationScope) -> Json {
    object([
        ("name", of.name.as_str().into()),
        ("version", of.version.as_str().into()),
        ("attributes", list(&of.attributes, attribute)),
        ("droppedAttributesCount", of.dropped_attributes_count.into()),
    ])
}

fn span(of: &Span) -> Json {
    object([
        ("traceId", hex(&of.trace_id).into()),
        ("spanId", hex(&of.span_id).into()),
        ("traceState", of.trace_state.as_str().into()),
        ("parentSpanId", hex(&of.parent_span_id).into()),
        ("flags", of.flags.into()),
        ("name", of.name.as_str().into()),
        ("kind", of.kind.into()),
        ("startTimeUnixNano", long(of.start_time_unix_nano)),
        ("endTimeUnixNano", long(of.end_time_unix_nano)),
        ("attributes", list(&of.attributes, attribute)),
        ("droppedAttributesCount", of.dropped_attributes_count.into()),
        ("events", list(&of.events, event)),
        ("droppedEventsCount", of.dropped_events_count.into()),
        ("links", list(&of.links, link)),
        ("droppedLinksCount", of.dropped_links_count.into()),
        ("status", message(of.status.as_ref(), status)),
    ])
}

fn event(of: &Event) -> Json {
    object([
        ("timeUnixNano", long(of.time_unix_nano)),
        ("name", of.name.as_str().into()),
        ("attributes", list(&of.attributes, attribute)),
        ("droppedAttributesCount", of.dropped_attributes_count.into()),
    ])
}

fn link(of: &Link) -> Json {
    object([
        ("traceId", hex(&of.trace_id).into()),
        ("spanId", hex(&of.span_id).into()),
        ("traceState", of.trace_state.as_str().into()),
        ("attributes", list(&of.attributes, attribute)),
        ("droppedAttributesCount", of.dropped_attributes_count.into()),
        ("flags", of.flags.into()),
    ])
}

fn status(of: &Status) -> Json {
    object([
        ("message", of.message.as_str().into()),
        ("code", of.code.into()),
    ])
}

fn attribute(of: &KeyValue) -> Json {
    // Some readers require the key even if it is empty.
    let mut attribute = single("key", of.key.as_str());
    if let Some(any) = &of.value {
        attribute["value"] = value(any);
    }
    attribute
}

fn value(of: &AnyValue) -> Json {
    match &of.value {
        None => object([]),
        Some(Value::StringValue(text)) => single("stringValue", text.as_str()),
        Some(Value::BoolValue(truth)) => single("boolValue", *truth),
        Some(Value::IntValue(number)) => single("intValue", number.to_string()),
        Some(Value::DoubleValue(number)) => single("doubleValue", double(*number)),
        Some(Value::ArrayValue(array)) => {
            single("arrayValue", single("values", list(&array.values, value)))
        }
        Some(Value::KvlistValue(map)) => single(
            "kvlistValue",
            single("values", list(&map.values, attribute)),
        ),
        Some(Value::BytesValue(bytes)) => single("bytesValue", STANDARD.encode(bytes)),
    }
}

/// JSON has only finite numbers; protobuf's JSON writes the others as texts.
fn double(number: f64) -> Json {
    match Number::from_f64(number) {
        Some(number) => Json::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// A value as plain JSON, without OTLP's types: `["a",1]`.
pub(super) fn plain_json(any: Option<&AnyValue>) -> Json {
    match any.and_then(|any| any.value.as_ref()) {
        None => Json::Null,
        Some(Value::StringValue(text)) => text.as_str().into(),
        Some(Value::BoolValue(truth)) => (*truth).into(),
        Some(Value::IntValue(number)) => (*number).into(),
        Some(Value::DoubleValue(number)) => (*number).into(),
        Some(Value::ArrayValue(list)) => plain_list(list),
        Some(other) => format!("{other:?}").into(),
    }
}

pub(super) fn plain_list(list: &ArrayValue) -> Json {
    list.values
        .iter()
        .map(|any| plain_json(Some(any)))
        .collect()
}
