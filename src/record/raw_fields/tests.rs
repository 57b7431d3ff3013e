use serde::Serialize;
use serde_json::json;

use super::*;

/// The scalar that was offered, and the field that was added if it was not taken.
fn offered<T: Serialize + ?Sized>(
    value: &T,
    take: bool,
) -> (Option<(bool, String)>, Option<String>) {
    let (mut found, mut fields) = (None, RawFields::new());
    fields.json_unless("x", value, |scalar| {
        found = Some((matches!(scalar, Scalar::Text(_)), scalar.text().to_owned()));
        take
    });
    (found, fields.get("x").map(str::to_owned))
}

#[test]
fn scalars_are_offered_however_they_are_wrapped() {
    let text = |text: &str| (Some((true, text.to_owned())), None);
    let number = |json: &str| (Some((false, json.to_owned())), None);
    assert_eq!(offered("a \"text\"", true), text("a \"text\""));
    assert_eq!(offered(&Some(&json!("x")), true), text("x"));
    assert_eq!(offered(&format_args!("{}!", "x"), true), text("x!"));
    assert_eq!(offered(&'x', true), text("x"));
    assert_eq!(offered(&i64::MIN, true), number("-9223372036854775808"));
    assert_eq!(offered(&u64::MAX, true), number("18446744073709551615"));
    assert_eq!(offered(&json!(-7), true), number("-7"));
    assert_eq!(offered(&true, true), number("true"));
}

#[test]
fn other_values_are_added() {
    let added = |json: &str| (None, Some(json.to_owned()));
    assert_eq!(offered(&json!({"a": 1}), true), added(r#"{"a":1}"#));
    assert_eq!(offered(&["a"], true), added(r#"["a"]"#));
    assert_eq!(offered(&None::<&str>, true), added("null"));
    assert_eq!(offered(&0.5, true), added("0.5"));
    assert_eq!(offered(&u128::MAX, true), added(&u128::MAX.to_string()));
}

#[test]
fn scalars_that_are_not_taken_are_added() {
    let text = (Some((true, "a".to_owned())), Some("a".to_owned()));
    assert_eq!(offered("a", false), text);
    let number = (Some((false, "1".to_owned())), Some("1".to_owned()));
    assert_eq!(offered(&1, false), number);
}
