//! The attributes of a span, an event or a link: written as protobuf as they come, each name once, within
//! the limits.

use std::borrow::Cow;
use std::collections::HashSet;

use super::content::{self, Measure};
use super::policy::Policy;
use super::wire::{Key, Val, attribute_names, put_attribute};
use crate::mirror::otlp::{AnyValue, KeyValue};
use crate::trace::{RawValue, floor_char, has_backslash};

/// The deepest level at which the members of an object become attributes of their own.
const MAX_DEPTH: usize = 4;
/// From this number of attributes on, a set of names is faster than a scan of what was written.
const MANY: usize = 128;

pub(crate) fn key_value(key: impl Into<String>, value: Val<'_>) -> KeyValue {
    let value = Some(value.into_value());
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value }),
    }
}

/// The name of a JSON member without escapes.
pub(crate) fn member_name(raw: &str) -> Cow<'_, str> {
    if has_backslash(raw.as_bytes())
        && let Ok(name) = serde_json::from_str(&format!("\"{raw}\""))
    {
        return Cow::Owned(name);
    }
    Cow::Borrowed(raw)
}

/// An integer, or a text if it exceeds OTLP's signed integers.
pub(crate) fn unsigned<'a>(count: u64) -> Val<'a> {
    i64::try_from(count).map_or_else(|_| Val::Text(count.to_string().into()), Val::Int)
}

/// A text, a number or a bool. OTLP has no null. A number that fits none of its types becomes a text.
pub(crate) fn scalar(value: RawValue<'_>) -> Option<Val<'_>> {
    let json = value.json();
    Some(match json.as_bytes().first()? {
        b'"' => Val::Text(value.text()?),
        b't' | b'f' => Val::Bool(value.bool()?),
        b'-' | b'0'..=b'9' => match json.parse::<i64>() {
            Ok(int) => Val::Int(int),
            Err(_) => match json.parse::<f64>() {
                Ok(float) if float.is_finite() && json.contains(['.', 'e', 'E']) => {
                    Val::Double(float)
                }
                _ => Val::Text(json.into()),
            },
        },
        _ => return None,
    })
}

fn array(value: RawValue<'_>) -> Option<Val<'_>> {
    if !value.json().starts_with('[') {
        return None;
    }
    let items: Option<Vec<_>> = value.items().map(scalar).collect();
    Some(Val::List(items?))
}

/// Any value except null: scalars and lists of scalars by type, the rest as JSON.
pub(crate) fn plain(value: RawValue<'_>) -> Option<Val<'_>> {
    match value.json() {
        "null" => None,
        json => scalar(value)
            .or_else(|| array(value))
            .or_else(|| Some(Val::Text(json.into()))),
    }
}

/// Writes attributes behind other fields of a message.
///
/// An attribute whose name was used before becomes `agent.custom.…`, behind all others: only then are all
/// names known.
pub(crate) struct Attributes<'p> {
    policy: &'p Policy,
    out: Vec<u8>,
    /// Where the attributes begin in `out`.
    start: usize,
    /// The number of their field in the message.
    number: u8,
    count: usize,
    /// One bit for each [mark](Key::mark) of a name so far: most names are new by that.
    marks: u64,
    /// The names so far, once there are many.
    names: HashSet<String>,
    /// Whether names are still only our own, which are all different.
    is_ours: bool,
    /// The attributes whose names were used before.
    collided: Vec<(String, Val<'static>)>,
    /// The names that exceed the limit.
    dropped: Vec<String>,
    /// The names of truncated attributes, with the number of bytes that are missing.
    cuts: Vec<(String, usize)>,
}

impl<'p> Attributes<'p> {
    /// Attributes behind `out`, as field `number`.
    pub fn behind(out: Vec<u8>, number: u8, policy: &'p Policy) -> Self {
        Self {
            policy,
            start: out.len(),
            out,
            number,
            count: 0,
            marks: 0,
            names: HashSet::new(),
            is_ours: true,
            collided: Vec::new(),
            dropped: Vec::new(),
            cuts: Vec::new(),
        }
    }

    /// From here on, names come from the line.
    pub fn end_ours(&mut self) {
        self.is_ours = false;
    }

    pub fn policy(&self) -> &'p Policy {
        self.policy
    }

    pub fn text<'a>(&mut self, key: impl Into<Key<'a>>, text: impl Into<Cow<'a, str>>) {
        self.put(key, Val::Text(text.into()));
    }

    pub fn count<'a>(&mut self, key: impl Into<Key<'a>>, count: u64) {
        self.put(key, unsigned(count));
    }

    pub fn put<'a>(&mut self, key: impl Into<Key<'a>>, value: Val<'a>) {
        let key = key.into();
        if !self.is_ours && self.marks & key.mark() != 0 && self.is_used(&key) {
            self.collided.push((key.to_text(), value.into_owned()));
        } else {
            self.write(&key, value);
        }
    }

    fn write(&mut self, key: &Key<'_>, mut value: Val<'_>) {
        self.add_name(key);
        let limits = &self.policy.limits;
        if limits.attribute_count.is_some_and(|most| self.count > most) {
            return self.dropped.push(key.to_text());
        }
        if let Some(longest) = limits.attribute_length {
            let cut = cut_value(&mut value, longest);
            if cut > 0 {
                self.cuts.push((key.to_text(), cut));
            }
        }
        put_attribute(self.number, key, &value, &mut self.out);
    }

    fn add_name(&mut self, key: &Key<'_>) {
        self.count += 1;
        self.marks |= key.mark();
        if self.count == MANY {
            let written = attribute_names(&self.out[self.start..]);
            let written = written.map(|name| String::from_utf8_lossy(name).into_owned());
            self.names
                .extend(written.chain(self.dropped.iter().cloned()));
        }
        if self.count >= MANY {
            self.names.insert(key.to_text());
        }
    }

    fn is_used(&self, key: &Key<'_>) -> bool {
        if self.count >= MANY {
            return self.names.contains(&key.to_text());
        }
        let mut dropped = self.dropped.iter().map(String::as_bytes);
        attribute_names(&self.out[self.start..]).any(|name| key.is(name))
            || dropped.any(|name| key.is(name))
    }

    fn custom_name(&self, key: &str) -> String {
        let own = key.strip_prefix("agent.").unwrap_or(key);
        let mut name = format!("agent.custom.{own}");
        while self.is_used(&Key::from(name.as_str())) {
            name.insert_str("agent.".len(), "custom.");
        }
        name
    }

    /// Adds collided attributes, and markers for what the limits removed. Returns the buffer and the number of
    /// dropped attributes.
    pub fn finish(mut self) -> (Vec<u8>, u32) {
        for (name, value) in std::mem::take(&mut self.collided) {
            let name = self.custom_name(&name);
            self.write(&name.into(), value);
        }
        for (name, cut) in self.cuts {
            let key = Key::from(["agent.cut.", name.as_str()].concat());
            put_attribute(self.number, &key, &unsigned(cut as u64), &mut self.out);
        }
        let dropped = u32::try_from(self.dropped.len()).unwrap_or(u32::MAX);
        if dropped > 0 {
            let names = self.dropped.into_iter().map(|name| Val::Text(name.into()));
            let names = Val::List(names.collect());
            put_attribute(self.number, &"agent.dropped".into(), &names, &mut self.out);
        }
        (self.out, dropped)
    }

    /// Any value: scalars and lists of scalars by type, the rest as JSON.
    pub fn put_plain<'a>(&mut self, key: impl Into<Key<'a>>, value: RawValue<'a>) {
        if let Some(value) = plain(value) {
            self.put(key, value);
        }
    }

    /// A field under its own name with our prefix.
    pub fn field<'a>(&mut self, name: impl Into<Cow<'a, str>>, value: RawValue<'a>) {
        let name = name.into();
        self.field_as(Key::ours(name.clone()), name, value);
    }

    /// A field under another name: scalars and lists of scalars as they are. Any other value may hold anything,
    /// so it is content.
    pub fn field_as<'a>(
        &mut self,
        key: impl Into<Key<'a>>,
        name: impl Into<Cow<'a, str>>,
        value: RawValue<'a>,
    ) {
        match scalar(value).or_else(|| array(value)) {
            Some(value) => self.put(key, value),
            None => self.content(key, name, value),
        }
    }

    /// A field of the user's own: as it is if the policy says so, else its length and digest.
    pub fn custom<'a>(&mut self, key: Key<'a>, name: impl Into<Cow<'a, str>>, value: RawValue<'a>) {
        match plain(value) {
            Some(value) if self.policy.texts.custom_fields => self.put(key, value),
            Some(_) => self.measured(&name.into(), &Measure::of(value)),
            None => {}
        }
    }

    /// A path, or a list of such, if the policy says so.
    pub fn path<'a>(&mut self, key: Key<'a>, value: RawValue<'a>) {
        if self.policy.texts.paths {
            self.put_plain(key, value);
        }
    }

    /// A digest of content: as the trace has it with content, else a keyed digest of it.
    pub fn digest<'a>(&mut self, name: &str, value: RawValue<'a>) {
        let Some(digest) = value.text() else { return };
        if self.policy.content {
            self.text(["agent.", name].concat(), digest);
        } else if let Some(key) = &self.policy.digest_key {
            let keyed = key.digest(digest.as_bytes());
            self.text(["agent.", name, ".hmac"].concat(), keyed);
        }
    }

    /// Content: the whole if the policy says so, else its length and keyed digest.
    pub fn content<'a>(
        &mut self,
        key: impl Into<Key<'a>>,
        name: impl Into<Cow<'a, str>>,
        value: RawValue<'a>,
    ) {
        if value.json() == "null" {
            return;
        }
        if self.policy.content {
            let text = value.text().unwrap_or(Cow::Borrowed(value.json()));
            self.text(key, text);
        } else {
            self.measured(&name.into(), &Measure::of(value));
        }
    }

    fn measured(&mut self, name: &str, measure: &Measure<'_>) {
        let key = |after: &'static str| Key {
            after,
            ..Key::ours(name.into())
        };
        self.count(key(".bytes"), measure.bytes);
        if let Some(digest_key) = &self.policy.digest_key {
            self.text(key(".hmac"), measure.hmac(digest_key));
        }
        if let Some(cut) = measure.cut {
            self.count(key(".cut"), cut);
        }
    }

    /// The members of an object as attributes of their own: `name.member`.
    pub fn flat<'a>(&mut self, name: Cow<'a, str>, value: RawValue<'a>) {
        self.flat_to(name, value, 0);
    }

    fn flat_to<'a>(&mut self, name: Cow<'a, str>, value: RawValue<'a>, depth: usize) {
        let is_object = value.json().starts_with('{');
        if !is_object || depth == MAX_DEPTH || content::is_marker(value) {
            return self.field(name, value);
        }
        for (member, value) in value.members() {
            let inner = format!("{name}.{}", member_name(member));
            self.flat_to(inner.into(), value, depth + 1);
        }
    }

    /// The members of an object that are numbers or bools, as attributes of their own.
    pub fn numbers(&mut self, name: &str, value: RawValue<'_>) {
        for (member, value) in value.members() {
            if let Some(value @ (Val::Int(_) | Val::Double(_) | Val::Bool(_))) = scalar(value) {
                self.put(format!("agent.{name}.{}", member_name(member)), value);
            }
        }
    }
}

/// Truncates texts at the end of a character. Returns the number of bytes that were removed.
fn cut_value(value: &mut Val<'_>, longest: usize) -> usize {
    match value {
        Val::Text(text) => {
            let (before, keep) = (text.len(), floor_char(text, longest));
            match text {
                Cow::Borrowed(text) => *text = &text[..keep],
                Cow::Owned(text) => text.truncate(keep),
            }
            before - keep
        }
        Val::List(list) => list.iter_mut().map(|item| cut_value(item, longest)).sum(),
        _ => 0,
    }
}
