//! Which spans and events the layer records, decided by their metadata alone.

use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use crate::record::recognize::{Mapping, Recognizer};
use crate::trace::SpanKind;

/// A user's choice of spans or events.
pub(crate) type Choose = Arc<dyn Fn(&Metadata<'_>) -> bool + Send + Sync>;

/// The layer's own filter. It and the filters of other layers don't affect each other.
#[derive(Clone)]
pub struct LedgerFilter {
    pub(crate) disabled: bool,
    /// Foreign spans up to this level pass their session on.
    pub(crate) carry: LevelFilter,
    pub(crate) spans: Option<Choose>,
    pub(crate) events: Option<Choose>,
    pub(crate) recognizer: Recognizer,
}

/// What a span is to the layer.
#[derive(Debug)]
pub(crate) enum SpanRole {
    /// One of the six agent spans.
    Agent(SpanKind),
    /// A span of another library whose fields are understood.
    Recognized(Mapping),
    /// A foreign span that the user chose to record.
    Chosen,
    /// A foreign span that may name a session.
    NamesSession,
    /// Any other foreign span: it passes its session on.
    Foreign,
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
    pub(crate) fn role(&self, meta: &Metadata<'_>) -> SpanRole {
        if let Some(kind) = SpanKind::from_name(meta.name()) {
            SpanRole::Agent(kind)
        } else if let Some(mapping) = self.recognizer.mapping(meta) {
            SpanRole::Recognized(mapping)
        } else if self.spans.as_ref().is_some_and(|choose| choose(meta)) {
            SpanRole::Chosen
        } else if meta.fields().field(field!(Run.session_id)).is_some() {
            SpanRole::NamesSession
        } else {
            SpanRole::Foreign
        }
    }

    /// Whether a log event inside a session is recorded.
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
            let foreign = |role| matches!(role, SpanRole::NamesSession | SpanRole::Foreign);
            *meta.level() <= self.carry || !foreign(self.role(meta))
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
        // Agent spans and events may have any level: with a hint below TRACE the levels of other layers
        // would decide whether they are recorded. Callsites that aren't wanted are disabled one by one,
        // and cost almost nothing then.
        self.disabled.then_some(LevelFilter::OFF)
    }
}
