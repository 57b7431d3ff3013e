//! The fields of a span or an event as they were given.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::plain::Plain;
use super::serialize::{self, Serialized};
use super::spare::Spare;
use super::usage::Usage;

/// How the text of a raw field is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawForm {
    /// Text, whatever it looks like; for a JSON field, JSON if it is an object or an array.
    Text,
    /// JSON that was serialized for us.
    Json,
    /// A number, a bool or null, spelled as JSON.
    Plain,
    /// This much of the text is to be written; the rest is there to see it by.
    Piece { from: usize, to: usize },
    /// Part of a secret, after so many bytes that name the rule.
    Secret { rule: usize },
}

#[derive(Clone, Debug)]
pub(super) struct RawEntry {
    pub key: Cow<'static, str>,
    pub form: RawForm,
    start: usize,
    end: usize,
}

/// What becomes of a field that was given under another name than ours.
#[derive(Debug)]
pub(crate) enum Rewrite {
    Keep,
    /// It has been taken out.
    Take,
    /// Another name; so many bytes of its text belong to the name and not to the value.
    Rename {
        to: Cow<'static, str>,
        skip: usize,
    },
}

/// Whether so many bytes are soon cleaned and written, and none of them moved out of the line.
pub(crate) fn is_short(length: usize, inline: usize) -> bool {
    length <= inline.min(4096)
}

/// Fields as they were given, in order. They live in memory only.
#[derive(Clone, Debug)]
pub(crate) struct RawFields {
    buf: String,
    at: Vec<RawEntry>,
}

thread_local! {
    static SPARE: Spare<(String, Vec<RawEntry>)> = const { Spare::new() };
}

fn not_serializable(error: &serde_json::Error, out: &mut String) -> RawForm {
    out.push_str(&format!("[not serializable: {error}]"));
    RawForm::Text
}

impl Drop for RawFields {
    fn drop(&mut self) {
        self.buf.clear();
        self.at.clear();
        if self.buf.capacity() <= super::spare::LARGEST {
            let kept = (std::mem::take(&mut self.buf), std::mem::take(&mut self.at));
            Spare::give(&SPARE, kept);
        }
    }
}

impl RawFields {
    pub fn new() -> Self {
        // What most spans need, at once instead of in many small steps.
        let (buf, at) = Spare::take(&SPARE)
            .unwrap_or_else(|| (String::with_capacity(256), Vec::with_capacity(8)));
        Self { buf, at }
    }

    /// Whether there is so little to clean and to write that it takes no time worth speaking of:
    /// nothing is moved out of the line, which takes `inline` bytes at most.
    pub fn is_short(&self, inline: usize) -> bool {
        is_short(self.buf.len(), inline)
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&RawEntry, &str)> {
        let text = |entry: &RawEntry| &self.buf[entry.start..entry.end];
        self.at.iter().map(move |entry| (entry, text(entry)))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.at.iter().map(|entry| &*entry.key)
    }

    /// `write` appends the value and says what it is.
    fn push(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        write: impl FnOnce(&mut String) -> RawForm,
    ) {
        let start = self.buf.len();
        let form = write(&mut self.buf);
        self.at.push(RawEntry {
            key: key.into(),
            form,
            start,
            end: self.buf.len(),
        });
    }

    pub fn text(&mut self, key: impl Into<Cow<'static, str>>, text: &str) {
        self.push(key, |buf| {
            buf.push_str(text);
            RawForm::Text
        });
    }

    pub fn display(&mut self, key: impl Into<Cow<'static, str>>, value: fmt::Arguments<'_>) {
        use fmt::Write;
        self.push(key, |buf| {
            // A Display that fails has still said what it said so far.
            let _ = buf.write_fmt(value);
            RawForm::Text
        });
    }

    pub fn json(&mut self, key: impl Into<Cow<'static, str>>, value: &impl serde::Serialize) {
        self.push(key, |buf| {
            let start = buf.len();
            match serialize::append(value, buf) {
                // A text is taken as the macros take it: whether it is JSON is the field's to say.
                Ok(Serialized::Text) => RawForm::Text,
                Ok(Serialized::Plain) => RawForm::Plain,
                Ok(Serialized::Json) => RawForm::Json,
                Err(error) => {
                    buf.truncate(start);
                    not_serializable(&error, buf)
                }
            }
        });
    }

    /// What [`serialize`](serialize::serialize) returned.
    pub(super) fn serialized(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        json: &Result<Vec<u8>, serde_json::Error>,
    ) {
        self.push(key, |buf| match json {
            Ok(json) => {
                buf.push_str(&String::from_utf8_lossy(json));
                RawForm::Json
            }
            Err(error) => not_serializable(error, buf),
        });
    }

    pub(super) fn plain(&mut self, key: impl Into<Cow<'static, str>>, value: Plain<'_>) {
        let (text, form) = match value {
            Plain::Text(text) => (text, RawForm::Text),
            Plain::Json(json) => (json, RawForm::Plain),
        };
        self.push(key, |buf| {
            buf.push_str(text);
            form
        });
    }

    /// A piece of a text, to be seen in the light of what is around it.
    pub fn piece(&mut self, key: &'static str, text: &str, piece: Range<usize>) {
        self.push(key, |buf| {
            buf.push_str(text);
            RawForm::Piece {
                from: piece.start,
                to: piece.end,
            }
        });
    }

    /// A part of a secret that `rule` found.
    pub fn secret(&mut self, key: &'static str, rule: &str, secret: &str) {
        self.push(key, |buf| {
            buf.push_str(rule);
            buf.push_str(secret);
            RawForm::Secret { rule: rule.len() }
        });
    }

    pub fn json_text(&mut self, key: impl Into<Cow<'static, str>>, json: &str) {
        self.push(key, |buf| {
            buf.push_str(json);
            RawForm::Json
        });
    }

    pub fn u64(&mut self, key: impl Into<Cow<'static, str>>, value: u64) {
        self.push(key, |buf| {
            serialize::push_digits(value, buf);
            RawForm::Plain
        });
    }

    pub fn i64(&mut self, key: impl Into<Cow<'static, str>>, value: i64) {
        self.push(key, |buf| {
            serialize::push_signed(value, buf);
            RawForm::Plain
        });
    }

    pub fn bool(&mut self, key: impl Into<Cow<'static, str>>, value: bool) {
        self.push(key, |buf| {
            serialize::push_bool(value, buf);
            RawForm::Plain
        });
    }

    /// JSON has no NaN and no infinities: those become text.
    pub fn f64(&mut self, key: impl Into<Cow<'static, str>>, value: f64) {
        use fmt::Write;
        if value.is_finite() {
            self.push(key, |buf| {
                let _ = write!(buf, "{}", Value::from(value));
                RawForm::Plain
            });
        } else {
            self.text(key, &value.to_string());
        }
    }

    /// Bytes that are no text are shown as far as they are, and said to be none.
    pub fn bytes(&mut self, key: impl Into<Cow<'static, str>>, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(key, text),
            Err(_) => {
                let text = String::from_utf8_lossy(bytes);
                let replaced = text.matches('\u{fffd}').count();
                let lossy = serde_json::json!({
                    "$lossy": {"bytes": bytes.len(), "replaced": replaced},
                    "text": text,
                });
                self.json(key, &lossy);
            }
        }
    }

    /// The known counts, flat, as the macros give them.
    pub fn usage(&mut self, usage: &Usage) {
        for (name, count) in Usage::COUNTS.iter().zip(usage.counts()) {
            if let Some(count) = count {
                self.u64(*name, count);
            }
        }
        if let Some(cost) = usage.cost_usd {
            self.f64("cost_usd", cost);
        }
        if let Some(details) = &usage.usage_details {
            self.json("usage_details", details);
        }
    }

    /// The text of a field, the last one given under that name.
    pub fn get(&self, key: &str) -> Option<&str> {
        let entry = self.at.iter().rev().find(|e| e.key == key)?;
        Some(&self.buf[entry.start..entry.end])
    }

    pub fn append(&mut self, other: &RawFields) {
        for (entry, text) in other.entries() {
            self.push(entry.key.clone(), |buf| {
                buf.push_str(text);
                entry.form
            });
        }
    }

    pub fn rename(&mut self, from: &str, to: &'static str) {
        for entry in &mut self.at {
            if entry.key == from {
                entry.key = Cow::Borrowed(to);
            }
        }
    }

    /// Looks at each field by name and text, and does with it what `look` says.
    pub fn rewrite(&mut self, mut look: impl FnMut(&str, &str) -> Rewrite) {
        let buf = &self.buf;
        self.at.retain_mut(|entry| {
            match look(&entry.key, &buf[entry.start..entry.end]) {
                Rewrite::Keep => {}
                Rewrite::Take => return false,
                Rewrite::Rename { to, skip } => {
                    entry.key = to;
                    entry.start += skip;
                }
            }
            true
        });
    }

    pub fn remove(&mut self, key: &str) {
        self.at.retain(|entry| entry.key != key);
    }
}
