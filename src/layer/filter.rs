//! What the layer wants to see, decided once for a callsite from its metadata alone.

use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use crate::event::SpanKind;
use crate::recognise::{Recognise, Seen};

pub(crate) type Choose = Arc<dyn Fn(&Metadata<'_>) -> bool + Send + Sync>;

/// The layer's own filter. Neighbours' filters change nothing here, nor does this one there.
#[derive(Clone)]
pub struct LedgerFilter {
    pub(crate) disabled: bool,
    /// Foreign spans up to this level carry a session on.
    pub(crate) carry: LevelFilter,
    pub(crate) spans: Option<Choose>,
    pub(crate) events: Option<Choose>,
    pub(crate) recognise: Recognise,
}

impl std::fmt::Debug for LedgerFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerFilter")
            .field("disabled", &self.disabled)
            .field("carry", &self.carry)
            .finish_non_exhaustive()
    }
}

impl LedgerFilter {
    /// What spans of a callsite are to the layer.
    pub(crate) fn see(&self, meta: &Metadata<'_>) -> Seen {
        if let Some(kind) = SpanKind::from_name(meta.name()) {
            Seen::Ours(kind)
        } else if let Some(reading) = self.recognise.reading(meta) {
            Seen::Recognised(reading)
        } else if self.records_span(meta) {
            Seen::Chosen
        } else if meta.fields().field("session_id").is_some() {
            Seen::Routes
        } else {
            Seen::Foreign
        }
    }

    /// Whether a foreign span gets lines of its own.
    pub(crate) fn records_span(&self, meta: &Metadata<'_>) -> bool {
        self.spans.as_ref().is_some_and(|choose| choose(meta))
    }

    /// Whether a log event becomes a line, if it is inside a session.
    pub(crate) fn records_event(&self, meta: &Metadata<'_>) -> bool {
        match &self.events {
            Some(choose) => choose(meta),
            None => *meta.level() <= Level::WARN,
        }
    }

    fn wants(&self, meta: &Metadata<'_>) -> bool {
        if self.disabled {
            false
        } else if meta.is_span() {
            *meta.level() <= self.carry || !matches!(self.see(meta), Seen::Routes | Seen::Foreign)
        } else {
            meta.target().starts_with("spanledger::") || self.records_event(meta)
        }
    }
}

impl<S: Subscriber> Filter<S> for LedgerFilter {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.wants(meta)
    }

    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        if self.wants(meta) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // An agent span or event may be of any level: a hint below TRACE would leave it to the
        // neighbours' levels whether it is seen. Callsites that aren't wanted are switched off one
        // by one, and cost next to nothing then.
        self.disabled.then_some(LevelFilter::OFF)
    }
}
