//! The fields of a span or an event, as `tracing` hands them over.

use std::error::Error;
use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::Record;

use crate::event::{
    Cleaner, Digits, Failure, Fields, Plain, RawFields, SpanKind, bool_text, spelled,
};

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
        self.0.u64(name(field), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.i64(name(field), value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.0.u64(name(field), value),
            // More than most readers of JSON can hold as a number.
            Err(_) => self.0.text(name(field), &value.to_string()),
        }
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_) => self.0.text(name(field), &value.to_string()),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.f64(name(field), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.bool(name(field), value);
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.0.bytes(name(field), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.0
            .json_text(name(field), &Failure::from_error(value, None).to_json());
    }
}

/// Whether all that is recorded on a span can be written into its fields as it is: plain values
/// that say how it went.
pub(crate) struct Glance {
    kind: SpanKind,
    plain: bool,
    length: usize,
}

impl Glance {
    /// How many bytes of text are recorded, if they can.
    pub fn at(values: &Record<'_>, kind: SpanKind) -> Option<usize> {
        let mut glance = Self {
            kind,
            plain: true,
            length: 0,
        };
        values.record(&mut glance);
        glance.plain.then_some(glance.length)
    }

    fn look(&mut self, field: &Field, length: usize) {
        self.plain = self.plain && self.kind.rides_on_close(name(field));
        self.length += length;
    }
}

impl Visit for Glance {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.look(field, value.len());
    }

    fn record_u64(&mut self, field: &Field, _: u64) {
        self.look(field, 0);
    }

    fn record_i64(&mut self, field: &Field, _: i64) {
        self.look(field, 0);
    }

    fn record_bool(&mut self, field: &Field, _: bool) {
        self.look(field, 0);
    }

    // What has to be spelled by its own code, which may do anything, is not for this.
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {
        self.plain = false;
    }
}

/// Writes what [`Glance`] has found to be plain.
pub(crate) struct Outcomes<'a, 'b> {
    pub fields: &'a mut Fields,
    pub cleaner: &'a mut Cleaner<'b>,
}

impl Outcomes<'_, '_> {
    fn take(&mut self, field: &Field, value: Plain<'_>) {
        self.fields.add_outcome(name(field), value, self.cleaner);
    }
}

impl Visit for Outcomes<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, Plain::Text(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, Plain::Json(&Digits::from(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, Plain::Json(&Digits::from(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, Plain::Json(bool_text(value)));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// Finds one text field and passes over the rest.
pub(crate) struct FindText<'a> {
    pub name: &'static str,
    pub found: &'a mut Option<String>,
}

impl Visit for FindText<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == self.name {
            *self.found = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == self.name {
            *self.found = Some(spelled(format_args!("{value:?}")));
        }
    }
}
