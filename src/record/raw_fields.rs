//! The fields of a span or an event as they were given.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::text_or_json;
use crate::trace::{BufferPool, Failure, LARGEST_POOLED, Usage};

/// How the text of a raw field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawForm {
    /// Text. In a JSON field, JSON if it is an object or an array.
    Text,
    /// JSON that was serialized for us.
    Json,
    /// A number, a bool or null, spelled as JSON.
    Plain,
    /// Text that is redacted already, with so many masks in it.
    Redacted { masked: u64 },
    /// JSON that is redacted already. Its masks are counted elsewhere.
    RedactedJson,
}

#[derive(Clone, Debug)]
pub(super) struct RawEntry {
    pub key: Cow<'static, str>,
    pub form: RawForm,
    start: usize,
    end: usize,
}

/// What happens to a field that a library gave under a name of its own.
#[derive(Debug)]
pub(crate) enum Rewrite {
    Keep,
    /// Remove it, because its value has been read.
    Take,
    /// Rename it, and leave out the first `skip` bytes of its text.
    Rename {
        to: Cow<'static, str>,
        skip: usize,
    },
}

/// Fields as they were given, in order, not redacted yet. They are never written.
#[derive(Clone, Debug)]
pub(crate) struct RawFields {
    buf: String,
    at: Vec<RawEntry>,
}

thread_local! {
    static POOL: BufferPool<RawFields> = const { BufferPool::new() };
}

/// Appends a value. One that fails to serialize becomes a text with the error.
fn append_json(value: &(impl serde::Serialize + ?Sized), out: &mut String) -> RawForm {
    let start = out.len();
    text_or_json::append(value, out).unwrap_or_else(|error| {
        out.truncate(start);
        out.push_str(&format!("[not serializable: {error}]"));
        RawForm::Text
    })
}

impl RawFields {
    pub fn new() -> Self {
        // Room for the fields of most spans, in one allocation.
        BufferPool::take(&POOL).unwrap_or_else(|| Self {
            buf: String::with_capacity(256),
            at: Vec::with_capacity(8),
        })
    }

    /// Keeps the buffers for the thread's next fields.
    pub fn recycle(mut self) {
        self.buf.clear();
        self.at.clear();
        if self.buf.capacity() <= LARGEST_POOLED {
            BufferPool::give(&POOL, self);
        }
    }

    /// Whether they are redacted and written quickly enough for a caller that holds a mutex: nothing is moved
    /// out of the line, which takes `inline` bytes at most.
    pub fn is_short(&self, inline: usize) -> bool {
        self.buf.len() <= inline.min(4096)
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

    /// `write` appends the value and returns its form.
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

    fn push_str(&mut self, key: impl Into<Cow<'static, str>>, form: RawForm, text: &str) {
        self.push(key, |buf| {
            buf.push_str(text);
            form
        });
    }

    pub fn text(&mut self, key: impl Into<Cow<'static, str>>, text: &str) {
        self.push_str(key, RawForm::Text, text);
    }

    pub fn display(&mut self, key: impl Into<Cow<'static, str>>, value: fmt::Arguments<'_>) {
        use fmt::Write;
        self.push(key, |buf| {
            // A Display that fails leaves the text that it has written so far.
            let _ = buf.write_fmt(value);
            RawForm::Text
        });
    }

    /// Any value: a text, a number or a bool as such, anything else as JSON.
    pub fn json(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        value: &(impl serde::Serialize + ?Sized),
    ) {
        self.push(key, |buf| append_json(value, buf));
    }

    /// A text that is redacted already, with so many masks in it.
    pub fn redacted(&mut self, key: &'static str, text: &str, masked: u64) {
        self.push_str(key, RawForm::Redacted { masked }, text);
    }

    /// JSON that is redacted already, and whose masks are counted.
    pub fn redacted_json(&mut self, key: &'static str, json: &Value) {
        self.push_str(key, RawForm::RedactedJson, &json.to_string());
    }

    pub fn failure(&mut self, key: &'static str, failure: &Failure) {
        self.push_str(key, RawForm::Json, &failure.to_json());
    }

    /// JSON has no NaN and no infinities: those become text.
    pub fn f64(&mut self, key: impl Into<Cow<'static, str>>, value: f64) {
        if value.is_finite() {
            self.push_str(key, RawForm::Plain, &Value::from(value).to_string());
        } else {
            self.text(key, &value.to_string());
        }
    }

    /// Bytes that are not UTF-8 become an object with the text that they hold and a mark.
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
                self.json(*name, &count);
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
            self.push_str(entry.key.clone(), entry.form, text);
        }
    }

    pub fn rename(&mut self, from: &str, to: &'static str) {
        for entry in &mut self.at {
            if entry.key == from {
                entry.key = Cow::Borrowed(to);
            }
        }
    }

    /// Keeps, removes or renames each field, as `look` decides by its name and text.
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

#[cfg(test)]
mod tests;
