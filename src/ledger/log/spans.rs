//! Spans of a session: opened, updated, closed, each by one line.

use std::sync::Arc;

use super::super::Core;
use super::super::clock::Moment;
use super::super::digested::Digested;
use super::super::gap::{LOST_CLOSES, LostClose};
use super::super::open_span::{OpenSpan, write_fields, write_link};
#[cfg(feature = "metrics")]
use super::measure;
use super::{About, At, SessionLog, State, made_up};
use crate::event::{Cleaner, Fields, Outcome, RawFields, SpanKind, UsageText};

impl SessionLog {
    /// Opens a span. Returns the turn it belongs to and that turn's span: for a turn, its own.
    pub fn open(self: &Arc<Self>, core: &Core, span: Box<OpenSpan>) -> (Option<u32>, Option<u64>) {
        let state = &mut *self.lock();
        if span.kind == SpanKind::Turn {
            self.end_made_up_locked(core, state, span.run_span);
        }
        self.open_locked(core, state, span)
    }

    pub(super) fn open_locked(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        mut span: Box<OpenSpan>,
    ) -> (Option<u32>, Option<u64>) {
        self.read_past(core, state);
        made_up::join(state, &mut span);
        match span.kind {
            SpanKind::Run => {
                self.recover_locked(core, state);
                if std::mem::replace(&mut state.started, true) {
                    span.open_kind = "session_resume";
                    if let Some((trace, id)) = state.last_run
                        && span.run_span.is_none()
                    {
                        // Not inside the other: it says which one it goes on from.
                        span.link(trace, id);
                    }
                }
                if span.run_span.is_none() {
                    state.last_run = Some((span.ids.trace, span.ids.span));
                }
            }
            SpanKind::Turn => {
                let given = span
                    .fields
                    .get("turn_index")
                    .and_then(|json| std::str::from_utf8(json).ok()?.parse::<u32>().ok());
                let turn = given.unwrap_or(state.next_turn);
                if given.is_none() {
                    span.fields.set("turn_index", turn.to_string().as_bytes());
                }
                state.next_turn = state.next_turn.max(turn.saturating_add(1));
                state.totals.turns += 1;
                span.turn = Some(turn);
                span.turn_span = Some(span.ids.span);
            }
            SpanKind::Model => {
                for (digested, digest) in Digested::ALL.iter().zip(&state.current) {
                    if let Some(digest) = digest
                        && !span.fields.contains(digested.stamp())
                    {
                        span.fields.set_str(digested.stamp(), digest);
                    }
                }
            }
            SpanKind::Permission => {
                if let Some(digest) = &state.current[2]
                    && !span.fields.contains("permission_rules_digest")
                {
                    span.fields.set_str("permission_rules_digest", digest);
                }
            }
            _ => {}
        }
        let (turn, turn_span) = (span.turn, span.turn_span);
        let parent = span.ids.parent.filter(|_| span.parent_here);
        let late = parent.is_some_and(|parent| !state.spans.contains_key(&parent));
        // A microsecond later, which is no more than it took: so a span of which nothing else is
        // known has not ended before it began.
        let just_now = span.start.wall.saturating_add(1_000);
        let about = About {
            now: state.time_of_line(Some(just_now).filter(|_| span.just_made)),
            kind: span.open_kind,
            turn,
            ids: Some(span.ids),
        };
        let written = self.append(core, state, about, |out, _| span.write_open(late, out));
        span.trace.count(state.line_size);
        span.lost = !written;
        state.lost_opens |= !written;
        span.opened_seg = state.line_seg;
        state.spans.insert(span.ids.span, span);
        (turn, turn_span)
    }

    /// Adds fields to an open span that say how it went and ride on its close line. `false`: there
    /// is more to do than that.
    pub fn add_outcomes(&self, core: &Core, at: &At, raw: &RawFields) -> bool {
        // What is long is cleaned before the lock is taken.
        raw.is_short(core.limits.inline)
            && raw.names().all(|name| at.kind.rides_on_close(name))
            && self.clean_open(core, at, |fields, cleaner| {
                fields.add_clean(raw, Some(at.kind), cleaner);
            })
    }

    /// Cleans something short into the fields of a span. `false`: it is not open any more.
    pub fn clean_open(
        &self,
        core: &Core,
        at: &At,
        add: impl FnOnce(&mut Fields, &mut Cleaner<'_>),
    ) -> bool {
        let mut state = self.lock();
        let Some(span) = state.spans.get_mut(&at.ids.span) else {
            return false;
        };
        core.clean(&self.dir, |cleaner| add(&mut span.fields, cleaner));
        true
    }

    /// Takes fields over that were recorded on an open span. `at_once` are those that a crash
    /// must not lose; the rest rides on the close line.
    pub fn update(
        self: &Arc<Self>,
        core: &Core,
        at: &At,
        fields: &Fields,
        usage: Option<Box<UsageText>>,
        outcome: Outcome,
        links: &[(u128, u64)],
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let kind = at.kind;
        let open = state.spans.get_mut(&at.ids.span);
        // What a span that has ended still says can't ride on its close line any more.
        let late = open.is_none() && at.generation == self.generation;
        let all_at_once = open.is_none() || kind.writes_outcomes_at_once();
        let mut usage_members = Vec::new();
        if let Some(usage) = &usage
            && all_at_once
            && !usage.is_empty()
        {
            usage.write_members(&mut usage_members);
        }
        if let Some(span) = open {
            span.fields.merge(fields);
            if let Some(usage) = usage {
                span.add_usage(*usage);
            }
            if outcome != Outcome::Unset {
                span.outcome = outcome;
            }
            for (trace, id) in links {
                span.link(*trace, *id);
            }
        }
        let some_at_once = fields.any_at_once() || all_at_once && !fields.is_empty();
        if !some_at_once && usage_members.is_empty() && links.is_empty() {
            return;
        }
        let about = About::now("span_update", at.turn, Some(at.ids));
        self.append(core, state, about, |out, _| {
            if late {
                out.extend_from_slice(b"\"late\":true,");
            }
            if some_at_once {
                write_fields(kind, fields, all_at_once, out);
            }
            if !usage_members.is_empty() {
                out.extend_from_slice(b"\"usage\":{");
                out.extend_from_slice(&usage_members);
                out.extend_from_slice(b"},");
            }
            if !links.is_empty() {
                out.extend_from_slice(b"\"links\":[");
                for (index, (trace, id)) in links.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_link(*trace, *id, out);
                }
                out.extend_from_slice(b"],");
            }
        });
        at.trace.count(state.line_size);
    }

    /// Writes the close line, once. The first close wins.
    pub fn close(self: &Arc<Self>, core: &Core, id: u64, said: Outcome) {
        self.close_after(core, id, said, None);
    }

    /// The same for a span whose duration was measured elsewhere.
    pub fn close_after(
        self: &Arc<Self>,
        core: &Core,
        id: u64,
        said: Outcome,
        duration: Option<u64>,
    ) {
        let end = Moment::now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut turn = None;
        if let Some(span) = state.spans.get(&id) {
            match span.kind {
                SpanKind::Run => self.end_made_up_locked(core, state, Some(id)),
                SpanKind::Model => turn = span.turn_span,
                _ => {}
            }
        }
        let closed = self.close_locked(core, state, id, said, (end, duration));
        if let Some(turn) = turn {
            self.end_late_made_up(core, state, turn);
        }
        #[cfg(feature = "metrics")]
        if let Some((span, outcome, duration)) = closed {
            measure::closed(core, guard, &span, outcome, duration);
        }
        // What it held is freed when others may go on.
        #[cfg(not(feature = "metrics"))]
        drop((guard, closed));
    }

    /// The end is when it was left, the duration is said only if it was measured elsewhere. What was
    /// closed, if the kernel has its line, and for how long it was open.
    pub(super) fn close_locked(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        id: u64,
        said: Outcome,
        (end, duration): (Moment, Option<u64>),
    ) -> Option<(Box<OpenSpan>, Outcome, u64)> {
        let span = state.spans.remove(&id)?;
        made_up::heard_from(state, &span);
        let duration = duration.unwrap_or_else(|| end.steady.saturating_sub(span.start.steady));
        let outcome = span.final_outcome(said);
        count_close(state, &span, outcome);
        if span.kind == SpanKind::Permission
            && matches!(outcome, Outcome::Denied | Outcome::Ok)
            && let Some(tool) = span.ids.parent.and_then(|id| state.spans.get_mut(&id))
        {
            // The last word counts: a person may allow what a rule had denied.
            tool.denied = outcome == Outcome::Denied;
        }
        let totals = matches!(span.kind, SpanKind::Run | SpanKind::Turn).then(|| {
            let mut out = b"\"totals\":".to_vec();
            state.totals.write(&state.marks, &mut out);
            out
        });
        let kind = span.kind.close_kind();
        let about = About {
            now: state.time_of_line(Some(end.wall)),
            kind,
            turn: span.turn,
            ids: Some(span.ids),
        };
        let written = self.append(core, state, about, |out, seg| {
            span.write_close(seg, duration, outcome, out);
            if let Some(totals) = &totals {
                out.extend_from_slice(totals);
            }
        });
        span.trace.count(state.line_size);
        if !written && state.lost_closes.len() < LOST_CLOSES {
            let mut sending = Vec::new();
            span.write_trace(&mut sending);
            state.lost_closes.push(LostClose {
                kind,
                turn: span.turn,
                ids: span.ids,
                start: span.start.wall,
                duration,
                outcome: outcome.as_str(),
                sending,
            });
        }
        written.then_some((span, outcome, duration))
    }

    /// Whether the span is open and nobody has said yet how it went.
    pub fn is_silent(&self, span: u64) -> bool {
        self.lock()
            .spans
            .get(&span)
            .is_some_and(|span| span.is_silent())
    }
}

pub(super) fn mark_counted(state: &mut State, spans: [Option<u64>; 3]) {
    for id in spans.into_iter().flatten() {
        if let Some(span) = state.spans.get_mut(&id) {
            span.counted = true;
        }
    }
}

/// Counts a span's usage once: what a model call says beats its turn, a turn its run.
fn count_close(state: &mut State, span: &OpenSpan, outcome: Outcome) {
    match span.kind {
        SpanKind::Model => state.totals.model_calls += 1,
        SpanKind::Tool => state.totals.tool_calls += 1,
        _ => {}
    }
    if outcome == Outcome::Error {
        state.totals.errors += 1;
    }
    if !matches!(span.kind, SpanKind::Model | SpanKind::Turn | SpanKind::Run) {
        return;
    }
    let usage = span.used().filter(|usage| !usage.is_empty());
    if usage.is_none() && !span.counted {
        return;
    }
    if let Some(usage) = usage.filter(|_| !span.counted) {
        state.totals.add_usage(usage);
        // It was finished before what is inside it, and has spoken for all of that.
        let id = Some(span.ids.span);
        for inside in state.spans.values_mut() {
            inside.counted |= inside.turn_span == id || inside.run_span == id;
        }
    }
    mark_counted(state, [span.turn_span, span.run_span, None]);
}
