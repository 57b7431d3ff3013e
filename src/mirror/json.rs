//! A request as OTLP writes it in JSON: ids in hex, whole numbers of 64 bits as texts, kinds as
//! numbers. What is empty or nothing is left out, as protobuf does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::otlp::any_value::Value;
use super::otlp::span::{Event, Link};
use super::otlp::{
    AnyValue, ArrayValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource,
    ResourceSpans, ScopeSpans, Span, Status,
};
use crate::redact::write_string;

impl ExportTraceServiceRequest {
    /// The request as JSON. Equal requests are equal bytes.
    ///
    /// ```
    /// use spanledger::mirror::otlp::ExportTraceServiceRequest;
    /// assert_eq!(ExportTraceServiceRequest::default().to_json(), b"{}");
    /// ```
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        object(&mut out, |o| {
            o.list("resourceSpans", &self.resource_spans, resource_spans);
        });
        out
    }
}

/// An object that is being written, each member with a comma behind it.
struct Object<'a>(&'a mut Vec<u8>);

fn object(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    write(&mut Object(out));
    close(out, b'}');
}

fn close(out: &mut Vec<u8>, with: u8) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(with);
}

impl Object<'_> {
    fn member(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        write_string(name, self.0);
        self.0.push(b':');
        write(self.0);
        self.0.push(b',');
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.member(name, |out| write_string(text, out));
        }
    }

    fn hex(&mut self, name: &str, bytes: &[u8]) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.text(name, &digits);
    }

    fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            self.member(name, |out| out.extend(number.to_string().bytes()));
        }
    }

    fn long(&mut self, name: &str, number: u64) {
        if number != 0 {
            self.text(name, &number.to_string());
        }
    }

    fn message<T>(&mut self, name: &str, message: Option<&T>, write: fn(&T, &mut Object<'_>)) {
        if let Some(message) = message {
            self.member(name, |out| object(out, |o| write(message, o)));
        }
    }

    fn list<T>(&mut self, name: &str, list: &[T], write: fn(&T, &mut Object<'_>)) {
        if !list.is_empty() {
            self.all(name, list, write);
        }
    }

    fn all<T>(&mut self, name: &str, list: &[T], write: fn(&T, &mut Object<'_>)) {
        self.member(name, |out| {
            out.push(b'[');
            for item in list {
                object(out, |o| write(item, o));
                out.push(b',');
            }
            close(out, b']');
        });
    }
}

fn resource_spans(of: &ResourceSpans, o: &mut Object<'_>) {
    o.message("resource", of.resource.as_ref(), resource);
    o.list("scopeSpans", &of.scope_spans, scope_spans);
    o.text("schemaUrl", &of.schema_url);
}

fn scope_spans(of: &ScopeSpans, o: &mut Object<'_>) {
    o.message("scope", of.scope.as_ref(), scope);
    o.list("spans", &of.spans, span);
    o.text("schemaUrl", &of.schema_url);
}

fn resource(of: &Resource, o: &mut Object<'_>) {
    o.list("attributes", &of.attributes, attribute);
    o.number("droppedAttributesCount", of.dropped_attributes_count.into());
}

fn scope(of: &InstrumentationScope, o: &mut Object<'_>) {
    o.text("name", &of.name);
    o.text("version", &of.version);
    o.list("attributes", &of.attributes, attribute);
    o.number("droppedAttributesCount", of.dropped_attributes_count.into());
}

fn span(of: &Span, o: &mut Object<'_>) {
    o.hex("traceId", &of.trace_id);
    o.hex("spanId", &of.span_id);
    o.text("traceState", &of.trace_state);
    o.hex("parentSpanId", &of.parent_span_id);
    o.number("flags", of.flags.into());
    o.text("name", &of.name);
    o.number("kind", of.kind.into());
    o.long("startTimeUnixNano", of.start_time_unix_nano);
    o.long("endTimeUnixNano", of.end_time_unix_nano);
    o.list("attributes", &of.attributes, attribute);
    o.number("droppedAttributesCount", of.dropped_attributes_count.into());
    o.list("events", &of.events, event);
    o.number("droppedEventsCount", of.dropped_events_count.into());
    o.list("links", &of.links, link);
    o.number("droppedLinksCount", of.dropped_links_count.into());
    o.message("status", of.status.as_ref(), status);
}

fn event(of: &Event, o: &mut Object<'_>) {
    o.long("timeUnixNano", of.time_unix_nano);
    o.text("name", &of.name);
    o.list("attributes", &of.attributes, attribute);
    o.number("droppedAttributesCount", of.dropped_attributes_count.into());
}

fn link(of: &Link, o: &mut Object<'_>) {
    o.hex("traceId", &of.trace_id);
    o.hex("spanId", &of.span_id);
    o.text("traceState", &of.trace_state);
    o.list("attributes", &of.attributes, attribute);
    o.number("droppedAttributesCount", of.dropped_attributes_count.into());
    o.number("flags", of.flags.into());
}

fn status(of: &Status, o: &mut Object<'_>) {
    o.text("message", &of.message);
    o.number("code", of.code.into());
}

fn attribute(of: &KeyValue, o: &mut Object<'_>) {
    // Readers in the field insist on it, empty or not.
    o.member("key", |out| write_string(&of.key, out));
    o.message("value", of.value.as_ref(), value);
}

/// An empty text is a value too: of these nothing is left out.
fn value(of: &AnyValue, o: &mut Object<'_>) {
    match &of.value {
        None => {}
        Some(Value::StringValue(text)) => o.member("stringValue", |out| write_string(text, out)),
        Some(Value::BoolValue(truth)) => {
            o.member("boolValue", |out| out.extend(truth.to_string().bytes()));
        }
        Some(Value::IntValue(number)) => o.text("intValue", &number.to_string()),
        // JSON has no other numbers than finite ones; protobuf spells them as texts then.
        Some(Value::DoubleValue(number)) => o.member("doubleValue", |out| {
            match serde_json::Number::from_f64(*number) {
                Some(number) => out.extend(number.to_string().bytes()),
                None if number.is_nan() => write_string("NaN", out),
                None if *number > 0.0 => write_string("Infinity", out),
                None => write_string("-Infinity", out),
            }
        }),
        Some(Value::ArrayValue(list)) => o.member("arrayValue", |out| {
            object(out, |o| o.all("values", &list.values, value));
        }),
        Some(Value::KvlistValue(list)) => o.member("kvlistValue", |out| {
            object(out, |o| o.all("values", &list.values, attribute));
        }),
        Some(Value::BytesValue(bytes)) => o.member("bytesValue", |out| {
            write_string(&STANDARD.encode(bytes), out);
        }),
    }
}

/// A list as the line that it came from would have it: `["a",1]`.
pub(super) fn plain_list(list: &ArrayValue) -> String {
    let mut out = Vec::new();
    write_plain_list(list, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn write_plain_list(list: &ArrayValue, out: &mut Vec<u8>) {
    out.push(b'[');
    for item in &list.values {
        match &item.value {
            Some(Value::StringValue(text)) => write_string(text, out),
            Some(Value::BoolValue(truth)) => out.extend(truth.to_string().bytes()),
            Some(Value::IntValue(number)) => out.extend(number.to_string().bytes()),
            Some(Value::DoubleValue(number)) => out.extend(number.to_string().bytes()),
            Some(Value::ArrayValue(list)) => write_plain_list(list, out),
            // The mapping makes none of these inside lists.
            Some(Value::KvlistValue(_) | Value::BytesValue(_)) | None => {
                out.extend_from_slice(b"null");
            }
        }
        out.push(b',');
    }
    close(out, b']');
}
