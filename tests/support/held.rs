//! Spans as a backend returns them, parsed without any code of ours.

use std::collections::HashMap;

use serde_json::Value;

/// A span as a backend returned it. Ids are in hexadecimal, times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub trace_id: String,
    pub span_id: String,
    /// Empty for a root.
    pub parent_id: String,
    pub name: String,
    /// As OTLP counts: 1 is internal, 3 a client.
    pub kind: u64,
    pub start: u64,
    pub end: u64,
    /// As OTLP counts: 0 is unset, 1 ok, 2 an error.
    pub status: u64,
    pub status_message: String,
    /// By name; OTLP's own JSON of each value.
    pub attributes: HashMap<String, Value>,
    pub resource: HashMap<String, Value>,
    /// Time and name of each.
    pub events: Vec<(u64, String)>,
    /// Trace and span of each.
    pub links: Vec<(String, String)>,
}

impl Held {
    /// From OTLP's JSON, in Jaeger's spelling or Tempo's.
    pub fn all(resource_spans: &Value) -> Vec<Self> {
        let mut held = Vec::new();
        for resource in list(resource_spans) {
            let attributes = attributes(&resource["resource"]["attributes"]);
            for span in list(&resource["scopeSpans"]).flat_map(|scope| list(&scope["spans"])) {
                held.push(Self::one(span, attributes.clone()));
            }
        }
        held
    }

    fn one(span: &Value, resource: HashMap<String, Value>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kinds = ["", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"];
        let codes = ["", "OK", "ERROR"];
        let events = list(&span["events"]);
        let links = list(&span["links"]);
        Self {
            trace_id: hex(&span["traceId"], 16),
            span_id: hex(&span["spanId"], 8),
            parent_id: hex(&span["parentSpanId"], 8),
            name: text(&span["name"]),
            kind: number(&span["kind"], "SPAN_KIND_", &kinds),
            start: nanos(&span["startTimeUnixNano"]),
            end: nanos(&span["endTimeUnixNano"]),
            status: number(&span["status"]["code"], "STATUS_CODE_", &codes),
            status_message: text(&span["status"]["message"]),
            attributes: attributes(&span["attributes"]),
            resource,
            events: events
                .map(|event| (nanos(&event["timeUnixNano"]), text(&event["name"])))
                .collect(),
            links: links
                .map(|link| (hex(&link["traceId"], 16), hex(&link["spanId"], 8)))
                .collect(),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn nanos(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// An enumeration's value: Jaeger gives numbers, Tempo names.
fn number(value: &Value, prefix: &str, names: &[&str]) -> u64 {
    match value {
        Value::String(name) => {
            let name = name.strip_prefix(prefix).unwrap();
            names.iter().position(|known| *known == name).unwrap() as u64
        }
        other => other.as_u64().unwrap_or(0),
    }
}

/// An id: Jaeger gives hexadecimal, Tempo base64.
fn hex(value: &Value, bytes: usize) -> String {
    let text = value.as_str().unwrap_or_default();
    if text.is_empty() || text.len() == 2 * bytes {
        return text.to_owned();
    }
    let id = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text).unwrap();
    assert_eq!(id.len(), bytes, "{text}");
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(value: &Value) -> HashMap<String, Value> {
    let mut attributes = HashMap::new();
    for attribute in list(value) {
        let key = attribute["key"].as_str().unwrap().to_owned();
        let before = attributes.insert(key, attribute["value"].clone());
        assert_eq!(before, None, "twice: {attribute}");
    }
    attributes
}
