//! Threads of our own, which nothing is traced on.

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::event::is_ours;

/// The subscriber of such a thread.
///
/// `tracing` asks all subscribers of a process what they think of a callsite, and where they differ it
/// asks again each time. So this one wants agent spans as a ledger does, and drops them: while it is
/// there, theirs stay as cheap as they are.
#[derive(Debug)]
pub(crate) struct Nobody;

impl Subscriber for Nobody {
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
