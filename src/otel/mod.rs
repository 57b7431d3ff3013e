//! OpenTelemetry's context, both ways.
//!
//! | you have | you want | use |
//! |---|---|---|
//! | spans of the API, or of `tracing-opentelemetry` | them inside agent spans, in the same trace | [`Builder::context`](crate::Builder::context) |
//! | a `tracing-opentelemetry` layer with its own exporter | agent spans sent once | [`not_agent_spans`] |
//! | a tracer provider | its spans in the local trace, and sent from there | [`LedgerProcessor`] |
//! | `tracing` spans of your own | the same | `neighbour` (feature `neighbour`) |
//! | an agent span | it as a context | [`SpanExt::otel_context`](crate::SpanExt::otel_context) |
//! | a request, a child process, an MCP call | the trace to go on there | [`RemoteContext`] |
//!
//! Inside an agent span, what is said of the current span (`set_attribute`, `add_event`,
//! `record_error`, `set_status`, `add_link`) is said of that agent span: it is redacted and written like
//! everything else, and sent under the names given. Attributes of a link added that way are not kept.

mod agent_span;
mod attached;
mod filter;
#[cfg(feature = "neighbour")]
mod neighbour;
mod processor;
mod propagation;
mod sampling;

pub use filter::{NotAgentSpans, not_agent_spans};
#[cfg(feature = "neighbour")]
pub use neighbour::neighbour;
pub use processor::LedgerProcessor;

pub(crate) use agent_span::Within;
pub(crate) use attached::{attach, detach};
pub(crate) use sampling::Sampling;

use std::cell::Cell;
use std::sync::Arc;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

use agent_span::context_of;

use crate::event::RemoteContext;
use crate::layer::{Recorder, Spot};

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

/// What is current for the OpenTelemetry API on this thread.
pub(crate) enum Current {
    /// An agent span of ours, or a span inside one.
    Agent(Within),
    /// A span that has nothing to do with ours.
    Other(RemoteContext),
}

pub(crate) fn current() -> Option<Current> {
    let look = |context: &Context| {
        let span = RemoteContext::from_span_context(context.span().span_context())?;
        Some(match Within::of(context) {
            Some(within) if within.at().ids.trace == span.trace => Current::Agent(within.clone()),
            _ => Current::Other(span),
        })
    };
    quietly(|| Context::map_current(look))?
}

/// The context of an agent span, with what else the current one holds.
pub(crate) fn context_here(recorder: &Arc<Recorder>, spot: &Arc<Spot>) -> Context {
    quietly(|| Context::map_current(|base| context_of(recorder, spot, base)))
        .unwrap_or_else(|| context_of(recorder, spot, &Context::default()))
}

thread_local! {
    static KNOWN: Cell<bool> = const { Cell::new(false) };
    static THERE: There = const { There };
}

/// Goes when a thread's locals go.
struct There;

impl Drop for There {
    fn drop(&mut self) {}
}

/// Whether this thread still has what the API keeps for it. Locals go in the reverse of the order that
/// they came in: ours comes after the API's.
fn is_there() -> bool {
    if !KNOWN.replace(true) {
        Context::map_current(|_| ());
    }
    THERE.try_with(|_| ()).is_ok()
}

/// The API panics where a thread's locals are gone, or where somebody holds its context borrowed.
/// Recording goes on without it then. The former is known before, so that no hook hears of it.
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> Option<T> {
    let f = std::panic::AssertUnwindSafe(|| is_there().then(f));
    std::panic::catch_unwind(f).ok().flatten()
}
