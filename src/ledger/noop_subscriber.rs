//! The subscriber of this crate's own threads, which discards everything.

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::trace::is_ours;

/// Discards all spans and events.
///
/// `tracing` asks all subscribers of a process about each callsite, and where their answers differ it
/// asks again each time. So this one enables agent spans as the layer does, which keeps the agent's cheap.
#[derive(Debug)]
pub(crate) struct NoopSubscriber;

impl Subscriber for NoopSubscriber {
    fn register_callsite(&self, meta: &'static Metadata<'static>) -> Interest {
        match is_ours(meta) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(u64::MAX)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
