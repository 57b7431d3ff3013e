//! Measures closed spans.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use crate::ledger::{ClosedSpan, Counters};
use crate::mirror::{MirrorHealth, Queue};
use crate::trace::RawValue;
use crate::trace::{Outcome, SpanKind};

/// Longer names are replaced, to bound the number of time series.
const MAX_NAME: usize = 256;
const OTHER: &str = "_OTHER";

/// The instruments for spans.
#[derive(Debug)]
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
        // The buckets of the conventions.
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

    pub(super) fn record(&self, closed: &ClosedSpan<'_>) {
        if !matches!(
            closed.kind,
            SpanKind::Model | SpanKind::Tool | SpanKind::Run
        ) {
            return;
        }
        let seconds = closed.duration as f64 / 1e9;
        let mut attributes = Attributes {
            field: closed.field,
            list: Vec::with_capacity(6),
        };
        match closed.kind {
            SpanKind::Model => {
                attributes.put("gen_ai.operation.name", "chat");
                attributes.field("gen_ai.provider.name", "provider_id");
                attributes.field("gen_ai.request.model", "model_id");
                attributes.field("gen_ai.response.model", "response_model");
                let usage = closed.usage;
                let used = [
                    ("input", usage.and_then(|usage| usage.input_tokens)),
                    ("output", usage.and_then(|usage| usage.output_tokens)),
                ];
                for (kind, count) in used {
                    let Some(count) = count else { continue };
                    attributes.put("gen_ai.token.type", kind);
                    self.tokens.record(count, &attributes.list);
                    attributes.list.pop();
                }
                attributes.error(closed.outcome);
                self.operation.record(seconds, &attributes.list);
            }
            SpanKind::Tool => {
                attributes.field("gen_ai.tool.name", "tool_id");
                attributes.field("gen_ai.tool.type", "tool_type");
                attributes.field("gen_ai.agent.name", "agent");
                attributes.error(closed.outcome);
                self.tool.record(seconds, &attributes.list);
            }
            SpanKind::Run => {
                attributes.field("gen_ai.agent.name", "agent");
                attributes.field("gen_ai.request.model", "model_id");
                attributes.error(closed.outcome);
                self.agent.record(seconds, &attributes.list);
            }
            _ => {}
        }
    }
}

fn buckets(first: f64, times: f64, count: i32) -> Vec<f64> {
    (0..count).map(|n| first * times.powi(n)).collect()
}

/// Attributes from the redacted fields of a span.
struct Attributes<'a> {
    field: &'a dyn Fn(&str) -> Option<&'a [u8]>,
    list: Vec<KeyValue>,
}

impl Attributes<'_> {
    fn put(&mut self, key: &'static str, value: &'static str) {
        self.list.push(KeyValue::new(key, value));
    }

    fn field(&mut self, key: &'static str, field: &str) {
        self.json(key, (self.field)(field));
    }

    /// Adds a text, unless it is empty or another type.
    fn json(&mut self, key: &'static str, json: Option<&[u8]>) {
        let json = json.and_then(|json| std::str::from_utf8(json).ok());
        match json.and_then(|json| RawValue::new(json).text()) {
            None => {}
            Some(text) if text.is_empty() => {}
            Some(text) if text.len() > MAX_NAME => self.put(key, OTHER),
            Some(text) => self.list.push(KeyValue::new(key, text.into_owned())),
        }
    }

    fn error(&mut self, outcome: Outcome) {
        if outcome != Outcome::Error {
            return;
        }
        let before = self.list.len();
        let error = (self.field)("error");
        let error = error.and_then(|json| std::str::from_utf8(json).ok());
        let kind = error.and_then(|json| RawValue::new(json).get("error_type"));
        self.json("error.type", kind.map(|kind| kind.json().as_bytes()));
        if self.list.len() == before {
            self.put("error.type", OTHER);
        }
    }
}

/// How recording and sending go, read when it is asked for.
pub(super) fn observe(meter: &Meter, counters: &Arc<Counters>, queue: Option<&Arc<Queue>>) {
    let count = |name, unit, what| {
        meter
            .u64_observable_counter(name)
            .with_unit(unit)
            .with_description(what)
    };
    let of_ledger = |read: fn(&Counters) -> u64| {
        let counters = Arc::clone(counters);
        move |to: &dyn AsyncInstrument<u64>| to.observe(read(&counters), &[])
    };
    count(
        "spanledger.events.written",
        "{event}",
        "Events whose line is in the trace.",
    )
    .with_callback(of_ledger(Counters::written))
    .build();
    count(
        "spanledger.events.failed",
        "{event}",
        "Events whose line could not be written.",
    )
    .with_callback(of_ledger(Counters::failed))
    .build();
    let Some(queue) = queue else { return };
    let of_mirror = |read: fn(MirrorHealth) -> u64| {
        let queue = Arc::clone(queue);
        move |to: &dyn AsyncInstrument<u64>| to.observe(read(queue.health()), &[])
    };
    count(
        "spanledger.mirror.spans.sent",
        "{span}",
        "Spans that a server accepted.",
    )
    .with_callback(of_mirror(|mirror| mirror.sent))
    .build();
    count(
        "spanledger.mirror.dead_letters",
        "{span}",
        "Spans that a server refused for good.",
    )
    .with_callback(of_mirror(|mirror| mirror.dead_letters))
    .build();
    meter
        .u64_observable_gauge("spanledger.mirror.lag")
        .with_unit("By")
        .with_description("Bytes of the trace that are not sent yet.")
        .with_callback(of_mirror(|mirror| mirror.owed_bytes))
        .build();
}
