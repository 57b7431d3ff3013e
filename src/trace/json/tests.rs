use proptest::prelude::*;

use super::*;

#[test]
fn unescape_refuses_what_is_no_json_string() {
    let cut_short = r#""a\u00"#;
    let unknown_before_a_wide_character = "\"a\\é\"";
    let half_a_pair = r#""\ud83d""#;
    let two = r#""a" "b""#;
    for text in [
        cut_short,
        unknown_before_a_wide_character,
        half_a_pair,
        two,
        " \"a\"",
        "\"\n\"",
        "\"",
        "a",
        "",
    ] {
        assert_eq!(unescape(text), None, "{text}");
    }
    assert_eq!(unescape(r#""\u00e9\n\"\ud83d\ude00""#).unwrap(), "é\n\"😀");
}

#[test]
fn a_lone_surrogate_is_replaced() {
    for (quoted, text) in [
        (r#""\ud800""#, "\u{fffd}"),
        (r#""a\udc00b""#, "a\u{fffd}b"),
        (r#""\ud800\ud83d\ude00é""#, "\u{fffd}😀é"),
        (r#""\\ud800\ud800\u0061""#, "\\ud800\u{fffd}a"),
    ] {
        assert_eq!(unescape_lossy(quoted), (text.into(), false), "{quoted}");
    }
    assert_eq!(unescape_lossy(r#""\ud83d\ude00""#), ("😀".into(), true));
}

proptest! {
    #[test]
    fn unescape_agrees_with_serde_json(text in ".{0,20}", cut in 0usize..40) {
        let json = serde_json::to_string(&text).unwrap();
        let cut: String = json.chars().take(cut).collect();
        for json in [&json, &cut] {
            let read = serde_json::from_str::<String>(json).ok();
            prop_assert_eq!(unescape(json).map(Cow::into_owned), read);
        }
    }

    #[test]
    fn plain_length_stops_at_the_first_special_byte(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x1fu8..0x24, 0x5b..0x5eu8], 0..40),
    ) {
        let special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
        // From every place, so that the last few are met in all lengths.
        for at in 0..=bytes.len() {
            let rest = &bytes[at..];
            let first = rest.iter().position(special).unwrap_or(rest.len());
            prop_assert_eq!(plain_length(rest), first);
        }
    }

    #[test]
    fn write_string_agrees_with_serde_json(text in "[ab\"\\\\\u{0}-\u{20}é😀]{0,40}") {
        let mut out = Vec::new();
        write_string(&text, &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
    }
}

proptest! {
    #[test]
    fn a_string_ends_at_its_first_quote_that_is_not_escaped(
        inside in "([a-z]{0,12}|\\\\[\"\\\\n]|é|[^\"\\\\]){0,12}",
        behind in "[a\"\\\\]{0,9}",
    ) {
        let text = format!("\"{inside}\"{behind}");
        let bytes = text.as_bytes();
        let end = inside.len() + 2;
        prop_assert_eq!(string_end(bytes, 0), Some(end));
        for cut in 0..end {
            prop_assert_eq!(string_end(&bytes[..cut], 0), None);
        }
        prop_assert_eq!(has_backslash(inside.as_bytes()), inside.contains('\\'));
    }

    /// The two ways to the end of an object agree, whatever it looks like.
    #[test]
    fn an_object_ends_where_its_brackets_do(
        inside in "([a-z0-9 ,:{}\\[\\]\"\\\\]|\"[a-c]{0,9}\":|true|-1\\.5e3|\"b\",){0,12}",
    ) {
        let text = format!("x{{{inside}}}, \"y\"");
        if let Some((members, end)) = object(&text, 1) {
            prop_assert_eq!(value_end(text.as_bytes(), 1), Some(end));
            let alone = Members::of(&text[1..end]).into_iter().flatten();
            let alone: Vec<_> = alone.map(|member| member.unwrap()).collect();
            let shown = |list: &[Member<'_>]| format!("{list:?}");
            prop_assert_eq!(shown(&members), shown(&alone));
        }
    }
}

#[test]
fn words_and_numbers_end_where_something_else_begins() {
    let end = |text: &str| value_end(text.as_bytes(), 0);
    for whole in ["true", "false", "null", "0", "-1.5e+3"] {
        for behind in [",", "}", "]", " ", "\n"] {
            assert_eq!(end(&format!("{whole}{behind}")), Some(whole.len()));
        }
        for wrong in ["", "x", "\"", ":", "{"] {
            assert_eq!(end(&format!("{whole}{wrong}")), None, "{whole}{wrong}");
        }
    }
    for none in ["tru,", "nul}", "+1,", "x", "", "trueish,"] {
        assert_eq!(end(none), None, "{none}");
    }
}
