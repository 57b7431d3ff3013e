//! JSON that arrives piece by piece is redacted like the same JSON at once.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::properties::{tries, values};
use super::streams::stream_by;
use super::*;

/// What is written of a JSON text that is there at once, white space included.
fn at_once(json: &str) -> String {
    let redacted = redactor().redact_string(json, 0, &mut Tally::default());
    redacted.into_owned()
}

fn by(json: &str, size: usize) -> String {
    stream_by(redactor(), json, std::iter::repeat(size)).shown
}

/// A secret that nothing but its name gives away.
const SECRET: &str = "correct horse battery";

#[test]
fn streamed_json_is_masked_by_name() {
    let long = "a lot of words ".repeat(60);
    for json in [
        json!({ "a": { "b": [{ "password": SECRET }] } }).to_string(),
        json!({ "env": [{ "name": "API_KEY", "value": SECRET }] }).to_string(),
        json!({ "name": "API_KEY", "note": long, "value": SECRET }).to_string(),
        json!({ "Name": "/prod/db/password", "Type": "SecureString", "Value": SECRET }).to_string(),
        json!({ "credentials": [SECRET, { "user": SECRET }], "b": 1 }).to_string(),
        json!({ "argv": ["run", "--password", SECRET] }).to_string(),
        json!({ "argv": ["curl", "-u", format!("ann:{SECRET}")] }).to_string(),
        json!({ "body": json!({ "tokens": 3, "secrets": [SECRET] }).to_string() }).to_string(),
        json!({ "body": json!({ "note": long, "secrets": [SECRET] }).to_string() }).to_string(),
        json!({ "note": format!("{long}\npassword:\t'{SECRET}'") }).to_string(),
        format!(r#"{{"p\u0061ssword" : "{SECRET}", "b" : [ 1, 2 ]}}"#),
        format!(r#"{{"note": "{long} p\u0061ssword='{SECRET}'"}}"#),
        format!("  [true, -1.5e3, null, {{\n  \"api_key\": \"{SECRET}\"\n}}]\n"),
    ] {
        let expected = at_once(&json);
        assert!(!expected.contains(SECRET), "{expected}");
        for size in [1, 2, 3, 7, 64, 10_000] {
            assert_eq!(by(&json, size), expected, "by {size}: {json}");
        }
    }
}

/// The values of `kubectl get secret -o json`, also in a list, in a string, and with the kind first.
#[test]
fn values_of_kubernetes_secrets_are_masked() {
    let data = r#""data": {"user": "YWRtaW4=", "one.txt": "c2VjcmV0LXZhbHVl"}"#;
    let printed = format!(
        "{{\n \"apiVersion\": \"v1\",\n {data},\n \"kind\": \"Secret\", \"type\": \"Opaque\"}}"
    );
    let frozen = printed.replace(" \"kind\"", " \"immutable\": true,\n \"kind\"");
    let kind_first = format!(r#"{{"kind": "Secret", {data}}}"#);
    let list = format!(r#"{{"items": [{kind_first}, {printed}]}}"#);
    let string = serde_json::json!({"output": printed, "more": "x".repeat(600)}).to_string();
    for json in [printed, frozen, kind_first, list, string] {
        let outputs = [1, 7, 64, 4096].map(|size| by(&json, size));
        for output in outputs.into_iter().chain([at_once(&json)]) {
            for value in ["YWRtaW4=", "c2VjcmV0LXZhbHVl"] {
                assert!(!output.contains(value), "{output}");
            }
            assert!(output.contains("one.txt"), "{output}");
        }
    }
    let other = format!(r#"{{{data},"kind":"ConfigMap"}}"#);
    assert!(at_once(&other).contains("YWRtaW4=") && by(&other, 7).contains("YWRtaW4="));
}

#[test]
fn streamed_json_that_breaks_off_is_masked() {
    let json = json!({ "a": 1, "secrets": [SECRET, { "deep": SECRET }], "b": 2 }).to_string();
    for cut in 0..json.len() {
        let shown = by(&json[..cut], 3);
        assert!(!shown.contains("horse"), "{shown}");
    }
}

#[test]
fn what_only_starts_like_json_is_redacted_as_text() {
    for text in [
        "[link](https://ann:correct-horse@example.com) and more",
        "{ password: correct-horse-9, and: more }",
        "{\"a\": 1} and then password=correct-horse",
        "[1 2] --password correct-horse now",
        "{\"a\": \"\\x --password correct-horse now\"}",
        "[\"a\nb\", \"--password correct-horse now\"]",
        "{\"a\" \"b\", \"password\": \"correct-horse\"}",
    ] {
        for size in [1, 5, 1000] {
            let shown = by(text, size);
            assert!(!shown.contains("correct-horse"), "by {size}: {shown}");
            assert!(shown.contains("[masked rule="), "{shown}");
        }
    }
}

#[test]
fn long_values_of_streamed_json_are_masked_in_parts() {
    let long = "correct horse ".repeat(20_000);
    for json in [
        json!({ "password": long, "b": 2 }),
        json!({ "secrets": [[long], { "a": long }], "b": 2 }),
    ] {
        let shown = by(&json.to_string(), 1000);
        assert!(!shown.contains("horse") && shown.len() < 50_000);
        let shown: Value = serde_json::from_str(&shown).expect("still JSON");
        assert_eq!(shown["b"], 2);
    }
}

#[test]
fn streaming_json_takes_what_its_length_says() {
    let long = "words and more words ".repeat(10_000);
    for json in [
        json!({ "content": long }),
        json!({ "password": long }),
        json!({ "secrets": vec!["x"; 50_000] }),
        json!(vec!["x"; 2_000]),
    ] {
        let json = json.to_string();
        let streamed = stream_by(redactor(), &json, std::iter::repeat(4));
        let per_byte = streamed.looked_at / json.len();
        assert!(per_byte <= 1000, "each byte {per_byte} times");
    }
}

/// JSON in which secrets stand under sensitive names, and the secrets. Some names are spelled with
/// escapes.
fn planted() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["password", "api_key", "clientSecret", "DB_PASSWORD"]);
    let secret = prop_oneof![
        Just(json!(SECRET)),
        Just(json!([SECRET, 1, [SECRET]])),
        Just(json!({ "a": SECRET })),
        Just(json!(format!(
            "{SECRET} {}",
            "\"quoted\" and \\ more ".repeat(40)
        ))),
    ];
    let plain = (name.clone(), secret).prop_map(|(name, secret)| json!({ name: secret }));
    let pair = name.prop_map(|name| json!({ "name": name, "other": true, "value": SECRET }));
    let planted = prop_oneof![plain, pair];
    let tree = planted.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Value::from),
            ("[a-z]{1,5}", inner.clone()).prop_map(|(name, value)| json!({ name: value })),
            inner
                .clone()
                .prop_map(|value| json!({ "body": value.to_string() })),
            inner.prop_map(|value| json!({ "text": "words ".repeat(100), "value": value })),
        ]
    });
    (tree, any::<bool>()).prop_map(|(tree, escape)| match escape {
        true => tree.to_string().replace("assword", "\\u0061ssword"),
        false => tree.to_string(),
    })
}

proptest! {
    #![proptest_config(tries())]

    #[test]
    fn planted_secrets_are_masked_at_any_split(
        json in planted(),
        sizes in prop::collection::vec(1..40usize, 1..20),
    ) {
        prop_assert!(!at_once(&json).contains("horse"));
        let shown = stream_by(redactor(), &json, sizes.into_iter().cycle()).shown;
        prop_assert!(!shown.contains("horse"), "{}", shown);
    }

    #[test]
    fn any_json_is_streamed_as_it_is_written_at_once(
        value in values(),
        sizes in prop::collection::vec(1..40usize, 1..20),
    ) {
        let json = json!([value]).to_string();
        let shown = stream_by(redactor(), &json, sizes.into_iter().cycle()).shown;
        prop_assert_eq!(shown, at_once(&json));
    }
}

/// Names that mean little by themselves, as in text: with what a random generator made, and as one half of a pair.
#[test]
fn generated_values_under_names_that_say_little_are_masked() {
    let random = "x7Kp2mQ9vL4tR8wZ1bN5";
    for json in [
        json!({ "key": random }),
        json!({ "a": [{ "api": random }, { "access": random }] }),
        json!({ "env": [{ "key": "DB_PASSWORD", "type": "x", "value": random }] }),
    ] {
        let json = json.to_string();
        for size in [1, 2, 3, 7, 64] {
            assert!(!by(&json, size).contains(random), "by {size}: {json}");
        }
        assert!(!at_once(&json).contains(random), "{json}");
    }
    let other = json!({ "key": "src/main.rs", "api": "v1beta1", "access": "0123456789abcdef0123" });
    assert_eq!(at_once(&other.to_string()), other.to_string());
}
