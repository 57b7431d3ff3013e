//! Whether a trace is sent: the SDK's samplers decide, once for each trace.

use std::sync::Arc;

use opentelemetry::trace::{SpanKind, TraceContextExt, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Config, SamplingDecision, ShouldSample};

use crate::event::RemoteContext;

/// The sampler, asked when the root of a trace opens.
#[derive(Debug)]
pub(crate) struct Sampling(Box<dyn ShouldSample>);

impl Default for Sampling {
    /// What `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` say.
    fn default() -> Self {
        Self(Config::default().sampler)
    }
}

impl Sampling {
    pub fn new(sampler: Box<dyn ShouldSample>) -> Self {
        Self(sampler)
    }

    /// Whether the trace is sent, and the `tracestate` that goes with it.
    pub fn decide(
        &self,
        trace: u128,
        parent: Option<&RemoteContext>,
        name: &str,
        session: &str,
    ) -> (bool, Option<Arc<str>>) {
        let parent =
            parent.map(|parent| Context::new().with_remote_span_context(parent.to_span_context()));
        let attributes = [KeyValue::new("gen_ai.conversation.id", session.to_owned())];
        let result = self.0.should_sample(
            parent.as_ref(),
            TraceId::from(trace),
            name,
            &SpanKind::Internal,
            &attributes,
            &[],
        );
        let tracestate = result.trace_state.header();
        (
            result.decision == SamplingDecision::RecordAndSample,
            (!tracestate.is_empty()).then(|| tracestate.into()),
        )
    }
}
