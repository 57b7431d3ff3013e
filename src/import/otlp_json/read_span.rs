//! One span: its attributes, events, links and status as the fields of a close line.

use serde_json::{Map, Value, json};

use super::attributes::{self, Mapped};
use super::index::{Entry, Scope};
use crate::gen_ai::{Content, OPERATION, kind_of};
use crate::import::history::{Fields, GivenSpan};
use crate::trace::{Ids, Kind, Outcome, RawValue, SpanKind, time_text};

const REMOTE: u64 = 0x200;

#[derive(Debug)]
pub(super) struct OtlpSpan {
    kind: SpanKind,
    turn: Option<u32>,
    outcome: Outcome,
    /// The fields of the close line.
    pub fields: Fields,
    /// The short events of the close line.
    pub events: Vec<Value>,
    pub content: Content,
}

impl OtlpSpan {
    /// Reads a span [with plain attributes](with_plain_attributes).
    pub fn read(span: Fields, entry: &Entry, scope: &Scope) -> Self {
        let mut json = Value::from(span);
        let given = taken_attributes(&mut json);
        let events = taken(&mut json, "events");
        let json = &json;
        let name = json["name"].as_str().unwrap_or_default();
        let kind = kind(name, &given);
        let is_ours = given.contains_key("agent.span");
        let mut mapped = match is_ours {
            true => attributes::ours(kind, given),
            false => attributes::theirs(kind, given),
        };
        if kind == SpanKind::Other {
            mapped.fields.insert("name".into(), name.into());
            if !is_ours && let Some(library) = &scope.library {
                mapped
                    .fields
                    .insert("target".into(), library.as_str().into());
            }
        }
        if kind == SpanKind::Run && !mapped.fields.contains_key("agent") {
            let agent = scope.service.as_deref().unwrap_or(name);
            mapped.fields.insert("agent".into(), agent.into());
        }
        read_status(member(json, "status", "status"), is_ours, &mut mapped);
        let mut events = read_events(events, is_ours);
        let has_exception = is_ours
            && mapped.outcome.is_error()
            && take_exception(&mut events, entry.end, &mut mapped.error);
        let mut fields = mapped.fields;
        // The text of an error may not have been sent.
        if has_exception || !mapped.error.is_empty() {
            fields.insert("error".into(), mapped.error.into());
        }
        if !mapped.attributes.is_empty() {
            fields.insert("attributes".into(), mapped.attributes.into());
        }
        fields.extend(read_rest(json, kind));
        Self {
            kind,
            turn: mapped.turn,
            outcome: mapped.outcome,
            fields,
            events,
            content: mapped.content,
        }
    }

    pub fn given(&self, entry: &Entry, ids: Ids) -> GivenSpan {
        GivenSpan {
            kind: self.kind,
            ids,
            turn: self.turn,
            start: entry.start,
            end: entry.end,
            outcome: self.outcome,
        }
    }
}

/// What a span is: by our own attribute, by its operation, or by its name, which begins with it.
pub(super) fn kind(name: &str, attributes: &Fields) -> SpanKind {
    let text = |key: &str| attributes.get(key).and_then(Value::as_str);
    if let Some(ours) = text("agent.span") {
        return SpanKind::from_name(ours).unwrap_or(SpanKind::Other);
    }
    match text(OPERATION) {
        Some(operation) => kind_of(operation),
        None if attributes.keys().any(|key| key.starts_with("gen_ai.")) => {
            kind_of(name.split(' ').next().unwrap_or_default())
        }
        None => SpanKind::Other,
    }
}

fn member<'a>(of: &'a Value, camel: &str, snake: &str) -> &'a Value {
    match &of[camel] {
        Value::Null => &of[snake],
        value => value,
    }
}

/// A member, taken out of an object.
fn taken(of: &mut Value, name: &str) -> Value {
    of.get_mut(name).map(Value::take).unwrap_or_default()
}

/// The members of a span, with its attributes and those of its events and links as objects of plain values. `None`
/// if they are nested deeper than this.
pub(super) fn with_plain_attributes(of: RawValue<'_>, depth: usize) -> Option<Fields> {
    let depth = depth.checked_sub(1)?;
    let member = |(name, value): (&str, RawValue<'_>)| {
        let name = RawValue::new(&format!("\"{name}\"")).text()?.into_owned();
        let plain = |one| with_plain_attributes(one, depth).map(Value::from);
        let value = match name.as_str() {
            "attributes" => decode_attributes(value, depth)?.into(),
            "events" | "links" => value.items().map(plain).collect::<Option<_>>()?,
            _ => value.value()?,
        };
        Some((name, value))
    };
    of.members().map(member).collect()
}

fn taken_attributes(of: &mut Value) -> Fields {
    match taken(of, "attributes") {
        Value::Object(attributes) => attributes,
        _ => Fields::new(),
    }
}

/// A list of attributes as an object of plain values.
fn decode_attributes(list: RawValue<'_>, depth: usize) -> Option<Fields> {
    let mut plain = Fields::new();
    for one in list.items() {
        let key = one.get("key").and_then(|key| key.text());
        let value = match one.get("value") {
            Some(value) => decode(value, depth)?,
            None => Value::Null,
        };
        plain.extend(key.map(|key| (key.into_owned(), value)));
    }
    Some(plain)
}

fn decode(any: RawValue<'_>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let Some((kind, value)) = any.members().next() else {
        return Some(Value::Null);
    };
    let values = || value.get("values").unwrap_or(RawValue::new("[]"));
    match kind {
        "intValue" | "int_value" => match value.text().map(|text| text.parse::<i64>()) {
            Some(Ok(number)) => Some(number.into()),
            _ => value.value(),
        },
        "arrayValue" | "array_value" => values().items().map(|one| decode(one, depth)).collect(),
        "kvlistValue" | "kvlist_value" => decode_attributes(values(), depth).map(Value::from),
        _ => value.value(),
    }
}

/// Our own spans have their outcome in an attribute.
fn read_status(status: &Value, is_ours: bool, mapped: &mut Mapped) {
    let code = match &status["code"] {
        Value::String(name) => match name.as_str() {
            "STATUS_CODE_OK" => 1,
            "STATUS_CODE_ERROR" => 2,
            _ => 0,
        },
        code => code.as_u64().unwrap_or(0),
    };
    if !is_ours && mapped.outcome == Outcome::Unset {
        mapped.outcome = match code {
            1 => Outcome::Ok,
            2 => Outcome::Error,
            _ => Outcome::Unset,
        };
    }
    let message = status["message"].as_str().filter(|text| !text.is_empty());
    if let Some(message) = message.filter(|_| mapped.outcome.is_error()) {
        // Without the text, the status of ours has the type.
        if !(is_ours
            && mapped
                .error
                .get("error_type")
                .is_some_and(|kind| kind == message))
        {
            let message = message.to_owned();
            mapped.error.entry("message").or_insert(message.into());
        }
    }
}

fn read_events(events: Value, is_ours: bool) -> Vec<Value> {
    let event = |mut event: Value| {
        let given = taken_attributes(&mut event);
        let time = nanoseconds(member(&event, "timeUnixNano", "time_unix_nano"));
        let name = event["name"].as_str().unwrap_or_default();
        let mut out = Map::new();
        out.insert("ts".into(), time_text(time.unwrap_or(0), 6).into());
        out.insert("name".into(), name.into());
        match is_ours {
            true => attributes::of_our_event(Kind::parse(name), given, &mut out),
            false if given.is_empty() => {}
            false => drop(out.insert("attributes".into(), given.into())),
        }
        Value::Object(out)
    };
    match events {
        Value::Array(events) => events.into_iter().map(event).collect(),
        _ => Vec::new(),
    }
}

fn nanoseconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The error of a span of ours is also its last event, which is made anew when the span is sent. Returns whether it
/// was there.
fn take_exception(events: &mut Vec<Value>, end: u64, error: &mut Fields) -> bool {
    let is_last = |event: &mut Value| {
        event["name"] == "exception" && event["ts"].as_str() == Some(&time_text(end, 6))
    };
    let Some(exception) = events.pop_if(is_last) else {
        return false;
    };
    let given = &exception["attributes"];
    for (theirs, ours) in [
        ("exception.type", "error_type"),
        ("exception.message", "message"),
        ("exception.stacktrace", "stack"),
    ] {
        if let Some(text) = given[theirs].as_str().filter(|text| *text != "_OTHER") {
            error.insert(ours.into(), text.into());
        }
    }
    true
}

/// Links, state, and what a span that is none of the six says of itself.
fn read_rest(json: &Value, kind: SpanKind) -> Fields {
    let links = json["links"].as_array().into_iter().flatten();
    let links: Vec<Value> = links.map(read_link).collect();
    let flags = json["flags"].as_u64().unwrap_or(0);
    let state = member(json, "traceState", "trace_state").as_str();
    let dropped = member(json, "droppedEventsCount", "dropped_events_count").as_u64();
    let span_kind = match &json["kind"] {
        Value::String(name) => name.strip_prefix("SPAN_KIND_").map(str::to_lowercase),
        number => match number.as_u64() {
            Some(2) => Some("server".into()),
            Some(3) => Some("client".into()),
            Some(4) => Some("producer".into()),
            Some(5) => Some("consumer".into()),
            _ => None,
        },
    };
    let span_kind = span_kind.filter(|name| kind == SpanKind::Other && name != "internal");
    crate::import::history::fields(json!({
        "links": (!links.is_empty()).then_some(links),
        "tracestate": state.filter(|state| !state.is_empty()),
        "parent_remote": (flags & REMOTE != 0).then_some(true),
        "events_dropped": dropped.filter(|dropped| *dropped > 0),
        "span_kind": span_kind,
    }))
}

fn read_link(link: &Value) -> Value {
    let flags = link["flags"].as_u64();
    let state = member(link, "traceState", "trace_state").as_str();
    Value::Object(crate::import::history::fields(json!({
        "trace_id": member(link, "traceId", "trace_id"),
        "span_id": member(link, "spanId", "span_id"),
        "tracestate": state.filter(|state| !state.is_empty()),
        "sampled": flags.map(|flags| flags & 1 != 0),
        "remote": flags.filter(|flags| flags & 0x100 != 0).map(|flags| flags & REMOTE != 0),
        "attributes": link["attributes"].as_object().filter(|all| !all.is_empty()),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name could announce a secret.
    #[test]
    fn escaped_names_are_read() {
        let span = r#"{"p\u0061ssword":"x","attri\u0062utes":[{"key":"tok\u0065n","value":{"intValue":"7"}}]}"#;
        let span = with_plain_attributes(RawValue::new(span), 2).map(Value::from);
        let expected = json!({"password": "x", "attributes": {"token": 7}});
        assert_eq!(span, Some(expected));
    }

    #[test]
    fn deep_attributes_are_refused() {
        let (open, close) = (r#"{"kvlistValue":{"values":[{"key":"a","value":"#, "}]}}");
        let nested = |levels: usize| {
            let value = format!("{}{{}}{}", open.repeat(levels), close.repeat(levels));
            let span = format!(r#"{{"attributes":[{{"key":"a","value":{value}}}]}}"#);
            with_plain_attributes(RawValue::new(&span), 4).is_some()
        };
        assert!(nested(2) && !nested(3) && !nested(100_000));
    }
}
