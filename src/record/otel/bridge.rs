//! What recording needs of the OpenTelemetry API: the sampler, the parent that a context names, and agent
//! spans as contexts. `otel_off.rs` has the same functions for builds without the API.

use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanKind, TraceContextExt, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Config, SamplingDecision, ShouldSample};
use tracing::Span;
use tracing::span::Id;

use super::agent_span::{EnclosingAgent, agent_context};
use super::attached::attach;
use super::quietly;
use crate::record::layer::{Parent, Recorder, SpanData, Target};
use crate::trace::{RemoteContext, lock};

/// The recorder's side of the API.
#[derive(Debug)]
pub(crate) struct OtelBridge {
    /// Whether agent spans are current for the API.
    context: bool,
    /// Whether the trace is sent.
    sends: bool,
    sampler: Box<dyn ShouldSample>,
}

impl OtelBridge {
    /// By default agent spans are current where the trace is sent, and the sampler is that of
    /// `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`.
    pub fn new(context: Option<bool>, sends: bool, sampler: Option<Box<dyn ShouldSample>>) -> Self {
        Self {
            context: context.unwrap_or(sends),
            sends,
            sampler: sampler.unwrap_or_else(|| Config::default().sampler),
        }
    }

    pub fn is_on(&self) -> bool {
        self.context
    }

    /// Whether a new trace is sent, and its `tracestate`.
    pub fn sample(
        &self,
        trace: u128,
        parent: Option<&RemoteContext>,
        name: &str,
        session: &str,
    ) -> (bool, Option<Arc<str>>) {
        let parent =
            parent.map(|parent| Context::new().with_remote_span_context(parent.to_span_context()));
        let attributes = [KeyValue::new("gen_ai.conversation.id", session.to_owned())];
        let result = self.sampler.should_sample(
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

    /// Makes an open agent span current for the API, until `detach`.
    pub fn enter(&self, recorder: &Arc<Recorder>, data: &SpanData, id: &Id) {
        if !self.context {
            return;
        }
        let Some(context) = data.otel.context(recorder, data) else {
            return;
        };
        attach(recorder.registrar.key(id), context);
    }

    /// Makes a probe, and finds out whether a `tracing-opentelemetry` layer sends agent spans too: such a layer
    /// keeps the current context of each span that it sees, as the parent. The context suppresses
    /// telemetry, so that the layer does not send the probe.
    pub fn probe(&self, make: impl FnOnce() -> Span) -> (Span, bool) {
        let mark = Arc::new(());
        let kept = Arc::downgrade(&mark);
        let context = Context::new().with_value(mark).with_telemetry_suppressed();
        let attached = quietly(|| context.attach());
        let probe = make();
        quietly(|| drop(attached));
        let is_watched = self.sends || self.context;
        (probe, is_watched && kept.strong_count() > 0)
    }
}

/// The context that an agent span is for the API, once it is needed. Locked only to copy it: creating and dropping a
/// context may run the user's code.
#[derive(Debug, Default)]
pub(crate) struct SpanOtel(Mutex<Option<Context>>);

impl SpanOtel {
    fn context(&self, recorder: &Arc<Recorder>, data: &SpanData) -> Option<Context> {
        let kept = lock(&self.0).clone();
        if kept.is_some() {
            return kept;
        }
        let context = context_of(recorder, data.target()?);
        Some(lock(&self.0).get_or_insert_with(|| context.clone()).clone())
    }

    pub fn clear(&self) {
        let context = lock(&self.0).take();
        drop(context);
    }
}

/// Creates the context of a span that is open as soon as it is made.
pub(crate) fn create_context(recorder: &Arc<Recorder>, data: &mut SpanData) {
    if recorder.otel.is_on()
        && let Some(target) = data.target()
    {
        data.otel = SpanOtel(Mutex::new(Some(context_of(recorder, target))));
    }
}

/// An agent span as a context, with everything else that the current one holds.
pub(crate) fn context_of(recorder: &Arc<Recorder>, target: &Arc<Target>) -> Context {
    quietly(|| Context::map_current(|base| agent_context(recorder, target, base)))
        .unwrap_or_else(|| agent_context(recorder, target, &Context::default()))
}

/// Takes the parent of a new span from the current context of the API, where no agent span encloses it.
pub(crate) fn find_parent(recorder: &Arc<Recorder>, data: &mut SpanData, contextual: bool) {
    let decided = matches!(
        data.parent,
        Parent::Target(_) | Parent::Remote(_) | Parent::Detached
    );
    if decided || data.outside.is_some() {
        return;
    }
    match quietly(|| Context::map_current(current)).flatten() {
        Some((_, Some(agent))) if !agent.is_of(recorder) => {
            data.outside = agent.target.remote_context().map(Box::new);
        }
        // A span with an explicit parent or session does not belong to the agent span that happens to be
        // current.
        Some((_, Some(_))) if !contextual || matches!(data.parent, Parent::Session(_)) => {}
        // The context came here without the span, for example to another thread.
        Some((_, Some(agent))) => data.parent = Parent::Target(agent.target),
        Some((span, None)) => data.outside = Some(Box::new(span)),
        None => {}
    }
}

/// The current span, and the agent span around it if that is in the same trace.
fn current(context: &Context) -> Option<(RemoteContext, Option<EnclosingAgent>)> {
    let span = RemoteContext::from_span_context(context.span().span_context())?;
    let agent = EnclosingAgent::of(context).filter(|agent| {
        let around = agent.target.span.as_ref();
        around.is_some_and(|around| around.ids.trace == span.trace)
    });
    Some((span, agent.cloned()))
}
