//! From a closed span to measurements.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use crate::event::{Fields, Outcome, SpanKind};
use crate::ledger::{Closed, Health, MirrorHealth};
use crate::reader::RawValue;

/// What is longer is no name.
const LONGEST_NAME: usize = 256;
const OTHER: &str = "_OTHER";

/// What is measured of spans.
pub(super) struct Instruments {
    operation: Histogram<f64>,
    tokens: Histogram<u64>,
    tool: Histogram<f64>,
    agent: Histogram<f64>,
}

impl Instruments {
    pub(super) fn new(meter: &Meter) -> Self {
        let seconds = |name, what, buckets| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(what)
                .with_boundaries(buckets)
                .build()
        };
        // The conventions': each so many times the one before.
        let operations = || buckets(0.01, 2.0, 14);
        Self {
            operation: seconds(
                "gen_ai.client.operation.duration",
                "How long model calls took.",
                operations(),
            ),
            tool: seconds(
                "gen_ai.execute_tool.duration",
                "How long tools took.",
                operations(),
            ),
            agent: seconds(
                "gen_ai.invoke_agent.duration",
                "How long agents ran.",
                buckets(0.1, 2.0, 13),
            ),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Tokens that model calls used.")
                .with_boundaries(buckets(1.0, 4.0, 14))
                .build(),
        }
    }

    pub(super) fn record(&self, closed: &Closed<'_>) {
        let span = closed.span;
        if !matches!(span.kind, SpanKind::Model | SpanKind::Tool | SpanKind::Run) {
            return;
        }
        let seconds = closed.duration as f64 / 1e9;
        let mut said = Said {
            fields: &span.fields,
            attributes: Vec::with_capacity(6),
        };
        match span.kind {
            SpanKind::Model => {
                said.put("gen_ai.operation.name", "chat");
                said.field("gen_ai.provider.name", "provider_id");
                said.field("gen_ai.request.model", "model_id");
                said.field("gen_ai.response.model", "response_model");
                let usage = span.used();
                let used = [
                    ("input", usage.and_then(|usage| usage.input_tokens)),
                    ("output", usage.and_then(|usage| usage.output_tokens)),
                ];
                for (kind, count) in used {
                    let Some(count) = count else { continue };
                    said.put("gen_ai.token.type", kind);
                    self.tokens.record(count, &said.attributes);
                    said.attributes.pop();
                }
                said.error(closed.outcome);
                self.operation.record(seconds, &said.attributes);
            }
            SpanKind::Tool => {
                said.field("gen_ai.tool.name", "tool_id");
                said.field("gen_ai.tool.type", "tool_type");
                said.json("gen_ai.agent.name", closed.agent.as_deref());
                said.error(closed.outcome);
                self.tool.record(seconds, &said.attributes);
            }
            SpanKind::Run => {
                said.field("gen_ai.agent.name", "agent");
                said.field("gen_ai.request.model", "model_id");
                said.error(closed.outcome);
                self.agent.record(seconds, &said.attributes);
            }
            _ => {}
        }
    }
}

fn buckets(first: f64, times: f64, count: i32) -> Vec<f64> {
    // Powers of two times one number: no sum of errors, and what the conventions write.
    (0..count).map(|n| first * times.powi(n)).collect()
}

/// Attributes from the fields of a span, which have passed redaction.
struct Said<'a> {
    fields: &'a Fields,
    attributes: Vec<KeyValue>,
}

impl Said<'_> {
    fn put(&mut self, key: &'static str, value: &'static str) {
        self.attributes.push(KeyValue::new(key, value));
    }

    fn field(&mut self, key: &'static str, field: &str) {
        let fields = self.fields;
        self.json(key, fields.get(field));
    }

    /// A text; what is none, or empty, is no name.
    fn json(&mut self, key: &'static str, json: Option<&[u8]>) {
        let json = json.and_then(|json| std::str::from_utf8(json).ok());
        match json.and_then(|json| RawValue::new(json).text()) {
            None => {}
            Some(text) if text.is_empty() => {}
            Some(text) if text.len() > LONGEST_NAME => self.put(key, OTHER),
            Some(text) => self.attributes.push(KeyValue::new(key, text.into_owned())),
        }
    }

    fn error(&mut self, outcome: Outcome) {
        if outcome != Outcome::Error {
            return;
        }
        let before = self.attributes.len();
        let error = self.fields.get("error");
        let error = error.and_then(|json| std::str::from_utf8(json).ok());
        let kind = error.and_then(|json| RawValue::new(json).get("error_type"));
        self.json("error.type", kind.map(|kind| kind.json().as_bytes()));
        if self.attributes.len() == before {
            self.put("error.type", OTHER);
        }
    }
}

/// How recording and sending go, read when it is asked for.
pub(super) fn observe(meter: &Meter, health: Box<dyn Fn() -> Health + Send + Sync>) {
    let sends = health().mirror.is_some();
    let health: Arc<dyn Fn() -> Health + Send + Sync> = health.into();
    let count = |name, unit, what, read: fn(&Health) -> u64| {
        let health = Arc::clone(&health);
        meter
            .u64_observable_counter(name)
            .with_unit(unit)
            .with_description(what)
            .with_callback(move |to| to.observe(read(&health()), &[]))
            .build();
    };
    count(
        "spanledger.events.written",
        "{event}",
        "Events whose line is in the trace.",
        |health| health.written,
    );
    count(
        "spanledger.events.failed",
        "{event}",
        "Events whose line could not be written.",
        |health| health.failed,
    );
    if !sends {
        return;
    }
    count(
        "spanledger.mirror.spans.sent",
        "{span}",
        "Spans that a server accepted.",
        |health| of_mirror(health, |mirror| mirror.sent),
    );
    count(
        "spanledger.mirror.dead_letters",
        "{span}",
        "Spans that a server refused for good.",
        |health| of_mirror(health, |mirror| mirror.dead_letters),
    );
    meter
        .u64_observable_gauge("spanledger.mirror.lag")
        .with_unit("By")
        .with_description("Bytes of the trace that are not sent yet.")
        .with_callback(move |to| {
            to.observe(of_mirror(&health(), |mirror| mirror.owed_bytes), &[]);
        })
        .build();
}

fn of_mirror(health: &Health, read: fn(&MirrorHealth) -> u64) -> u64 {
    health.mirror.as_ref().map_or(0, read)
}
