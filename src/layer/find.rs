//! Where a span or an event is: the nearest agent span around it, else a session that a foreign
//! span names, else the implicit session of the outermost span.

use std::sync::Arc;

use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::cell::{Anchor, Cell, Route};
use super::recorder::Recorder;
use crate::ledger::SessionLog;

/// What was found, walking outwards.
#[derive(Debug, Default)]
pub(crate) struct Near {
    pub what: Around,
    /// It is the very span the walk began at.
    pub exact: bool,
}

#[derive(Debug, Default)]
pub(crate) enum Around {
    Agent(Arc<Cell>),
    Session(Arc<SessionLog>),
    Anchored(Anchor),
    #[default]
    Nothing,
}

/// Walks outwards from `start`. Foreign spans carry a session on without a state of their own,
/// which keeps them cheap: the price is paid here, by those who ask. Where nothing is found, the
/// outermost span is handed to `outermost`.
pub(crate) fn walk<'a, S>(
    start: Option<SpanRef<'a, S>>,
    outermost: impl FnOnce(&SpanRef<'a, S>) -> Around,
) -> Near
where
    S: LookupSpan<'a>,
{
    let mut exact = true;
    let mut next = start;
    while let Some(span) = next {
        {
            let extensions = span.extensions();
            if let Some(cell) = extensions.get::<Arc<Cell>>() {
                let what = Around::Agent(Arc::clone(cell));
                return Near { what, exact };
            }
            if let Some(Route(log)) = extensions.get::<Route>() {
                let what = Around::Session(Arc::clone(log));
                return Near { what, exact };
            }
            if let Some(anchor) = extensions.get::<Anchor>() {
                let what = Around::Anchored(anchor.clone());
                return Near { what, exact };
            }
        }
        exact = false;
        next = span.parent();
        if next.is_none() {
            let what = outermost(&span);
            return Near { what, exact };
        }
    }
    Near::default()
}

/// Gives the outermost span an implicit session, shared by the agent spans and events inside it.
pub(crate) fn anchor<'a, S>(recorder: &Recorder, outermost: &SpanRef<'a, S>) -> Around
where
    S: LookupSpan<'a>,
{
    let log = recorder.ledger.core().implicit_session("anchor");
    let anchor = Anchor {
        trace: recorder.new_trace(&log, "anchor"),
        log,
    };
    let mut extensions = outermost.extensions_mut();
    if let Some(anchor) = extensions.get_mut::<Anchor>() {
        return Around::Anchored(anchor.clone());
    }
    extensions.insert(anchor.clone());
    Around::Anchored(anchor)
}
