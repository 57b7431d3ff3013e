//! Spans of a session: opened, updated, closed, each by one line.

use super::context_asset::ContextAsset;
use super::hooks::LostClose;
use super::open_span::{OpenSpan, write_fields, write_link};
use super::{Content, SessionLog, SpanContext, State, line_now, synthetic_turn};
use crate::ledger::{ClosedSpan, LineMeta};
use crate::record::fields::Fields;
use crate::record::process_state::ProcessState;
use crate::record::raw_fields::RawFields;
use crate::record::sanitize::Sanitizer;
use crate::trace::{Moment, Outcome, SpanKind, UsageText};

impl SessionLog {
    /// Opens a span. Returns the turn it belongs to and that turn's span: for a turn, its own.
    pub fn open(&self, process: &ProcessState, span: Box<OpenSpan>) -> (Option<u32>, Option<u64>) {
        let state = &mut *self.lock();
        if span.kind == SpanKind::Turn {
            self.end_synthetic_locked(process, state, span.run_span);
        }
        self.open_locked(process, state, span)
    }

    pub(super) fn open_locked(
        &self,
        process: &ProcessState,
        state: &mut State,
        mut span: Box<OpenSpan>,
    ) -> (Option<u32>, Option<u64>) {
        self.read_past(process, &mut state.content);
        synthetic_turn::join(&state.content, &mut span);
        match span.kind {
            SpanKind::Run => {
                self.recover_locked(process, state);
                if std::mem::replace(&mut state.content.started, true) {
                    span.open_kind = "session_resume";
                    if let Some((trace, id)) = state.content.last_run
                        && span.run_span.is_none()
                    {
                        // Not inside the other: it says which one it goes on from.
                        span.link(trace, id);
                    }
                }
                if span.run_span.is_none() {
                    state.content.last_run = Some((span.ids.trace, span.ids.span));
                }
            }
            SpanKind::Turn => {
                let given = span
                    .fields
                    .get("turn_index")
                    .and_then(|json| std::str::from_utf8(json).ok()?.parse::<u32>().ok());
                let turn = given.unwrap_or(state.content.next_turn);
                if given.is_none() {
                    span.fields.set("turn_index", turn.to_string().as_bytes());
                }
                state.content.next_turn = state.content.next_turn.max(turn.saturating_add(1));
                state.content.totals.turns += 1;
                span.turn = Some(turn);
                span.turn_span = Some(span.ids.span);
            }
            SpanKind::Model => {
                for (digested, digest) in ContextAsset::ALL.iter().zip(&state.content.current) {
                    if let Some(digest) = digest
                        && !span.fields.contains(digested.stamp())
                    {
                        span.fields.set_str(digested.stamp(), digest);
                    }
                }
            }
            SpanKind::Permission => {
                if let Some(digest) = &state.content.current[2]
                    && !span.fields.contains("permission_rules_digest")
                {
                    span.fields.set_str("permission_rules_digest", digest);
                }
            }
            _ => {}
        }
        let (turn, turn_span) = (span.turn, span.turn_span);
        let parent = span.ids.parent.filter(|_| span.parent_here);
        let late = parent.is_some_and(|parent| !state.content.spans.contains_key(&parent));
        // A microsecond later, which is no more than it took: so a span of which nothing else is
        // known has not ended before it began.
        let just_now = span.start.wall.saturating_add(1_000);
        let meta = LineMeta {
            time: state
                .writer
                .time_of_line(Some(just_now).filter(|_| span.just_made)),
            kind: span.open_kind,
            turn,
            ids: Some(span.ids),
        };
        state.content.opening = true;
        let appended = self.append(process, state, meta, |out, _| span.write_open(late, out));
        state.content.opening = false;
        match appended {
            Some(appended) => {
                span.trace.count(appended.size);
                span.opened_seg = appended.segment;
            }
            None => {
                span.lost = true;
                state.content.lost_opens.push_back(span.ids.span);
            }
        }
        state.content.spans.insert(span.ids.span, span);
        (turn, turn_span)
    }

    /// Adds fields to an open span that say how it went and ride on its close line. `false`: there
    /// is more to do than that.
    pub fn add_outcomes(&self, process: &ProcessState, at: &SpanContext, raw: &RawFields) -> bool {
        // What is long is cleaned before the lock is taken.
        raw.is_short(process.limits.inline)
            && raw.names().all(|name| at.kind.rides_on_close(name))
            && self.clean_open(process, at, |fields, sanitizer| {
                fields.add_clean(raw, Some(at.kind), sanitizer);
            })
    }

    /// Cleans something short into the fields of a span. `false`: it is not open any more.
    pub fn clean_open(
        &self,
        process: &ProcessState,
        at: &SpanContext,
        add: impl FnOnce(&mut Fields, &mut Sanitizer<'_>),
    ) -> bool {
        let mut state = self.lock();
        let Some(span) = state.content.spans.get_mut(&at.ids.span) else {
            return false;
        };
        process.sanitize(&self.dir, |sanitizer| add(&mut span.fields, sanitizer));
        true
    }

    /// Takes fields over that were recorded on an open span. `at_once` are those that a crash
    /// must not lose; the rest rides on the close line.
    pub fn update(
        &self,
        process: &ProcessState,
        at: &SpanContext,
        fields: &Fields,
        usage: Option<Box<UsageText>>,
        outcome: Outcome,
        links: &[(u128, u64)],
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let kind = at.kind;
        let open = state.content.spans.get_mut(&at.ids.span);
        // What a span that has ended still says can't ride on its close line any more.
        let late = open.is_none();
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
        let meta = line_now("span_update", at.turn, Some(at.ids));
        let appended = self.append(process, state, meta, |out, _| {
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
        at.trace.count(appended.unwrap_or_default().size);
    }

    /// Writes the close line, once. The first close wins.
    pub fn close(&self, process: &ProcessState, id: u64, said: Outcome) {
        self.close_after(process, id, said, None);
    }

    /// The same for a span whose duration was measured elsewhere.
    pub fn close_after(
        &self,
        process: &ProcessState,
        id: u64,
        said: Outcome,
        duration: Option<u64>,
    ) {
        let end = Moment::now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut turn = None;
        if let Some(span) = state.content.spans.get(&id) {
            match span.kind {
                SpanKind::Run => self.end_synthetic_locked(process, state, Some(id)),
                SpanKind::Model => turn = span.turn_span,
                _ => {}
            }
        }
        let closed = self.close_locked(process, state, id, said, (end, duration));
        if let Some(turn) = turn {
            self.end_late_synthetic(process, state, turn);
        }
        let Some((span, outcome, duration)) = closed else {
            return;
        };
        let listeners = process.ledger.listeners();
        let listens = listeners.iter().any(|listener| listener.wants_spans());
        let agent = listens.then(|| agent_of(&state.content, &span)).flatten();
        // The span is dropped when others may go on.
        drop(guard);
        if listens {
            let closed = ClosedSpan {
                kind: span.kind,
                duration,
                outcome,
                usage: span.used(),
                agent: agent.as_deref(),
                field: &|name| span.fields.get(name),
            };
            listeners
                .iter()
                .for_each(|listener| listener.span_closed(&closed));
        }
    }

    /// The end is when it was left, the duration is said only if it was measured elsewhere. What was
    /// closed, if the kernel has its line, and for how long it was open.
    pub(super) fn close_locked(
        &self,
        process: &ProcessState,
        state: &mut State,
        id: u64,
        said: Outcome,
        (end, duration): (Moment, Option<u64>),
    ) -> Option<(Box<OpenSpan>, Outcome, u64)> {
        let span = state.content.spans.remove(&id)?;
        synthetic_turn::note_answer(&mut state.content, &span);
        let duration = duration.unwrap_or_else(|| end.steady.saturating_sub(span.start.steady));
        let outcome = span.final_outcome(said);
        count_close(&mut state.content, &span, outcome);
        if span.kind == SpanKind::Permission
            && matches!(outcome, Outcome::Denied | Outcome::Ok)
            && let Some(tool) = span
                .ids
                .parent
                .and_then(|id| state.content.spans.get_mut(&id))
        {
            // The last word counts: a person may allow what a rule had denied.
            tool.denied = outcome == Outcome::Denied;
        }
        let totals = matches!(span.kind, SpanKind::Run | SpanKind::Turn).then(|| {
            let mut out = b"\"totals\":".to_vec();
            state.content.totals.write(&state.content.marks, &mut out);
            out
        });
        let kind = span.kind.closing().as_str();
        let meta = LineMeta {
            time: state.writer.time_of_line(Some(end.wall)),
            kind,
            turn: span.turn,
            ids: Some(span.ids),
        };
        let appended = self.append(process, state, meta, |out, seg| {
            span.write_close(seg, duration, outcome, out);
            if let Some(totals) = &totals {
                out.extend_from_slice(totals);
            }
        });
        let Some(appended) = appended else {
            let mut sending = Vec::new();
            span.write_trace(&mut sending);
            state.content.keep_lost_close(LostClose {
                kind,
                turn: span.turn,
                ids: span.ids,
                start: span.start.wall,
                duration,
                outcome: outcome.as_str(),
                sending,
            });
            return None;
        };
        span.trace.count(appended.size);
        Some((span, outcome, duration))
    }

    /// Whether the span is open and nobody has said yet how it went.
    pub fn is_silent(&self, span: u64) -> bool {
        self.lock()
            .content
            .spans
            .get(&span)
            .is_some_and(|span| span.is_silent())
    }
}

/// The name of the agent whose run a tool call is in, as JSON.
fn agent_of(content: &Content, span: &OpenSpan) -> Option<Vec<u8>> {
    let run = span.run_span.filter(|_| span.kind == SpanKind::Tool)?;
    let agent = content.spans.get(&run)?.fields.get("agent")?;
    Some(agent.to_vec())
}

pub(super) fn mark_counted(content: &mut Content, spans: [Option<u64>; 3]) {
    for id in spans.into_iter().flatten() {
        if let Some(span) = content.spans.get_mut(&id) {
            span.counted = true;
        }
    }
}

/// Counts a span's usage once: what a model call says beats its turn, a turn its run.
fn count_close(content: &mut Content, span: &OpenSpan, outcome: Outcome) {
    match span.kind {
        SpanKind::Model => content.totals.model_calls += 1,
        SpanKind::Tool => content.totals.tool_calls += 1,
        _ => {}
    }
    if outcome == Outcome::Error {
        content.totals.errors += 1;
    }
    if !matches!(span.kind, SpanKind::Model | SpanKind::Turn | SpanKind::Run) {
        return;
    }
    let usage = span.used().filter(|usage| !usage.is_empty());
    if usage.is_none() && !span.counted {
        return;
    }
    if let Some(usage) = usage.filter(|_| !span.counted) {
        content.totals.add_usage(usage);
        // It was finished before what is inside it, and has spoken for all of that.
        let id = Some(span.ids.span);
        for inside in content.spans.values_mut() {
            inside.counted |= inside.turn_span == id || inside.run_span == id;
        }
    }
    mark_counted(content, [span.turn_span, span.run_span, None]);
}
