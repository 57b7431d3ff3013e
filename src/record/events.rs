//! Events: messages, artifacts, decisions, verdicts, and your own kinds.
//!
//! Each function makes an event; `.emit()` records it in the current session, `.on(&span)` on a
//! span, [`Session::record`] anywhere. Events that belong to no session are kept in an implicit
//! one. What is given here never passes through `tracing`, so other layers see none of it.
//!
//! ```
//! use spanledger::events;
//! events::message_user("Why does the build fail?").message_id("msg_1").emit();
//! events::custom("build_cache", serde_json::json!({"hits": 12})).emit();
//! ```
//!
//! The kinds and their fields are a table, `trace/schema.rs`: a new kind is a row there.
//!
//! A plain macro does the same with its target: `info!(target: "spanledger::message_user",
//! message_id = "msg_1", "Why does the build fail?")`; the message counts as `content`. Its
//! fields are ordinary `tracing` fields, though, which every layer sees.

use serde::Serialize;
use std::borrow::Cow;
use tracing::Span;

use crate::record::layer::{Op, on_current, on_span};
use crate::record::raw_fields::RawFields;
use crate::record::setters::{field_setters, set_field, value_type};
use crate::record::spans::Session;
use crate::trace::{AsFailure, Failure, Kind, Usage, schema};

/// An event on its way into the trace.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `.emit()`"]
pub struct Event {
    kind: String,
    fields: RawFields,
}

impl Event {
    fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            fields: RawFields::new(),
        }
    }

    pub(crate) fn into_parts(self) -> (String, RawFields) {
        (self.kind, self.fields)
    }

    /// Any other field.
    pub fn set(mut self, key: impl Into<Cow<'static, str>>, value: impl Serialize) -> Self {
        self.fields.json(key.into(), &value);
        self
    }

    fn op(self) -> Op {
        Op::Event {
            kind: self.kind,
            fields: self.fields,
        }
    }

    /// Records it in the current session, on the current agent span.
    pub fn emit(self) {
        on_current(self.op());
    }

    /// Records it on a span, in that span's session.
    pub fn on(self, span: &Span) -> Emitter<'_> {
        Emitter { event: self, span }
    }

    /// Records it in a session, from anywhere.
    pub fn emit_in(self, session: &Session) {
        session.record(self);
    }
}

/// An event and the span it goes to.
#[derive(Debug)]
#[must_use = "nothing happens until `.emit()`"]
pub struct Emitter<'a> {
    event: Event,
    span: &'a Span,
}

impl Emitter<'_> {
    /// Records it there. Where the span is switched off, that is the current session.
    pub fn emit(self) {
        if self.span.is_disabled() {
            self.event.emit();
        } else {
            on_span(self.span, self.event.op());
        }
    }
}

/// An event of your own kind. Members of an object become its fields, anything else its `value`.
/// The kind should be a short lower-case word; other characters are replaced by `_`. The kinds of
/// span lines and of the ledger's own (`checkpoint`, `gap`, …) get `custom.` before them.
///
/// ```
/// use serde_json::json;
/// spanledger::events::custom("cache_hit", json!({"key": "x", "bytes": 10})).emit();
/// ```
pub fn custom(kind: &str, payload: serde_json::Value) -> Event {
    let mut event = Event::new(kind);
    match payload {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                event.fields.json(key, &value);
            }
        }
        value => event.fields.json("value", &value),
    }
    event
}

macro_rules! define_events {
    (
        spans { $($spans:tt)* }
        other_span { $($other_span:tt)* }
        every_span { $($every_span:tt)* }
        events { $( $reader:ident [$($kinds:tt)*] $fields:tt )* }
        $($rest:tt)*
    ) => {
        $( define_events! { @group [$($kinds)*] $fields } )*
    };
    (@group [$( $kind:ident $builder:ident($( $form:ident $arg:ident ),*): $doc:literal ),* $(,)?] $fields:tt) => { $(
        #[doc = $doc]
        pub fn $kind($( $arg: value_type!($form) ),*) -> $builder {
            $builder(Event::new(stringify!($kind)))$( .$arg($arg) )*
        }

        #[doc = concat!("Made by [`", stringify!($kind), "`].")]
        #[derive(Clone, Debug)]
        #[must_use = "nothing happens until `.emit()`"]
        pub struct $builder(Event);

        impl $builder {
            field_setters! { $fields }

            #[allow(dead_code)]
            fn fields_mut(&mut self) -> &mut RawFields {
                &mut self.0.fields
            }

            /// Sets any other field.
            pub fn set(self, key: impl Into<Cow<'static, str>>, value: impl Serialize) -> Self {
                Self(self.0.set(key, value))
            }

            /// Records it in the current session, on the current agent span.
            pub fn emit(self) {
                self.0.emit();
            }

            /// Records it on a span, in that span's session.
            pub fn on(self, span: &Span) -> Emitter<'_> {
                self.0.on(span)
            }

            /// Records it in a session, from anywhere.
            pub fn emit_in(self, session: &Session) {
                session.record(self);
            }
        }

        impl From<$builder> for Event {
            fn from(builder: $builder) -> Self {
                builder.0
            }
        }
    )* };
}
schema!(define_events);

/// The usage of a model call that has no `model.call` span.
///
/// ```
/// use spanledger::{Usage, events};
/// events::model_usage(&Usage { input_tokens: Some(10), ..Usage::default() }).emit();
/// ```
pub fn model_usage(usage: &Usage) -> Event {
    let mut event = Event::new(Kind::ModelUsage.as_str());
    event.fields.usage(usage);
    event
}

/// An error that is no span's outcome.
///
/// ```
/// if let Err(error) = "x".parse::<u32>() {
///     spanledger::events::error(&error).emit();
/// }
/// ```
pub fn error<E: AsFailure<M> + ?Sized, M>(error: &E) -> Event {
    failure(&error.as_failure())
}

/// An error that is no Rust error.
pub fn failure(failure: &Failure) -> Event {
    let mut event = Event::new(Kind::Error.as_str());
    event.fields.failure(field!(ErrorEvent.error), failure);
    event
}
