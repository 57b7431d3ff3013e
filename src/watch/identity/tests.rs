use super::*;

fn same(a: &str, b: &str, volatile: &[&str]) -> bool {
    let volatile: Vec<_> = volatile.iter().map(|name| (*name).to_owned()).collect();
    canonical(a.as_bytes(), &volatile) == canonical(b.as_bytes(), &volatile)
}

#[test]
fn order_of_members_and_spaces_do_not_count() {
    let (a, b) = (
        r#"{"a":1,"b":{"c":[1,2]}}"#,
        r#"{ "b" : {"c":[1, 2]}, "a":1 }"#,
    );
    assert!(same(a, b, &[]));
    assert!(!same(a, r#"{"a":1,"b":{"c":[2,1]}}"#, &[]));
    assert!(!same(r#"{"a":"b"}"#, r#"{"b":"a"}"#, &[]));
    assert!(!same("[[1],2]", "[1,[2]]", &[]));
}

#[test]
fn volatile_members_do_not_count_at_any_depth() {
    let at = |time: u32| format!(r#"{{"state":"failed","log":[{{"time":{time},"line":"x"}}]}}"#);
    assert!(!same(&at(1), &at(2), &[]));
    assert!(same(&at(1), &at(2), &["time"]));
}

#[test]
fn strings_are_the_same_wherever_they_are() {
    for text in [
        "",
        "a",
        "1234567",
        "12345678",
        r#"with \"quotes\" and \\"#,
        "é and more",
    ] {
        let pair = |first: &str, last: &str| format!(r#"{{"{first}":"x","{last}":"{text}"}}"#);
        let other = format!(r#"{{ "z" : "{text}","a" :"x"}}"#);
        assert!(same(&pair("a", "z"), &other, &[]), "{text}");
        assert!(!same(&pair("a", "y"), &other, &[]), "{text}");
        assert!(!same(&pair("a", "z"), &other.replace(text, "?"), &[]) || text.is_empty());
    }
}

#[test]
fn malformed_json_is_compared_as_text() {
    for text in [
        r#"{""#,
        r#"{"a"#,
        r#"{"a\"#,
        "{,",
        "[}",
        r#"{"a":}"#,
        "[1,",
        "{]",
        r#"["a\"#,
    ] {
        assert!(same(text, text, &["x"]), "{text}");
        assert!(!same(text, "{}", &[]), "{text}");
    }
}

#[test]
fn deep_nesting_is_compared_as_text() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(same(&deep, &deep, &[]));
}
