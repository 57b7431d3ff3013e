//! OTLP's JSON encoding: ids in hex, 64-bit integers as texts, enums as numbers. Empty and zero members
//! are left out, as in protobuf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::otlp::any_value::Value;
use super::otlp::span::{Event, Link};
use super::otlp::{
    AnyValue, ArrayValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource,
    ResourceSpans, ScopeSpans, Span, Status,
};
use crate::trace::{hex, write_string};

impl ExportTraceServiceRequest {
    /// The request as JSON. Equal requests give equal bytes.
    ///
    /// ```
    /// use spanledger::mirror::otlp::ExportTraceServiceRequest;
    /// assert_eq!(ExportTraceServiceRequest::default().to_json(), b"{}");
    /// ```
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut request = Object::new(&mut out);
        request.list("resourceSpans", &self.resource_spans, resource_spans);
        request.end();
        out
    }
}

/// Writes an object. Members that are empty or zero are left out.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        let is_empty = true;
        Self { out, is_empty }
    }

    /// The name of the next member. Names need no escapes.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            write_string(text, self.name(name));
        }
    }

    fn number(&mut self, name: &str, number: impl Into<i64>) {
        let number = number.into();
        if number != 0 {
            let out = self.name(name);
            out.extend_from_slice(number.to_string().as_bytes());
        }
    }

    /// A number of 64 bits, which is a text.
    fn long(&mut self, name: &str, number: u64) {
        if number != 0 {
            self.text(name, &number.to_string());
        }
    }

    fn list<T>(&mut self, name: &str, items: &[T], write: fn(&T, &mut Vec<u8>)) {
        if !items.is_empty() {
            list(items, write, self.name(name));
        }
    }

    fn message<T>(&mut self, name: &str, message: Option<&T>, write: fn(&T, &mut Vec<u8>)) {
        if let Some(message) = message {
            write(message, self.name(name));
        }
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

fn list<T>(items: &[T], write: fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn resource_spans(of: &ResourceSpans, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.message("resource", of.resource.as_ref(), resource);
    object.list("scopeSpans", &of.scope_spans, scope_spans);
    object.text("schemaUrl", &of.schema_url);
    object.end();
}

fn scope_spans(of: &ScopeSpans, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.message("scope", of.scope.as_ref(), scope);
    object.list("spans", &of.spans, span);
    object.text("schemaUrl", &of.schema_url);
    object.end();
}

fn resource(of: &Resource, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.list("attributes", &of.attributes, attribute);
    object.number("droppedAttributesCount", of.dropped_attributes_count);
    object.end();
}

fn scope(of: &InstrumentationScope, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.text("name", &of.name);
    object.text("version", &of.version);
    object.list("attributes", &of.attributes, attribute);
    object.number("droppedAttributesCount", of.dropped_attributes_count);
    object.end();
}

fn span(of: &Span, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.text("traceId", &hex(&of.trace_id));
    object.text("spanId", &hex(&of.span_id));
    object.text("traceState", &of.trace_state);
    object.text("parentSpanId", &hex(&of.parent_span_id));
    object.number("flags", of.flags);
    object.text("name", &of.name);
    object.number("kind", of.kind);
    object.long("startTimeUnixNano", of.start_time_unix_nano);
    object.long("endTimeUnixNano", of.end_time_unix_nano);
    object.list("attributes", &of.attributes, attribute);
    object.number("droppedAttributesCount", of.dropped_attributes_count);
    object.list("events", &of.events, event);
    object.number("droppedEventsCount", of.dropped_events_count);
    object.list("links", &of.links, link);
    object.number("droppedLinksCount", of.dropped_links_count);
    object.message("status", of.status.as_ref(), status);
    object.end();
}

fn event(of: &Event, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.long("timeUnixNano", of.time_unix_nano);
    object.text("name", &of.name);
    object.list("attributes", &of.attributes, attribute);
    object.number("droppedAttributesCount", of.dropped_attributes_count);
    object.end();
}

fn link(of: &Link, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.text("traceId", &hex(&of.trace_id));
    object.text("spanId", &hex(&of.span_id));
    object.text("traceState", &of.trace_state);
    object.list("attributes", &of.attributes, attribute);
    object.number("droppedAttributesCount", of.dropped_attributes_count);
    object.number("flags", of.flags);
    object.end();
}

fn status(of: &Status, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    object.text("message", &of.message);
    object.number("code", of.code);
    object.end();
}

fn attribute(of: &KeyValue, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    // Some readers require the key even if it is empty.
    write_string(&of.key, object.name("key"));
    object.message("value", of.value.as_ref(), value);
    object.end();
}

fn value(of: &AnyValue, out: &mut Vec<u8>) {
    let mut object = Object::new(out);
    match &of.value {
        None => {}
        Some(Value::StringValue(text)) => write_string(text, object.name("stringValue")),
        Some(Value::BoolValue(truth)) => {
            let truth: &[u8] = if *truth { b"true" } else { b"false" };
            object.name("boolValue").extend_from_slice(truth);
        }
        Some(Value::IntValue(number)) => {
            write_string(&number.to_string(), object.name("intValue"));
        }
        Some(Value::DoubleValue(number)) => {
            let double = double(*number).to_string();
            let out = object.name("doubleValue");
            out.extend_from_slice(double.as_bytes());
        }
        Some(Value::ArrayValue(array)) => {
            let mut inside = Object::new(object.name("arrayValue"));
            list(&array.values, value, inside.name("values"));
            inside.end();
        }
        Some(Value::KvlistValue(map)) => {
            let mut inside = Object::new(object.name("kvlistValue"));
            list(&map.values, attribute, inside.name("values"));
            inside.end();
        }
        Some(Value::BytesValue(bytes)) => {
            write_string(&STANDARD.encode(bytes), object.name("bytesValue"));
        }
    }
    object.end();
}

/// JSON has only finite numbers; protobuf's JSON writes the others as texts.
fn double(number: f64) -> Json {
    match serde_json::Number::from_f64(number) {
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
