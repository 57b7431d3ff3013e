//! An agent span, as the OpenTelemetry API sees it.

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Span, SpanContext as ApiSpanContext, Status, TraceContextExt};
use opentelemetry::{Array, Context, KeyValue, Value};

use crate::record::fields::Fields;
use crate::record::layer::{Recorder, Target, Update};
use crate::record::raw_fields::RawFields;
use crate::record::session::{Change, Link, Note, SessionLog, SpanContext};
use crate::trace::{Failure, Outcome, RemoteContext, SpanKind};

/// The kind of the line of an event that the API adds to an agent span.
pub(super) const SPAN_EVENT: &str = "span_event";

/// The agent span that encloses a context. Derived contexts keep it, whichever span is current in them, so a
/// span of the API finds its session when it starts.
#[derive(Clone, Debug)]
pub(super) struct EnclosingAgent {
    pub target: Arc<Target>,
    /// Weak, because a user may keep a context for longer than the ledger.
    recorder: Weak<Recorder>,
}

impl EnclosingAgent {
    pub fn of(context: &Context) -> Option<&Self> {
        context.get::<Self>()
    }

    pub fn is_of(&self, recorder: &Arc<Recorder>) -> bool {
        std::ptr::eq(self.recorder.as_ptr(), Arc::as_ptr(recorder))
    }

    /// Calls `f` with what it needs to record; not once the ledger is gone, and not in a forked child.
    pub fn record(&self, f: impl FnOnce(&Recorder, &Arc<SessionLog>, &SpanContext)) {
        if let Some(recorder) = self.recorder.upgrade()
            && let Some(span) = &self.target.span
            && !recorder.process.refuses()
        {
            f(&recorder, &self.target.log, span);
        }
    }
}

/// The context of an agent span, with everything else that `base` holds; empty for a session without a span.
pub(super) fn agent_context(
    recorder: &Arc<Recorder>,
    target: &Arc<Target>,
    base: &Context,
) -> Context {
    let Some(mut context) = target.remote_context() else {
        return Context::new();
    };
    context.remote = false;
    let agent = EnclosingAgent {
        target: Arc::clone(target),
        recorder: Arc::downgrade(recorder),
    };
    let span = AgentSpan {
        context: context.to_span_context(),
        agent: agent.clone(),
    };
    base.with_value(agent).with_span(span)
}

/// What the user's calls on the current span reach.
#[derive(Debug)]
struct AgentSpan {
    context: ApiSpanContext,
    agent: EnclosingAgent,
}

impl AgentSpan {
    fn update(&self, fields: &RawFields, outcome: Outcome, links: &[Link]) {
        let update = Update {
            outcome,
            links,
            ..Update::fields(fields)
        };
        self.agent
            .record(|recorder, _, _| recorder.record_at(&self.agent.target, update));
    }
}

impl Span for AgentSpan {
    /// A line of its own, and a note on the span.
    fn add_event_with_timestamp<T>(
        &mut self,
        name: T,
        timestamp: SystemTime,
        attributes: Vec<KeyValue>,
    ) where
        T: Into<Cow<'static, str>>,
    {
        self.agent.record(|recorder, log, span| {
            let event = CleanEvent::new(recorder, log, &name.into(), &attributes, timestamp);
            let mut fields = Fields::default();
            fields.set_str(field!(SpanEvent.name), &event.name);
            fields.set_object(field!(SpanEvent.attributes), &event.attributes);
            let mut session = log.lock(&recorder.process);
            session.event(SPAN_EVENT, Some(span), &fields, event.note());
        });
    }

    fn span_context(&self) -> &ApiSpanContext {
        &self.context
    }

    /// Also after its end: what comes then is recorded and marked late.
    fn is_recording(&self) -> bool {
        true
    }

    fn set_attribute(&mut self, attribute: KeyValue) {
        self.set_attributes([attribute]);
    }

    fn set_attributes(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        let attributes: Vec<_> = attributes.into_iter().collect();
        let raw = raw_fields(&attributes);
        self.agent.record(|recorder, log, span| {
            if span.kind == SpanKind::Other {
                // Its fields keep the names they were given.
                return recorder.record_at(&self.agent.target, Update::fields(&raw));
            }
            let process = &recorder.process;
            let change = Change {
                fields: Fields::default(),
                attributes: Some(process.sanitize_fields(log, &raw)),
                usage: None,
                outcome: Outcome::Unset,
                links: &[],
            };
            log.lock(process).update(span, change);
        });
    }

    fn set_status(&mut self, status: Status) {
        let (outcome, fields) = status_fields(&status);
        if outcome != Outcome::Unset {
            self.update(&fields, outcome, &[]);
        }
    }

    fn update_name<T>(&mut self, name: T)
    where
        T: Into<Cow<'static, str>>,
    {
        let mut fields = RawFields::new();
        fields.text("otel.name", &name.into());
        self.update(&fields, Outcome::Unset, &[]);
    }

    fn add_link(&mut self, span_context: ApiSpanContext, _: Vec<KeyValue>) {
        if let Some(to) = RemoteContext::from_span_context(&span_context) {
            self.update(&RawFields::new(), Outcome::Unset, &[(to.trace, to.span)]);
        }
    }

    fn end_with_timestamp(&mut self, _: SystemTime) {
        self.agent.record(|recorder, log, span| {
            log.close(&recorder.process, span.ids.span, Outcome::Unset, None);
        });
    }
}

/// A status as an outcome and an `error` field.
pub(super) fn status_fields(status: &Status) -> (Outcome, RawFields) {
    let mut fields = RawFields::new();
    let outcome = match status {
        Status::Ok => Outcome::Ok,
        Status::Error { description } => {
            fields.failure(
                field!(OtherSpan.error),
                &Failure::message(description.clone()),
            );
            Outcome::Error
        }
        Status::Unset => Outcome::Unset,
    };
    (outcome, fields)
}

/// Attributes as fields.
pub(super) fn raw_fields(attributes: &[KeyValue]) -> RawFields {
    let mut fields = RawFields::new();
    for attribute in attributes {
        let key = attribute.key.as_str().to_owned();
        match &attribute.value {
            Value::Bool(yes) => fields.json(key, yes),
            Value::I64(n) => fields.json(key, n),
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
    fields
}

/// Nanoseconds since 1970.
pub(super) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A redacted event of the API.
pub(super) struct CleanEvent {
    name: String,
    attributes: Fields,
    time: u64,
}

impl CleanEvent {
    pub fn new(
        recorder: &Recorder,
        log: &SessionLog,
        name: &str,
        attributes: &[KeyValue],
        time: SystemTime,
    ) -> Self {
        let process = &recorder.process;
        Self {
            name: process.sanitize_text(name),
            attributes: process.sanitize_fields(log, &raw_fields(attributes)),
            time: nanos(time),
        }
    }

    pub fn note(&self) -> Note<'_> {
        Note {
            name: Some(&self.name),
            time: Some(self.time),
            attributes: Some(&self.attributes),
            ..Note::default()
        }
    }
}
