use serde::Serialize;
use serde_json::json;

use super::*;

/// The form and the text of a value as a field.
fn field<T: Serialize + ?Sized>(value: &T) -> (RawForm, String) {
    let mut fields = RawFields::new();
    fields.json("x", value);
    let (entry, text) = fields.entries().next().unwrap();
    (entry.form, text.to_owned())
}

#[test]
fn scalars_are_recognized_however_they_are_wrapped() {
    let text = |text: &str| (RawForm::Text, text.to_owned());
    let number = |json: &str| (RawForm::Plain, json.to_owned());
    assert_eq!(field("a \"text\""), text("a \"text\""));
    assert_eq!(field(&Some(&json!("x"))), text("x"));
    assert_eq!(field(&format_args!("{}!", "x")), text("x!"));
    assert_eq!(field(&'x'), text("x"));
    assert_eq!(field(&i64::MIN), number("-9223372036854775808"));
    assert_eq!(field(&u64::MAX), number("18446744073709551615"));
    assert_eq!(field(&json!(-7)), number("-7"));
    assert_eq!(field(&true), number("true"));
}

#[test]
fn other_values_are_json() {
    let added = |json: &str| (RawForm::Json, json.to_owned());
    assert_eq!(field(&json!({"a": 1})), added(r#"{"a":1}"#));
    assert_eq!(field(&["a"]), added(r#"["a"]"#));
    assert_eq!(field(&None::<&str>), added("null"));
    assert_eq!(field(&0.5), added("0.5"));
    assert_eq!(field(&u128::MAX), added(&u128::MAX.to_string()));
}
