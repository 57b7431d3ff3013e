//! Turns of libraries that have none: from one call of a model to the next.
//!
//! Such a turn is a span of its own beside the calls, marked `synthetic`: what hangs from what is
//! the library's to say and stays as it said, the calls only carry the turn's number.

use std::sync::Arc;

use super::{At, SessionLog, State};
use crate::event::{Ids, Outcome, SpanKind, new_span_id};
use crate::ledger::{Core, Moment, OpenSpan, Trace, fork_generation};

/// A turn that nobody but us speaks of.
#[derive(Debug)]
pub(super) struct MadeUp {
    /// The run it belongs to; none in a session without one.
    run: Option<(u128, u64)>,
    at: At,
    /// A model has answered in it: the next call begins another turn. Until then it is the same
    /// call, tried again.
    answered: bool,
    /// Its run has ended before it: it ends with its call, since nothing else will end it.
    late: bool,
}

impl MadeUp {
    fn run_span(&self) -> Option<u64> {
        self.run.map(|(_, id)| id)
    }
}

impl SessionLog {
    /// A call of a model begins in this run, outside any turn. The turn it is in. `here`: the run is
    /// of this process, and not one that it was forked from.
    pub fn make_up_turn(
        self: &Arc<Self>,
        core: &Core,
        start: Moment,
        trace: Arc<Trace>,
        run: Option<(u128, u64)>,
        here: bool,
    ) -> At {
        let state = &mut *self.lock();
        let same = |made_up: &&MadeUp| made_up.run == run && !made_up.answered;
        if let Some(made_up) = state.made_up.iter().find(same) {
            return made_up.at.clone();
        }
        let run_span = run.map(|(_, id)| id);
        // Its run's trace had grown too long.
        let alone = run.is_some_and(|(of_run, _)| of_run != trace.id);
        self.end_made_up_locked(core, state, run_span);
        let is_open = |id| state.spans.contains_key(&id);
        let late = here && !run_span.is_none_or(is_open);
        let ids = Ids {
            trace: trace.id,
            span: new_span_id(),
            parent: run_span.filter(|_| !alone),
        };
        let mut span = Box::new(OpenSpan::new(
            SpanKind::Turn,
            ids,
            Arc::clone(&trace),
            start,
        ));
        span.run_span = run_span;
        span.parent_here = ids.parent.is_some();
        if let Some((trace, id)) = run.filter(|_| alone) {
            span.link(trace, id);
        }
        span.synthetic = true;
        let (turn, turn_span) = self.open_locked(core, state, span);
        let at = At {
            ids,
            trace,
            turn,
            kind: SpanKind::Turn,
            turn_span,
            run,
            generation: fork_generation(),
        };
        state.made_up.push(MadeUp {
            run,
            at: at.clone(),
            answered: false,
            late,
        });
        at
    }

    /// The turn that is made up in this run right now.
    pub fn made_up_turn(&self, run: u64) -> Option<At> {
        let state = self.lock();
        let found = state.made_up.iter().find(|m| m.run_span() == Some(run));
        found.map(|made_up| made_up.at.clone())
    }

    /// Ends the turn of this run, or of a session without one.
    pub fn end_made_up(self: &Arc<Self>, core: &Core, run: Option<u64>) {
        let mut state = self.lock();
        self.end_made_up_locked(core, &mut state, run);
    }

    /// A span has ended: if it was a call in a turn of a run that had, the turn has, too.
    pub(super) fn end_late_made_up(self: &Arc<Self>, core: &Core, state: &mut State, turn: u64) {
        let ended = |m: &MadeUp| m.late && m.at.turn_span == Some(turn);
        if let Some(at) = state.made_up.iter().position(ended) {
            let run = state.made_up[at].run_span();
            self.end_made_up_locked(core, state, run);
        }
    }

    pub(super) fn end_made_up_locked(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        run: Option<u64>,
    ) {
        while let Some(at) = state.made_up.iter().position(|m| m.run_span() == run) {
            let made_up = state.made_up.swap_remove(at);
            let end = (Moment::now(), None);
            self.close_locked(core, state, made_up.at.ids.span, Outcome::Unset, end);
        }
    }
}

/// A span that opens in a run with such a turn is in that turn.
pub(super) fn join(state: &State, span: &mut OpenSpan) {
    if span.turn.is_some() || matches!(span.kind, SpanKind::Run | SpanKind::Turn) {
        return;
    }
    let made_up = state.made_up.iter().find(|m| m.run_span() == span.run_span);
    if let Some(made_up) = made_up {
        span.turn = made_up.at.turn;
        span.turn_span = made_up.at.turn_span;
    }
}

/// A span has ended: it may be the model's answer.
pub(super) fn heard_from(state: &mut State, span: &OpenSpan) {
    if span.kind != SpanKind::Model || state.made_up.is_empty() {
        return;
    }
    let failed = span.outcome == Outcome::Error || span.fields.contains("error");
    let said = span.usage.as_ref().is_some_and(|usage| !usage.is_empty())
        || ["response_id", "response_model", "finish_reason"]
            .iter()
            .any(|name| span.fields.contains(name));
    if said && !failed {
        let of_this = |made_up: &&mut MadeUp| made_up.at.turn_span == span.turn_span;
        if let Some(made_up) = state.made_up.iter_mut().find(of_this) {
            made_up.answered = true;
        }
    }
}
