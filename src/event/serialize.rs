//! A value that was serialized for us: a text as it is, anything else as JSON.

use std::fmt::{self, Display, Write};

use serde::{Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Compound};

use super::plain::Plain;

/// What a value turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serialized {
    /// One text, appended without quotes and escapes.
    Text,
    /// A number or a bool.
    Plain,
    Json,
}

/// Takes a value that is no JSON yet and need not become it.
pub(super) trait Keep {
    fn keep(&mut self, value: Plain<'_>);

    /// A text that is yet to be spelled.
    fn display(&mut self, text: &dyn Display) -> fmt::Result;
}

/// Serializes a value, once: a text, a whole number or a bool is `keep`'s, and of anything else the
/// JSON is returned, which is not empty.
pub(super) fn serialize<T, K>(value: &T, keep: &mut K) -> Result<Vec<u8>, serde_json::Error>
where
    T: Serialize + ?Sized,
    K: Keep,
{
    let mut json = Vec::new();
    value.serialize(TextOrJson {
        keep,
        json: &mut serde_json::Serializer::new(&mut json),
    })?;
    Ok(json)
}

struct Appended<'a> {
    out: &'a mut String,
    what: Serialized,
}

impl Keep for Appended<'_> {
    fn keep(&mut self, value: Plain<'_>) {
        let (what, text) = match value {
            Plain::Text(text) => (Serialized::Text, text),
            Plain::Json(json) => (Serialized::Plain, json),
        };
        self.what = what;
        self.out.push_str(text);
    }

    fn display(&mut self, text: &dyn Display) -> fmt::Result {
        self.what = Serialized::Text;
        write!(self.out, "{text}")
    }
}

/// Appends `value` to `out`. Where it fails, `out` may hold a part of it.
pub(super) fn append(
    value: &impl Serialize,
    out: &mut String,
) -> Result<Serialized, serde_json::Error> {
    let what = Serialized::Json;
    let mut appended = Appended { out, what };
    let json = serialize(value, &mut appended)?;
    if appended.what == Serialized::Json {
        out.push_str(std::str::from_utf8(&json).map_err(serde::ser::Error::custom)?);
        return Ok(Serialized::Json);
    }
    Ok(appended.what)
}

/// A whole number, spelled; most are small.
pub(crate) struct Digits {
    bytes: [u8; 20],
    start: usize,
}

impl From<u64> for Digits {
    fn from(mut value: u64) -> Self {
        let mut digits = Self {
            bytes: [b'0'; 20],
            start: 19,
        };
        digits.bytes[19] += (value % 10) as u8;
        while value >= 10 {
            value /= 10;
            digits.start -= 1;
            digits.bytes[digits.start] += (value % 10) as u8;
        }
        digits
    }
}

impl From<i64> for Digits {
    fn from(value: i64) -> Self {
        let mut digits = Self::from(value.unsigned_abs());
        if value < 0 {
            // The longest has 19 digits.
            digits.start -= 1;
            digits.bytes[digits.start] = b'-';
        }
        digits
    }
}

impl std::ops::Deref for Digits {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.start..]).unwrap_or_default()
    }
}

pub(super) fn push_digits(value: u64, out: &mut String) {
    out.push_str(&Digits::from(value));
}

pub(super) fn push_signed(value: i64, out: &mut String) {
    out.push_str(&Digits::from(value));
}

pub(super) fn push_bool(value: bool, out: &mut String) {
    out.push_str(bool_text(value));
}

pub(crate) fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Keeps a text, a whole number or a bool, and hands everything else on. Escaping a text only to
/// undo it again would cost more than all the rest.
struct TextOrJson<'a, 'b, K> {
    keep: &'a mut K,
    json: &'a mut serde_json::Serializer<&'b mut Vec<u8>>,
}

macro_rules! hand_on {
    ($( $name:ident($($arg:ident: $type:ty),*) -> $result:ty; )*) => { $(
        fn $name(self, $($arg: $type),*) -> Result<$result, Self::Error> {
            self.json.$name($($arg),*)
        }
    )* };
}

macro_rules! digits {
    ($( $name:ident($type:ty) as $wide:ty; )*) => { $(
        fn $name(self, value: $type) -> Result<(), Self::Error> {
            self.keep.keep(Plain::Json(&Digits::from(<$wide>::from(value))));
            Ok(())
        }
    )* };
}

impl<'a, 'b, K: Keep> Serializer for TextOrJson<'a, 'b, K> {
    type Ok = ();
    type Error = serde_json::Error;
    type SerializeSeq = Compound<'a, &'b mut Vec<u8>, CompactFormatter>;
    type SerializeTuple = Self::SerializeSeq;
    type SerializeTupleStruct = Self::SerializeSeq;
    type SerializeTupleVariant = Self::SerializeSeq;
    type SerializeMap = Self::SerializeSeq;
    type SerializeStruct = Self::SerializeSeq;
    type SerializeStructVariant = Self::SerializeSeq;

    fn serialize_str(self, text: &str) -> Result<(), Self::Error> {
        self.keep.keep(Plain::Text(text));
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), Self::Error> {
        self.keep.keep(Plain::Json(bool_text(value)));
        Ok(())
    }

    fn serialize_char(self, char: char) -> Result<(), Self::Error> {
        self.serialize_str(char.encode_utf8(&mut [0; 4]))
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Self::Error> {
        self.serialize_str(variant)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Self::Error> {
        let value = format_args!("{value}");
        self.keep.display(&value).map_err(serde::ser::Error::custom)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Self::Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        self.json
            .serialize_newtype_variant(name, index, variant, value)
    }

    digits! {
        serialize_i8(i8) as i64;
        serialize_i16(i16) as i64;
        serialize_i32(i32) as i64;
        serialize_i64(i64) as i64;
        serialize_u8(u8) as u64;
        serialize_u16(u16) as u64;
        serialize_u32(u32) as u64;
        serialize_u64(u64) as u64;
    }

    hand_on! {
        serialize_i128(v: i128) -> ();
        serialize_u128(v: u128) -> ();
        serialize_f32(v: f32) -> ();
        serialize_f64(v: f64) -> ();
        serialize_bytes(v: &[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(name: &'static str) -> ();
        serialize_seq(len: Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(len: usize) -> Self::SerializeTuple;
        serialize_tuple_struct(name: &'static str, len: usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize) -> Self::SerializeTupleVariant;
        serialize_map(len: Option<usize>) -> Self::SerializeMap;
        serialize_struct(name: &'static str, len: usize) -> Self::SerializeStruct;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize) -> Self::SerializeStructVariant;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &impl Serialize) -> (Serialized, String) {
        let mut out = String::new();
        let form = append(value, &mut out).unwrap();
        (form, out)
    }

    struct Unit;
    impl Serialize for Unit {
        fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
            out.serialize_unit_variant("Unit", 0, "Word")
        }
    }

    #[test]
    fn a_text_is_that_text_however_it_is_wrapped() {
        let nasty = "\"\\/\u{8}\n\r\t\u{1}\u{7f}\u{2028}é";
        let text = |text: &str| (Serialized::Text, text.to_owned());
        assert_eq!(of(&nasty), text(nasty));
        assert_eq!(of(&json!(nasty)), text(nasty));
        assert_eq!(of(&Some(&nasty)), text(nasty));
        assert_eq!(
            of(&format_args!("{}-{nasty}", 1)),
            text(&format!("1-{nasty}"))
        );
        assert_eq!(of(&'é'), text("é"));
        assert_eq!(of(&Unit), text("Word"));
        assert_eq!(of(&""), text(""));
    }

    #[test]
    fn anything_else_is_the_json_that_serde_json_writes() {
        fn same(value: &impl Serialize) {
            let json = serde_json::to_string(value).unwrap();
            let (what, text) = of(value);
            assert_ne!(what, Serialized::Text);
            assert_eq!(text, json);
        }
        same(&json!({"a": "\"\n", "b": [1, null, "c"], "d": {}}));
        same(&["\"", "x"]);
        same(&("a", 1, 0.1f32));
        same(&-1.5);
        same(&f64::NAN);
        same(&u128::MAX);
        same(&true);
        same(&i64::MIN);
        same(&-1i8);
        same(&u64::MAX);
        same(&Some(120u16));
        same(&None::<u8>);
        same(&());
        same(&Ok::<u8, ()>(1));
    }
}
