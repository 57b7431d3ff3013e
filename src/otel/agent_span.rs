//! An agent span, as the OpenTelemetry API sees it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Span, SpanContext, Status, TraceContextExt};
use opentelemetry::{Array, Context, KeyValue, Value};

use crate::event::{Failure, Fields, Outcome, RawFields, RemoteContext};
use crate::layer::{Place, Recorder, Spot};
use crate::ledger::{At, Note, SessionLog};

/// The agent span that a context lies in. It stays in contexts derived from it, whichever span is
/// current there: so a span of the API knows its session when it starts.
#[derive(Clone, Debug)]
pub(crate) struct Within(Arc<Spot>);

impl Within {
    /// The one that a context lies in.
    pub fn of(context: &Context) -> Option<&Self> {
        context.get::<Self>()
    }

    pub fn log(&self) -> &Arc<SessionLog> {
        &self.0.log
    }

    pub fn at(&self) -> &At {
        &self.0.at
    }

    /// A context that somebody keeps does not keep the writer alive.
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.log().recorder()
    }

    pub fn is_of(&self, recorder: &Arc<Recorder>) -> bool {
        self.log().is_of(recorder)
    }

    pub fn place(&self) -> Place {
        Place::Span(Arc::clone(&self.0))
    }
}

/// The context of an agent span, with what else `base` holds.
pub(crate) fn context_of(recorder: &Arc<Recorder>, spot: &Arc<Spot>, base: &Context) -> Context {
    spot.log.note_recorder(recorder);
    let within = Within(Arc::clone(spot));
    let span = AgentSpan {
        context: RemoteContext {
            remote: false,
            ..RemoteContext::of(&spot.at)
        }
        .to_span_context(),
        within: within.clone(),
    };
    base.with_value(within).with_span(span)
}

/// What a user's calls on the current span land in.
#[derive(Debug)]
struct AgentSpan {
    context: SpanContext,
    within: Within,
}

impl AgentSpan {
    fn record(&self, fields: &RawFields, outcome: Outcome, links: &[(u128, u64)]) {
        if let Some(recorder) = self.within.recorder() {
            let Spot { log, at } = &*self.within.0;
            recorder.record_at(log, at, fields, None, outcome, links);
        }
    }
}

impl Span for AgentSpan {
    fn add_event_with_timestamp<T>(
        &mut self,
        name: T,
        timestamp: SystemTime,
        attributes: Vec<KeyValue>,
    ) where
        T: Into<Cow<'static, str>>,
    {
        if let Some(recorder) = self.within.recorder() {
            recorder.span_event(&self.within, &name.into(), timestamp, &attributes);
        }
    }

    fn span_context(&self) -> &SpanContext {
        &self.context
    }

    /// What is said after the end is recorded too, and said to be late.
    fn is_recording(&self) -> bool {
        true
    }

    fn set_attribute(&mut self, attribute: KeyValue) {
        self.set_attributes([attribute]);
    }

    fn set_attributes(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        let mut fields = RawFields::new();
        for attribute in attributes {
            put(&mut fields, &attribute);
        }
        if let Some(recorder) = self.within.recorder() {
            recorder.span_attributes(&self.within, &fields);
        }
    }

    fn set_status(&mut self, status: Status) {
        let mut fields = RawFields::new();
        let outcome = match status {
            Status::Ok => Outcome::Ok,
            Status::Error { description } => {
                fields.json_text("error", &Failure::message(description).to_json());
                Outcome::Error
            }
            Status::Unset => return,
        };
        self.record(&fields, outcome, &[]);
    }

    fn update_name<T>(&mut self, name: T)
    where
        T: Into<Cow<'static, str>>,
    {
        let mut fields = RawFields::new();
        fields.text("otel.name", &name.into());
        self.record(&fields, Outcome::Unset, &[]);
    }

    fn add_link(&mut self, span_context: SpanContext, _: Vec<KeyValue>) {
        if let Some(to) = RemoteContext::from_span_context(&span_context) {
            let link = [(to.trace, to.span)];
            self.record(&RawFields::new(), Outcome::Unset, &link);
        }
    }

    fn end_with_timestamp(&mut self, _: SystemTime) {
        if let Some(recorder) = self.within.recorder() {
            let core = recorder.ledger.core();
            let log = recorder.ledger.here(self.within.log());
            log.close(core, self.within.at().ids.span, Outcome::Unset);
        }
    }
}

/// An attribute as a field.
pub(super) fn put(fields: &mut RawFields, attribute: &KeyValue) {
    let key = attribute.key.as_str().to_owned();
    match &attribute.value {
        Value::Bool(yes) => fields.bool(key, *yes),
        Value::I64(n) => fields.i64(key, *n),
        Value::F64(n) => fields.f64(key, *n),
        Value::String(text) => fields.text(key, text.as_str()),
        Value::Array(Array::Bool(list)) => fields.json(key, list),
        Value::Array(Array::I64(list)) => fields.json(key, list),
        Value::Array(Array::F64(list)) => fields.json(key, list),
        Value::Array(Array::String(list)) => {
            let list: Vec<&str> = list.iter().map(|text| text.as_str()).collect();
            fields.json(key, &list);
        }
        other => fields.text(key, &other.to_string()),
    }
}

/// Nanoseconds since 1970.
pub(super) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Recorder {
    fn span_attributes(&self, within: &Within, raw: &RawFields) {
        let core = self.ledger.core();
        let log = self.ledger.here(within.log());
        if within.at().kind == crate::event::SpanKind::Other {
            // Its fields have the names they were given.
            return self.record_at(&log, within.at(), raw, None, Outcome::Unset, &[]);
        }
        let fields = core.clean(&log.dir, |cleaner| Fields::clean(raw, None, cleaner));
        if !fields.is_empty() {
            log.attributes(core, within.at(), &fields);
        }
    }

    /// An event of the API: a line of its own, and a note on its span.
    fn span_event(&self, within: &Within, name: &str, time: SystemTime, attributes: &[KeyValue]) {
        let core = self.ledger.core();
        let log = self.ledger.here(within.log());
        let clean = self.clean_event(&log, name, attributes);
        let mut fields = Fields::default();
        fields.set_str("name", &clean.name);
        if !clean.attributes.is_empty() {
            let mut members = b"{".to_vec();
            clean.attributes.write_members(&mut members);
            members.pop();
            members.push(b'}');
            fields.set("attributes", &members);
        }
        let note = clean.note(time);
        log.event(core, "span_event", Some(within.at()), &fields, note);
    }

    pub(super) fn clean_event(
        &self,
        log: &SessionLog,
        name: &str,
        attributes: &[KeyValue],
    ) -> CleanEvent {
        let mut raw = RawFields::new();
        for attribute in attributes {
            put(&mut raw, attribute);
        }
        self.ledger.core().clean(&log.dir, |cleaner| CleanEvent {
            name: cleaner.redactor.text(name, &mut cleaner.tally).into_owned(),
            attributes: Fields::clean(&raw, None, cleaner),
        })
    }
}

/// An event of the API as it may be written.
pub(super) struct CleanEvent {
    pub name: String,
    attributes: Fields,
}

impl CleanEvent {
    pub fn note(&self, time: SystemTime) -> Note<'_> {
        Note {
            name: Some(&self.name),
            time: Some(nanos(time)),
            attributes: Some(&self.attributes),
            ..Note::default()
        }
    }
}
