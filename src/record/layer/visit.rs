//! Visitors of the fields that `tracing` passes with a span or an event.

use std::error::Error;
use std::fmt;

use tracing::field::{Field, Visit};

use crate::record::raw_fields::RawFields;
use crate::trace::{Failure, spelled};

/// Collects every field: `info_span!("tool.call", tool_id = "bash", args = %json)`.
pub(crate) struct Collect<'a>(pub &'a mut RawFields);

/// `r#type` is the field `type`.
fn name(field: &Field) -> &'static str {
    let name = field.name();
    name.strip_prefix("r#").unwrap_or(name)
}

impl Visit for Collect<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.text(name(field), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.display(name(field), format_args!("{value:?}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.json(name(field), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.json(name(field), &value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.0.json(name(field), &value),
            // Most JSON readers can't hold it as a number.
            Err(_) => self.0.text(name(field), &value.to_string()),
        }
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.0.json(name(field), &value),
            Err(_) => self.0.text(name(field), &value.to_string()),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.f64(name(field), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.json(name(field), &value);
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.0.bytes(name(field), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.0
            .failure(name(field), &Failure::from_error(value, None));
    }
}

/// Finds the `session_id` of a foreign span.
#[derive(Default)]
pub(crate) struct FindSessionId(pub Option<String>);

impl Visit for FindSessionId {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == field!(Run.session_id) {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == field!(Run.session_id) {
            self.0 = Some(spelled(format_args!("{value:?}")));
        }
    }
}
