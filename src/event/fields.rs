//! The fields of a span or an event: as they were given (`RawFields`), and as they may be
//! written (`Fields`). Nothing but [`Fields::clean`] turns the first into the second.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

use super::serialize::{self, Serialized};
use super::usage::{Usage, UsageText};
use super::{FieldRole, SpanKind, UsageField, is_json_field};
use crate::redact::{Limits, Redactor, Store, Tally};

/// How the text of a raw field is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawForm {
    /// Text, whatever it looks like; for a JSON field, JSON if it is an object or an array.
    Text,
    /// JSON that was serialized for us.
    Json,
    /// A number or a bool, spelled as JSON.
    Plain,
    /// This much of the text is to be written; the rest is there to see it by.
    Piece { from: usize, to: usize },
}

#[derive(Clone, Debug)]
struct RawEntry {
    key: Cow<'static, str>,
    form: RawForm,
    start: usize,
    end: usize,
}

/// Fields as they were given, in order. They live in memory only.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawFields {
    buf: String,
    at: Vec<RawEntry>,
}

impl RawFields {
    pub const fn new() -> Self {
        Self {
            buf: String::new(),
            at: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Empties it, and gives back what one huge field had made it grow to.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.buf.shrink_to(64 * 1024);
        self.at.clear();
    }

    /// `write` appends the value and says what it is.
    fn push(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        write: impl FnOnce(&mut String) -> RawForm,
    ) {
        if self.at.capacity() == 0 {
            // What most spans need, at once instead of in many small steps.
            self.buf.reserve(256);
            self.at.reserve(8);
        }
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
                Ok(Serialized::Json) => RawForm::Json,
                Err(error) => {
                    buf.truncate(start);
                    buf.push_str(&format!("[not serializable: {error}]"));
                    RawForm::Text
                }
            }
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

    pub fn json_text(&mut self, key: impl Into<Cow<'static, str>>, json: &str) {
        self.push(key, |buf| {
            buf.push_str(json);
            RawForm::Json
        });
    }

    pub fn u64(&mut self, key: impl Into<Cow<'static, str>>, value: u64) {
        self.plain(key, format_args!("{value}"));
    }

    pub fn plain(&mut self, key: impl Into<Cow<'static, str>>, value: fmt::Arguments<'_>) {
        use fmt::Write;
        self.push(key, |buf| {
            let _ = buf.write_fmt(value);
            RawForm::Plain
        });
    }

    /// JSON has no NaN and no infinities: those become text.
    pub fn f64(&mut self, key: impl Into<Cow<'static, str>>, value: f64) {
        if value.is_finite() {
            self.plain(key, format_args!("{}", Value::from(value)));
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
        for entry in &other.at {
            let text = &other.buf[entry.start..entry.end];
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

    pub fn remove(&mut self, key: &str) {
        self.at.retain(|entry| entry.key != key);
    }
}

/// What a field has to pass before it may be written.
pub(crate) struct Cleaner<'a> {
    pub redactor: &'a Redactor,
    pub limits: &'a Limits,
    pub store: &'a mut dyn Store,
    pub tally: Tally,
}

impl Cleaner<'_> {
    /// A field's name as it may be written. A name in the program's text is no secret; one that
    /// was made while it ran can be anything.
    fn key(&mut self, key: Cow<'static, str>) -> Cow<'static, str> {
        match key {
            Cow::Borrowed(name) => Cow::Borrowed(name),
            Cow::Owned(name) => match self.redactor.text(&name, &mut self.tally) {
                Cow::Borrowed(_) => Cow::Owned(name),
                Cow::Owned(clean) => Cow::Owned(clean),
            },
        }
    }

    fn value(&mut self, key: &str, form: RawForm, text: &str, out: &mut Vec<u8>) {
        let looks_like_json = || text.trim_start().starts_with(['{', '[']);
        let as_json = match form {
            // A number can be a secret only under a name that says so.
            RawForm::Plain if !self.redactor.is_sensitive(key) => {
                out.extend_from_slice(text.as_bytes());
                return;
            }
            RawForm::Plain | RawForm::Json => true,
            RawForm::Text => is_json_field(key) && looks_like_json(),
            RawForm::Piece { from, to } => {
                let (redactor, limits) = (self.redactor, self.limits);
                let (store, tally) = (&mut *self.store, &mut self.tally);
                return redactor.write_piece(text, from..to, limits, store, out, tally);
            }
        };
        let (redactor, limits) = (self.redactor, self.limits);
        if as_json
            && redactor
                .write_json(key, text, limits, self.store, out, &mut self.tally)
                .is_ok()
        {
            return;
        }
        redactor.write_str(key, text, limits, self.store, out, &mut self.tally);
    }
}

#[derive(Clone, Debug)]
struct Entry {
    key: Cow<'static, str>,
    start: usize,
    end: usize,
}

/// Fields that passed redaction, as the members of a JSON object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    buf: Vec<u8>,
    at: Vec<Entry>,
}

impl Fields {
    /// Redacts everything, moves what is too large out, and sorts the parts of `usage` and the
    /// error out of the flat fields of a span.
    pub fn clean(
        raw: &RawFields,
        kind: Option<SpanKind>,
        cleaner: &mut Cleaner<'_>,
    ) -> (Fields, UsageText) {
        let mut fields = Fields {
            buf: Vec::with_capacity(raw.buf.len().min(64 * 1024) + raw.at.len() * 24),
            at: Vec::with_capacity(raw.at.len() + 2),
        };
        let mut usage = UsageText::default();
        for entry in &raw.at {
            let text = &raw.buf[entry.start..entry.end];
            if kind.is_some_and(|kind| kind.owns(&entry.key)) {
                // Kept under another name: the line would have two members of this one, and
                // readers would believe the user's.
                let key = Cow::Owned(format!("custom.{}", entry.key));
                fields.insert(key, |out| {
                    cleaner.value(&entry.key, entry.form, text, out);
                });
                continue;
            }
            let role = kind.map_or(FieldRole::Input, |kind| kind.role(&entry.key));
            let key = cleaner.key(entry.key.clone());
            match role {
                FieldRole::Usage(field) if usage.take(field, text, cleaner) => {}
                FieldRole::Usage(UsageField::Whole) => {
                    fields.insert(Cow::Borrowed("custom.usage"), |out| {
                        cleaner.value(&entry.key, entry.form, text, out);
                    });
                }
                // An `Option` that is `None`: nothing went wrong.
                FieldRole::Error if entry.form != RawForm::Text && text == "null" => {}
                FieldRole::Error => {
                    let object = as_error_object(text);
                    let json = object.as_deref().unwrap_or(text);
                    fields.insert(key, |out| {
                        cleaner.value("error", RawForm::Json, json, out);
                    });
                }
                _ => fields.insert(key, |out| {
                    cleaner.value(&entry.key, entry.form, text, out);
                }),
            }
        }
        (fields, usage)
    }

    fn insert(&mut self, key: Cow<'static, str>, write: impl FnOnce(&mut Vec<u8>)) {
        self.at.retain(|entry| entry.key != key);
        let start = self.buf.len();
        write_json_str(&key, &mut self.buf);
        self.buf.push(b':');
        write(&mut self.buf);
        self.at.push(Entry {
            key,
            start,
            end: self.buf.len(),
        });
    }

    /// Sets a field to JSON that is ours or has passed redaction already.
    pub fn set(&mut self, key: impl Into<Cow<'static, str>>, json: &[u8]) {
        self.insert(key.into(), |out| out.extend_from_slice(json));
    }

    /// Sets a field to a text that is ours: an id, a kind, a time.
    pub fn set_str(&mut self, key: impl Into<Cow<'static, str>>, text: &str) {
        self.insert(key.into(), |out| write_json_str(text, out));
    }

    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let entry = self.at.iter().find(|entry| entry.key == key)?;
        // `"key":` precedes the value; a key that needs escapes is longer than its text.
        let mut member = &self.buf[entry.start..entry.end];
        let mut name = Vec::new();
        write_json_str(&entry.key, &mut name);
        member = &member[name.len() + 1..];
        Some(member)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.at.iter().any(|entry| entry.key == key)
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Takes over the fields of `newer`, its values winning.
    pub fn merge(&mut self, newer: &Fields) {
        for entry in &newer.at {
            self.at.retain(|old| old.key != entry.key);
            let start = self.buf.len();
            self.buf
                .extend_from_slice(&newer.buf[entry.start..entry.end]);
            self.at.push(Entry {
                key: entry.key.clone(),
                start,
                end: self.buf.len(),
            });
        }
    }

    /// The fields of one kind of role, in order.
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Fields {
        let mut out = Fields::default();
        for entry in self.at.iter().filter(|entry| keep(&entry.key)) {
            let start = out.buf.len();
            out.buf.extend_from_slice(&self.buf[entry.start..entry.end]);
            out.at.push(Entry {
                key: entry.key.clone(),
                start,
                end: out.buf.len(),
            });
        }
        out
    }

    /// Appends the members, each followed by a comma.
    pub fn write_members(&self, out: &mut Vec<u8>) {
        for entry in &self.at {
            out.extend_from_slice(&self.buf[entry.start..entry.end]);
            out.push(b',');
        }
    }
}

/// `error` is always an object: a bare text becomes its message.
fn as_error_object(text: &str) -> Option<String> {
    if text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    {
        return None;
    }
    Some(super::Failure::message(text).to_json())
}

impl UsageText {
    /// Takes one flat field over. A value that is no number stays a field of its own.
    fn take(&mut self, field: UsageField, text: &str, cleaner: &mut Cleaner<'_>) -> bool {
        match field {
            UsageField::Count(index) => match text.trim().parse() {
                Ok(count) => *self.usage.count_mut(index) = Some(count),
                Err(_) => return false,
            },
            UsageField::Cost => match text.trim().parse::<f64>() {
                Ok(cost) if cost.is_finite() => self.usage.cost_usd = Some(cost),
                _ => return false,
            },
            UsageField::Details => {
                let mut out = Vec::new();
                cleaner.value("usage_details", RawForm::Json, text, &mut out);
                self.details = String::from_utf8(out).ok();
            }
            UsageField::Whole => {
                let Ok(mut map) = serde_json::from_str::<Map<String, Value>>(text) else {
                    return false;
                };
                let known = Usage::from_json(&map);
                let read = |name: &str| {
                    let index = Usage::COUNTS.iter().position(|count| *count == name);
                    index.is_some_and(|index| known.counts()[index].is_some())
                        || (name == "cost_usd" && known.cost_usd.is_some())
                };
                map.retain(|name, _| !read(name));
                self.usage.merge(&Usage {
                    usage_details: None,
                    ..known.clone()
                });
                let details = match map.shift_remove("usage_details") {
                    Some(details) if map.is_empty() => Some(details),
                    Some(details) => {
                        map.insert("usage_details".into(), details);
                        Some(Value::Object(map))
                    }
                    None => (!map.is_empty()).then_some(Value::Object(map)),
                };
                if let Some(details) = details {
                    return self.take(UsageField::Details, &details.to_string(), cleaner);
                }
            }
        }
        true
    }
}

/// Appends `text` as a JSON string.
pub(crate) fn write_json_str(text: &str, out: &mut Vec<u8>) {
    let plain = |b: u8| b >= 0x20 && b != b'"' && b != b'\\';
    if text.bytes().all(plain) {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // Writing to memory can't fail.
    let _ = serde_json::to_writer(out, text);
}
