//! Replaces `otel` in builds without the OpenTelemetry API (feature `mirror`): nothing is sampled out, and no
//! context is read or set.

use std::sync::Arc;

use tracing::Span;
use tracing::span::Id;

use crate::record::layer::{Key, Recorder, SpanData};
use crate::trace::RemoteContext;

#[derive(Debug)]
pub(crate) struct OtelBridge;

impl OtelBridge {
    pub fn is_on(&self) -> bool {
        false
    }

    /// The caller's decision holds.
    pub fn sample(
        &self,
        _trace: u128,
        parent: Option<&RemoteContext>,
        _name: &str,
        _session: &str,
    ) -> (bool, Option<Arc<str>>) {
        let sampled = parent.is_none_or(RemoteContext::sampled);
        (sampled, parent.and_then(|parent| parent.tracestate.clone()))
    }

    pub fn enter(&self, _: &Arc<Recorder>, _: &SpanData, _: &Id) {}

    pub fn probe(&self, make: impl FnOnce() -> Span) -> (Span, bool) {
        (make(), false)
    }
}

#[derive(Debug, Default)]
pub(crate) struct SpanOtel;

impl SpanOtel {
    pub fn clear(&self) {}
}

pub(crate) fn find_parent(_: &Arc<Recorder>, _: &mut SpanData, _: bool) {}

pub(crate) fn create_context(_: &Arc<Recorder>, _: &mut SpanData) {}

pub(crate) fn detach(_: Key) {}
