//! The one step between fields as they were given and fields that may be written: secrets are masked, and
//! values that are too large are cut or moved to a blob.

use std::path::Path;

use super::raw_fields::RawForm;
use crate::ledger::Ledger;
use crate::redact::{FieldName, Limits, NoStore, Output, Redactor, Store, StoreFailed, Tally};
use crate::trace::{is_json_field, opens_json};

/// Redacts the values of fields.
pub(crate) struct Sanitizer<'a> {
    pub redactor: &'a Redactor,
    pub limits: &'a Limits,
    pub store: &'a mut dyn Store,
    pub tally: Tally,
}

impl Sanitizer<'_> {
    pub(super) fn value(&mut self, key: &str, form: RawForm, text: &str, out: &mut Vec<u8>) {
        self.value_of(key, self.redactor.field(key), form, text, out);
    }

    pub(super) fn value_of(
        &mut self,
        key: &str,
        name: FieldName<'_>,
        form: RawForm,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        let redactor = self.redactor;
        let output = &mut Output {
            line: out,
            limits: self.limits,
            store: &mut *self.store,
            tally: &mut self.tally,
        };
        let as_json = match form {
            // A number can be a secret only under a sensitive name.
            RawForm::Plain if !name.is_sensitive() => {
                return output.line.extend_from_slice(text.as_bytes());
            }
            RawForm::Plain | RawForm::Json => true,
            RawForm::Text => opens_json(text) && is_json_field(key),
            RawForm::Redacted { masked } => {
                output.tally.masked += masked;
                return output.write_text(text);
            }
            RawForm::RedactedJson => return output.write_redacted_json(text),
        };
        if !as_json || redactor.write_json(name, text, output).is_err() {
            redactor.write_str(name, text, output);
        }
    }
}

/// JSON with its secrets masked, in which nothing is moved to blobs. A text that is no JSON becomes a JSON string.
pub(crate) fn redact_json(
    redactor: &Redactor,
    limits: &Limits,
    (name, json): (&str, &str),
    tally: &mut Tally,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sanitizer = Sanitizer {
        redactor,
        limits,
        store: &mut NoStore,
        tally: *tally,
    };
    sanitizer.value(name, RawForm::Json, json, &mut out);
    *tally = sanitizer.tally;
    out
}

/// Stores the blobs of one session.
pub(crate) struct SessionBlobs<'a> {
    pub ledger: &'a Ledger,
    pub session: &'a Path,
}

impl Store for SessionBlobs<'_> {
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed> {
        let stored = self.ledger.store_blob(self.session, sha256, bytes);
        stored.map_err(|_| StoreFailed)
    }
}
