//! A closed span, handed to the meter.

use std::sync::MutexGuard;

use super::super::Core;
use super::super::meter::Closed;
use super::super::open_span::OpenSpan;
use super::State;
use crate::event::{Outcome, SpanKind};

/// Measures a span whose close line the kernel has: no backend hears of one that the trace doesn't
/// have.
pub(super) fn closed(
    core: &Core,
    state: MutexGuard<'_, State>,
    span: &OpenSpan,
    outcome: Outcome,
    duration: u64,
) {
    if core.metering.is_none() {
        return;
    }
    let run = span.run_span.filter(|_| span.kind == SpanKind::Tool);
    let run = run.and_then(|id| state.spans.get(&id));
    let agent = run.and_then(|run| run.fields.get("agent").map(<[u8]>::to_vec));
    drop(state);
    // To be made first, in a forked child: nobody waits for that.
    let Some(meter) = core.meter() else { return };
    meter.closed(Closed {
        span,
        agent,
        outcome,
        duration,
    });
}
