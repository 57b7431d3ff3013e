//! A value that is one text, one whole number or one bool: most results are, and none of those has
//! to become JSON first.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use serde::Serialize;

use super::raw::RawFields;
use super::serialize::{Keep, serialize};

/// Such a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain<'a> {
    Text(&'a str),
    /// A number or a bool, spelled as JSON.
    Json(&'a str),
}

/// Hands the value to `take`, if it is such a one. `false`: it was not taken, and is in `left` under its
/// name. A value is serialized once, since some can't be twice.
pub(crate) fn give_plain<T: Serialize + ?Sized>(
    name: impl Fn() -> Cow<'static, str>,
    value: &T,
    take: &mut dyn FnMut(Plain<'_>) -> bool,
    left: &mut Option<RawFields>,
) -> bool {
    let taken = false;
    let mut handed = Handed {
        name,
        take,
        taken,
        left,
    };
    let json = serialize(value, &mut handed);
    match &json {
        Ok(json) if json.is_empty() => {}
        _ => handed.leave(|fields, name| fields.serialized(name, &json)),
    }
    handed.taken
}

struct Handed<'a, N> {
    name: N,
    take: &'a mut dyn FnMut(Plain<'_>) -> bool,
    taken: bool,
    left: &'a mut Option<RawFields>,
}

impl<N: Fn() -> Cow<'static, str>> Handed<'_, N> {
    #[cold]
    fn leave(&mut self, put: impl FnOnce(&mut RawFields, Cow<'static, str>)) {
        let mut fields = RawFields::new();
        put(&mut fields, (self.name)());
        *self.left = Some(fields);
        self.taken = false;
    }
}

impl<N: Fn() -> Cow<'static, str>> Keep for Handed<'_, N> {
    fn keep(&mut self, value: Plain<'_>) {
        self.taken = (self.take)(value);
        if !self.taken {
            self.leave(|fields, name| fields.plain(name, value));
        }
    }

    fn display(&mut self, text: &dyn Display) -> fmt::Result {
        let mut spelled = String::new();
        write!(spelled, "{text}")?;
        self.keep(Plain::Text(&spelled));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What was taken, and what was left.
    fn of<T: Serialize + ?Sized>(
        value: &T,
        takes: bool,
    ) -> (Option<(bool, String)>, Option<String>) {
        let mut found = None;
        let mut take = |plain: Plain<'_>| {
            found = Some(match plain {
                Plain::Text(text) => (true, text.to_owned()),
                Plain::Json(json) => (false, json.to_owned()),
            });
            takes
        };
        let mut left = None;
        let taken = give_plain(|| "x".into(), value, &mut take, &mut left);
        assert_eq!(taken, left.is_none());
        (found, left.map(|left| left.get("x").unwrap().to_owned()))
    }

    #[test]
    fn texts_whole_numbers_and_bools_are_taken_however_they_are_wrapped() {
        let text = |text: &str| (Some((true, text.to_owned())), None);
        let number = |json: &str| (Some((false, json.to_owned())), None);
        assert_eq!(of("a \"text\"", true), text("a \"text\""));
        assert_eq!(of(&Some(&json!("x")), true), text("x"));
        assert_eq!(of(&format_args!("{}!", "x"), true), text("x!"));
        assert_eq!(of(&'x', true), text("x"));
        assert_eq!(of(&i64::MIN, true), number("-9223372036854775808"));
        assert_eq!(of(&u64::MAX, true), number("18446744073709551615"));
        assert_eq!(of(&json!(-7), true), number("-7"));
        assert_eq!(of(&true, true), number("true"));
    }

    #[test]
    fn nothing_else_is() {
        let left = |json: &str| (None, Some(json.to_owned()));
        assert_eq!(of(&json!({"a": 1}), true), left(r#"{"a":1}"#));
        assert_eq!(of(&["a"], true), left(r#"["a"]"#));
        assert_eq!(of(&None::<&str>, true), left("null"));
        assert_eq!(of(&0.5, true), left("0.5"));
        assert_eq!(of(&u128::MAX, true), left(&u128::MAX.to_string()));
    }

    #[test]
    fn what_is_not_taken_is_left() {
        let text = (Some((true, "a".to_owned())), Some("a".to_owned()));
        assert_eq!(of("a", false), text);
        let number = (Some((false, "1".to_owned())), Some("1".to_owned()));
        assert_eq!(of(&1, false), number);
    }
}
