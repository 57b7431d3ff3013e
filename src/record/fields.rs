//! The fields of a span or an event, redacted. Fields that were given come in through a
//! [`Sanitizer`], and no other way.

use std::ops::Range;

use serde_json::{Map, Value};

use super::raw_fields::{RawFields, RawForm};
use super::sanitize::Sanitizer;
use crate::trace::{
    BufferPool, Failure, FieldRole, LARGEST_POOLED, RawValue, SpanKind, Usage, UsageField,
    UsageText, is_json, put, write_string,
};

const ERROR: &str = field!(ToolCall.error);
const USAGE_DETAILS: &str = field!(ModelUsage.usage_details);

/// One member of the object, `"key":value`, as places in the buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    value: usize,
    end: usize,
    /// A crash must not lose it, so it is written when it is recorded.
    at_once: bool,
}

/// Fields that passed redaction, as the members of a JSON object.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// The members, each followed by a comma, and those that were replaced.
    buf: Vec<u8>,
    at: Vec<Entry>,
    /// A bit for each name so far, by its length and ends: most names are found to be new by that alone.
    met: u64,
    /// No member was replaced: the whole buffer is written.
    whole: bool,
}

thread_local! {
    static POOL: BufferPool<(Vec<u8>, Vec<Entry>)> = const { BufferPool::new() };
}

impl Default for Fields {
    fn default() -> Self {
        // Room for the fields of most spans, in one allocation.
        let (buf, at) = BufferPool::take(&POOL)
            .unwrap_or_else(|| (Vec::with_capacity(768), Vec::with_capacity(12)));
        Self {
            buf,
            at,
            met: 0,
            whole: true,
        }
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        self.buf.clear();
        self.at.clear();
        if self.buf.capacity() <= LARGEST_POOLED {
            let kept = (std::mem::take(&mut self.buf), std::mem::take(&mut self.at));
            BufferPool::give(&POOL, kept);
        }
    }
}

impl Fields {
    /// Redacts fields, and moves values that are too large to blobs.
    pub fn clean(raw: &RawFields, kind: Option<SpanKind>, sanitizer: &mut Sanitizer<'_>) -> Fields {
        let mut fields = Fields::default();
        fields.add_clean(raw, kind, sanitizer);
        fields
    }

    /// Adds redacted fields to these, and returns the parts of `usage` among the flat fields of a span.
    pub fn add_clean(
        &mut self,
        raw: &RawFields,
        kind: Option<SpanKind>,
        sanitizer: &mut Sanitizer<'_>,
    ) -> Option<Box<UsageText>> {
        let mut usage: Option<Box<UsageText>> = None;
        for (entry, text) in raw.entries() {
            let (key, form) = (&entry.key, entry.form);
            let known = sanitizer.redactor.field(key);
            let role = kind.map_or(FieldRole::Input, |kind| known.role(kind));
            let at_once = role == FieldRole::Input;
            match role {
                FieldRole::Own => {
                    // Kept under another name, because the line has a member of this one already.
                    let start = self.buf.len();
                    self.write_key(&format!("custom.{key}"));
                    self.write_value(start, true, |out| {
                        sanitizer.value_of(key, known, form, text, out);
                    });
                }
                FieldRole::Usage(field)
                    if usage.get_or_insert_default().take(field, text, sanitizer) => {}
                FieldRole::Usage(UsageField::Whole) => {
                    self.insert("custom.usage", true, |out| {
                        sanitizer.value(key, form, text, out);
                    });
                }
                // An `Option` that is `None`: there was no error.
                FieldRole::Error if form != RawForm::Text && text == "null" => {}
                FieldRole::Error => {
                    let object = as_error_object(text);
                    let json = object.as_deref().unwrap_or(text);
                    self.insert(ERROR, at_once, |out| {
                        sanitizer.value(ERROR, RawForm::Json, json, out);
                    });
                }
                _ => {
                    let start = self.buf.len();
                    match known.member() {
                        // It is spelled with its quotes and its colon.
                        Some(member) => self.buf.extend_from_slice(member.as_bytes()),
                        None => {
                            self.write_key(&sanitizer.redactor.text(key, &mut sanitizer.tally));
                        }
                    }
                    self.write_value(start, at_once, |out| {
                        sanitizer.value_of(key, known, form, text, out);
                    });
                }
            }
        }
        usage
    }

    /// Appends a field by a name that needs no escapes.
    fn insert(&mut self, key: &str, at_once: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buf.len();
        put(&mut self.buf, [b"\"", key.as_bytes(), b"\":"]);
        self.write_value(start, at_once, write);
    }

    /// Appends a name and its colon.
    fn write_key(&mut self, key: &str) {
        write_string(key, &mut self.buf);
        self.buf.push(b':');
    }

    /// Appends the value of the name that stands at the end of the buffer.
    fn write_value(&mut self, start: usize, at_once: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let value = self.buf.len();
        self.forget(start..value - 1);
        write(&mut self.buf);
        self.at.push(Entry {
            start,
            value,
            end: self.buf.len(),
            at_once,
        });
        self.buf.push(b',');
    }

    /// Drops the member whose name is spelled as at `name` of the buffer.
    #[inline]
    fn forget(&mut self, name: Range<usize>) {
        // Between the quotes.
        let byte = |at: usize| self.buf.get(at).map_or(0, |byte| usize::from(*byte));
        let ends = byte(name.start + 1) + 3 * byte(name.end.wrapping_sub(2));
        let bit = 1 << ((5 * name.len() + ends) & 63);
        if self.met & bit == 0 {
            self.met |= bit;
        } else {
            self.forget_same(name);
        }
    }

    #[cold]
    fn forget_same(&mut self, name: Range<usize>) {
        let name = &self.buf[name];
        for (index, entry) in self.at.iter().enumerate() {
            if entry.value - entry.start == name.len() + 1
                && self.buf[entry.start..].starts_with(name)
            {
                self.at.remove(index);
                self.whole = false;
                return;
            }
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

    /// Sets a field to an object of other fields, unless there are none.
    pub fn set_object(&mut self, key: &str, members: &Fields) {
        if !members.is_empty() {
            self.insert(key, true, |out| members.write_braced(out));
        }
    }

    /// Finds a field by a name that needs no escapes.
    fn find(&self, key: &str) -> Option<&Entry> {
        let named = |entry: &&Entry| {
            entry.value - entry.start == key.len() + 3
                && self.buf[entry.start + 1..entry.value - 2] == *key.as_bytes()
        };
        self.at.iter().find(named)
    }

    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let entry = self.find(key)?;
        Some(&self.buf[entry.value..entry.end])
    }

    /// The same as a value that can be read.
    pub fn value(&self, key: &str) -> Option<RawValue<'_>> {
        Some(RawValue::new(std::str::from_utf8(self.get(key)?).ok()?))
    }

    /// The fields as JSON, by their names as they are spelled.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |from, to| &self.buf[from..to];
        let member = move |entry: &Entry| {
            let name = part(entry.start + 1, entry.value - 2);
            (name, part(entry.value, entry.end))
        };
        self.at.iter().map(member)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Takes over the fields of `newer`, its values winning.
    pub fn merge(&mut self, newer: &Fields) {
        for entry in &newer.at {
            let start = self.buf.len();
            let moved = |at: usize| start + at - entry.start;
            self.buf
                .extend_from_slice(&newer.buf[entry.start..=entry.end]);
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
        if self.whole {
            out.extend_from_slice(&self.buf);
        } else {
            self.write_some(out, |_| true);
        }
    }

    /// Appends them as a member that is an object, followed by a comma, unless there are none. The name needs
    /// no escapes.
    pub fn write_object(&self, name: &str, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put(out, [b"\"", name.as_bytes(), b"\":"]);
            self.write_braced(out);
            out.push(b',');
        }
    }

    fn write_braced(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_members(out);
        out.pop();
        out.push(b'}');
    }

    /// Appends those that are to be written when they are recorded.
    pub fn write_at_once(&self, out: &mut Vec<u8>) {
        self.write_some(out, |entry| entry.at_once);
    }

    /// Appends those whose value is at most this long, but those of these names.
    pub fn write_short(&self, longest: usize, without: &[&str], out: &mut Vec<u8>) {
        let is_named = |entry: &Entry| {
            let name = &self.buf[entry.start + 1..entry.value - 2];
            without.iter().any(|it| it.as_bytes() == name)
        };
        self.write_some(out, |entry| {
            entry.end - entry.value <= longest && !is_named(entry)
        });
    }

    /// Appends all but the one of this name, which needs no escapes.
    pub fn write_without(&self, key: &str, out: &mut Vec<u8>) {
        let left_out = self.find(key).map(|entry| entry.start);
        self.write_some(out, |entry| Some(entry.start) != left_out);
    }

    fn write_some(&self, out: &mut Vec<u8>, keep: impl Fn(&Entry) -> bool) {
        for entry in self.at.iter().filter(|entry| keep(entry)) {
            out.extend_from_slice(&self.buf[entry.start..=entry.end]);
        }
    }
}

/// `error` is always an object: a bare text becomes its message.
fn as_error_object(text: &str) -> Option<String> {
    if text.trim_ascii_start().starts_with('{') && is_json(text) {
        return None;
    }
    Some(Failure::message(text).to_json())
}

impl UsageText {
    /// Takes one flat field over. A value that is no number stays a field of its own.
    fn take(&mut self, field: UsageField, text: &str, sanitizer: &mut Sanitizer<'_>) -> bool {
        match field {
            UsageField::Count(index) => match text.trim().parse() {
                Ok(count) => *self.usage.counts_mut()[index] = Some(count),
                Err(_) => return false,
            },
            UsageField::Cost => match text.trim().parse::<f64>() {
                Ok(cost) if cost.is_finite() => self.usage.cost_usd = Some(cost),
                _ => return false,
            },
            UsageField::Details => {
                let mut out = Vec::new();
                sanitizer.value(USAGE_DETAILS, RawForm::Json, text, &mut out);
                self.details = String::from_utf8(out).ok();
            }
            UsageField::Whole => {
                let Ok(mut map) = serde_json::from_str::<Map<String, Value>>(text) else {
                    return false;
                };
                let mut known = Usage::from_json(&map);
                let details = known.usage_details.take();
                let read = |name: &str| {
                    let index = Usage::COUNTS.iter().position(|count| *count == name);
                    index.is_some_and(|index| known.counts()[index].is_some())
                        || (name == "cost_usd" && known.cost_usd.is_some())
                };
                map.retain(|name, _| !read(name));
                self.usage.merge(&known);
                // Members that are no counts are kept as details.
                let details = match details {
                    Some(details) if map.len() == 1 => details,
                    _ if map.is_empty() => return true,
                    _ => Value::Object(map),
                };
                return self.take(UsageField::Details, &details.to_string(), sanitizer);
            }
        }
        true
    }
}
