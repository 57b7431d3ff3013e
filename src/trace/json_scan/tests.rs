use super::*;
use proptest::prelude::*;

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
