//! A value that is one text, one whole number or one bool: most results are, and none of those has
//! to become JSON first.

use std::fmt;

use serde::ser::{Impossible, Serialize, Serializer};

use super::serialize::{Digits, bool_text};

/// Such a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain<'a> {
    Text(&'a str),
    /// A number or a bool, spelled as JSON.
    Json(&'a str),
}

/// Hands the value to `take`, if it is such a one. Anything else is left at its first word.
pub(crate) fn plain<T: Serialize + ?Sized>(value: &T, take: &mut dyn FnMut(Plain<'_>)) {
    let _ = value.serialize(OnlyPlain(take));
}

struct OnlyPlain<'a>(&'a mut dyn FnMut(Plain<'_>));

#[derive(Debug)]
struct NotPlain;

impl fmt::Display for NotPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not plain")
    }
}

impl std::error::Error for NotPlain {}

impl serde::ser::Error for NotPlain {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! digits {
    ($( $name:ident($type:ty) as $wide:ty; )*) => { $(
        fn $name(self, value: $type) -> Result<(), NotPlain> {
            (self.0)(Plain::Json(&Digits::from(<$wide>::from(value))));
            Ok(())
        }
    )* };
}

macro_rules! not_plain {
    ($( $name:ident($($type:ty),*) -> $result:ty; )*) => { $(
        fn $name(self, $(_: $type),*) -> Result<$result, NotPlain> {
            Err(NotPlain)
        }
    )* };
}

impl Serializer for OnlyPlain<'_> {
    type Ok = ();
    type Error = NotPlain;
    type SerializeSeq = Impossible<(), NotPlain>;
    type SerializeTuple = Impossible<(), NotPlain>;
    type SerializeTupleStruct = Impossible<(), NotPlain>;
    type SerializeTupleVariant = Impossible<(), NotPlain>;
    type SerializeMap = Impossible<(), NotPlain>;
    type SerializeStruct = Impossible<(), NotPlain>;
    type SerializeStructVariant = Impossible<(), NotPlain>;

    fn serialize_str(self, text: &str) -> Result<(), NotPlain> {
        (self.0)(Plain::Text(text));
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), NotPlain> {
        (self.0)(Plain::Json(bool_text(value)));
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotPlain> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), NotPlain> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), NotPlain> {
        Err(NotPlain)
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

    not_plain! {
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of<T: Serialize + ?Sized>(value: &T) -> Option<(bool, String)> {
        let mut found = None;
        plain(value, &mut |plain| {
            found = Some(match plain {
                Plain::Text(text) => (true, text.to_owned()),
                Plain::Json(json) => (false, json.to_owned()),
            });
        });
        found
    }

    #[test]
    fn texts_whole_numbers_and_bools_are_taken_however_they_are_wrapped() {
        let text = |text: &str| Some((true, text.to_owned()));
        let number = |json: &str| Some((false, json.to_owned()));
        assert_eq!(of("a \"text\""), text("a \"text\""));
        assert_eq!(of(&Some(&json!("x"))), text("x"));
        assert_eq!(of(&i64::MIN), number("-9223372036854775808"));
        assert_eq!(of(&u64::MAX), number("18446744073709551615"));
        assert_eq!(of(&json!(-7)), number("-7"));
        assert_eq!(of(&true), number("true"));
    }

    #[test]
    fn nothing_else_is() {
        assert_eq!(of(&json!({"a": 1})), None);
        assert_eq!(of(&["a"]), None);
        assert_eq!(of(&None::<&str>), None);
        assert_eq!(of(&0.5), None);
        assert_eq!(of(&u128::MAX), None);
    }
}
