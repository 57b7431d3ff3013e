//! Synthetic turns, for libraries that report none: from one model call to the next.
//!
//! Such a turn is a span of its own beside the calls, marked `synthetic`: the calls keep the parents that the
//! library gave them, and only carry the turn's number.

use std::sync::Arc;

use super::{Content, OpenSpan, SessionLog, SpanContext, State, Trace};
use crate::record::process_state::ProcessState;
use crate::trace::{Ids, Moment, Outcome, SpanKind, new_span_id};

/// A synthetic turn that is open.
#[derive(Debug)]
pub(super) struct SyntheticTurn {
    /// The run it belongs to; none in a session without one.
    run: Option<(u128, u64)>,
    at: SpanContext,
    /// A model has answered in it: the next call begins another turn. Until then a call is a retry.
    answered: bool,
    /// Its run has ended before it, so it ends with its call.
    late: bool,
}

impl SyntheticTurn {
    fn run_span(&self) -> Option<u64> {
        self.run.map(|(_, id)| id)
    }
}

impl SessionLog {
    /// The turn of a model call that begins in this run, outside any turn.
    pub fn synthetic_turn_for_call(
        &self,
        process: &ProcessState,
        start: Moment,
        trace: Arc<Trace>,
        run: Option<(u128, u64)>,
    ) -> SpanContext {
        let state = &mut *self.lock();
        let same = |turn: &&SyntheticTurn| turn.run == run && !turn.answered;
        if let Some(turn) = state.content.synthetic_turns.iter().find(same) {
            return turn.at.clone();
        }
        let run_span = run.map(|(_, id)| id);
        // Its run's trace had grown too long.
        let alone = run.is_some_and(|(of_run, _)| of_run != trace.id);
        self.end_synthetic_locked(process, state, run_span);
        let is_open = |id| state.content.spans.contains_key(&id);
        let late = !run_span.is_none_or(is_open);
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
        let (turn, turn_span) = self.open_locked(process, state, span);
        let at = SpanContext {
            ids,
            trace,
            turn,
            kind: SpanKind::Turn,
            turn_span,
            run,
        };
        state.content.synthetic_turns.push(SyntheticTurn {
            run,
            at: at.clone(),
            answered: false,
            late,
        });
        at
    }

    /// The synthetic turn that is open in this run.
    pub fn synthetic_turn(&self, run: u64) -> Option<SpanContext> {
        let state = self.lock();
        let found = state
            .content
            .synthetic_turns
            .iter()
            .find(|m| m.run_span() == Some(run));
        found.map(|turn| turn.at.clone())
    }

    /// Ends the synthetic turn of this run, or of a session without one.
    pub fn end_synthetic(&self, process: &ProcessState, run: Option<u64>) {
        let mut state = self.lock();
        self.end_synthetic_locked(process, &mut state, run);
    }

    /// A span in this turn has ended: ends the turn if its run has ended.
    pub(super) fn end_late_synthetic(&self, process: &ProcessState, state: &mut State, turn: u64) {
        let ended = |m: &SyntheticTurn| m.late && m.at.turn_span == Some(turn);
        if let Some(at) = state.content.synthetic_turns.iter().position(ended) {
            let run = state.content.synthetic_turns[at].run_span();
            self.end_synthetic_locked(process, state, run);
        }
    }

    pub(super) fn end_synthetic_locked(
        &self,
        process: &ProcessState,
        state: &mut State,
        run: Option<u64>,
    ) {
        while let Some(at) = state
            .content
            .synthetic_turns
            .iter()
            .position(|m| m.run_span() == run)
        {
            let turn = state.content.synthetic_turns.swap_remove(at);
            let end = (Moment::now(), None);
            self.close_locked(process, state, turn.at.ids.span, Outcome::Unset, end);
        }
    }
}

/// Puts a span that opens in a run with a synthetic turn into that turn.
pub(super) fn join(content: &Content, span: &mut OpenSpan) {
    if span.turn.is_some() || matches!(span.kind, SpanKind::Run | SpanKind::Turn) {
        return;
    }
    let turn = content
        .synthetic_turns
        .iter()
        .find(|m| m.run_span() == span.run_span);
    if let Some(turn) = turn {
        span.turn = turn.at.turn;
        span.turn_span = turn.at.turn_span;
    }
}

/// Notes that a model has answered, if the span that has ended says so.
pub(super) fn note_answer(content: &mut Content, span: &OpenSpan) {
    if span.kind != SpanKind::Model || content.synthetic_turns.is_empty() {
        return;
    }
    let failed = span.outcome == Outcome::Error || span.fields.contains("error");
    let said = span.usage.as_ref().is_some_and(|usage| !usage.is_empty())
        || ["response_id", "response_model", "finish_reason"]
            .iter()
            .any(|name| span.fields.contains(name));
    if said && !failed {
        let of_this = |turn: &&mut SyntheticTurn| turn.at.turn_span == span.turn_span;
        if let Some(turn) = content.synthetic_turns.iter_mut().find(of_this) {
            turn.answered = true;
        }
    }
}
