//! Measures closed spans.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use crate::ledger::{ClosedSpan, Counters};
use crate::mirror::{MirrorHealth, Queue};
use crate::trace::{RawValue, SpanKind};

/// Longer names are replaced, to bound the number of time series.
const MAX_NAME: usize = 256;
const OTHER: &str = "_OTHER";

/// The attributes of each histogram, and the fields that they come from.
const MODEL_ATTRIBUTES: [(&str, &str); 3] = [
    ("gen_ai.provider.name", "provider_id"),
    ("gen_ai.request.model", "model_id"),
    ("gen_ai.response.model", "response_model"),
];
const TOOL_ATTRIBUTES: [(&str, &str); 3] = [
    ("gen_ai.tool.name", "tool_id"),
    ("gen_ai.tool.type", "tool_type"),
    ("gen_ai.agent.name", "agent"),
];
const RUN_ATTRIBUTES: [(&str, &str); 2] = [
    ("gen_ai.agent.name", "agent"),
    ("gen_ai.request.model", "model_id"),
];

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
        type Names = [(&'static str, &'static str)];
        let (duration, names): (_, &Names) = match closed.kind {
            SpanKind::Model => (&self.operation, &MODEL_ATTRIBUTES),
            SpanKind::Tool => (&self.tool, &TOOL_ATTRIBUTES),
            SpanKind::Run => (&self.agent, &RUN_ATTRIBUTES),
            _ => return,
        };
        let mut attributes = Vec::with_capacity(6);
        if closed.kind == SpanKind::Model {
            attributes.push(KeyValue::new("gen_ai.operation.name", "chat"));
        }
        let fields = names.iter();
        attributes.extend(fields.filter_map(|(key, field)| name(key, (closed.field)(field))));
        if let Some(usage) = closed.usage.filter(|_| closed.kind == SpanKind::Model) {
            for (kind, count) in [
                ("input", usage.input_tokens),
                ("output", usage.output_tokens),
            ] {
                let Some(count) = count else { continue };
                attributes.push(KeyValue::new("gen_ai.token.type", kind));
                self.tokens.record(count, &attributes);
                attributes.pop();
            }
        }
        if closed.outcome.is_error() {
            let kind = (closed.field)("error").and_then(|error| error.get("error_type"));
            let unknown = || KeyValue::new("error.type", OTHER);
            attributes.push(name("error.type", kind).unwrap_or_else(unknown));
        }
        duration.record(closed.duration as f64 / 1e9, &attributes);
    }
}

/// A name as an attribute, unless it is empty or not a text.
fn name(key: &'static str, value: Option<RawValue<'_>>) -> Option<KeyValue> {
    let text = value?.text().filter(|text| !text.is_empty())?;
    Some(match text.len() > MAX_NAME {
        true => KeyValue::new(key, OTHER),
        false => KeyValue::new(key, text.into_owned()),
    })
}

fn buckets(first: f64, times: f64, count: i32) -> Vec<f64> {
    (0..count).map(|n| first * times.powi(n)).collect()
}

/// Observes recording and sending when metrics are exported.
pub(super) fn observe(meter: &Meter, counters: &Arc<Counters>, queue: Option<&Arc<Queue>>) {
    let written: fn(&Counters) -> u64 = Counters::written;
    for (name, description, read) in [
        (
            "spanledger.events.written",
            "Events whose line is in the trace.",
            written,
        ),
        (
            "spanledger.events.failed",
            "Events whose line could not be written.",
            Counters::failed,
        ),
    ] {
        let counters = Arc::clone(counters);
        meter
            .u64_observable_counter(name)
            .with_unit("{event}")
            .with_description(description)
            .with_callback(move |to| to.observe(read(&counters), &[]))
            .build();
    }
    let Some(queue) = queue else { return };
    let sent: fn(MirrorHealth) -> u64 = |mirror| mirror.sent;
    for (name, description, read) in [
        (
            "spanledger.mirror.spans.sent",
            "Spans that a server accepted.",
            sent,
        ),
        (
            "spanledger.mirror.dead_letters",
            "Spans that a server refused for good.",
            |mirror| mirror.dead_letters,
        ),
    ] {
        let queue = Arc::clone(queue);
        meter
            .u64_observable_counter(name)
            .with_unit("{span}")
            .with_description(description)
            .with_callback(move |to| to.observe(read(queue.health()), &[]))
            .build();
    }
    let queue = Arc::clone(queue);
    meter
        .u64_observable_gauge("spanledger.mirror.lag")
        .with_unit("By")
        .with_description("Bytes of the trace that are not sent yet.")
        .with_callback(move |to| to.observe(queue.health().owed_bytes, &[]))
        .build();
}
