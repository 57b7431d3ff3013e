//! What a backend gives out, read into the messages that we send.
//!
//! Both backends write OTLP's JSON, each in its own spelling: Jaeger ids in hexadecimal and kinds as
//! numbers, Tempo ids in base64 and kinds by name. What is missing or odd reads as empty: it then
//! differs from what was sent, and that is said.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use super::otlp::{
    AnyValue, ArrayValue, Event, InstrumentationScope, KeyValue, KeyValueList, Link, Resource,
    Span, Status, Value,
};
use crate::mirror::map;

/// A span that a backend holds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Held {
    /// Who recorded it, as the backend has it.
    pub resource: Resource,
    /// What recorded it.
    pub scope: InstrumentationScope,
    /// The span.
    pub span: Span,
}

impl Held {
    /// A span as a backend would give it out.
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
    /// use spanledger::mirror::verify::Held;
    /// let jaeger = serde_json::json!([{"scopeSpans": [{"spans": [{"spanId": "b7ad6b7169203331"}]}]}]);
    /// let tempo = serde_json::json!([{"scopeSpans": [{"spans": [{"spanId": "t61rcWkgMzE="}]}]}]);
    /// assert_eq!(Held::from_json(&jaeger), Held::from_json(&tempo));
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

const KINDS: [&str; 6] = [
    "UNSPECIFIED",
    "INTERNAL",
    "SERVER",
    "CLIENT",
    "PRODUCER",
    "CONSUMER",
];
const CODES: [&str; 3] = ["UNSET", "OK", "ERROR"];

fn span(json: &Json) -> Span {
    Span {
        trace_id: id(&json["traceId"], 16),
        span_id: id(&json["spanId"], 8),
        trace_state: text(&json["traceState"]),
        parent_span_id: id(&json["parentSpanId"], 8),
        flags: count(&json["flags"]),
        name: text(&json["name"]),
        kind: named(&json["kind"], "SPAN_KIND_", &KINDS),
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
            code: named(&json["status"]["code"], "STATUS_CODE_", &CODES),
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

/// 64 bits are texts in OTLP's JSON; numbers are forgiven.
fn nanos(json: &Json) -> u64 {
    let said = json.as_str().and_then(|text| text.parse().ok());
    said.or(json.as_u64()).unwrap_or(0)
}

fn named(json: &Json, prefix: &str, names: &[&str]) -> i32 {
    let by_name = json.as_str().and_then(|name| {
        let name = name.strip_prefix(prefix).unwrap_or(name);
        names.iter().position(|known| *known == name)
    });
    let number = json.as_i64().or(by_name.map(|at| at as i64));
    number.and_then(|n| i32::try_from(n).ok()).unwrap_or(0)
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
    // A parent that isn't there is written as zeros by some.
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
                let said = value.as_str().and_then(|text| text.parse().ok());
                Value::IntValue(said.or(value.as_i64())?)
            }
            "doubleValue" => {
                let said = value.as_str().and_then(|text| text.parse().ok());
                Value::DoubleValue(value.as_f64().or(said)?)
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
