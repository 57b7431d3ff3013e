//! What must hold for any input at all.

use proptest::prelude::*;

use super::*;

/// Texts made of the pieces that rules look for, so that they meet in every way.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("password".to_owned()),
        Just("token".to_owned()),
        Just("--api-key".to_owned()),
        Just("Authorization: Bearer ".to_owned()),
        Just("Cookie: ".to_owned()),
        Just("://user:".to_owned()),
        Just("curl -u a:".to_owned()),
        Just("mysql -p".to_owned()),
        Just("[masked rule=x bytes=1 hmac=0123456789abcdef key=01234567]".to_owned()),
        Just("[masked rule=".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("-----END PRIVATE KEY-----".to_owned()),
        Just("Private-Lines: 1\n".to_owned()),
        Just("Private-MAC: 0123456789abcdef".to_owned()),
        Just(concat!("gh", "p_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8").to_owned()),
        Just(concat!("AK", "IAIOSFODNN7EXAMPLQ").to_owned()),
        Just("wJalrXUtnFEMIbK7MDENGxbPxRfiCYEXAMPLEKEY".to_owned()),
        Just("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl".to_owned()),
        Just("hunter2-Correct".to_owned()),
        Just("\\\"".to_owned()),
        "[ =:@/?&,;'\"`<>(){}\\[\\]\\\\$%\n.#|-]{1,2}",
        "[a-zé€😀0-9A-Z]{1,9}",
        "[ =:\"]",
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

/// JSON values with names and texts that rules look for.
pub(super) fn values() -> impl Strategy<Value = serde_json::Value> {
    let name = prop_oneof![
        Just("password".to_owned()),
        Just("name".to_owned()),
        Just("value".to_owned()),
        Just("kind".to_owned()),
        Just("data".to_owned()),
        "[a-z_]{0,6}",
        pieces()
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        Just("Secret".into()),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
        pieces().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec((name.clone(), inner.clone()), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            inner.prop_map(|value| value.to_string().into()),
        ]
    })
}

fn tight() -> Limits {
    Limits {
        inline: 60,
        value: 200,
        head: 5,
        depth: 3,
    }
}

fn json_under(limits: &Limits, input: &str) -> String {
    write_any(limits, Shelf::default(), input).0
}

pub(super) fn tries() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(400);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(tries())]

    #[test]
    fn any_text_is_written_as_json(input in any::<String>(), key in any::<String>()) {
        parsed(&write_str(&key, &input));
        parsed(&json_under(&tight(), &input));
    }

    #[test]
    fn any_mix_of_pieces_is_written_as_json(input in pieces(), key in pieces()) {
        parsed(&write_str(&key, &input));
        parsed(&json_under(&tight(), &input));
    }

    #[test]
    fn any_json_is_written_as_json(value in values()) {
        let input = value.to_string();
        prop_assert!(!clean_json(&input).contains('\n'));
        parsed(&clean_json(&input));
        parsed(&json_under(&tight(), &input));
    }

    #[test]
    fn json_is_accepted_exactly_when_it_parses(input in "[\\[\\]{},:\"\\\\u0-9eE.+ atrufalsn-]{0,12}") {
        let valid = serde_json::from_str::<serde_json::Value>(&input).is_ok();
        prop_assert_eq!(try_json("field", &input).is_ok(), valid, "{}", input);
    }

    #[test]
    fn masking_a_text_twice_is_masking_it_once(input in pieces()) {
        let once = text(&input);
        prop_assert_eq!(text(&once), once, "from {:?}", input);
    }

    #[test]
    fn masking_json_twice_is_masking_it_once(value in values()) {
        let once = clean_json(&value.to_string());
        prop_assert_eq!(clean_json(&once), once);
    }

    #[test]
    fn what_is_found_is_sorted_apart_and_on_characters(input in pieces()) {
        let mut at = 0;
        for found in redactor().find(&input) {
            prop_assert!(found.secret.start >= at && found.secret.end > found.secret.start);
            prop_assert!(found.whole.start <= found.secret.start && found.whole.end >= found.secret.end);
            prop_assert!(input.get(found.whole.clone()).is_some());
            at = found.secret.end;
        }
    }

    #[test]
    fn a_token_is_found_wherever_it_stands(before in pieces(), after in pieces()) {
        let token = concat!("gh", "o_Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2");
        let output = text(&format!("{before} {token} {after}"));
        prop_assert!(!output.contains(token), "{}", output);
    }
}
