//! A span between its open and its close line.

use std::sync::Arc;

use super::Note;
use super::trace::Trace;
use crate::record::fields::Fields;
use crate::trace::number;
use crate::trace::{Ids, Outcome, SpanKind, Usage, UsageText, hex16, hex32, write_string};
use crate::trace::{Moment, write_time};

/// How many short events a close line carries; more are counted.
const MAX_EVENTS: usize = 128;

/// What the session's log knows of a span that is open.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    pub kind: SpanKind,
    pub ids: Ids,
    pub trace: Arc<Trace>,
    pub turn: Option<u32>,
    pub turn_span: Option<u64>,
    pub run_span: Option<u64>,
    pub start: Moment,
    pub fields: Fields,
    /// What the OpenTelemetry API said of a span of ours.
    pub attributes: Option<Box<Fields>>,
    pub usage: Option<Box<UsageText>>,
    /// From `model_usage` events inside it; counts where its own result has none.
    pub event_usage: Option<Box<Usage>>,
    pub outcome: Outcome,
    /// The last permission decided inside it said no.
    pub denied: bool,
    /// Something inside it has been counted in the totals already.
    pub counted: bool,
    /// The segment that holds its open line.
    pub opened_seg: u32,
    /// It opens in the call that made it, with little to write: its start is now.
    pub just_made: bool,
    /// Its open line could not be written yet.
    pub lost: bool,
    /// Its parent was opened by this process in this session.
    pub parent_here: bool,
    /// Its parent is another process's.
    pub parent_remote: bool,
    /// A turn that was made up: it is not sent.
    pub synthetic: bool,
    /// What OpenTelemetry calls a span that came from there.
    pub span_kind: Option<&'static str>,
    /// Which word its open line begins with: `session_start` or `session_resume`.
    pub open_kind: &'static str,
    /// Name, target and level of a span that is none of the six.
    other: Vec<u8>,
    events: Vec<u8>,
    event_count: usize,
    /// The span it goes on from: the only link of most that have one.
    first_link: Option<(u128, u64)>,
    links: Vec<u8>,
}

impl OpenSpan {
    pub fn new(kind: SpanKind, ids: Ids, trace: Arc<Trace>, start: Moment) -> Self {
        Self {
            kind,
            ids,
            trace,
            turn: None,
            turn_span: None,
            run_span: None,
            start,
            fields: Fields::default(),
            attributes: None,
            usage: None,
            event_usage: None,
            outcome: Outcome::Unset,
            denied: false,
            counted: false,
            opened_seg: 0,
            just_made: false,
            lost: false,
            parent_here: false,
            parent_remote: false,
            synthetic: false,
            span_kind: None,
            open_kind: kind.opening().as_str(),
            other: Vec::new(),
            events: Vec::new(),
            event_count: 0,
            first_link: None,
            links: Vec::new(),
        }
    }

    /// Says what a span is that is none of the six; its fields are kept apart from these.
    pub fn describe_other(&mut self, name: &str, target: &str, level: Option<&str>) {
        let level = level.map(|level| ("level", level));
        self.other.clear();
        for (key, value) in [("name", name), ("target", target)]
            .into_iter()
            .chain(level)
        {
            write_string(key, &mut self.other);
            self.other.push(b':');
            write_string(value, &mut self.other);
            self.other.push(b',');
        }
    }

    /// Says how such a span failed, beside its fields.
    #[cfg(feature = "mirror")]
    pub fn describe_failure(&mut self, error: &Fields) {
        error.write_members(&mut self.other);
    }

    /// Counts events that were never told.
    #[cfg(feature = "mirror")]
    pub fn lose_events(&mut self, count: usize) {
        if count > 0 {
            self.event_count = self.event_count.max(MAX_EVENTS) + count;
        }
    }

    /// Whether nobody has said yet how it went.
    pub fn is_silent(&self) -> bool {
        self.outcome == Outcome::Unset && !self.fields.contains("error")
    }

    /// Notes something short that happened inside: a name and, for a log event, what it said.
    pub fn note(&mut self, kind: &str, note: &Note<'_>) {
        self.event_count += 1;
        if self.event_count > MAX_EVENTS {
            return;
        }
        let out = &mut self.events;
        out.extend_from_slice(b"{\"ts\":\"");
        let time = note.time.unwrap_or_else(|| Moment::now().wall);
        write_time(time, 6, out);
        out.extend_from_slice(b"\",\"name\":");
        write_string(note.name.unwrap_or(kind), out);
        if let Some(level) = note.level {
            out.extend_from_slice(b",\"level\":");
            write_string(level, out);
        }
        if let Some(message) = note.message {
            out.extend_from_slice(b",\"message\":");
            out.extend_from_slice(message);
        }
        if let Some(attributes) = note.attributes.filter(|fields| !fields.is_empty()) {
            out.push(b',');
            write_object("attributes", attributes, out);
            out.pop();
        }
        out.extend_from_slice(b"},");
    }

    /// Takes over what is known of its usage.
    pub fn add_usage(&mut self, newer: UsageText) {
        self.usage.get_or_insert_default().merge(newer);
    }

    /// What it used: by its own word, or, where a model call has none, by the events inside it.
    pub fn used(&self) -> Option<&Usage> {
        match &self.usage {
            Some(usage) if self.kind != SpanKind::Model || !usage.is_empty() => Some(&usage.usage),
            _ if self.kind == SpanKind::Model => self.event_usage.as_deref(),
            _ => None,
        }
    }

    /// A link with what was said of it.
    #[cfg(feature = "mirror")]
    pub fn link_saying(&mut self, trace: u128, span: u64, attributes: &Fields) {
        if attributes.is_empty() {
            return self.link(trace, span);
        }
        write_link(trace, span, &mut self.links);
        self.links.pop();
        self.links.push(b',');
        write_object("attributes", attributes, &mut self.links);
        self.links.pop();
        self.links.extend_from_slice(b"},");
    }

    pub fn link(&mut self, trace: u128, span: u64) {
        if self.first_link.is_none() && self.links.is_empty() {
            self.first_link = Some((trace, span));
        } else {
            write_link(trace, span, &mut self.links);
            self.links.push(b',');
        }
    }

    /// The members of its open line.
    pub fn write_open(&self, late: bool, out: &mut Vec<u8>) {
        self.write_start(late, out);
        self.write_known(out);
        self.write_links(out);
    }

    /// The least that an open line says.
    pub fn write_start(&self, late: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"start\":\"");
        write_time(self.start.wall, 9, out);
        out.extend_from_slice(b"\",");
        if late {
            out.extend_from_slice(b"\"late\":true,");
        }
        self.write_trace(out);
    }

    /// What decides whether and how it is sent: on its open line for the sake of a crash, on its
    /// close line for the mirror.
    pub fn write_trace(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.trace.members());
        if self.parent_remote {
            out.extend_from_slice(b"\"parent_remote\":true,");
        }
        if self.synthetic {
            out.extend_from_slice(b"\"synthetic\":true,");
        }
        if let Some(kind) = self.span_kind {
            out.extend_from_slice(b"\"span_kind\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",");
        }
    }

    /// The members of its close line: the open line's, and how it went.
    pub fn write_close(&self, seg: u32, duration: u64, outcome: Outcome, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"start\":\"");
        write_time(self.start.wall, 9, out);
        out.extend_from_slice(b"\",\"duration_ns\":");
        number(duration, out);
        out.extend_from_slice(b",\"outcome\":\"");
        out.extend_from_slice(outcome.as_str().as_bytes());
        out.extend_from_slice(b"\",");
        if self.opened_seg != seg && self.opened_seg != 0 {
            out.extend_from_slice(format!("\"opened_seg\":{},", self.opened_seg).as_bytes());
        }
        self.write_trace(out);
        self.write_known(out);
        if !self.events.is_empty() {
            out.extend_from_slice(b"\"events\":[");
            out.extend_from_slice(&self.events[..self.events.len() - 1]);
            out.extend_from_slice(b"],");
        }
        if self.event_count > MAX_EVENTS {
            let dropped = self.event_count - MAX_EVENTS;
            out.extend_from_slice(format!("\"events_dropped\":{dropped},").as_bytes());
        }
        self.write_links(out);
    }

    fn write_known(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.other);
        write_fields(self.kind, &self.fields, true, out);
        if let Some(attributes) = &self.attributes {
            write_object("attributes", attributes, out);
        }
        if let Some(usage) = self.usage.as_ref().filter(|usage| !usage.is_empty()) {
            out.extend_from_slice(b"\"usage\":{");
            usage.write_members(out);
            out.extend_from_slice(b"},");
        }
    }

    fn write_links(&self, out: &mut Vec<u8>) {
        if self.first_link.is_none() && self.links.is_empty() {
            return;
        }
        out.extend_from_slice(b"\"links\":[");
        if let Some((trace, span)) = self.first_link {
            write_link(trace, span, out);
            out.push(b',');
        }
        out.extend_from_slice(&self.links);
        out.pop();
        out.extend_from_slice(b"],");
    }

    /// The outcome that is the truth when the span ends with `said`: what was said last, else
    /// what its fields make of it.
    pub fn final_outcome(&self, said: Outcome) -> Outcome {
        if said != Outcome::Unset {
            return said;
        }
        if self.outcome != Outcome::Unset {
            return self.outcome;
        }
        if self.fields.contains("error") {
            return Outcome::Error;
        }
        match self.kind {
            SpanKind::Permission => match self.fields.get("action") {
                Some(b"\"allow\"") => Outcome::Ok,
                Some(b"\"deny\"") => Outcome::Denied,
                _ => Outcome::Unset,
            },
            SpanKind::Tool if self.denied => Outcome::Denied,
            _ => Outcome::Unset,
        }
    }
}

/// The fields of a span as members of a payload: all of them, or those to be written at once.
pub(crate) fn write_fields(kind: SpanKind, fields: &Fields, all: bool, out: &mut Vec<u8>) {
    if kind != SpanKind::Other {
        if all {
            fields.write_members(out);
        } else {
            fields.write_at_once(out);
        }
    } else {
        write_object("fields", fields, out);
    }
}

/// Fields as an object of their own, if there are any. The name needs no escapes.
pub(super) fn write_object(name: &str, fields: &Fields, out: &mut Vec<u8>) {
    if fields.is_empty() {
        return;
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":{");
    fields.write_members(out);
    out.pop();
    out.extend_from_slice(b"},");
}

pub(crate) fn write_link(trace: u128, span: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"trace_id\":\"");
    out.extend_from_slice(&hex32(trace));
    out.extend_from_slice(b"\",\"span_id\":\"");
    out.extend_from_slice(&hex16(span));
    out.extend_from_slice(b"\"}");
}
