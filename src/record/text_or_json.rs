//! Writes a value of a field that implements `Serialize`: a text as it is, anything else as JSON.

use std::fmt::{Display, Write};

use serde::{Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Compound};

use super::raw_fields::RawForm;

/// Appends `value` to `out`: a text as it is, anything else as JSON. Where it fails, `out` may hold a part of it.
pub(super) fn append<T: Serialize + ?Sized>(
    value: &T,
    out: &mut String,
) -> Result<RawForm, serde_json::Error> {
    let (mut form, mut json) = (RawForm::Json, Vec::new());
    value.serialize(TextOrJson {
        out,
        form: &mut form,
        json: &mut serde_json::Serializer::new(&mut json),
    })?;
    if form == RawForm::Json {
        out.push_str(std::str::from_utf8(&json).map_err(serde::ser::Error::custom)?);
    }
    Ok(form)
}

/// Appends a text, a whole number or a bool, and leaves everything else to `serde_json`. Escaping a text only to
/// undo that again would cost more than all the rest.
struct TextOrJson<'a, 'b> {
    out: &'a mut String,
    form: &'a mut RawForm,
    json: &'a mut serde_json::Serializer<&'b mut Vec<u8>>,
}

impl TextOrJson<'_, '_> {
    fn scalar(self, json: &str) -> Result<(), serde_json::Error> {
        *self.form = RawForm::Plain;
        self.out.push_str(json);
        Ok(())
    }
}

macro_rules! hand_on {
    ($( $name:ident($($arg:ident: $type:ty),*) -> $result:ty; )*) => { $(
        fn $name(self, $($arg: $type),*) -> Result<$result, Self::Error> {
            self.json.$name($($arg),*)
        }
    )* };
}

macro_rules! digits {
    ($( $name:ident($type:ty); )*) => { $(
        fn $name(self, value: $type) -> Result<(), Self::Error> {
            self.scalar(itoa::Buffer::new().format(value))
        }
    )* };
}

impl<'a, 'b> Serializer for TextOrJson<'a, 'b> {
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
        *self.form = RawForm::Text;
        self.out.push_str(text);
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), Self::Error> {
        self.scalar(if value { "true" } else { "false" })
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
        *self.form = RawForm::Text;
        write!(self.out, "{value}").map_err(serde::ser::Error::custom)
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
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
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
mod tests;
