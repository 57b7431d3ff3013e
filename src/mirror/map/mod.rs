//! Maps a close line to a span.

pub(super) mod attributes;
pub(super) mod content;
mod digest_key;
mod events_links;
mod names;
pub(super) mod origin;
pub(super) mod policy;
pub(super) mod wire;

use std::borrow::Cow;

use prost::Message;

use self::attributes::{Attributes, member_name};
use self::events_links::error_message;
use self::names::{conventional, put_conventional, put_given, put_other, subject_field};
use self::origin::Origin;
use self::policy::Policy;
use self::wire::{Key, Val, put_bytes, put_count, put_fixed64, put_text};
use crate::mirror::otlp::Span;
use crate::mirror::otlp::span::SpanKind as OtlpKind;
use crate::mirror::otlp::status::StatusCode;
use crate::trace::{Kind, Outcome, RawLine, RawValue, SpanKind, parse_time};

/// The context says whether the parent is remote.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

/// The span of a close line. It depends on the line and the origin only, so that a resend by any process has
/// the same bytes. `origin` is that of the segment that opened the span (`opened_seg`, if the line has it).
///
/// `None` for a line that closes no span, for a span that was not sampled, and for a synthetic turn, which
/// has no children. The first close line of a span counts; the caller has to see to that.
pub fn span(origin: &Origin, close: &RawLine<'_>) -> Option<Span> {
    let mut bytes = Vec::new();
    encode(origin, close, &mut bytes)?;
    Span::decode(&*bytes).ok()
}

/// Appends that span as protobuf. Appends nothing if there is none.
pub(crate) fn encode(origin: &Origin, close: &RawLine<'_>, out: &mut Vec<u8>) -> Option<()> {
    let policy = origin.policy();
    let closed = Closed::read(close, policy)?;
    if closed.own.sampled == Some(false) || closed.is_synthetic_turn() {
        return None;
    }
    let trace_id = id::<16>(close.trace_id)?;
    let span_id = id::<8>(close.span_id)?;
    put_bytes(1, &trace_id, out);
    put_bytes(2, &span_id, out);
    if let Some(state) = closed.own.tracestate.and_then(|state| state.text()) {
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
    let dropped = closed.put_attributes(close, out);
    put_count(10, dropped, out);
    let exception = closed.exception().map(|error| (end, error));
    let dropped = events_links::put_events(&closed.own.events, exception, policy, 11, out);
    put_count(12, dropped.saturating_add(closed.own.events.dropped), out);
    let dropped = events_links::put_links(closed.own.links, policy, 13, out);
    put_count(14, dropped, out);
    closed.put_status(out);
    let remote = if closed.own.parent_remote {
        IS_REMOTE
    } else {
        0
    };
    // Field 16, the first whose number takes two bytes.
    out.extend_from_slice(&[0x85, 0x01]);
    out.extend_from_slice(&(HAS_IS_REMOTE | remote | SAMPLED).to_le_bytes());
    Some(())
}

/// Whether a line closes a synthetic turn, which is not sent.
pub(crate) fn closes_synthetic_turn(close: &RawLine<'_>) -> bool {
    Closed::read(close, &Policy::default()).is_some_and(|closed| closed.is_synthetic_turn())
}

/// An id in hexadecimal, unless it is zero, which is invalid.
pub(crate) fn id<const N: usize>(text: Option<&str>) -> Option<[u8; N]> {
    let text = text.filter(|text| text.len() == 2 * N)?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut id = [0; N];
    for (byte, two) in id.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(two[0])? << 4 | digit(two[1])?) as u8;
    }
    (id != [0; N]).then_some(id)
}

/// A close line and how it is to be mapped.
struct Closed<'a> {
    kind: SpanKind,
    policy: &'a Policy,
    own: OwnFields<'a>,
    /// The name of its agent, model or tool, or its own.
    subject: Option<Cow<'a, str>>,
    /// All other fields, with the name that the conventions have for them.
    rest: Vec<(&'a str, RawValue<'a>, Option<&'static str>)>,
}

/// The fields that make the parts of a span and not just attributes.
#[derive(Default)]
struct OwnFields<'a> {
    start: Option<RawValue<'a>>,
    duration: Option<u64>,
    outcome: Option<Cow<'a, str>>,
    reason: Option<Cow<'a, str>>,
    error: Option<RawValue<'a>>,
    usage: Option<RawValue<'a>>,
    /// The usage of everything inside a turn or a run.
    used: Option<RawValue<'a>>,
    /// The fields of a span that is none of the six.
    fields: Option<RawValue<'a>>,
    events: events_links::Events<'a>,
    links: Option<RawValue<'a>>,
    /// Attributes that were set through the OpenTelemetry API.
    attributes: Option<RawValue<'a>>,
    sampled: Option<bool>,
    tracestate: Option<RawValue<'a>>,
    parent_remote: bool,
    late: bool,
    /// The operation that a library named, if it is not the usual one.
    operation: Option<Cow<'a, str>>,
    synthetic: bool,
    span_kind: Option<Cow<'a, str>>,
}

impl<'a> Closed<'a> {
    fn read(line: &RawLine<'a>, policy: &'a Policy) -> Option<Self> {
        let kind = match line.kind() {
            Kind::Interrupted => {
                line.payload().get("closes")?.text()?;
                // A kind that only a newer version knows is a span all the same.
                line.closes().unwrap_or(SpanKind::Other)
            }
            kind => kind.closes()?,
        };
        let mut closed = Self {
            kind,
            policy,
            own: OwnFields::default(),
            subject: None,
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
            "start" => self.own.start = Some(value),
            "duration_ns" => self.own.duration = value.u64(),
            "outcome" => self.own.outcome = value.text(),
            "error" => self.own.error = Some(value),
            "usage" => self.own.usage = Some(value),
            "used" if matches!(self.kind, SpanKind::Run | SpanKind::Turn) => {
                self.own.used = Some(value);
            }
            "events" => self.own.events.list = Some(value),
            "events_dropped" => {
                let dropped = value.u64().unwrap_or(0);
                self.own.events.dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
            }
            "links" => self.own.links = Some(value),
            "attributes" => self.own.attributes = Some(value),
            "sampled" => self.own.sampled = value.bool(),
            "tracestate" => self.own.tracestate = Some(value),
            "parent_remote" => self.own.parent_remote = value.bool() == Some(true),
            "late" => self.own.late = value.bool() == Some(true),
            "gen_ai.operation.name" if self.usual_operation().is_some() => {
                self.own.operation = value.text();
            }
            "synthetic" if self.kind == SpanKind::Turn => {
                self.own.synthetic = value.bool() == Some(true);
            }
            "span_kind" => self.own.span_kind = value.text(),
            "fields" if self.kind == SpanKind::Other => self.own.fields = Some(value),
            "opened_seg" | "closes" => {}
            _ => {
                if name == "reason" {
                    self.own.reason = value.text();
                }
                if Some(name) == subject_field(self.kind) {
                    self.subject = value.text().filter(|text| !text.is_empty());
                }
                let key = conventional(self.kind, name);
                self.rest.push((name, value, key));
            }
        }
    }

    /// Reads the fields with which `tracing` users rename spans for other OpenTelemetry layers.
    fn take_otel_fields(&mut self) {
        let fields = self
            .own
            .fields
            .into_iter()
            .flat_map(|fields| fields.members());
        for (name, value) in fields {
            match name {
                "otel.name" => self.subject = value.text().or(self.subject.take()),
                "otel.kind" => self.own.span_kind = value.text().or(self.own.span_kind.take()),
                _ => {}
            }
        }
    }

    /// Start and end in nanoseconds. A span without a start ended when its line was written.
    fn times(&self, line: &RawLine<'_>) -> (u64, u64) {
        let written = || parse_time(line.ts).unwrap_or(0);
        let start = self.own.start.and_then(|value| parse_time(&value.text()?));
        let start =
            start.unwrap_or_else(|| written().saturating_sub(self.own.duration.unwrap_or(0)));
        let end = match self.own.duration {
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
            Some(subject) => put_text(5, &[what, " ", subject].concat(), out),
        }
    }

    /// Whether it is a turn that the recorder created for a library without turns.
    fn is_synthetic_turn(&self) -> bool {
        self.kind == SpanKind::Turn && self.own.synthetic
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
        self.own.operation.as_deref().or(self.usual_operation())
    }

    /// The name that the agent gave it.
    fn own_name(&self) -> &str {
        let name = self.kind.name().or(self.subject.as_deref());
        name.unwrap_or("span")
    }

    fn otlp_kind(&self) -> OtlpKind {
        match (self.kind, self.own.span_kind.as_deref()) {
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

    /// The outcome; `None` for a word that only a newer version knows.
    fn outcome(&self) -> Option<Outcome> {
        self.own.outcome.as_deref().and_then(Outcome::parse)
    }

    /// A denial and a cancellation are no errors; `agent.outcome` has them. An interrupted span is one, because
    /// it would look finished otherwise.
    fn put_status(&self, out: &mut Vec<u8>) {
        let (code, message) = match self.outcome() {
            Some(Outcome::Ok) => (StatusCode::Ok, Cow::Borrowed("")),
            Some(Outcome::Error | Outcome::TimedOut) => {
                let text = self.error_text().or_else(|| self.error_type());
                (StatusCode::Error, text.unwrap_or_default())
            }
            Some(Outcome::Interrupted) => {
                let reason = self.own.reason.as_deref().unwrap_or("writer_gone");
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

    /// The message of its error and of the causes, if it may be sent.
    fn error_text(&self) -> Option<Cow<'a, str>> {
        let error = self.own.error.filter(|_| self.policy.texts.error_text)?;
        error_message(error).map(Cow::Owned)
    }

    /// Whether a limit stopped it.
    fn is_stop(&self) -> bool {
        let guardrail = self.own.error.and_then(|error| error.get("guardrail"));
        guardrail.is_some()
    }

    fn error_type(&self) -> Option<Cow<'a, str>> {
        self.own.error?.get("error_type")?.text()
    }

    /// The error that ended it.
    fn exception(&self) -> Option<RawValue<'a>> {
        let is_error = matches!(self.outcome(), Some(Outcome::Error | Outcome::TimedOut));
        self.own.error.filter(|_| is_error)
    }

    /// Writes the attributes and returns how many were dropped.
    fn put_attributes(&self, line: &RawLine<'a>, out: &mut Vec<u8>) -> u32 {
        let mut attributes = Attributes::behind(std::mem::take(out), 9, self.policy);
        self.attributes(line, &mut attributes);
        let dropped;
        (*out, dropped) = attributes.finish();
        dropped
    }

    fn attributes(&self, line: &RawLine<'a>, out: &mut Attributes<'_>) {
        self.put_ours(line, out);
        for (name, value, conventional) in &self.rest {
            if let Some(key) = conventional {
                put_conventional(key, name, *value, out);
            }
        }
        self.put_usage(out);
        self.put_error(out);
        out.end_ours();
        if let Some(details) = self.own.usage.and_then(|usage| usage.get("usage_details")) {
            out.flat("usage".into(), details);
        }
        for (name, value, conventional) in &self.rest {
            if conventional.is_none() {
                put_other(Some(self.kind), member_name(name), *value, out);
            }
        }
        if let Some(given) = self.own.attributes {
            put_given(given.members(), true, out);
        }
        if let Some(fields) = self.own.fields {
            let is_used = |name| matches!(name, "otel.name" | "otel.kind");
            let fields = fields.members().filter(|(name, _)| !is_used(name));
            // A span of the OpenTelemetry API has no level.
            let from_api = !self.rest.iter().any(|(name, ..)| *name == "level");
            put_given(fields, from_api, out);
        }
    }

    /// The attributes that every span has.
    fn put_ours(&self, line: &RawLine<'a>, out: &mut Attributes<'_>) {
        out.text("agent.span", self.own_name());
        if let Some(operation) = self.operation() {
            out.text("gen_ai.operation.name", operation);
        }
        out.text("gen_ai.conversation.id", &*line.session_id);
        if let Some(turn) = line.turn {
            out.count("agent.turn_index", turn.into());
        }
        let unset = Outcome::Unset.as_str();
        let outcome = self.own.outcome.as_deref().unwrap_or(unset);
        out.text("agent.outcome", outcome);
        // As an `Address` is displayed; `format!` is slow.
        let (mut seg, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
        let address = [
            &line.session_id,
            "/",
            seg.format(line.seg),
            ":",
            seq.format(line.seq),
        ];
        out.text("agent.trace.address", address.concat());
        if self.own.late {
            out.put("agent.late", Val::Bool(true));
        }
    }

    /// Tokens of a model call, of everything in a turn or in a run. Turns have them under our names: in the
    /// conventions there are no turns, so a backend would take them for those of another call.
    fn put_usage(&self, out: &mut Attributes<'_>) {
        let usage = self.own.used.or(self.own.usage);
        let kind = match self.kind {
            SpanKind::Run => SpanKind::Model,
            kind => kind,
        };
        for (name, value) in usage.into_iter().flat_map(|usage| usage.members()) {
            let ours;
            let key = match (kind, name) {
                (_, "usage_details") => continue,
                (_, "cost_usd") => {
                    out.field("cost_usd", value);
                    if self.policy.usage_cost && self.kind == SpanKind::Model {
                        out.field_as("gen_ai.usage.cost", "cost_usd", value);
                    }
                    continue;
                }
                (SpanKind::Model, "input_tokens") => "gen_ai.usage.input_tokens",
                (SpanKind::Model, "output_tokens") => "gen_ai.usage.output_tokens",
                (SpanKind::Model, "cache_read_tokens") => "gen_ai.usage.cache_read.input_tokens",
                (SpanKind::Model, "cache_write_tokens") if self.policy.cache_write_name => {
                    "gen_ai.usage.cache_write.input_tokens"
                }
                (SpanKind::Model, "cache_write_tokens") => {
                    "gen_ai.usage.cache_creation.input_tokens"
                }
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

    fn put_error(&self, out: &mut Attributes<'_>) {
        // A span of the OpenTelemetry API may have this attribute itself.
        let has_type = self.own.fields.and_then(|fields| fields.get("error.type"));
        match (self.outcome(), self.error_type()) {
            (Some(Outcome::Error | Outcome::TimedOut), Some(kind)) => out.text("error.type", kind),
            (Some(Outcome::Error | Outcome::TimedOut), None) if has_type.is_some() => {}
            (Some(Outcome::TimedOut), None) => out.text("error.type", "timeout"),
            (Some(Outcome::Error), None) => out.text("error.type", "_OTHER"),
            (Some(Outcome::Interrupted), _) => out.text("error.type", "interrupted"),
            // A limit is an error to those who watch, although the call was only denied.
            (Some(Outcome::Denied), Some(kind)) if self.is_stop() => out.text("error.type", kind),
            (_, Some(kind)) => out.text("agent.error.type", kind),
            (_, None) => {}
        }
        // The status of a failed span has the message.
        if !self.outcome().is_some_and(Outcome::is_error)
            && let Some(message) = self.error_text()
        {
            out.text("agent.error.message", message);
        }
        let members = self.own.error.into_iter().flat_map(|error| error.members());
        for (name, value) in members {
            match name {
                // The status or the exception event has them.
                "error_type" | "message" | "source" | "stack" => {}
                "guardrail" | "threshold" | "actual" => out.field(format!("error.{name}"), value),
                "details" if !self.policy.texts.error_text => {}
                "details" => out.put_plain("agent.error.details", value),
                _ => {
                    let name = format!("error.{}", member_name(name));
                    out.custom(Key::ours(name.clone().into()), name, value);
                }
            }
        }
    }
}
