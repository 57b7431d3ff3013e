//! Records a user's own OpenTelemetry spans in the trace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{Span as _, SpanId, SpanKind as OtelKind};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use super::agent_span::{CleanEvent, EnclosingAgent, SPAN_EVENT, nanos, raw_fields, status_fields};
use crate::record::fields::Fields;
use crate::record::layer::Recorder;
use crate::record::session::{OpenSpan, SessionLog, SpanContext, Trace};
use crate::trace::{Ids, Moment, RemoteContext, SpanKind, lock};

/// Takes the spans of a tracer provider into the trace, and so into the mirror.
///
/// A span that starts inside an agent span (by its [`Context`], see
/// [`Builder::context`](crate::Builder::context)) gets its two lines in that session, under its own
/// ids: it is redacted, survives a crash as interrupted, and is sent from the trace. So the provider needs
/// no exporter for it. Spans outside every session are ignored here; only the provider's other processors
/// see them.
///
/// A provider calls its processors only for spans that it records: spans that its own sampler drops are not
/// in the trace either. Inside a trace of ours that is not sampled these are all spans, unless the provider's
/// sampler decides otherwise.
///
/// ```
/// use opentelemetry::trace::{Tracer, TracerProvider};
/// use opentelemetry_sdk::trace::SdkTracerProvider;
/// use spanledger::otel::LedgerProcessor;
/// # use tracing_subscriber::layer::SubscriberExt;
/// # let dir = tempfile::tempdir()?;
///
/// let (layer, guard) = spanledger::builder().root(dir.path()).context(true).build()?;
/// # let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
/// let provider = SdkTracerProvider::builder()
///     .with_span_processor(LedgerProcessor::new())
///     .build();
/// let tracer = provider.tracer("database");
/// spanledger::spans::session_run("ses_1", "planner").start().in_scope(|| {
///     drop(tracer.start("SELECT"));
/// });
/// # let lines = spanledger::read::lines(spanledger::read::session_dir(dir.path(), "ses_1"))?;
/// # assert!(lines.iter().any(|line| line.kind == "span_end" && line.payload["name"] == "SELECT"));
/// # guard.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct LedgerProcessor {
    /// The agent span around each open span.
    open: Mutex<HashMap<SpanId, EnclosingAgent>>,
}

impl LedgerProcessor {
    /// One for a provider. It finds the ledger through the spans' contexts.
    pub fn new() -> Self {
        Self::default()
    }
}

impl SpanProcessor for LedgerProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        let (Some(agent), Some(data)) = (EnclosingAgent::of(context), span.exported_data()) else {
            return;
        };
        agent.record(|recorder, log, around| {
            open(recorder, log, around, &data);
            lock(&self.open).insert(span.span_context().span_id(), agent.clone());
        });
    }

    fn on_end(&self, data: SpanData) {
        let agent = lock(&self.open).remove(&data.span_context.span_id());
        if let Some(agent) = agent {
            agent.record(|recorder, log, _| close(recorder, log, &data));
        }
    }

    /// Does nothing: each line is written when its span starts or ends.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn kind(kind: &OtelKind) -> Option<&'static str> {
    match kind {
        OtelKind::Client => Some("client"),
        OtelKind::Server => Some("server"),
        OtelKind::Producer => Some("producer"),
        OtelKind::Consumer => Some("consumer"),
        OtelKind::Internal => None,
    }
}

fn open(recorder: &Recorder, log: &Arc<SessionLog>, around: &SpanContext, data: &SpanData) {
    let Some(own) = RemoteContext::from_span_context(&data.span_context) else {
        return;
    };
    let process = &recorder.process;
    let parent = u64::from_be_bytes(data.parent_span_id.to_bytes());
    let ids = Ids {
        trace: own.trace,
        span: own.span,
        parent: (parent != 0).then_some(parent),
    };
    let trace = if own.trace == around.trace.id && own.sampled == around.trace.sampled {
        Arc::clone(&around.trace)
    } else {
        Trace::new(process, own.trace, own.sampled, own.tracestate)
    };
    let start = Moment {
        wall: nanos(data.start_time),
        ..Moment::now()
    };
    let at = SpanContext {
        ids,
        trace,
        kind: SpanKind::Other,
        ..around.clone()
    };
    let mut span = OpenSpan::new(at, start);
    span.parent_here = ids.parent == Some(around.ids.span);
    span.parent_remote = data.parent_span_is_remote && ids.parent.is_some();
    span.span_kind = kind(&data.span_kind);
    span.fields = process.sanitize_fields(log, &raw_fields(&data.attributes));
    let name = process.sanitize_text(&data.name);
    span.describe_other(&name, data.instrumentation_scope.name(), None);
    log.lock(process).open(span);
}

/// The close line has what the span holds at its end, which replaces what it held at its start.
fn close(recorder: &Recorder, log: &Arc<SessionLog>, data: &SpanData) {
    let process = &recorder.process;
    let id = u64::from_be_bytes(data.span_context.span_id().to_bytes());
    let clean = |attributes| process.sanitize_fields(log, &raw_fields(attributes));
    let (outcome, failure) = status_fields(&data.status);
    // An error is an object in every line; here it stands beside the attributes.
    let schema = Some(SpanKind::Tool);
    let failure = process.sanitize(log, |sanitizer| Fields::clean(&failure, schema, sanitizer));
    let fields = clean(&data.attributes);
    let name = process.sanitize_text(&data.name);
    let events = data.events.iter().map(|event| {
        let (name, attributes) = (&event.name, &event.attributes);
        CleanEvent::new(recorder, log, name, attributes, event.timestamp)
    });
    let events: Vec<_> = events.collect();
    let links = data.links.iter().filter_map(|link| {
        let to = RemoteContext::from_span_context(&link.span_context)?;
        Some(((to.trace, to.span), clean(&link.attributes)))
    });
    let links: Vec<_> = links.collect();
    log.lock(process).amend(id, |span| {
        span.fields = fields;
        span.describe_other(&name, data.instrumentation_scope.name(), None);
        span.describe_failure(&failure);
        for event in &events {
            span.note(SPAN_EVENT, &Fields::default(), &event.note());
        }
        span.lose_events(data.events.dropped_count as usize);
        for (link, attributes) in &links {
            span.link_with(*link, attributes);
        }
    });
    let duration = data.end_time.duration_since(data.start_time);
    let duration = u64::try_from(duration.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
    log.close(process, id, outcome, Some(duration));
}
