//! A span between its open and its close line.

use super::conversation::CallContent;
use super::family::AtStart;
use super::{Link, SpanContext};
use crate::ledger::LineMeta;
use crate::record::fields::Fields;
use crate::trace::{
    ErrorChain, Failure, Kind, Moment, Outcome, SpanKind, Usage, UsageText, hex16, hex32, number,
    put, write_string, write_time,
};

/// How many short events a close line carries; more are counted.
pub(super) const MAX_EVENTS: usize = 128;

/// How many failures inside one span are remembered.
const MAX_FAILURES: usize = 64;

/// The state of an open span in its session.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    pub at: SpanContext,
    pub start: Moment,
    pub fields: Fields,
    /// Attributes that the OpenTelemetry API set on an agent span.
    pub attributes: Option<Box<Fields>>,
    pub usage: Option<Box<UsageText>>,
    /// From `model_usage` events inside it; counts where the span has no usage of its own.
    pub event_usage: Option<Box<Usage>>,
    pub outcome: Outcome,
    /// In nanoseconds, set when the span closes.
    pub duration: u64,
    /// The last permission decision inside it was a denial.
    pub denied: bool,
    /// The usage of something inside it is in the totals already.
    pub counted: bool,
    /// What the spans and events inside a turn or a run used.
    pub used_inside: Option<Box<Usage>>,
    /// The errors of what failed directly inside it.
    failed_inside: Vec<ErrorChain>,
    /// The segment that holds its open line.
    pub opened_seg: u32,
    /// It opens in the call that made it, with little to write: its start is now.
    pub just_made: bool,
    /// Its open line could not be written yet.
    pub lost: bool,
    /// Its parent was opened by this process in this session.
    pub parent_here: bool,
    /// Its parent belongs to another process.
    pub parent_remote: bool,
    /// A turn that the recorder created: it is not sent.
    pub synthetic: bool,
    /// The OpenTelemetry kind of a span of that API.
    pub span_kind: Option<&'static str>,
    /// The kind of its open line.
    pub open_kind: Kind,
    /// Name, target and level of a span that is none of the six, as members of the payload.
    pub(super) other: Vec<u8>,
    /// The short events, each followed by a comma.
    pub(super) events: Vec<u8>,
    pub(super) event_count: usize,
    /// The links, each followed by a comma.
    pub(super) links: Vec<u8>,
    /// What a model call has of the conversation, where content is sent.
    pub conversation: Option<Box<CallContent>>,
    /// What was counted when it started, where limits are set.
    pub at_start: Option<AtStart>,
}

impl OpenSpan {
    pub fn new(at: SpanContext, start: Moment) -> Box<Self> {
        Box::new(Self {
            open_kind: at.kind.opening(),
            at,
            start,
            fields: Fields::default(),
            attributes: None,
            usage: None,
            event_usage: None,
            outcome: Outcome::Unset,
            duration: 0,
            denied: false,
            counted: false,
            used_inside: None,
            failed_inside: Vec::new(),
            opened_seg: 0,
            just_made: false,
            lost: false,
            parent_here: false,
            parent_remote: false,
            synthetic: false,
            span_kind: None,
            other: Vec::new(),
            events: Vec::new(),
            event_count: 0,
            links: Vec::new(),
            conversation: None,
            at_start: None,
        })
    }

    /// Sets name, target and level of a span that is none of the six; its fields are an object beside them.
    pub fn describe_other(&mut self, name: &str, target: &str, level: Option<&str>) {
        let out = &mut self.other;
        out.clear();
        out.extend_from_slice(b"\"name\":");
        write_string(name, out);
        out.extend_from_slice(b",\"target\":");
        write_string(target, out);
        if let Some(level) = level {
            out.extend_from_slice(b",\"level\":");
            write_string(level, out);
        }
        out.push(b',');
    }

    /// Whether neither an outcome nor an error has been recorded.
    pub fn is_silent(&self) -> bool {
        self.outcome == Outcome::Unset && !self.fields.contains(field!(ToolCall.error))
    }

    /// What it used: by its own report, or, where a model call has none, by the events inside it.
    pub fn used(&self) -> Option<&Usage> {
        let is_model = self.at.kind == SpanKind::Model;
        match &self.usage {
            Some(usage) if !is_model || !usage.is_empty() => Some(&usage.usage),
            _ => self.event_usage.as_deref().filter(|_| is_model),
        }
    }

    /// What was used in it: by what is inside it, else by its own report, unless that is counted elsewhere.
    pub fn used_in_all(&self) -> Option<&Usage> {
        let own = self.used().filter(|_| !self.counted);
        self.used_inside.as_deref().or(own)
    }

    /// The error that it ended with.
    pub fn error_chain(&self) -> Option<ErrorChain> {
        self.fields
            .value(field!(ToolCall.error))
            .map(ErrorChain::of)
    }

    /// A span inside it has closed after the failures so far.
    pub fn note_closed_inside(&mut self) {
        self.failed_inside.retain(|inner| !inner.is_vague());
    }

    /// Remembers a failure inside it.
    pub fn note_failure(&mut self, chain: ErrorChain) {
        if self.failed_inside.len() == MAX_FAILURES {
            self.failed_inside.remove(0);
        }
        self.failed_inside.push(chain);
    }

    /// Whether its error is that of something inside it, which has been counted.
    pub fn passes_on(&self, chain: &ErrorChain) -> bool {
        self.failed_inside.iter().any(|inner| chain.wraps(inner))
    }

    pub fn link(&mut self, link: Link) {
        write_link(link, &mut self.links);
    }

    /// Its open line.
    pub fn open_meta(&self, time: u64) -> LineMeta<'static> {
        self.meta(self.open_kind, time)
    }

    /// Its close line.
    pub fn close_meta(&self, time: u64) -> LineMeta<'static> {
        self.meta(self.at.kind.closing(), time)
    }

    fn meta(&self, kind: Kind, time: u64) -> LineMeta<'static> {
        LineMeta {
            time,
            kind: kind.as_str(),
            turn: self.at.turn,
            ids: Some(self.at.ids),
        }
    }

    /// The members of its open line.
    pub fn write_open(&self, late: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"start\":\"");
        write_time(self.start.wall, 9, out);
        out.extend_from_slice(b"\",");
        write_late(late, out);
        self.write_trace(out);
        self.write_known(out);
        write_list(field!(Span.links), &self.links, out);
    }

    /// The members of its close line: the open line's, and its end.
    pub fn write_close(&self, seg: u32, out: &mut Vec<u8>) {
        self.write_end(out);
        if self.opened_seg != seg && self.opened_seg != 0 {
            out.extend_from_slice(b"\"opened_seg\":");
            number(self.opened_seg.into(), out);
            out.push(b',');
        }
        self.write_trace(out);
        self.write_known(out);
        write_list(field!(Span.events), &self.events, out);
        if let Some(dropped @ 1..) = self.event_count.checked_sub(MAX_EVENTS) {
            out.extend_from_slice(b"\"events_dropped\":");
            number(dropped as u64, out);
            out.push(b',');
        }
        write_list(field!(Span.links), &self.links, out);
        if let Some(conversation) = &self.conversation {
            conversation.write(&self.fields, out);
        }
    }

    /// The members of a close line that is written again: that it ended, how, and whether it is sent.
    pub fn write_late_close(&self, out: &mut Vec<u8>) {
        self.write_end(out);
        write_late(true, out);
        self.write_trace(out);
    }

    fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"start\":\"");
        write_time(self.start.wall, 9, out);
        out.extend_from_slice(b"\",\"duration_ns\":");
        number(self.duration, out);
        let outcome = self.outcome.as_str().as_bytes();
        put(out, [b",\"outcome\":\"", outcome, b"\","]);
    }

    /// The members that decide whether and how it is sent: on its open line for recovery after a crash, on its
    /// close line for the mirror.
    fn write_trace(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at.trace.members);
        if self.parent_remote {
            put(out, [b"\"parent_remote\":true,"]);
        }
        if self.synthetic {
            put(out, [b"\"synthetic\":true,"]);
        }
        if let Some(kind) = self.span_kind {
            put(out, [b"\"span_kind\":\"", kind.as_bytes(), b"\","]);
        }
    }

    fn write_known(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.other);
        match self.at.kind {
            SpanKind::Other => self.fields.write_object(field!(OtherSpan.fields), out),
            _ => self.fields.write_members(out),
        }
        if let Some(attributes) = &self.attributes {
            attributes.write_object(field!(Span.attributes), out);
        }
        if let Some(usage) = &self.usage {
            write_usage(usage, out);
        }
    }

    /// A permission has the person's answer, unless the agent recorded it there.
    pub fn note_answer(&mut self, answer: &Fields) {
        for name in [field!(Hitl.decision), field!(Hitl.decided_by)] {
            if let (Some(value), None) = (answer.get(name), self.fields.get(name)) {
                self.fields.set(name, value);
            }
        }
    }

    /// The first piece of a model's answer has arrived. What the agent recorded itself is kept.
    pub fn note_first_token(&mut self, now: Moment) {
        let name = field!(ModelCall.ttft_ms);
        if self.at.kind == SpanKind::Model && !self.fields.contains(name) {
            let ms = now.steady.saturating_sub(self.start.steady) / 1_000_000;
            self.fields.set(name, ms.to_string().as_bytes());
        }
    }

    /// A span that was given up after its time limit has timed out.
    pub fn note_timeout(&mut self) {
        if self.outcome != Outcome::Cancelled {
            return;
        }
        let limit = self.fields.value(field!(ToolCall.timeout_ms));
        let limit = limit.and_then(|limit| limit.u64());
        if let Some(limit) = limit.filter(|limit| self.duration / 1_000_000 >= *limit) {
            self.outcome = Outcome::TimedOut;
            let error = Failure::time_limit(limit).to_json();
            self.fields.set(field!(ToolCall.error), error.as_bytes());
        }
    }

    /// The outcome of a span that closes with `given`: that one, else the one recorded last, else the one that
    /// its fields imply.
    pub fn final_outcome(&self, given: Outcome) -> Outcome {
        if given != Outcome::Unset {
            return given;
        }
        if self.outcome != Outcome::Unset {
            return self.outcome;
        }
        if self.fields.contains(field!(ToolCall.error)) {
            return Outcome::Error;
        }
        match self.at.kind {
            SpanKind::Permission => match self.fields.get(field!(Permission.action)) {
                Some(b"\"allow\"") => Outcome::Ok,
                Some(b"\"deny\"") => Outcome::Denied,
                _ => Outcome::Unset,
            },
            SpanKind::Tool if self.denied => Outcome::Denied,
            _ => Outcome::Unset,
        }
    }
}

/// Marks a line that was written after the time it is about.
pub(super) fn write_late(late: bool, out: &mut Vec<u8>) {
    if late {
        out.extend_from_slice(b"\"late\":true,");
    }
}

/// The `usage` member, unless nothing is known.
pub(super) fn write_usage(usage: &UsageText, out: &mut Vec<u8>) {
    if !usage.is_empty() {
        out.extend_from_slice(b"\"usage\":{");
        usage.write_members(out);
        out.extend_from_slice(b"},");
    }
}

/// The `used` member.
pub(super) fn write_used(used: &Usage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"used\":{");
    used.write_members(None, out);
    out.extend_from_slice(b"},");
}

/// A member that is a list, unless that is empty. Each of the items is followed by a comma.
pub(super) fn write_list(name: &str, items: &[u8], out: &mut Vec<u8>) {
    if let Some((_last_comma, items)) = items.split_last() {
        put(out, [b"\"", name.as_bytes(), b"\":[", items, b"],"]);
    }
}

/// A link, followed by a comma.
pub(super) fn write_link((trace, span): Link, out: &mut Vec<u8>) {
    let (trace, span) = (hex32(trace), hex16(span));
    put(
        out,
        [
            b"{\"trace_id\":\"",
            &trace,
            b"\",\"span_id\":\"",
            &span,
            b"\"},",
        ],
    );
}
