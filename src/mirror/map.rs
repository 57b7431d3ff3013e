//! From a close line to a span.

use std::borrow::Cow;

use prost::Message;

use super::attributes::{Attributes, member_name};
use super::content::content_key;
use super::events_links;
use super::names::{conventional, put_as_given, put_conventional, put_said, subject_field};
use super::origin::Origin;
use super::otlp::Span;
use super::otlp::span::SpanKind as OtlpKind;
use super::otlp::status::StatusCode;
use super::policy::Policy;
use super::wire::{Key, Val, put_bytes, put_count, put_fixed64, put_head, put_text};
use crate::trace::parse_time;
use crate::trace::{Kind, SpanKind};
use crate::trace::{RawLine, RawValue};

/// The context says whether the parent is remote.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

/// The span that a close line tells of: nothing else is looked at, so that whoever sends it,
/// whenever, sends the same bytes. `origin` is that of the segment that opened the span
/// (`opened_seg`, where the line says so).
///
/// Nothing for a line that closes no span, for a span that was not sampled, and for a turn that was
/// made up: nothing hangs from it. The first close of a span wins; that a span has one is the
/// reader's to see to.
pub fn span(origin: &Origin, close: &RawLine<'_>) -> Option<Span> {
    let mut bytes = Vec::new();
    encode(origin, close, &mut bytes)?;
    Span::decode(&*bytes).ok()
}

/// Appends that span as it is sent. Where there is none, nothing is appended.
pub(super) fn encode(origin: &Origin, close: &RawLine<'_>, out: &mut Vec<u8>) -> Option<()> {
    let closed = Closed::read(close)?;
    if closed.sampled == Some(false) || closed.is_made_up() {
        return None;
    }
    let policy = origin.policy();
    let trace_id = id::<16>(close.trace_id)?;
    let span_id = id::<8>(close.span_id)?;
    put_bytes(1, &trace_id, out);
    put_bytes(2, &span_id, out);
    if let Some(state) = closed.tracestate.and_then(|state| state.text()) {
        put_text(3, &state, out);
    }
    if let Some(parent) = id::<8>(close.parent_span_id) {
        put_bytes(4, &parent, out);
    }
    closed.put_name(out);
    put_count(6, closed.otlp_kind() as u32, out);
    let (start, end) = closed.times(close);
    put_fixed64(7, start, out);
    put_fixed64(8, end, out);
    let dropped = closed.put_attributes(close, policy, out);
    put_count(10, dropped, out);
    let dropped = events_links::put_events(&closed.events, policy, 11, out);
    put_count(12, dropped.saturating_add(closed.events.dropped), out);
    let dropped = events_links::put_links(closed.links, policy, 13, out);
    put_count(14, dropped, out);
    closed.put_status(out);
    let remote = if closed.parent_remote { IS_REMOTE } else { 0 };
    // Field 16, the first whose number takes two bytes.
    out.extend_from_slice(&[0x85, 0x01]);
    out.extend_from_slice(&(HAS_IS_REMOTE | remote | SAMPLED).to_le_bytes());
    Some(())
}

/// Whether a line closes a turn that was made up: no backend is to have it.
pub(super) fn is_synthetic_turn(close: &RawLine<'_>) -> bool {
    Closed::read(close).is_some_and(|closed| closed.is_made_up())
}

/// What a hexadecimal digit stands for; 255 for what is none.
static HEX: [u8; 256] = {
    let mut table = [255; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value] as usize] = value as u8;
        table[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// An id in hexadecimal, unless it is the invalid one.
pub(super) fn id<const N: usize>(text: Option<&str>) -> Option<[u8; N]> {
    let text = text.filter(|text| text.len() == 2 * N)?.as_bytes();
    let digit = |digit: u8| HEX[usize::from(digit)];
    let (mut id, mut wrong) = ([0; N], 0);
    for (byte, two) in id.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (digit(two[0]), digit(two[1]));
        *byte = high << 4 | low;
        wrong |= high | low;
    }
    (wrong < 16 && id != [0; N]).then_some(id)
}

/// `session/seg:seq`, which every span says: formatting it the usual way would be seen.
fn address(line: &RawLine<'_>) -> String {
    let mut text = String::with_capacity(line.session_id.len() + 24);
    text.push_str(&line.session_id);
    for (before, number) in [('/', u64::from(line.seg)), (':', line.seq)] {
        text.push(before);
        text.push_str(itoa::Buffer::new().format(number));
    }
    text
}

/// A close line, taken apart.
struct Closed<'a> {
    kind: SpanKind,
    start: Option<RawValue<'a>>,
    duration: Option<u64>,
    outcome: Cow<'a, str>,
    reason: Option<Cow<'a, str>>,
    error: Option<RawValue<'a>>,
    usage: Option<RawValue<'a>>,
    /// The fields of a span that is none of the six.
    fields: Option<RawValue<'a>>,
    events: events_links::Events<'a>,
    links: Option<RawValue<'a>>,
    /// What the OpenTelemetry API said of a span of ours.
    given: Option<RawValue<'a>>,
    sampled: Option<bool>,
    tracestate: Option<RawValue<'a>>,
    parent_remote: bool,
    late: bool,
    /// What a library called it that follows the conventions, where it isn't the usual.
    operation: Option<Cow<'a, str>>,
    synthetic: bool,
    /// What the span is called by: its agent, model, tool or own name.
    subject: Option<Cow<'a, str>>,
    span_kind: Option<Cow<'a, str>>,
    /// Everything else, with the conventions' name where they have one.
    rest: Vec<(&'a str, RawValue<'a>, Option<&'static str>)>,
}

impl<'a> Closed<'a> {
    fn read(line: &RawLine<'a>) -> Option<Self> {
        let payload = line.payload();
        let kind = if line.kind == "interrupted" {
            let closes = payload.get("closes").and_then(|value| value.text());
            // Source a kind that a newer version knows: still a span.
            Kind::parse(closes.as_deref()?)
                .closes()
                .unwrap_or(SpanKind::Other)
        } else {
            line.kind().closes()?
        };
        let mut closed = Self {
            kind,
            start: None,
            duration: None,
            outcome: Cow::Borrowed("unset"),
            reason: None,
            error: None,
            usage: None,
            fields: None,
            events: events_links::Events::default(),
            links: None,
            given: None,
            sampled: None,
            tracestate: None,
            parent_remote: false,
            late: false,
            operation: None,
            synthetic: false,
            subject: None,
            span_kind: None,
            rest: Vec::new(),
        };
        let fields = line.fields();
        closed.rest.reserve(fields.len());
        for (name, value) in fields.iter() {
            closed.take(name, *value);
        }
        if kind == SpanKind::Other {
            closed.take_otel_fields();
        }
        Some(closed)
    }

    fn take(&mut self, name: &'a str, value: RawValue<'a>) {
        match name {
            "start" => self.start = Some(value),
            "duration_ns" => self.duration = value.u64(),
            "outcome" => self.outcome = value.text().unwrap_or(Cow::Borrowed("unset")),
            "error" => self.error = Some(value),
            "usage" => self.usage = Some(value),
            "events" => self.events.list = Some(value),
            "events_dropped" => {
                let dropped = value.u64().unwrap_or(0);
                self.events.dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
            }
            "links" => self.links = Some(value),
            "attributes" => self.given = Some(value),
            "sampled" => self.sampled = value.bool(),
            "tracestate" => self.tracestate = Some(value),
            "parent_remote" => self.parent_remote = value.bool() == Some(true),
            "late" => self.late = value.bool() == Some(true),
            "gen_ai.operation.name" if self.usual_operation().is_some() => {
                self.operation = value.text();
            }
            "synthetic" if self.kind == SpanKind::Turn => {
                self.synthetic = value.bool() == Some(true);
            }
            "span_kind" => self.span_kind = value.text(),
            "fields" if self.kind == SpanKind::Other => self.fields = Some(value),
            "opened_seg" | "closes" => {}
            _ => {
                if name == "reason" {
                    self.reason = value.text();
                }
                if Some(name) == subject_field(self.kind) {
                    self.subject = value.text().filter(|text| !text.is_empty());
                }
                self.rest.push((name, value, conventional(self.kind, name)));
            }
        }
    }

    /// What `tracing` users say to other OpenTelemetry layers.
    fn take_otel_fields(&mut self) {
        let fields = self.fields.into_iter().flat_map(|fields| fields.members());
        for (name, value) in fields {
            match name {
                "otel.name" => self.subject = value.text().or(self.subject.take()),
                "otel.kind" => self.span_kind = value.text().or(self.span_kind.take()),
                _ => {}
            }
        }
    }

    /// Start and end in nanoseconds. A line that lost its start ended when it was written.
    fn times(&self, line: &RawLine<'_>) -> (u64, u64) {
        let written = || parse_time(line.ts).unwrap_or(0);
        let start = self.start.and_then(|value| parse_time(&value.text()?));
        let start = start.unwrap_or_else(|| written().saturating_sub(self.duration.unwrap_or(0)));
        let end = match self.duration {
            Some(duration) => start.saturating_add(duration),
            None => written().max(start),
        };
        (start, end)
    }

    fn put_name(&self, out: &mut Vec<u8>) {
        let Some(what) = self.operation() else {
            return put_text(5, self.own_name(), out);
        };
        match &self.subject {
            None => put_text(5, what, out),
            Some(subject) => {
                put_head(5, what.len() + 1 + subject.len(), out);
                out.extend_from_slice(what.as_bytes());
                out.push(b' ');
                out.extend_from_slice(subject.as_bytes());
            }
        }
    }

    /// A turn of a library that has none.
    fn is_made_up(&self) -> bool {
        self.kind == SpanKind::Turn && self.synthetic
    }

    fn usual_operation(&self) -> Option<&'static str> {
        Some(match self.kind {
            SpanKind::Run => "invoke_agent",
            SpanKind::Model => "chat",
            SpanKind::Tool => "execute_tool",
            _ => return None,
        })
    }

    fn operation(&self) -> Option<&str> {
        self.operation.as_deref().or(self.usual_operation())
    }

    /// What the agent called it.
    fn own_name(&self) -> &str {
        match self.kind {
            SpanKind::Run => "session.run",
            SpanKind::Turn => "session.turn",
            SpanKind::Model => "model.call",
            SpanKind::Tool => "tool.call",
            SpanKind::Permission => "permission.evaluate",
            SpanKind::Compaction => "compaction.run",
            SpanKind::Other => self.subject.as_deref().unwrap_or("span"),
        }
    }

    fn otlp_kind(&self) -> OtlpKind {
        match (self.kind, self.span_kind.as_deref()) {
            (SpanKind::Model, _) => OtlpKind::Client,
            (SpanKind::Other, Some(said)) => match said.to_ascii_lowercase().as_str() {
                "server" => OtlpKind::Server,
                "client" => OtlpKind::Client,
                "producer" => OtlpKind::Producer,
                "consumer" => OtlpKind::Consumer,
                _ => OtlpKind::Internal,
            },
            _ => OtlpKind::Internal,
        }
    }

    /// `ok` is set, since somebody said so. A denial is not an error and neither is a cancellation:
    /// `agent.outcome` tells them. A span that nobody ended is one: it would look finished otherwise.
    fn put_status(&self, out: &mut Vec<u8>) {
        let (code, message) = match &*self.outcome {
            "ok" => (StatusCode::Ok, Cow::Borrowed("")),
            "error" => (StatusCode::Error, self.error_message().unwrap_or_default()),
            "interrupted" => {
                let reason = self.reason.as_deref().unwrap_or("writer_gone");
                let message = format!("interrupted: {}", reason.replace('_', " "));
                (StatusCode::Error, message.into())
            }
            _ => (StatusCode::Unset, Cow::Borrowed("")),
        };
        let mut status = Vec::new();
        put_text(2, &message, &mut status);
        put_count(3, code as u32, &mut status);
        put_bytes(15, &status, out);
    }

    fn error_message(&self) -> Option<Cow<'a, str>> {
        let error = self.error?;
        error.text().or_else(|| error.get("message")?.text())
    }

    /// Writes the attributes. How many were left out.
    fn put_attributes(&self, line: &RawLine<'a>, policy: &Policy, out: &mut Vec<u8>) -> u32 {
        if policy.limits.attribute_count.is_none() && policy.limits.attribute_length.is_none() {
            let mut written = Attributes::written(policy.content, 9, std::mem::take(out));
            self.attributes(line, &mut written);
            let apart = written.end(out);
            if apart {
                return 0;
            }
        }
        let mut listed = Attributes::new(policy.content, self.rest.len() + 20);
        self.attributes(line, &mut listed);
        let dropped = listed.settle(&policy.limits);
        listed.write(9, out);
        dropped
    }

    fn attributes<'b>(&'b self, line: &'b RawLine<'a>, out: &mut Attributes<'b>) {
        self.put_ours(line, out);
        for (name, value, conventional) in &self.rest {
            if let Some(key) = conventional {
                put_conventional(key, name, *value, out);
            }
        }
        self.put_usage(out);
        self.put_error(out);
        out.ours_end();
        if let Some(details) = self.usage.and_then(|usage| usage.get("usage_details")) {
            out.flat("usage".into(), details);
        }
        for (name, value, conventional) in &self.rest {
            if conventional.is_none() {
                put_said(member_name(name), *value, out);
            }
        }
        if let Some(given) = self.given {
            put_as_given(given, out);
        }
        for (name, value) in self.fields.into_iter().flat_map(|fields| fields.members()) {
            let name = member_name(name);
            match content_key(&name) {
                Some(key) => out.content(key.of(&name), name, value),
                None if matches!(&*name, "otel.name" | "otel.kind") => {}
                None => out.list_or_field(Key::from(name.clone()), name, value),
            }
        }
    }

    /// What every span says of itself.
    fn put_ours<'b>(&'b self, line: &'b RawLine<'a>, out: &mut Attributes<'b>) {
        out.text("agent.span", self.own_name());
        if let Some(operation) = self.operation() {
            out.text("gen_ai.operation.name", operation);
        }
        out.text("gen_ai.conversation.id", &*line.session_id);
        if matches!(self.kind, SpanKind::Run | SpanKind::Compaction) {
            out.text("agent.session_id", &*line.session_id);
        }
        if let Some(turn) = line.turn {
            out.count("agent.turn_index", turn.into());
        }
        if matches!(self.kind, SpanKind::Turn | SpanKind::Tool)
            && let Some(duration) = self.duration
        {
            out.count("agent.duration_ms", duration / 1_000_000);
        }
        out.text("agent.outcome", &*self.outcome);
        out.text("agent.trace.address", address(line));
        if self.late {
            out.put("agent.late", Val::Bool(true));
        }
    }

    /// Tokens. Only a model call says them by the conventions' names: whoever adds up spans must
    /// not count a turn's, a run's or a compaction's again.
    fn put_usage<'b>(&'b self, out: &mut Attributes<'b>) {
        let members = self.usage.into_iter().flat_map(|usage| usage.members());
        for (name, value) in members {
            let ours;
            let key = match (self.kind, name) {
                (_, "usage_details") => continue,
                (_, "cost_usd") => {
                    out.field("cost_usd", value);
                    continue;
                }
                (SpanKind::Model, "input_tokens") => "gen_ai.usage.input_tokens",
                (SpanKind::Model, "output_tokens") => "gen_ai.usage.output_tokens",
                (SpanKind::Model, "cache_read_tokens") => "gen_ai.usage.cache_read.input_tokens",
                (SpanKind::Model, "cache_write_tokens") => "gen_ai.usage.cache_write.input_tokens",
                (SpanKind::Model, "reasoning_tokens") => "gen_ai.usage.reasoning.output_tokens",
                _ => {
                    let name = member_name(name);
                    ours = format!("tokens.{}", name.strip_suffix("_tokens").unwrap_or(&name));
                    out.field(ours, value);
                    continue;
                }
            };
            out.field_as(key, key, value);
        }
    }

    fn put_error<'b>(&'b self, out: &mut Attributes<'b>) {
        let failed = matches!(&*self.outcome, "error" | "interrupted");
        let kind = self.error.and_then(|error| error.get("error_type")?.text());
        // A span of the OpenTelemetry API may say it by itself.
        let said = self.fields.and_then(|fields| fields.get("error.type"));
        match (&*self.outcome, kind) {
            ("error", None) if said.is_some() => {}
            ("error", Some(kind)) => out.text("error.type", kind),
            ("error", None) => out.text("error.type", "_OTHER"),
            ("interrupted", _) => out.text("error.type", "interrupted"),
            (_, Some(kind)) => out.text("agent.error.type", kind),
            (_, None) => {}
        }
        // The status has it otherwise.
        if (!failed || self.outcome == "interrupted")
            && let Some(message) = self.error_message()
        {
            out.text("agent.error.message", message);
        }
        let members = self.error.into_iter().flat_map(|error| error.members());
        for (name, value) in members {
            match name {
                "error_type" | "message" => {}
                "source" => out.list_or_field("agent.error.source", "error.source", value),
                _ => out.field(format!("error.{}", member_name(name)), value),
            }
        }
    }
}
