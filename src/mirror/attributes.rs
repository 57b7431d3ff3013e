//! Attributes of a span: from the values of a line, each under one name, cut where a limit says so.

use std::borrow::Cow;
use std::collections::HashSet;

use super::content::{self, Measure};
use super::otlp::{AnyValue, KeyValue};
use super::policy::Limits;
use super::wire::{Key, Val, put_attribute};
use super::written::Written;
use crate::trace::{RawValue, floor_char, has_backslash};

/// How deep objects are taken apart into attributes of their own.
const DEEPEST: usize = 4;
/// So many names are compared one by one.
pub(super) const FEW: usize = 128;

pub(super) fn key_value(key: impl Into<String>, value: Val<'_>) -> KeyValue {
    let value = Some(value.into_value());
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value }),
    }
}

/// A member's name as it was given.
pub(super) fn member_name(raw: &str) -> Cow<'_, str> {
    if has_backslash(raw.as_bytes())
        && let Ok(name) = serde_json::from_str(&format!("\"{raw}\""))
    {
        return Cow::Owned(name);
    }
    Cow::Borrowed(raw)
}

/// A count as OTLP can hold it.
pub(super) fn unsigned<'a>(count: u64) -> Val<'a> {
    i64::try_from(count).map_or_else(|_| Val::Text(count.to_string().into()), Val::Int)
}

/// A text, a number or a bool. OTLP has no null, and its integers are signed: a number that none
/// of its types holds as it is goes as the text it is.
pub(super) fn scalar(value: RawValue<'_>) -> Option<Val<'_>> {
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

/// What needs no opt-in to be sent whole: scalars, lists of them, and of the rest its JSON.
pub(super) fn plain(value: RawValue<'_>) -> Option<Val<'_>> {
    match value.json() {
        "null" => None,
        json => scalar(value)
            .or_else(|| array(value))
            .or_else(|| Some(Val::Text(json.into()))),
    }
}

/// The attributes of a span, an event or a link, in the order they are given.
pub(super) struct Attributes<'a> {
    list: Vec<(Key<'a>, Val<'a>)>,
    /// How many of them have names that only we give.
    ours: usize,
    content: bool,
    written: Option<Written>,
}

impl<'a> Attributes<'a> {
    pub fn new(content: bool, room: usize) -> Self {
        Self {
            list: Vec::with_capacity(room),
            ours: 0,
            content,
            written: None,
        }
    }

    /// Attributes that nothing limits: each is written behind `out` as it comes, as field `number`
    /// of a message. Most often that is all there is to do; [`end`](Self::end) tells.
    pub fn written(content: bool, number: u8, out: Vec<u8>) -> Self {
        Self {
            written: Some(Written::behind(out, number)),
            ..Self::new(content, 0)
        }
    }

    /// Gives back what was written to. Whether each name was there once: otherwise nothing was
    /// written, and they have to be listed and named apart.
    pub fn end(self, out: &mut Vec<u8>) -> bool {
        match self.written {
            Some(written) => written.end(out),
            None => false,
        }
    }

    /// From here on names come from the line.
    pub fn ours_end(&mut self) {
        self.ours = self.list.len();
        if let Some(written) = &mut self.written {
            written.ours_end();
        }
    }

    pub fn text(&mut self, key: impl Into<Key<'a>>, text: impl Into<Cow<'a, str>>) {
        self.put(key, Val::Text(text.into()));
    }

    pub fn count(&mut self, key: impl Into<Key<'a>>, count: u64) {
        self.put(key, unsigned(count));
    }

    pub fn put(&mut self, key: impl Into<Key<'a>>, value: Val<'a>) {
        let key = key.into();
        match &mut self.written {
            Some(written) => written.put(&key, &value),
            None => self.list.push((key, value)),
        }
    }

    /// A field under this very name: scalars as they are, lists of them too, the rest by its digest.
    pub fn list_or_field(
        &mut self,
        key: impl Into<Key<'a>>,
        name: impl Into<Cow<'a, str>>,
        value: RawValue<'a>,
    ) {
        match array(value) {
            Some(list) => self.put(key, list),
            None => self.field_as(key, name, value),
        }
    }

    /// A field of the line, by its own name with our prefix.
    pub fn field(&mut self, name: impl Into<Cow<'a, str>>, value: RawValue<'a>) {
        let name = name.into();
        match scalar(value) {
            Some(value) => self.put(Key::ours(name), value),
            None => self.content(Key::ours(name.clone()), name, value),
        }
    }

    /// A field under another name. What is no scalar can hold anything, and is content.
    pub fn field_as(
        &mut self,
        key: impl Into<Key<'a>>,
        name: impl Into<Cow<'a, str>>,
        value: RawValue<'a>,
    ) {
        match scalar(value) {
            Some(value) => self.put(key, value),
            None => self.content(key, name, value),
        }
    }

    /// Content: whole where the user said so, and else what it measures.
    pub fn content(
        &mut self,
        key: impl Into<Key<'a>>,
        name: impl Into<Cow<'a, str>>,
        value: RawValue<'a>,
    ) {
        if value.json() == "null" {
            return;
        }
        if self.content {
            let text = value.text().unwrap_or(Cow::Borrowed(value.json()));
            self.text(key, text);
        } else {
            self.measured(name.into(), Measure::of(value));
        }
    }

    fn measured(&mut self, name: Cow<'a, str>, measure: Measure) {
        let key = |after: &'static str| Key {
            after,
            ..Key::ours(name.clone())
        };
        self.count(key(".bytes"), measure.bytes);
        self.text(key(".sha256"), measure.sha256);
        if let Some(cut) = measure.cut {
            self.count(key(".cut"), cut);
        }
    }

    /// The members of an object, each on its own: `name.member`.
    pub fn flat(&mut self, name: Cow<'a, str>, value: RawValue<'a>) {
        self.flat_to(name, value, 0);
    }

    fn flat_to(&mut self, name: Cow<'a, str>, value: RawValue<'a>, depth: usize) {
        let object = value.json().starts_with('{');
        if !object || depth == DEEPEST || content::is_marker(value) {
            return self.field(name, value);
        }
        for (member, value) in value.members() {
            let inner = format!("{name}.{}", member_name(member));
            self.flat_to(inner.into(), value, depth + 1);
        }
    }

    /// Each name once, and no more and no longer than the limits allow. How many were left out.
    pub fn settle(&mut self, limits: &Limits) -> u32 {
        self.name_apart();
        let most = limits.attribute_count.unwrap_or(usize::MAX);
        let dropped: Vec<_> = self.list.drain(most.min(self.list.len())..).collect();
        if let Some(longest) = limits.attribute_length {
            self.cut(longest);
        }
        if !dropped.is_empty() {
            let names = dropped
                .iter()
                .map(|(key, _)| Val::Text(key.to_text().into()));
            self.put("agent.dropped", Val::List(names.collect()));
        }
        u32::try_from(dropped.len()).unwrap_or(u32::MAX)
    }

    /// Writes them, each as field `number` of a message.
    pub fn write(&self, number: u8, out: &mut Vec<u8>) {
        for (key, value) in &self.list {
            put_attribute(number, key, value, out);
        }
    }

    /// A field of the user's that has the name of one of ours is called `agent.custom.…`.
    fn name_apart(&mut self) {
        let list = &self.list;
        let mut twice = Vec::new();
        if list.len() <= FEW {
            // Which lengths and ends there are so far, one bit each: most names are new by that.
            let mut met = 0u64;
            let before = |at: usize| list[..at].iter().any(|(other, _)| *other == list[at].0);
            for (at, (key, _)) in list.iter().enumerate() {
                let mark = key.mark();
                if at >= self.ours && met & mark != 0 && before(at) {
                    twice.push(at);
                }
                met |= mark;
            }
        } else {
            let mut seen = HashSet::with_capacity(list.len());
            let keys = list.iter().enumerate();
            let again = keys.filter(|(_, (key, _))| !seen.insert(key.to_text()));
            twice.extend(again.map(|(at, _)| at));
        }
        for at in twice {
            let key = self.list[at].0.to_text();
            let own = key.strip_prefix("agent.").unwrap_or(&key);
            let mut name = format!("agent.custom.{own}");
            while self
                .list
                .iter()
                .any(|(key, _)| *key == Key::from(name.as_str()))
            {
                name.insert_str("agent.".len(), "custom.");
            }
            self.list[at].0 = name.into();
        }
    }

    fn cut(&mut self, longest: usize) {
        let mut cuts = Vec::new();
        for (key, value) in &mut self.list {
            let cut = match value {
                Val::Text(text) => cut_cow(text, longest),
                Val::List(list) => list
                    .iter_mut()
                    .map(|value| match value {
                        Val::Text(text) => cut_cow(text, longest),
                        _ => 0,
                    })
                    .sum(),
                _ => 0,
            };
            if cut > 0 {
                cuts.push((key.to_text(), cut));
            }
        }
        for (key, cut) in cuts {
            self.count(["agent.cut.", key.as_str()].concat(), cut as u64);
        }
    }
}

fn cut_cow(text: &mut Cow<'_, str>, longest: usize) -> usize {
    let (before, keep) = (text.len(), floor_char(text, longest));
    match text {
        Cow::Borrowed(text) => *text = &text[..keep],
        Cow::Owned(text) => text.truncate(keep),
    }
    before - keep
}

/// Cuts at a character's end. How many bytes went.
pub(super) fn cut_text(text: &mut String, longest: usize) -> usize {
    let before = text.len();
    text.truncate(floor_char(text, longest));
    before - text.len()
}
