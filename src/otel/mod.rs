//! OpenTelemetry's context, both ways.

mod sampling;

pub(crate) use sampling::Sampling;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

use crate::event::RemoteContext;

impl RemoteContext {
    /// From a span of the OpenTelemetry API, if it is a valid one.
    pub(crate) fn from_span_context(span: &SpanContext) -> Option<Self> {
        if !span.is_valid() {
            return None;
        }
        let context = Self {
            trace: u128::from_be_bytes(span.trace_id().to_bytes()),
            span: u64::from_be_bytes(span.span_id().to_bytes()),
            sampled: span.is_sampled(),
            remote: span.is_remote(),
            tracestate: None,
        };
        Some(context.with_tracestate(&span.trace_state().header()))
    }

    pub(crate) fn to_span_context(&self) -> SpanContext {
        let state: Option<TraceState> = self.tracestate().and_then(|text| text.parse().ok());
        SpanContext::new(
            TraceId::from(self.trace),
            SpanId::from(self.span),
            TraceFlags::default().with_sampled(self.sampled),
            self.remote,
            state.unwrap_or_default(),
        )
    }
}

/// The span that is current for the OpenTelemetry API on this thread.
pub(crate) fn current() -> Option<RemoteContext> {
    quietly(|| {
        opentelemetry::Context::map_current(|context| {
            RemoteContext::from_span_context(context.span().span_context())
        })
    })?
}

/// The API panics where a thread's locals are gone, or where somebody holds its context borrowed.
/// Recording goes on without it then.
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).ok()
}
