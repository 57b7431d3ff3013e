//! A user's own OpenTelemetry spans, taken into the trace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{Span as _, SpanId, SpanKind as OtelKind, Status};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use super::agent_span::{Within, nanos, put};
use crate::event::{Failure, Fields, Ids, Outcome, RawFields, RemoteContext, SpanKind};
use crate::layer::Recorder;
use crate::ledger::{Moment, OpenSpan, Trace};

/// Takes the spans of a tracer provider into the trace, and so into the mirror.
///
/// A span that starts inside an agent span (by its [`Context`], see
/// [`Builder::context`](crate::Builder::context)) gets its two lines in that session, under its own
/// ids: it is local first like everything else, survives a crash as interrupted, passes redaction,
/// and is sent from there. So the provider needs no exporter for it. Spans outside every session are
/// none of ours: they are passed by, and go to the provider's other processors only.
///
/// A provider asks its processors only for spans that it records: what its own sampler drops is not in
/// the trace either. Inside a trace of ours that is not sampled, that is all of them, unless the
/// provider's sampler says otherwise.
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
/// # let lines = spanledger::reader::lines(spanledger::reader::session_dir(dir.path(), "ses_1"))?;
/// # assert!(lines.iter().any(|line| line.kind == "span_end" && line.payload["name"] == "SELECT"));
/// # guard.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct LedgerProcessor {
    /// Where the spans that are open belong.
    open: Mutex<HashMap<SpanId, Within>>,
}

impl LedgerProcessor {
    /// One for a provider. It finds the ledger through the spans' contexts.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SpanId, Within>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpanProcessor for LedgerProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        let Some(within) = Within::of(context) else {
            return;
        };
        let (Some(recorder), Some(data)) = (within.recorder(), span.exported_data()) else {
            return;
        };
        recorder.open_otel(within, &data);
        self.lock()
            .insert(span.span_context().span_id(), within.clone());
    }

    fn on_end(&self, data: SpanData) {
        let Some(within) = self.lock().remove(&data.span_context.span_id()) else {
            return;
        };
        if let Some(recorder) = within.recorder() {
            recorder.close_otel(&within, &data);
        }
    }

    /// Nothing waits here: a line is written when its span starts or ends.
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

fn attributes(data: &SpanData) -> RawFields {
    let mut raw = RawFields::new();
    for attribute in &data.attributes {
        put(&mut raw, attribute);
    }
    raw
}

impl Recorder {
    fn open_otel(&self, within: &Within, data: &SpanData) {
        let Some(own) = RemoteContext::from_span_context(&data.span_context) else {
            return;
        };
        let core = self.ledger.core();
        let log = self.ledger.here(within.log());
        let parent = u64::from_be_bytes(data.parent_span_id.to_bytes());
        let ids = Ids {
            trace: own.trace,
            span: own.span,
            parent: (parent != 0).then_some(parent),
        };
        let around = within.at();
        let trace = if own.trace == around.trace.id && own.sampled == around.trace.sampled {
            Arc::clone(&around.trace)
        } else {
            Trace::new(core, own.trace, own.sampled, own.tracestate)
        };
        let start = Moment {
            wall: nanos(data.start_time),
            ..Moment::now()
        };
        let mut span = Box::new(OpenSpan::new(SpanKind::Other, ids, trace, start));
        span.turn = around.turn;
        span.turn_span = around.turn_span;
        span.run_span = around.run.map(|(_, id)| id);
        span.parent_here = ids.parent == Some(around.ids.span);
        span.parent_remote = data.parent_span_is_remote && ids.parent.is_some();
        span.span_kind = kind(&data.span_kind);
        let raw = attributes(data);
        let name = core.clean(&log.dir, |cleaner| {
            span.fields.add_clean(&raw, None, cleaner);
            let name = cleaner.redactor.text(&data.name, &mut cleaner.tally);
            name.into_owned()
        });
        span.describe_other(&name, data.instrumentation_scope.name(), None);
        log.open(core, span);
    }

    /// Its close line says what the span says at its end, whatever that was at its start.
    fn close_otel(&self, within: &Within, data: &SpanData) {
        let core = self.ledger.core();
        let log = self.ledger.here(within.log());
        let id = u64::from_be_bytes(data.span_context.span_id().to_bytes());
        let mut failure = RawFields::new();
        let outcome = match &data.status {
            Status::Ok => Outcome::Ok,
            Status::Error { description } => {
                let description = Failure::message(description.clone());
                failure.json_text("error", &description.to_json());
                Outcome::Error
            }
            Status::Unset => Outcome::Unset,
        };
        let clean = |raw: &RawFields, kind| {
            core.clean(&log.dir, |cleaner| Fields::clean(raw, kind, cleaner))
        };
        let fields = clean(&attributes(data), None);
        // An error is an object wherever it stands, here beside the attributes.
        let failure = clean(&failure, Some(SpanKind::Tool));
        let name = core.clean(&log.dir, |cleaner| {
            let name = cleaner.redactor.text(&data.name, &mut cleaner.tally);
            name.into_owned()
        });
        let events = data.events.iter().map(|event| {
            let clean = self.clean_event(&log, &event.name, &event.attributes);
            (clean, event.timestamp)
        });
        let events: Vec<_> = events.collect();
        let links = data.links.iter().filter_map(|link| {
            let to = RemoteContext::from_span_context(&link.span_context)?;
            let mut said = RawFields::new();
            link.attributes.iter().for_each(|it| put(&mut said, it));
            Some((to.trace, to.span, clean(&said, None)))
        });
        let links: Vec<_> = links.collect();
        log.amend(id, |span| {
            span.fields = fields;
            span.describe_other(&name, data.instrumentation_scope.name(), None);
            span.describe_failure(&failure);
            for (event, time) in &events {
                span.note("span_event", &event.note(*time));
            }
            span.lose_events(data.events.dropped_count as usize);
            for (trace, id, said) in &links {
                span.link_saying(*trace, *id, said);
            }
        });
        let duration = data.end_time.duration_since(data.start_time);
        let duration = duration.unwrap_or_default().as_nanos();
        let duration = u64::try_from(duration).unwrap_or(u64::MAX);
        log.close_after(core, id, outcome, Some(duration));
    }
}
