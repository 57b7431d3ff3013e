//! Attributes of a span: from the values of a line, each under one name, cut where a limit says so.

use std::borrow::Cow;
use std::collections::HashSet;

use super::otlp::any_value::Value;
use super::otlp::{AnyValue, ArrayValue, KeyValue};

use super::content::{self, Measure};
use super::origin::Limits;
use crate::reader::RawValue;

/// How deep objects are taken apart into attributes of their own.
const DEEPEST: usize = 4;
/// So many names are compared one by one.
const FEW: usize = 128;

pub(super) fn key_value(key: impl Into<String>, value: Value) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

/// A member's name as it was given.
pub(super) fn member_name(raw: &str) -> Cow<'_, str> {
    if raw.contains('\\')
        && let Ok(name) = serde_json::from_str(&format!("\"{raw}\""))
    {
        return Cow::Owned(name);
    }
    Cow::Borrowed(raw)
}

/// A count as OTLP can hold it.
pub(super) fn unsigned(count: u64) -> Value {
    i64::try_from(count).map_or_else(|_| Value::StringValue(count.to_string()), Value::IntValue)
}

/// A text, a number or a bool. OTLP has no null, and its integers are signed: a number that none
/// of its types holds as it is goes as the text it is.
pub(super) fn scalar(value: RawValue<'_>) -> Option<Value> {
    let json = value.json();
    Some(match json.as_bytes().first()? {
        b'"' => Value::StringValue(value.text()?.into_owned()),
        b't' | b'f' => Value::BoolValue(value.bool()?),
        b'-' | b'0'..=b'9' => {
            let whole = !json.contains(['.', 'e', 'E']);
            match (json.parse::<i64>(), json.parse::<f64>()) {
                (Ok(int), _) => Value::IntValue(int),
                (_, Ok(float)) if !whole && float.is_finite() => Value::DoubleValue(float),
                _ => Value::StringValue(json.to_owned()),
            }
        }
        _ => return None,
    })
}

fn array(value: RawValue<'_>) -> Option<Value> {
    if !value.json().starts_with('[') {
        return None;
    }
    let items: Option<Vec<_>> = value.items().map(scalar).collect();
    let values = items?
        .into_iter()
        .map(|value| AnyValue { value: Some(value) });
    Some(Value::ArrayValue(ArrayValue {
        values: values.collect(),
    }))
}

/// What needs no opt-in to be sent whole: scalars, lists of them, and of the rest its JSON.
pub(super) fn plain(value: RawValue<'_>) -> Option<Value> {
    let json = || Value::StringValue(value.json().to_owned());
    match value.json() {
        "null" => None,
        _ => scalar(value)
            .or_else(|| array(value))
            .or_else(|| Some(json())),
    }
}

/// The attributes of a span, an event or a link, in the order they are given.
pub(super) struct Attributes {
    list: Vec<KeyValue>,
    /// How many of them have names that only we give.
    ours: usize,
    content: bool,
}

impl Attributes {
    pub fn new(content: bool, room: usize) -> Self {
        Self {
            list: Vec::with_capacity(room),
            ours: 0,
            content,
        }
    }

    /// From here on names come from the line.
    pub fn ours_end(&mut self) {
        self.ours = self.list.len();
    }

    pub fn text(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.put(key, Value::StringValue(text.into()));
    }

    pub fn count(&mut self, key: impl Into<String>, count: u64) {
        self.put(key, unsigned(count));
    }

    pub fn put(&mut self, key: impl Into<String>, value: Value) {
        self.list.push(key_value(key, value));
    }

    /// A field under this very name: scalars as they are, lists of them too, the rest by its digest.
    pub fn list_or_field(&mut self, key: &str, name: &str, value: RawValue<'_>) {
        match array(value) {
            Some(list) => self.put(key, list),
            None => self.field_as(key, name, value),
        }
    }

    /// A field of the line, by its own name with our prefix.
    pub fn field(&mut self, name: &str, value: RawValue<'_>) {
        self.field_as(["agent.", name].concat(), name, value);
    }

    /// A field under another name. What is no scalar can hold anything, and is content.
    pub fn field_as(&mut self, key: impl Into<String>, name: &str, value: RawValue<'_>) {
        match scalar(value) {
            Some(value) => self.put(key, value),
            None => self.content(key, name, value),
        }
    }

    /// Content: whole where the user said so, and else what it measures.
    pub fn content(&mut self, key: impl Into<String>, name: &str, value: RawValue<'_>) {
        if value.json() == "null" {
            return;
        }
        if self.content {
            let text = value.text().unwrap_or(Cow::Borrowed(value.json()));
            self.text(key, text);
        } else {
            self.measured(name, Measure::of(value));
        }
    }

    fn measured(&mut self, name: &str, measure: Measure) {
        let key = |what: &str| ["agent.", name, what].concat();
        self.count(key(".bytes"), measure.bytes);
        self.text(key(".sha256"), measure.sha256);
        if let Some(cut) = measure.cut {
            self.count(key(".cut"), cut);
        }
    }

    /// The members of an object, each on its own: `name.member`.
    pub fn flat(&mut self, name: &str, value: RawValue<'_>) {
        self.flat_to(name, value, 0);
    }

    fn flat_to(&mut self, name: &str, value: RawValue<'_>, depth: usize) {
        let object = value.json().starts_with('{');
        if !object || depth == DEEPEST || content::is_marker(value) {
            return self.field(name, value);
        }
        for (member, value) in value.members() {
            self.flat_to(&format!("{name}.{}", member_name(member)), value, depth + 1);
        }
    }

    /// Each name once, and no more and no longer than the limits allow. How many were left out.
    pub fn finish(mut self, limits: &Limits) -> (Vec<KeyValue>, u32) {
        self.name_apart();
        let most = limits.attribute_count.unwrap_or(usize::MAX);
        let dropped: Vec<KeyValue> = self.list.drain(most.min(self.list.len())..).collect();
        if let Some(longest) = limits.attribute_length {
            self.cut(longest);
        }
        if !dropped.is_empty() {
            let names = dropped.iter().map(|attribute| AnyValue {
                value: Some(Value::StringValue(attribute.key.clone())),
            });
            let values = names.collect();
            self.put("agent.dropped", Value::ArrayValue(ArrayValue { values }));
        }
        (self.list, u32::try_from(dropped.len()).unwrap_or(u32::MAX))
    }

    /// A field of the user's that has the name of one of ours is called `agent.custom.…`.
    fn name_apart(&mut self) {
        let list = &self.list;
        let twice: Vec<usize> = if list.len() <= FEW {
            let before = |at: usize| list[..at].iter().any(|other| other.key == list[at].key);
            (self.ours..list.len()).filter(|at| before(*at)).collect()
        } else {
            let mut seen = HashSet::with_capacity(list.len());
            let keys = list.iter().enumerate();
            keys.filter(|(_, attribute)| !seen.insert(attribute.key.as_str()))
                .map(|(at, _)| at)
                .collect()
        };
        for at in twice {
            let key = &self.list[at].key;
            let mut name = format!("agent.custom.{}", key.strip_prefix("agent.").unwrap_or(key));
            while self.list.iter().any(|other| other.key == name) {
                name.insert_str("agent.".len(), "custom.");
            }
            self.list[at].key = name;
        }
    }

    fn cut(&mut self, longest: usize) {
        let mut cuts = Vec::new();
        for attribute in &mut self.list {
            let value = attribute.value.as_mut().and_then(|any| any.value.as_mut());
            let cut = match value {
                Some(Value::StringValue(text)) => cut_text(text, longest),
                Some(Value::ArrayValue(list)) => {
                    let values = list.values.iter_mut().filter_map(|any| any.value.as_mut());
                    values
                        .map(|value| match value {
                            Value::StringValue(text) => cut_text(text, longest),
                            _ => 0,
                        })
                        .sum()
                }
                _ => 0,
            };
            if cut > 0 {
                cuts.push((attribute.key.clone(), cut));
            }
        }
        for (key, cut) in cuts {
            self.count(["agent.cut.", key.as_str()].concat(), cut as u64);
        }
    }
}

/// Cuts at a character's end. How many bytes went.
pub(super) fn cut_text(text: &mut String, longest: usize) -> usize {
    let before = text.len();
    text.truncate(text.floor_char_boundary(longest));
    before - text.len()
}
