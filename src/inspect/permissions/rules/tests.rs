use super::*;

/// The same by all ways to divide the text.
fn naive(pattern: &[char], text: &[char]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some('*'), _) => (0..=text.len()).any(|n| naive(&pattern[1..], &text[n..])),
        (Some('?'), Some(_)) => naive(&pattern[1..], &text[1..]),
        (Some(a), Some(b)) if a == b => naive(&pattern[1..], &text[1..]),
        _ => false,
    }
}

proptest::proptest! {
    #[test]
    fn matches_as_the_definition_says(pattern in "[ab*?é]{0,7}", text in "[abé]{0,8}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let expected = naive(&chars(&pattern), &chars(&text));
        proptest::prop_assert_eq!(matches(&pattern, &text), expected);
    }
}

#[test]
fn hostile_patterns_end_soon() {
    let pattern = "*a".repeat(200);
    assert!(!matches(&pattern, &"b".repeat(100_000)));
}

fn rules(json: &str) -> Rules {
    Rules::parse(json).unwrap()
}

#[test]
fn the_last_match_decides() {
    let rules = rules(
        r#"[{"permission":"bash","pattern":"rm *","action":"deny"},
            {"tool":"ba?h","action":"allow"},
            {"permission":"*","pattern":"*prod*","action":"deny"}]"#,
    );
    assert_eq!(rules.decide("bash", "rm -rf x").rule, Some(1));
    assert_eq!(rules.decide("edit", "a").action, Action::Ask);
    assert_eq!(rules.decide("edit", "prod.toml").action, Action::Deny);
}

#[test]
fn without_a_subject_only_general_rules_decide() {
    let rules = rules(
        r#"[{"permission":"bash","action":"allow"},
            {"permission":"bash","pattern":"rm *","action":"deny"},
            {"permission":"edit","action":"allow"}]"#,
    );
    assert_eq!(rules.decide_any(&[Some("bash")], None), None);
    let edit = rules.decide_any(&[None, Some("edit")], None).unwrap();
    assert_eq!(edit.action, Action::Allow);
}

#[test]
fn wrong_rules_are_named() {
    for (json, expected) in [
        ("{", "EOF"),
        ("{}", "expected"),
        (r#"[{"action":"allow"}]"#, "rule 0 has no text `permission`"),
        (r#"[{"tool":"a","action":"maybe"}]"#, "`action` of rule 0"),
        (
            r#"[{"tool":"a","action":"ask","pattern":1}]"#,
            "`pattern` of rule 0",
        ),
    ] {
        let error = Rules::parse(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
