//! Redacts values: plain texts, JSON texts, and JSON inside strings inside JSON.
//!
//! Only a string that itself holds JSON starts another walk over JSON, and that at most
//! [`MOST_NESTED`] times within each other.

use std::borrow::Cow;

use super::json_walk::{Walk, WalkState, masks_string};
use super::limits::{JSON, Limits, NoStore, Output};
use super::name_cache::FieldName;
use super::redactor::{Redactor, Tally};
use crate::trace::{is_json, opens_json, string_end, write_string};

/// How many levels of JSON inside strings are redacted as JSON; deeper ones as text.
pub(super) const MOST_NESTED: usize = 8;

/// The text is not exactly one JSON value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

impl Redactor {
    /// Writes `text`, known under `name`, as one JSON value: a string, or an object that stands
    /// for a text too long for the line.
    pub(crate) fn write_str(&self, name: FieldName<'_>, text: &str, output: &mut Output<'_>) {
        let clean = match name.kind {
            Some(kind) if masks_string(kind, name.text, text) => {
                output.tally.masked += 1;
                Cow::Owned(self.mask(&self.key_rule(name.text), text))
            }
            _ => self.redact_string(text, 0, output.tally),
        };
        output.write_text(&clean);
    }

    /// Writes the JSON text `json`, known under `name`, redacted and on one line. The order of
    /// members, the spelling of numbers and all else that is no secret stay as they are.
    ///
    /// # Errors
    ///
    /// If `json` is not exactly one JSON value; then nothing was written.
    pub(crate) fn write_json(
        &self,
        name: FieldName<'_>,
        json: &str,
        output: &mut Output<'_>,
    ) -> Result<(), NotJson> {
        if !is_json(json) {
            return Err(NotJson);
        }
        if let Some(redacted) = self.redact_beginning(json, output.tally) {
            output.write_text(&redacted);
            return Ok(());
        }
        let limits = output.limits;
        if is_deeper(json, limits.depth) {
            let clean = self.walk(name.text, json, 0, output.tally);
            if limits.exceeded_by(clean.len()) {
                output.write_moved(&clean, JSON);
            } else {
                write_string(&clean, output.line);
            }
            return Ok(());
        }
        // No line can end inside a JSON string, only between values.
        let one_line = memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_none();
        let fits = !limits.exceeded_by(json.len());
        if one_line && fits && !name.is_sensitive() && self.is_clear_json(json) {
            output.line.extend_from_slice(json.trim_ascii().as_bytes());
            return Ok(());
        }
        let start = output.line.len();
        self.walk_into(name.text, json, 0, output);
        if limits.exceeded_by(output.line.len() - start) {
            let clean = into_text(output.line.split_off(start));
            output.write_moved(&clean, JSON);
        }
        Ok(())
    }

    /// Redacts a string that `nested` strings are around: as JSON if it is that, else as text.
    pub(super) fn redact_string<'a>(
        &self,
        text: &'a str,
        nested: usize,
        tally: &mut Tally,
    ) -> Cow<'a, str> {
        if let Some(redacted) = self.redact_beginning(text, tally) {
            return Cow::Owned(redacted);
        }
        if !opens_json(text) || nested == MOST_NESTED || !is_json(text) {
            return self.text_part(text, 0..text.len(), tally);
        }
        let clean = self.walk("", text, nested + 1, tally);
        match clean == text {
            true => Cow::Borrowed(text),
            false => Cow::Owned(clean),
        }
    }

    /// A text that is JSON, or blank, redacted.
    pub(super) fn json_line<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        if !text.trim_ascii().is_empty() && !is_json(text) {
            return None;
        }
        Some(match self.is_clear_json(text) {
            true => Cow::Borrowed(text),
            false => self.redact_string(text, 0, &mut Tally::default()),
        })
    }

    fn walk_into(&self, key: &str, json: &str, nested: usize, output: &mut Output<'_>) {
        let mut walk = Walk {
            redactor: self,
            json,
            nested,
            output,
            state: &mut WalkState::default(),
        };
        walk.run(key);
    }

    /// The redacted JSON text, without limits to its size.
    fn walk(&self, key: &str, json: &str, nested: usize, tally: &mut Tally) -> String {
        let mut line = Vec::with_capacity(json.len() + 64);
        let mut output = Output {
            line: &mut line,
            limits: &Limits::NONE,
            store: &mut NoStore,
            tally,
        };
        self.walk_into(key, json, nested, &mut output);
        into_text(line)
    }
}

/// Whether a JSON text is nested deeper than `limit` levels.
fn is_deeper(json: &str, limit: usize) -> bool {
    let bytes = json.as_bytes();
    if memchr::memchr2_iter(b'{', b'[', bytes).nth(limit).is_none() {
        return false;
    }
    let (mut at, mut depth) = (0, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = string_end(bytes, at).unwrap_or(bytes.len()) - 1,
            _ => {}
        }
        if depth > limit {
            return true;
        }
        at += 1;
    }
    false
}

/// Only whole characters are ever written, so this never has to replace anything.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
