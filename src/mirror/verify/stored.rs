//! Reads the JSON of a backend into OTLP messages.
//!
//! Both backends write OTLP's JSON, each in its own spelling: Jaeger writes ids in hexadecimal and kinds as
//! numbers, Tempo writes ids in base64 and kinds by name. Missing and invalid members are read as empty, so
//! that they show up as differences.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use crate::mirror::map;
use crate::mirror::otlp::any_value::Value;
use crate::mirror::otlp::span::{Event, Link, SpanKind};
use crate::mirror::otlp::status::StatusCode;
use crate::mirror::otlp::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, Resource, Span, Status,
};

/// A span that a backend has stored.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoredSpan {
    /// Its resource.
    pub resource: Resource,
    /// Its instrumentation scope.
    pub scope: InstrumentationScope,
    /// The span.
    pub span: Span,
}

impl StoredSpan {
    /// A span as a backend would return it.
    pub fn new(resource: Resource, scope: InstrumentationScope, span: Span) -> Self {
        Self {
            resource,
            scope,
            span,
        }
    }

    /// The spans in a list of `resourceSpans`, in either spelling.
    ///
    /// ```
    /// use spanledger::mirror::verify::StoredSpan;
    /// let jaeger = serde_json::json!([{"scopeSpans": [{"spans": [{"spanId": "b7ad6b7169203331"}]}]}]);
    /// let tempo = serde_json::json!([{"scopeSpans": [{"spans": [{"spanId": "t61rcWkgMzE="}]}]}]);
    /// assert_eq!(StoredSpan::from_json(&jaeger), StoredSpan::from_json(&tempo));
    /// ```
    pub fn from_json(resource_spans: &Json) -> Vec<Self> {
        let mut held = Vec::new();
        for of_resource in list(resource_spans) {
            let resource = Resource {
                attributes: attributes(&of_resource["resource"]["attributes"]),
                ..Resource::default()
            };
            for of_scope in list(&of_resource["scopeSpans"]) {
                let scope = InstrumentationScope {
                    name: text(&of_scope["scope"]["name"]),
                    version: text(&of_scope["scope"]["version"]),
                    ..InstrumentationScope::default()
                };
                let spans = list(&of_scope["spans"]);
                held.extend(
                    spans.map(|json| Self::new(resource.clone(), scope.clone(), span(json))),
                );
            }
        }
        held
    }
}

fn span(json: &Json) -> Span {
    Span {
        trace_id: id(&json["traceId"], 16),
        span_id: id(&json["spanId"], 8),
        trace_state: text(&json["traceState"]),
        parent_span_id: id(&json["parentSpanId"], 8),
        flags: count(&json["flags"]),
        name: text(&json["name"]),
        kind: number_of(&json["kind"], |name| {
            SpanKind::from_str_name(name).map(i32::from)
        }),
        start_time_unix_nano: nanos(&json["startTimeUnixNano"]),
        end_time_unix_nano: nanos(&json["endTimeUnixNano"]),
        attributes: attributes(&json["attributes"]),
        dropped_attributes_count: count(&json["droppedAttributesCount"]),
        events: list(&json["events"]).map(event).collect(),
        dropped_events_count: count(&json["droppedEventsCount"]),
        links: list(&json["links"]).map(link).collect(),
        dropped_links_count: count(&json["droppedLinksCount"]),
        status: Some(Status {
            message: text(&json["status"]["message"]),
            code: number_of(&json["status"]["code"], |name| {
                StatusCode::from_str_name(name).map(i32::from)
            }),
        }),
    }
}

fn event(json: &Json) -> Event {
    Event {
        time_unix_nano: nanos(&json["timeUnixNano"]),
        name: text(&json["name"]),
        attributes: attributes(&json["attributes"]),
        dropped_attributes_count: count(&json["droppedAttributesCount"]),
    }
}

fn link(json: &Json) -> Link {
    Link {
        trace_id: id(&json["traceId"], 16),
        span_id: id(&json["spanId"], 8),
        trace_state: text(&json["traceState"]),
        attributes: attributes(&json["attributes"]),
        dropped_attributes_count: count(&json["droppedAttributesCount"]),
        flags: count(&json["flags"]),
    }
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn count(json: &Json) -> u32 {
    let count = json.as_u64().unwrap_or(0);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// 64-bit integers are texts in OTLP's JSON; numbers are accepted too.
fn nanos(json: &Json) -> u64 {
    let text = json.as_str().and_then(|text| text.parse().ok());
    text.or(json.as_u64()).unwrap_or(0)
}

/// An enum, by number or by name.
fn number_of(json: &Json, by_name: fn(&str) -> Option<i32>) -> i32 {
    let number = json.as_i64().and_then(|number| i32::try_from(number).ok());
    number
        .or_else(|| by_name(json.as_str()?))
        .unwrap_or_default()
}

fn id(json: &Json, bytes: usize) -> Vec<u8> {
    let text = json.as_str().unwrap_or_default();
    let hex = match bytes {
        16 => map::id::<16>(Some(text)).map(Vec::from),
        _ => map::id::<8>(Some(text)).map(Vec::from),
    };
    if let Some(id) = hex {
        return id;
    }
    let id = BASE64_STANDARD.decode(text).unwrap_or_default();
    // A missing parent may be written as zeros.
    if id.iter().all(|byte| *byte == 0) {
        Vec::new()
    } else {
        id
    }
}

fn attributes(json: &Json) -> Vec<KeyValue> {
    list(json)
        .map(|attribute| KeyValue {
            key: text(&attribute["key"]),
            value: Some(any(&attribute["value"])),
        })
        .collect()
}

fn any(json: &Json) -> AnyValue {
    let first = json.as_object().and_then(|object| object.iter().next());
    let value = first.and_then(|(kind, value)| {
        Some(match kind.as_str() {
            "stringValue" => Value::StringValue(text(value)),
            "boolValue" => Value::BoolValue(value.as_bool()?),
            "intValue" => {
                let text = value.as_str().and_then(|text| text.parse().ok());
                Value::IntValue(text.or(value.as_i64())?)
            }
            "doubleValue" => {
                let text = value.as_str().and_then(|text| text.parse().ok());
                Value::DoubleValue(value.as_f64().or(text)?)
            }
            "bytesValue" => Value::BytesValue(BASE64_STANDARD.decode(text(value)).ok()?),
            "arrayValue" => Value::ArrayValue(ArrayValue {
                values: list(&value["values"]).map(any).collect(),
            }),
            "kvlistValue" => Value::KvlistValue(KeyValueList {
                values: attributes(&value["values"]),
            }),
            _ => return None,
        })
    });
    AnyValue { value }
}
