//! Synthetic turns, for libraries that report none: from one model call to the next.
//!
//! Such a turn is a span of its own beside the calls, marked `synthetic`: the calls keep the parents that the
//! library gave them, and only carry the turn's number.

use std::sync::Arc;

use super::{Content, Link, LockedSession, OpenSpan, SpanContext, Trace};
use crate::trace::{Ids, Moment, Outcome, SpanKind, new_span_id};

/// A synthetic turn that is open.
#[derive(Debug)]
pub(super) struct SyntheticTurn {
    /// Its run is the one it belongs to; none in a session without one.
    at: SpanContext,
    /// A model has answered in it: the next call begins another turn. Until then a call is a retry.
    answered: bool,
    /// Its run has ended before it, so it ends with its call.
    late: bool,
}

impl LockedSession<'_> {
    /// The turn of a model call that begins in this run, outside any turn.
    pub fn synthetic_turn_for_call(
        &mut self,
        start: Moment,
        trace: Arc<Trace>,
        run: Option<Link>,
    ) -> SpanContext {
        let turns = &self.state.content.synthetic_turns;
        let same = |turn: &&SyntheticTurn| turn.at.run == run && !turn.answered;
        if let Some(turn) = turns.iter().find(same) {
            return turn.at.clone();
        }
        // The trace of its run was full, so the turn is in another one, with a link.
        let link = run.filter(|(of_run, _)| *of_run != trace.id);
        let run_span = run.map(|(_, id)| id);
        let at = SpanContext {
            ids: Ids {
                trace: trace.id,
                span: new_span_id(),
                parent: run_span.filter(|_| link.is_none()),
            },
            trace,
            kind: SpanKind::Turn,
            turn: None,
            turn_span: None,
            run,
        };
        let mut span = OpenSpan::new(at, start);
        span.parent_here = span.at.ids.parent.is_some();
        span.synthetic = true;
        if let Some(link) = link {
            span.link(link);
        }
        let at = self.open(span);
        let content = &mut self.state.content;
        let late = run_span.is_some_and(|id| !content.spans.contains_key(&id));
        content.synthetic_turns.push(SyntheticTurn {
            at: at.clone(),
            answered: false,
            late,
        });
        at
    }

    /// The synthetic turn that is open in this run.
    pub fn synthetic_turn(&self, run: u64) -> Option<SpanContext> {
        let found = self.state.content.synthetic_turn_of(Some(run))?;
        Some(self.state.content.synthetic_turns[found].at.clone())
    }

    /// Ends the synthetic turn of this run, or of a session without one.
    pub fn end_synthetic(&mut self, run: Option<u64>) {
        while let Some(found) = self.state.content.synthetic_turn_of(run) {
            let turn = self.state.content.synthetic_turns.swap_remove(found);
            self.close(turn.at.ids.span, Outcome::Unset, Moment::now(), None);
        }
    }

    /// A span in this turn has ended: ends the turn if its run has ended.
    pub(super) fn end_late_synthetic(&mut self, turn: u64) {
        let turns = &self.state.content.synthetic_turns;
        let ended = |it: &&SyntheticTurn| it.late && it.at.turn_span == Some(turn);
        if let Some(run) = turns.iter().find(ended).map(|turn| turn.at.run_span()) {
            self.end_synthetic(run);
        }
    }
}

impl Content {
    fn synthetic_turn_of(&self, run: Option<u64>) -> Option<usize> {
        let of_run = |turn: &SyntheticTurn| turn.at.run_span() == run;
        self.synthetic_turns.iter().position(of_run)
    }
}

/// Puts a span that opens in a run with a synthetic turn into that turn.
pub(super) fn join(content: &Content, span: &mut OpenSpan) {
    if span.at.turn.is_none()
        && let Some(found) = content.synthetic_turn_of(span.at.run_span())
    {
        let turn = &content.synthetic_turns[found].at;
        (span.at.turn, span.at.turn_span) = (turn.turn, turn.turn_span);
    }
}

/// Notes that a model has answered, if a closed model call shows it.
pub(super) fn note_answer(content: &mut Content, span: &OpenSpan) {
    if span.at.kind != SpanKind::Model || content.synthetic_turns.is_empty() {
        return;
    }
    let has = |name| span.fields.contains(name);
    let failed = span.outcome.is_error() || has(field!(ModelCall.error));
    let answered = span.usage.as_ref().is_some_and(|usage| !usage.is_empty())
        || has(field!(ModelCall.response_id))
        || has(field!(ModelCall.response_model))
        || has(field!(ModelCall.finish_reason));
    if answered && !failed {
        let of_this = |turn: &&mut SyntheticTurn| turn.at.turn_span == span.at.turn_span;
        if let Some(turn) = content.synthetic_turns.iter_mut().find(of_this) {
            turn.answered = true;
        }
    }
}
