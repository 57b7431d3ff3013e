//! The short form of an event on the close line of its span: what a backend gets of it.

use super::conversation::role;
use super::open_span::{MAX_EVENTS, OpenSpan};
use crate::record::fields::Fields;
use crate::trace::{Kind, Moment, RawValue, number, put, write_string, write_time};

/// The longest value that is noted, in bytes.
const MAX_VALUE: usize = 256;
/// The longest message or fields of a log event.
const MAX_LOG: usize = 1024;

/// How an event is noted on its span, beside its own line.
#[derive(Clone, Copy, Default)]
pub(crate) struct Note<'a> {
    /// Its name there, if not the kind of its line.
    pub name: Option<&'a str>,
    /// When it happened, if not now.
    pub time: Option<u64>,
    /// The fields of a log event are noted too.
    pub log_fields: bool,
    pub attributes: Option<&'a Fields>,
}

impl OpenSpan {
    /// Notes an event that happened inside, with its short fields.
    pub fn note(&mut self, kind: &str, fields: &Fields, note: &Note<'_>) {
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
        out.push(b',');
        match Kind::parse(kind) {
            // An event of the OpenTelemetry API: its attributes are all.
            _ if note.name.is_some() => {}
            Kind::Log => write_log(fields, note.log_fields, out),
            kind => write_fields(kind, fields, out),
        }
        if let Some(attributes) = note.attributes {
            attributes.write_object(field!(SpanEvent.attributes), out);
        }
        out.pop();
        out.extend_from_slice(b"},");
    }
}

fn write_log(fields: &Fields, with_fields: bool, out: &mut Vec<u8>) {
    let mut members = vec![field!(Log.level), field!(Log.target), field!(Log.message)];
    members.extend(with_fields.then_some(field!(Log.fields)));
    for name in members {
        if let Some(value) = fields.get(name).filter(|value| value.len() <= MAX_LOG) {
            write_member(name, value, out);
        }
    }
}

fn write_member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    put(out, [b"\"", name.as_bytes(), b"\":", value, b","]);
}

/// The short fields. Of a message its author and size stand for its text.
fn write_fields(kind: Kind, fields: &Fields, out: &mut Vec<u8>) {
    let mut members = Vec::new();
    let mut not_noted: &[&str] = &[];
    if let Some(role) = role(kind) {
        not_noted = &[field!(Message.content), field!(Message.parts)];
        if !fields.contains("role") {
            members.extend_from_slice(format!("\"role\":\"{role}\",").as_bytes());
        }
        if let Some(bytes) = fields.value(field!(Message.content)).and_then(text_len) {
            members.extend_from_slice(b"\"bytes\":");
            number(bytes, &mut members);
            members.push(b',');
        }
    }
    fields.write_short(MAX_VALUE, not_noted, &mut members);
    if members.pop().is_some() {
        put(out, [b"\"fields\":{", &members, b"},"]);
    }
}

/// The length of a text, also of one that was moved out of the line.
fn text_len(value: RawValue<'_>) -> Option<u64> {
    match value.text() {
        Some(text) => Some(text.len() as u64),
        None => value.marker()?.bytes,
    }
}
