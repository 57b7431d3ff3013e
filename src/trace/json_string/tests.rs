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
