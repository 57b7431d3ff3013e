//! OpenTelemetry's context, in both directions.
//!
//! | you have | you want | use |
//! |---|---|---|
//! | spans of the API, or of `tracing-opentelemetry` | them inside agent spans, in the same trace | [`Builder::context`](crate::Builder::context) |
//! | a `tracing-opentelemetry` layer with its own exporter | agent spans sent once | [`not_agent_spans`] |
//! | a tracer provider | its spans in the local trace, and sent from there | [`LedgerProcessor`] |
//! | `tracing` spans of your own | the same | `tracing_layer` (feature `tracing-opentelemetry`) |
//! | an agent span | it as a context | [`SpanExt::otel_context`](crate::SpanExt::otel_context) |
//! | a request, a child process, an MCP call | the trace to continue there | [`RemoteContext`] |
//!
//! Inside an agent span, `set_attribute`, `add_event`, `record_error`, `set_status` and `add_link` on the
//! current span of the API go to that agent span: they are redacted and recorded like everything else, and
//! sent under the names given. The attributes of a link added that way are not kept.

mod agent_span;
mod attached;
mod bridge;
mod not_agent_spans;
mod processor;
mod propagation;
#[cfg(feature = "tracing-opentelemetry")]
mod tracing_layer;

pub use not_agent_spans::{NotAgentSpans, not_agent_spans};
pub use processor::LedgerProcessor;
#[cfg(feature = "tracing-opentelemetry")]
pub use tracing_layer::tracing_layer;

pub(crate) use attached::detach;
pub(crate) use bridge::{OtelBridge, SpanOtel, context_of, create_context, find_parent};

use std::cell::Cell;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

use crate::trace::RemoteContext;

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

thread_local! {
    static INITIALIZED: Cell<bool> = const { Cell::new(false) };
    static ALIVE: DropMarker = const { DropMarker };
}

/// Has a destructor, so that `try_with` fails once the thread's locals are being destroyed.
struct DropMarker;

impl Drop for DropMarker {
    fn drop(&mut self) {}
}

/// Whether the API's thread-locals still exist. Thread-locals are destroyed in the reverse order of their
/// creation, and ours is created after the API's.
fn api_is_alive() -> bool {
    if !INITIALIZED.replace(true) {
        Context::map_current(|_| ());
    }
    ALIVE.try_with(|_| ()).is_ok()
}

/// Calls the API, which panics when the thread's locals are gone or its context is borrowed; recording
/// continues without it then. The first case is detected in advance, so that no panic hook runs.
fn quietly<T>(f: impl FnOnce() -> T) -> Option<T> {
    let f = std::panic::AssertUnwindSafe(|| api_is_alive().then(f));
    std::panic::catch_unwind(f).ok().flatten()
}
