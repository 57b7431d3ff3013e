//! The fields of a span or an event: as they were given (`RawFields`), and as they may be
//! written (`Fields`). Nothing but [`Fields::clean`] turns the first into the second.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

use super::serialize::{self, Serialized};
use super::usage::{Usage, UsageText};
use super::{FieldRole, SpanKind, UsageField, is_json_field};
use crate::redact::{Limits, Redactor, Store, Tally, write_string};

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
        self.push(key, |buf| {
            push_digits(value, buf);
            RawForm::Plain
        });
    }

    pub fn i64(&mut self, key: impl Into<Cow<'static, str>>, value: i64) {
        self.push(key, |buf| {
            if value < 0 {
                buf.push('-');
            }
            push_digits(value.unsigned_abs(), buf);
            RawForm::Plain
        });
    }

    pub fn bool(&mut self, key: impl Into<Cow<'static, str>>, value: bool) {
        self.push(key, |buf| {
            buf.push_str(if value { "true" } else { "false" });
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

/// Appends a number; most are small.
fn push_digits(value: u64, out: &mut String) {
    if value >= 10 {
        push_digits(value / 10, out);
    }
    out.push(char::from(b'0' + (value % 10) as u8));
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
    fn key<'a>(&mut self, key: &'a Cow<'static, str>) -> Cow<'a, str> {
        match key {
            Cow::Borrowed(name) => Cow::Borrowed(name),
            Cow::Owned(name) => self.redactor.text(name, &mut self.tally),
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

/// One member of the object, `"key":value`, as places in the buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    value: usize,
    end: usize,
    /// A crash must not lose it: it is written when it is recorded.
    at_once: bool,
}

/// Fields that passed redaction, as the members of a JSON object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    buf: Vec<u8>,
    at: Vec<Entry>,
}

impl Fields {
    pub const fn new() -> Self {
        Self {
            buf: Vec::new(),
            at: Vec::new(),
        }
    }

    /// Room for what `raw` holds and what most spans learn later.
    pub fn with_room_for(raw: &RawFields) -> Self {
        Self {
            buf: Vec::with_capacity(raw.buf.len().min(64 * 1024) + raw.at.len() * 24 + 256),
            at: Vec::with_capacity(raw.at.len() + 4),
        }
    }

    /// Empties it, and gives back what one huge field had made it grow to.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.buf.shrink_to(64 * 1024);
        self.at.clear();
    }

    /// Redacts everything and moves what is too large out.
    pub fn clean(raw: &RawFields, kind: Option<SpanKind>, cleaner: &mut Cleaner<'_>) -> Fields {
        let mut fields = Fields::with_room_for(raw);
        fields.add_clean(raw, kind, cleaner);
        fields
    }

    /// Does the same, adding to what is there, and sorts the parts of `usage` and the error out
    /// of the flat fields of a span.
    pub fn add_clean(
        &mut self,
        raw: &RawFields,
        kind: Option<SpanKind>,
        cleaner: &mut Cleaner<'_>,
    ) -> Option<Box<UsageText>> {
        let mut usage: Option<Box<UsageText>> = None;
        for entry in &raw.at {
            let text = &raw.buf[entry.start..entry.end];
            let role = kind.map_or(FieldRole::Input, |kind| kind.role(&entry.key));
            let at_once = role == FieldRole::Input;
            match role {
                FieldRole::Input if kind.is_some_and(|kind| kind.owns(&entry.key)) => {
                    // Kept under another name: the line would have two members of this one, and
                    // readers would believe the user's.
                    self.insert(&format!("custom.{}", entry.key), true, |out| {
                        cleaner.value(&entry.key, entry.form, text, out);
                    });
                }
                FieldRole::Usage(field)
                    if usage.get_or_insert_default().take(field, text, cleaner) => {}
                FieldRole::Usage(UsageField::Whole) => {
                    self.insert("custom.usage", true, |out| {
                        cleaner.value(&entry.key, entry.form, text, out);
                    });
                }
                // An `Option` that is `None`: nothing went wrong.
                FieldRole::Error if entry.form != RawForm::Text && text == "null" => {}
                FieldRole::Error => {
                    let object = as_error_object(text);
                    let json = object.as_deref().unwrap_or(text);
                    self.insert("error", at_once, |out| {
                        cleaner.value("error", RawForm::Json, json, out);
                    });
                }
                _ => {
                    let key = cleaner.key(&entry.key);
                    self.insert(&key, at_once, |out| {
                        cleaner.value(&entry.key, entry.form, text, out);
                    });
                }
            }
        }
        usage
    }

    fn insert(&mut self, key: &str, at_once: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buf.len();
        write_string(key, &mut self.buf);
        self.forget(start..self.buf.len());
        self.buf.push(b':');
        let value = self.buf.len();
        write(&mut self.buf);
        self.at.push(Entry {
            start,
            value,
            end: self.buf.len(),
            at_once,
        });
    }

    /// Drops the member whose name is spelled as at `name` of the buffer.
    fn forget(&mut self, name: Range<usize>) {
        let name = &self.buf[name];
        let same = |entry: &Entry| self.buf[entry.start..entry.value - 1] == *name;
        if let Some(index) = self.at.iter().position(same) {
            self.at.remove(index);
        }
    }

    /// Sets a field to JSON that is ours or has passed redaction already.
    pub fn set(&mut self, key: &str, json: &[u8]) {
        self.insert(key, true, |out| out.extend_from_slice(json));
    }

    /// Sets a field to a text that is ours: an id, a kind, a time.
    pub fn set_str(&mut self, key: &str, text: &str) {
        self.insert(key, true, |out| write_string(text, out));
    }

    /// Finds a field by a name that needs no escapes.
    fn find(&self, key: &str) -> Option<&Entry> {
        let named = |entry: &&Entry| self.buf[entry.start + 1..entry.value - 2] == *key.as_bytes();
        self.at.iter().find(named)
    }

    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let entry = self.find(key)?;
        Some(&self.buf[entry.value..entry.end])
    }

    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Whether any of them is to be written when it is recorded.
    pub fn any_at_once(&self) -> bool {
        self.at.iter().any(|entry| entry.at_once)
    }

    /// Takes over the fields of `newer`, its values winning.
    pub fn merge(&mut self, newer: &Fields) {
        for entry in &newer.at {
            let start = self.buf.len();
            let moved = |at: usize| start + at - entry.start;
            self.buf
                .extend_from_slice(&newer.buf[entry.start..entry.end]);
            self.forget(start..moved(entry.value) - 1);
            self.at.push(Entry {
                start,
                value: moved(entry.value),
                end: moved(entry.end),
                at_once: entry.at_once,
            });
        }
    }

    /// Appends the members, each followed by a comma.
    pub fn write_members(&self, out: &mut Vec<u8>) {
        self.write_some(out, |_| true);
    }

    /// Appends those that are to be written when they are recorded.
    pub fn write_at_once(&self, out: &mut Vec<u8>) {
        self.write_some(out, |entry| entry.at_once);
    }

    /// Appends all but the one of this name, which needs no escapes.
    pub fn write_without(&self, key: &str, out: &mut Vec<u8>) {
        let left_out = self.find(key).map(|entry| entry.start);
        self.write_some(out, |entry| Some(entry.start) != left_out);
    }

    fn write_some(&self, out: &mut Vec<u8>, keep: impl Fn(&Entry) -> bool) {
        for entry in self.at.iter().filter(|entry| keep(entry)) {
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
