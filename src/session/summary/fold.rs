//! How each line changes a summary.

use std::borrow::Cow;

use serde_json::Value;

use super::Summary;
use crate::session::failure::KnownFailure;
use crate::session::item::Item;
use crate::session::node::message_with_causes;
use crate::session::status::{ErrorRef, OpenSpan, Reported, Writer};
use crate::trace::typed::{Checkpoint, ErrorInfo, ModelCall, Run, SegmentHeader, ToolCall, set};
use crate::trace::{Address, ErrorChain, Kind, Marks, RawLine, RawValue, Totals, parse_time};

const SHORT: usize = 200;

fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error on a line, with its causes.
fn error_text(line: &RawLine<'_>) -> String {
    let text = line.payload().get("error").and_then(|error| {
        let info = ErrorInfo::from(error);
        message_with_causes(&info)
            .or_else(|| info.error_type().map(Cow::into_owned))
            .or_else(|| error.text().map(Cow::into_owned))
    });
    short(&text.unwrap_or_default())
}

/// What failed, in a word or two.
fn what_failed(item: &Item<'_>, line: &RawLine<'_>) -> String {
    match (item, item.name()) {
        (Item::Turn(_), _) => match line.turn {
            Some(index) => format!("turn {index}"),
            None => "turn".into(),
        },
        (Item::Run(_), _) => "run".into(),
        (Item::ErrorEvent(_), _) => "error".into(),
        (_, Some(name)) => name.into_owned(),
        _ => line.kind.clone().into_owned(),
    }
}

/// What a tool was called with, truncated.
fn tool_input(call: &ToolCall<'_>) -> Option<String> {
    let value = call.command().or_else(|| call.args())?;
    Some(short(&value.text().unwrap_or_else(|| value.json().into())))
}

/// An open span as a checkpoint lists it.
fn listed_span(seg: u32, listed: RawValue<'_>) -> Option<OpenSpan> {
    let text = |name: &str| listed.get(name).and_then(|value| value.text());
    let seq = listed.get("seq").and_then(|seq| seq.u64()).unwrap_or(0);
    let start = text("start").and_then(|start| parse_time(&start));
    Some(OpenSpan {
        span_id: text("span_id")?.into_owned(),
        address: Address { seg, seq },
        kind: Kind::parse(&text("kind").unwrap_or_default()),
        name: text("name").unwrap_or_default().into_owned(),
        input: None,
        since: start.unwrap_or(0),
        seg,
        parent: text("parent_span_id").map(Cow::into_owned),
    })
}

impl Summary {
    /// Takes one line.
    pub fn take(&mut self, line: &RawLine<'_>) {
        if self.session_id.is_empty() {
            self.session_id = line.session_id.clone().into_owned();
        }
        let ts = parse_time(line.ts).unwrap_or(0);
        if self.first == 0 {
            self.first = ts;
        }
        if self.trace_id.is_none() {
            self.trace_id = line.trace_id.map(str::to_owned);
        }
        let kind = line.kind();
        // Recovery may write much later; that is no activity of the session.
        let active = !matches!(kind, Kind::Segment | Kind::Checkpoint | Kind::Interrupted);
        if self.last == 0 || active {
            self.last = self.last.max(ts);
        }
        if kind.opens().is_some() {
            self.opened(line, ts);
        } else if kind.is_close() {
            self.closed(line);
        } else {
            self.event(line);
        }
        let mut marks = Marks::default();
        marks.count(line.as_bytes());
        if marks != Marks::default() {
            self.marks_of(line.seg).add(&marks);
        }
    }

    fn ran_under(&mut self, parent: Option<Cow<'_, str>>) {
        let is_new = |parent: &Cow<'_, str>| {
            **parent != self.session_id && !self.parents.iter().any(|known| known == parent)
        };
        let new = parent.filter(is_new).map(Cow::into_owned);
        self.parents.extend(new);
    }

    /// The segment from which the counts of this one count: its writer's first.
    fn first_of(&self, seg: u32) -> u32 {
        let Some(writer) = self.writers.get(&seg) else {
            return seg;
        };
        writer.counts_from.unwrap_or_else(|| {
            let first = self.writers.iter().find(|(_, w)| w.id == writer.id);
            first.map_or(seg, |(seg, _)| *seg)
        })
    }

    fn totals_of(&mut self, seg: u32) -> &mut Totals {
        let first = self.first_of(seg);
        self.totals.entry(first).or_default()
    }

    fn marks_of(&mut self, seg: u32) -> &mut Marks {
        let first = self.first_of(seg);
        self.marks.entry(first).or_default()
    }

    /// Takes over what a writer counted up to here, whether those lines were read or not.
    fn set_totals(&mut self, seg: u32, marks_seg: u32, totals: &Value) -> bool {
        if let Some(counted) = Marks::from_totals(totals) {
            self.uncounted = false;
            let marks = self.marks_of(marks_seg);
            // A gap that was written just before may not be counted yet.
            marks.masked = marks.masked.max(counted.masked);
            marks.cut = marks.cut.max(counted.cut);
            marks.gaps = marks.gaps.max(counted.gaps);
            marks.missing = marks.missing.max(counted.missing);
        }
        let totals = Totals::from_json(totals);
        let known = totals.is_some();
        if let Some(totals) = totals {
            *self.totals_of(seg) = totals;
        }
        known
    }

    fn opened(&mut self, line: &RawLine<'_>, ts: u64) {
        let item = Item::of(line);
        let mut name = item.name();
        let mut input = None;
        match &item {
            Item::Run(run) => {
                self.runs += u64::from(run.late().is_none());
                self.run_seg = Some(line.seg);
                self.trace_id = line.trace_id.map(str::to_owned);
                self.run_opened(run);
            }
            Item::Turn(turn) => {
                let is_new = u64::from(turn.late().is_none());
                let totals = self.totals_of(line.seg);
                totals.turns = totals.turns.saturating_add(is_new);
                name = line.turn.map(|index| index.to_string().into());
            }
            Item::ModelCall(call) => self.model_named(call),
            Item::ToolCall(call) => input = tool_input(call),
            _ => {}
        }
        let Some(id) = line.span_id else { return };
        let open = OpenSpan {
            span_id: id.to_owned(),
            address: line.address(),
            kind: line.kind(),
            name: name.unwrap_or_default().into_owned(),
            input,
            since: item.span().start().unwrap_or(ts),
            seg: line.seg,
            parent: line.parent_span_id.map(str::to_owned),
        };
        self.open.insert(id.to_owned(), open);
    }

    fn run_opened(&mut self, run: &Run<'_>) {
        self.ended = None;
        if self.agent.is_none() {
            set(&mut self.agent, run.agent());
        }
        set(&mut self.provider_id, run.provider_id());
        set(&mut self.model_id, run.model_id());
        set(&mut self.variant, run.variant());
        set(&mut self.title, run.title());
        set(&mut self.workspace_root, run.workspace_root());
        set(&mut self.output_dir, run.output_dir());
        set(&mut self.parent_session_id, run.parent_session_id());
        self.ran_under(run.parent_session_id());
        self.temperature = run.temperature().or(self.temperature);
        if let Some(from) = run.branched_from() {
            let part = |name: &str| from.get(name).and_then(|value| value.text());
            set(&mut self.branched_from, part("session_id"));
            set(&mut self.branched_from_message, part("message_id"));
        }
    }

    /// The first model call names the model, if no run does.
    fn model_named(&mut self, call: &ModelCall<'_>) {
        if self.model_id.is_none() && call.model_id().is_some() {
            set(&mut self.model_id, call.model_id());
            set(&mut self.provider_id, call.provider_id());
        }
    }

    /// The name of a span may come late: libraries declare it empty and record it inside.
    fn updated(&mut self, line: &RawLine<'_>) {
        let open = line.span_id.and_then(|id| self.open.get_mut(id));
        let Some(span) = open else { return };
        let item = Item::new(span.kind, line.payload());
        let renamed = !matches!(item, Item::Run(_) | Item::OtherSpan(_));
        if let Some(name) = item.name().filter(|_| renamed) {
            span.name = name.into_owned();
        }
        match &item {
            Item::ModelCall(call) => self.model_named(call),
            Item::ToolCall(call) => span.input = tool_input(call).or_else(|| span.input.take()),
            _ => {}
        }
    }

    fn closed(&mut self, line: &RawLine<'_>) {
        if line.closes().is_none() {
            return;
        }
        let item = Item::of(line);
        let open = line.span_id.and_then(|id| self.open.remove(id));
        let seg = open.map_or(line.seg, |open| open.seg);
        let outcome = item.span().outcome().unwrap_or_default();
        let mut totals = None;
        match &item {
            Item::ModelCall(call) => self.model_named(call),
            Item::Run(run) => {
                let stop_reason = run.stop_reason().map(Cow::into_owned);
                let outcome = run.all_fields().get("outcome");
                let outcome = outcome.and_then(|outcome| outcome.text());
                self.ended = Some((outcome.unwrap_or_default().into_owned(), stop_reason));
                // Its open line may be one that was skipped.
                self.ran_under(run.parent_session_id());
                totals = run.totals();
            }
            Item::Turn(turn) => totals = turn.totals(),
            _ => {}
        }
        let is_new_error = self.failures_closed(line, &item, outcome.is_error());
        let totals = totals.and_then(|totals| totals.value());
        if totals.is_some_and(|totals| self.set_totals(seg, line.seg, &totals)) {
            return;
        }
        let totals = self.totals_of(seg);
        match &item {
            Item::ModelCall(call) => {
                totals.model_calls = totals.model_calls.saturating_add(1);
                totals.add_usage(&call.usage().unwrap_or_default());
            }
            Item::ToolCall(_) => totals.tool_calls = totals.tool_calls.saturating_add(1),
            _ => {}
        }
        totals.errors = totals.errors.saturating_add(u64::from(is_new_error));
    }

    /// A span closes. Returns whether it failed, and not with the error of a span inside it, which is the same
    /// failure.
    fn failures_closed(&mut self, line: &RawLine<'_>, item: &Item<'_>, failed: bool) -> bool {
        let error = failed.then(|| line.payload().get("error")).flatten();
        let chain = error.map(ErrorChain::of);
        let inner = line
            .span_id
            .and_then(|id| self.failures.close(id, chain.as_ref()));
        if let Some(parent) = line.parent_span_id {
            self.failures.closed_inside(parent);
        }
        if !failed {
            return false;
        }
        let is_new = inner.is_none();
        let what = what_failed(item, line);
        let origin = match inner {
            Some(inner) => {
                let step = (line.address(), what);
                let known = [&mut self.first_error, &mut self.last_error];
                for error in known.into_iter().flatten() {
                    if error.address == inner.origin {
                        error.passed_to.push(step.clone());
                        if !inner.chain.has_text() {
                            error.message = error_text(line);
                        }
                    }
                }
                inner.origin
            }
            None => {
                self.failed(line, what);
                line.address()
            }
        };
        if let (Some(parent), Some(chain)) = (line.parent_span_id, chain) {
            self.failures.add(parent, KnownFailure { chain, origin });
        }
        is_new
    }

    fn failed(&mut self, line: &RawLine<'_>, what: String) {
        let error = ErrorRef {
            address: line.address(),
            what,
            message: error_text(line),
            passed_to: Vec::new(),
        };
        self.first_error.get_or_insert_with(|| error.clone());
        self.last_error = Some(error);
    }

    /// Lines are skipped here: the spans that are open now may be over.
    pub fn skip(&mut self) {
        self.marks_unknown |= std::mem::replace(&mut self.uncounted, true);
        self.before_skip = std::mem::take(&mut self.open);
    }

    /// Takes over what the writer counted up to here, and what it had open.
    fn checkpoint(&mut self, seg: u32, checkpoint: &Checkpoint<'_>) {
        if let Some(totals) = checkpoint.totals().and_then(|totals| totals.value()) {
            self.set_totals(seg, seg, &totals);
        }
        let mut known = std::mem::take(&mut self.open);
        let listed = checkpoint.open();
        for listed in listed.into_iter().flat_map(|open| open.items()) {
            let Some(listed) = listed_span(seg, listed) else {
                continue;
            };
            let id = listed.span_id.clone();
            let known = known.remove(&id);
            let span = known.or_else(|| self.before_skip.get(&id).cloned());
            self.open.insert(id, span.unwrap_or(listed));
        }
        // Other writers' spans.
        known.retain(|_, span| span.seg != seg);
        self.open.append(&mut known);
    }

    fn segment(&mut self, seg: u32, header: &SegmentHeader<'_>) {
        let text = |text: Option<Cow<'_, str>>| text.unwrap_or_default().into_owned();
        let process = header.process().map_or("null", |process| process.json());
        let writer = Writer {
            id: text(header.writer()),
            process: process.into(),
            version: text(header.spanledger()),
            implicit: header.implicit().map(Cow::into_owned),
            counts_from: header.counts_from().and_then(|seg| seg.try_into().ok()),
        };
        self.writers.insert(seg, writer);
    }

    fn error_event(&mut self, line: &RawLine<'_>) {
        let totals = self.totals_of(line.seg);
        totals.errors = totals.errors.saturating_add(1);
        self.failed(line, "error".into());
        let chain = line.payload().get("error").map(ErrorChain::of);
        if let (Some(span), Some(chain)) = (line.span_id, chain) {
            let origin = line.address();
            self.failures.add(span, KnownFailure { chain, origin });
        }
    }

    fn event(&mut self, line: &RawLine<'_>) {
        match Item::of(line) {
            Item::SegmentHeader(header) => self.segment(line.seg, &header),
            Item::Checkpoint(checkpoint) => self.checkpoint(line.seg, &checkpoint),
            Item::SpanUpdate(_) => self.updated(line),
            Item::Message(message)
                if line.kind() == Kind::MessageUser && self.first_message.is_none() =>
            {
                let content = message.content().and_then(|content| content.text());
                self.first_message = content.map(|content| short(&content));
            }
            Item::SessionTitle(title) => self.title = title.title().map(Cow::into_owned),
            Item::SessionUpdate(update) => {
                set(&mut self.model_id, update.model_id());
                set(&mut self.provider_id, update.provider_id());
            }
            Item::SessionStatus(status) => {
                self.reported = status.status().map(|name| Reported {
                    status: name.into_owned(),
                    waiting_for: status.waiting_for().map(Cow::into_owned),
                    attempt: status.attempt(),
                    next_at: status.next_at().map(Cow::into_owned),
                    message: status.message().map(|message| short(&message)),
                });
            }
            Item::Hitl(hitl) => {
                let Some(id) = hitl.interrupt_id() else {
                    return;
                };
                match line.kind() {
                    Kind::HitlRequest => self.pending.insert(id.into_owned(), line.address()),
                    _ => self.pending.remove(&*id),
                };
            }
            Item::Branch(branch) => {
                let child = branch.child_session_id();
                self.branches.extend(child.map(Cow::into_owned));
            }
            Item::Subagent(child) => {
                let child = child.child_session_id();
                let is_new = |id: &Cow<'_, str>| !self.subagents.iter().any(|known| known == id);
                let child = child.filter(is_new).map(Cow::into_owned);
                self.subagents.extend(child);
            }
            Item::ErrorEvent(_) => self.error_event(line),
            Item::Gap(gap) => {
                let count = gap.count().unwrap_or(0);
                self.missing = self.missing.saturating_add(count);
                self.marks_of(line.seg).gap(count);
                let cause = gap.cause().unwrap_or_default().into_owned();
                self.gaps.push((line.address(), cause));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
