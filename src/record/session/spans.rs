//! Spans of a session: opened, changed and closed, each by one line.

use super::context_asset::ContextAsset;
use super::hooks::{LostClose, MOST_LOST_CLOSES};
use super::open_span::{OpenSpan, write_late, write_link, write_list, write_usage, write_used};
use super::{Content, Link, LockedSession, SessionLog, SpanContext, synthetic_turn};
use crate::ledger::{ClosedSpan, LineMeta};
use crate::record::fields::Fields;
use crate::record::process_state::ProcessState;
use crate::record::sanitize::Sanitizer;
use crate::trace::{ErrorChain, Kind, Moment, Outcome, SpanKind, Usage, UsageText};

/// What is recorded on a span after it was opened, redacted.
pub(crate) struct Change<'a> {
    pub fields: Fields,
    /// Attributes that the OpenTelemetry API set on an agent span.
    pub attributes: Option<Fields>,
    pub usage: Option<Box<UsageText>>,
    pub outcome: Outcome,
    pub links: &'a [Link],
}

impl Change<'_> {
    /// The members to write now: those that a crash must not lose, or all. The rest waits for the close line.
    fn members(&self, kind: SpanKind, all: bool) -> Vec<u8> {
        let mut out = Vec::new();
        match kind {
            SpanKind::Other => self.fields.write_object(field!(OtherSpan.fields), &mut out),
            _ if all => self.fields.write_members(&mut out),
            _ => self.fields.write_at_once(&mut out),
        }
        if let Some(attributes) = &self.attributes {
            attributes.write_object(field!(Span.attributes), &mut out);
        }
        if let Some(usage) = self.usage.as_deref().filter(|_| all) {
            write_usage(usage, &mut out);
        }
        let mut links = Vec::new();
        for link in self.links {
            write_link(*link, &mut links);
        }
        write_list(field!(Span.links), &links, &mut out);
        out
    }

    fn apply(self, span: &mut OpenSpan) {
        span.fields.merge(&self.fields);
        if let Some(attributes) = &self.attributes {
            span.attributes.get_or_insert_default().merge(attributes);
        }
        if let Some(usage) = self.usage {
            span.usage.get_or_insert_default().merge(*usage);
        }
        if self.outcome != Outcome::Unset {
            span.outcome = self.outcome;
        }
        for link in self.links {
            span.link(*link);
        }
    }
}

impl LockedSession<'_> {
    /// Opens a span. Returns its context as the spans and events inside it see it.
    pub fn open(&mut self, mut span: Box<OpenSpan>) -> SpanContext {
        match span.at.kind {
            SpanKind::Run => self.start_run(&mut span),
            SpanKind::Turn => self.start_turn(&mut span),
            kind => {
                self.read_past();
                synthetic_turn::join(&self.state.content, &mut span);
                self.state.content.stamp_assets(kind, &mut span.fields);
                self.state.content.stamp_for_backends(&mut span);
                if kind == SpanKind::Model && self.process.sends_content {
                    let call = self.state.content.conversation.begin_call();
                    span.conversation = Some(Box::new(call));
                }
            }
        }
        self.count_start(&mut span);
        let mut context = span.at.clone();
        if context.kind == SpanKind::Run {
            context.run = Some(context.link());
        }
        self.append_open(span);
        context
    }

    fn start_run(&mut self, run: &mut OpenSpan) {
        self.start_recovery();
        let content = &mut self.state.content;
        let is_outermost = run.at.run.is_none();
        if std::mem::replace(&mut content.started, true) {
            run.open_kind = Kind::SessionResume;
            // A run inside another one has that one as its parent; any other one links to the last run.
            if let Some(last_run) = content.last_run.filter(|_| is_outermost) {
                run.link(last_run);
            }
        }
        if is_outermost {
            content.last_run = Some(run.at.link());
        }
    }

    fn start_turn(&mut self, turn: &mut OpenSpan) {
        self.end_synthetic(turn.at.run_span());
        self.read_past();
        let content = &mut self.state.content;
        let given = turn.fields.value(field!(Turn.turn_index));
        let given = given.and_then(|index| index.json().parse::<u32>().ok());
        let index = given.unwrap_or(content.next_turn);
        if given.is_none() {
            let json = index.to_string();
            turn.fields.set(field!(Turn.turn_index), json.as_bytes());
        }
        content.next_turn = content.next_turn.max(index.saturating_add(1));
        content.totals.turns += 1;
        turn.at.turn = Some(index);
        turn.at.turn_span = Some(turn.at.ids.span);
    }

    fn append_open(&mut self, mut span: Box<OpenSpan>) {
        let parent = span.at.ids.parent.filter(|_| span.parent_here);
        let late = parent.is_some_and(|parent| !self.state.content.spans.contains_key(&parent));
        // A microsecond after its start, which is no more than it took: so a span of which nothing else is
        // known does not end before it began.
        let just_now = span.start.wall.saturating_add(1_000);
        let time = self
            .state
            .writer
            .time_of_line(span.just_made.then_some(just_now));
        self.state.content.opening = true;
        let appended = self.append(span.open_meta(time), |out, _| span.write_open(late, out));
        let content = &mut self.state.content;
        content.opening = false;
        match appended {
            Some(appended) => {
                span.at.trace.count(appended.size);
                span.opened_seg = appended.segment;
            }
            None => {
                span.lost = true;
                content.lost_opens.push_back(span.at.ids.span);
            }
        }
        content.spans.insert(span.at.ids.span, span);
    }

    /// Redacts something short into the fields of an open span. `false`: it is not open any more.
    pub fn add_fields(
        &mut self,
        at: &SpanContext,
        add: impl FnOnce(&mut Fields, &mut Sanitizer<'_>),
    ) -> bool {
        let Some(span) = self.state.content.spans.get_mut(&at.ids.span) else {
            return false;
        };
        self.process
            .sanitize(self.log, |sanitizer| add(&mut span.fields, sanitizer));
        true
    }

    /// Changes an open span. A `span_update` line has what a crash must not lose; the rest waits for the close
    /// line. After the close line, everything is written at once.
    pub fn update(&mut self, at: &SpanContext, change: Change<'_>) {
        let open = self.state.content.spans.get_mut(&at.ids.span);
        let late = open.is_none();
        let members = change.members(at.kind, late || at.kind.writes_outcomes_at_once());
        if let Some(span) = open {
            change.apply(span);
        }
        if members.is_empty() {
            return;
        }
        let meta = LineMeta {
            time: Moment::now().wall,
            kind: Kind::SpanUpdate.as_str(),
            turn: at.turn,
            ids: Some(at.ids),
        };
        let appended = self.append(meta, |out, _| {
            write_late(late, out);
            out.extend_from_slice(&members);
        });
        at.trace.count(appended.unwrap_or_default().size);
    }

    /// Writes the close line. Returns the span if the kernel has that line.
    pub(super) fn close(
        &mut self,
        id: u64,
        given: Outcome,
        end: Moment,
        duration: Option<u64>,
    ) -> Option<Box<OpenSpan>> {
        let content = &mut self.state.content;
        let mut span = content.spans.remove(&id)?;
        synthetic_turn::note_answer(content, &span);
        let open_for = end.steady.saturating_sub(span.start.steady);
        span.duration = duration.unwrap_or(open_for);
        span.outcome = span.final_outcome(given);
        span.note_timeout();
        let counts_usage = content.count_close(&span);
        let mut totals = Vec::new();
        if matches!(span.at.kind, SpanKind::Run | SpanKind::Turn) {
            if let Some(used) = span.used_in_all() {
                write_used(used, &mut totals);
            }
            totals.extend_from_slice(b"\"totals\":");
            content.totals.write(&content.marks, &mut totals);
        }
        let meta = span.close_meta(self.state.writer.time_of_line(Some(end.wall)));
        let appended = self.append(meta, |out, seg| {
            span.write_close(seg, out);
            out.extend_from_slice(&totals);
        });
        let used = span.used().filter(|_| counts_usage);
        self.watch_close(&span, end, used, appended);
        let Some(appended) = appended else {
            let mut payload = Vec::new();
            span.write_late_close(&mut payload);
            let lost = &mut self.state.content.lost_closes;
            if lost.len() < MOST_LOST_CLOSES {
                lost.push_back(LostClose { meta, payload });
            }
            return None;
        };
        span.at.trace.count(appended.size);
        Some(span)
    }

    /// Whether the span is open and has neither an outcome nor an error.
    pub fn is_silent(&self, span: u64) -> bool {
        let span = self.state.content.spans.get(&span);
        span.is_some_and(|span| span.is_silent())
    }
}

impl SessionLog {
    /// Writes the close line of a span, once: the first close wins. `duration` is that of a span that was
    /// measured elsewhere.
    pub fn close(&self, process: &ProcessState, id: u64, given: Outcome, duration: Option<u64>) {
        let end = Moment::now();
        let mut locked = self.lock(process);
        let (mut is_run, mut turn) = (false, None);
        if let Some(span) = locked.state.content.spans.get(&id) {
            is_run = span.at.kind == SpanKind::Run;
            turn = (span.at.turn_span).filter(|_| span.at.kind == SpanKind::Model);
        }
        if is_run {
            locked.end_synthetic(Some(id));
        }
        let closed = locked.close(id, given, end, duration);
        if let Some(turn) = turn {
            locked.end_late_synthetic(turn);
        }
        let Some(span) = closed else {
            return;
        };
        let listeners = process.ledger.listeners();
        let listens = listeners.iter().any(|listener| listener.wants_spans());
        // Neither a listener nor the drop of the span needs the session.
        drop(locked);
        if listens {
            let closed = ClosedSpan {
                kind: span.at.kind,
                duration: span.duration,
                outcome: span.outcome,
                usage: span.used(),
                field: &|name| span.fields.value(name),
            };
            listeners
                .iter()
                .for_each(|listener| listener.span_closed(&closed));
        }
    }
}

impl Content {
    /// Sets the digests of the prompt, the catalog and the rules in force, unless the span has its own.
    fn stamp_assets(&self, kind: SpanKind, fields: &mut Fields) {
        let assets: &[_] = match kind {
            SpanKind::Model => &ContextAsset::ALL,
            SpanKind::Permission => &[ContextAsset::PermissionRules],
            _ => return,
        };
        for asset in assets {
            if let Some(digest) = &self.current[*asset as usize]
                && !fields.contains(asset.stamp())
            {
                fields.set_str(asset.stamp(), digest);
            }
        }
    }

    /// Sets what a backend wants on the span itself: the agent around a model or tool call, and that the
    /// context was compacted since the last model call.
    fn stamp_for_backends(&mut self, span: &mut OpenSpan) {
        let kind = span.at.kind;
        if !matches!(kind, SpanKind::Model | SpanKind::Tool) {
            return;
        }
        let run = (span.at.run_span()).and_then(|run| self.spans.get(&run));
        if let Some(agent) = run.and_then(|run| run.fields.get(field!(Run.agent)))
            && !span.fields.contains(field!(ToolCall.agent))
            && !span.fields.contains("gen_ai.agent.name")
        {
            span.fields.set(field!(ToolCall.agent), agent);
        }
        if kind == SpanKind::Model && std::mem::take(&mut self.compacted) {
            span.fields.set(field!(ModelCall.compacted), b"true");
        }
    }

    pub fn mark_counted(&mut self, spans: [Option<u64>; 3]) {
        for id in spans.into_iter().flatten() {
            if let Some(span) = self.spans.get_mut(&id) {
                span.counted = true;
            }
        }
    }

    /// Counts an error inside a span, unless it was counted where it came from.
    pub fn count_failure(
        &mut self,
        inside: Option<u64>,
        chain: Option<ErrorChain>,
        is_known: impl FnOnce(&ErrorChain) -> bool,
    ) {
        if !chain.as_ref().is_some_and(is_known) {
            self.totals.errors += 1;
        }
        let outer = inside.and_then(|id| self.spans.get_mut(&id));
        if let (Some(outer), Some(chain)) = (outer, chain) {
            outer.note_failure(chain);
        }
    }

    /// Adds usage to the innermost turn or run around it; that one passes it on when it closes.
    pub fn add_used(&mut self, at: &SpanContext, usage: &Usage) {
        for id in [at.turn_span, at.run_span()].into_iter().flatten() {
            if let Some(span) = self.spans.get_mut(&id) {
                span.used_inside.get_or_insert_default().add(usage);
                return;
            }
        }
    }

    /// Counts a span that closes, and its usage once: a model call's usage beats its turn's, a turn's its run's.
    /// Returns whether the totals count its usage.
    fn count_close(&mut self, span: &OpenSpan) -> bool {
        match span.at.kind {
            SpanKind::Model => self.totals.model_calls += 1,
            SpanKind::Tool => self.totals.tool_calls += 1,
            SpanKind::Compaction => self.compacted |= !span.outcome.is_error(),
            SpanKind::Permission if matches!(span.outcome, Outcome::Denied | Outcome::Ok) => {
                // The last decision counts: a person may allow what a rule had denied.
                let tool = (span.at.ids.parent).and_then(|id| self.spans.get_mut(&id));
                if let Some(tool) = tool {
                    tool.denied = span.outcome == Outcome::Denied;
                }
            }
            _ => {}
        }
        let outer = (span.at.ids.parent).and_then(|id| self.spans.get_mut(&id));
        if let Some(outer) = outer {
            outer.note_closed_inside();
        }
        if span.outcome.is_error() {
            self.count_failure(span.at.ids.parent, span.error_chain(), |chain| {
                span.passes_on(chain)
            });
        }
        if !matches!(
            span.at.kind,
            SpanKind::Model | SpanKind::Turn | SpanKind::Run
        ) {
            return false;
        }
        let usage = span.used().filter(|usage| !usage.is_empty());
        if usage.is_none() && !span.counted {
            return false;
        }
        if let Some(used) = span.used_in_all() {
            self.add_used(&span.at, used);
        }
        let usage = usage.filter(|_| !span.counted);
        if let Some(usage) = usage {
            self.totals.add_usage(usage);
            // It closed before the spans inside it, and its usage covers theirs.
            let id = Some(span.at.ids.span);
            // No span names a model call as its turn or run.
            if span.at.kind != SpanKind::Model {
                for inside in self.spans.values_mut() {
                    inside.counted |= inside.at.turn_span == id || inside.at.run_span() == id;
                }
            }
        }
        self.mark_counted([span.at.turn_span, span.at.run_span(), None]);
        usage.is_some()
    }
}
