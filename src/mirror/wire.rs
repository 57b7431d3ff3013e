//! Protobuf, written straight from what a line says: no message is built only to be encoded.
//!
//! Fields come in the order of their numbers and what is empty or nothing is left out, as
//! generated code does it: the bytes are those that [`Span`](super::otlp::Span) encodes to.

use std::borrow::Cow;

use prost::encoding::encoded_len_varint;

use super::otlp::any_value::Value;
use super::otlp::{AnyValue, ArrayValue};

/// The value of an attribute, as far as it can be borrowed from the line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Val<'a> {
    Text(Cow<'a, str>),
    Bool(bool),
    Int(i64),
    Double(f64),
    List(Vec<Val<'a>>),
}

impl Val<'_> {
    pub fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::StringValue(text.into_owned()),
            Self::Bool(truth) => Value::BoolValue(truth),
            Self::Int(number) => Value::IntValue(number),
            Self::Double(number) => Value::DoubleValue(number),
            Self::List(list) => {
                let values = list.into_iter().map(|value| AnyValue {
                    value: Some(value.into_value()),
                });
                Value::ArrayValue(ArrayValue {
                    values: values.collect(),
                })
            }
        }
    }

    /// As an `AnyValue`.
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => field_len(text.len()),
            Self::Bool(_) => 2,
            Self::Int(number) => 1 + encoded_len_varint(*number as u64),
            Self::Double(_) => 9,
            Self::List(list) => field_len(list_len(list)),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => put_bytes(1, text.as_bytes(), out),
            Self::Bool(truth) => out.extend_from_slice(&[2 << 3, u8::from(*truth)]),
            Self::Int(number) => {
                out.push(3 << 3);
                encode_varint(*number as u64, out);
            }
            Self::Double(number) => {
                out.push(4 << 3 | 1);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::List(list) => {
                put_head(5, list_len(list), out);
                for value in list {
                    put_head(1, value.len(), out);
                    value.put(out);
                }
            }
        }
    }
}

fn list_len(list: &[Val<'_>]) -> usize {
    list.iter().map(|value| field_len(value.len())).sum()
}

/// The name of an attribute, in parts that need not be put together.
#[derive(Clone, Debug)]
pub(super) struct Key<'a> {
    pub before: &'static str,
    pub name: Cow<'a, str>,
    pub after: &'static str,
}

impl<'a> From<Cow<'a, str>> for Key<'a> {
    fn from(name: Cow<'a, str>) -> Self {
        Self {
            before: "",
            name,
            after: "",
        }
    }
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(name: &'a str) -> Self {
        Cow::Borrowed(name).into()
    }
}

impl From<String> for Key<'_> {
    fn from(name: String) -> Self {
        Cow::<str>::Owned(name).into()
    }
}

impl<'a> Key<'a> {
    /// Under our prefix.
    pub fn ours(name: Cow<'a, str>) -> Self {
        Self {
            before: "agent.",
            name,
            after: "",
        }
    }

    pub fn len(&self) -> usize {
        self.before.len() + self.name.len() + self.after.len()
    }

    /// One bit of 64, the same for equal names.
    pub fn mark(&self) -> u64 {
        let last = self.after.bytes().last();
        let last = last.or(self.name.bytes().last());
        let last = last.or(self.before.bytes().last());
        1 << ((self.len() * 7 + usize::from(last.unwrap_or_default())) & 63)
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let (before, after) = (self.before.bytes(), self.after.bytes());
        before.chain(self.name.bytes()).chain(after)
    }

    pub fn is(&self, name: &[u8]) -> bool {
        let rest = name.strip_prefix(self.before.as_bytes());
        let rest = rest.and_then(|rest| rest.strip_prefix(self.name.as_bytes()));
        rest == Some(self.after.as_bytes())
    }

    pub fn to_text(&self) -> String {
        [self.before, &self.name, self.after].concat()
    }

    fn put(&self, out: &mut Vec<u8>) {
        for part in [self.before, &self.name, self.after] {
            // Most have one part only.
            if !part.is_empty() {
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self.before == other.before && self.after == other.after {
            return self.name == other.name;
        }
        self.bytes().eq(other.bytes())
    }
}

/// An attribute as field `number` of its message.
pub(super) fn put_attribute(number: u8, key: &Key<'_>, value: &Val<'_>, out: &mut Vec<u8>) {
    let (name_len, value_len) = (key.len(), value.len());
    // No name at all is left out like any other empty text.
    let key_len = if name_len > 0 { field_len(name_len) } else { 0 };
    let len = key_len + field_len(value_len);
    match value {
        // Nearly all are short texts, with lengths of one byte each: their heads go together.
        Val::Text(text) if len < 128 && name_len > 0 => {
            out.reserve(len + 2);
            out.extend_from_slice(&[number << 3 | 2, len as u8, 1 << 3 | 2, name_len as u8]);
            key.put(out);
            let text_len = text.len() as u8;
            out.extend_from_slice(&[2 << 3 | 2, value_len as u8, 1 << 3 | 2, text_len]);
            out.extend_from_slice(text.as_bytes());
        }
        _ => {
            put_head(number, len, out);
            if name_len > 0 {
                put_head(1, name_len, out);
                key.put(out);
            }
            put_head(2, value_len, out);
            value.put(out);
        }
    }
}

/// Seven bits a byte, the lowest first.
fn encode_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field of bytes with a number below 16: its tag, its length and itself.
pub(super) fn field_len(bytes: usize) -> usize {
    1 + encoded_len_varint(bytes as u64) + bytes
}

/// What stands before the bytes of a field with a number below 16.
pub(super) fn put_head(number: u8, len: usize, out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    encode_varint(len as u64, out);
}

pub(super) fn put_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    put_head(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// A text, unless there is none.
pub(super) fn put_text(number: u8, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes(number, text.as_bytes(), out);
    }
}

pub(super) fn put_count(number: u8, count: u32, out: &mut Vec<u8>) {
    if count != 0 {
        out.push(number << 3);
        encode_varint(count.into(), out);
    }
}

pub(super) fn put_fixed64(number: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(number << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}
