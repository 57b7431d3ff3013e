//! The scenarios that redaction as a whole must stand up to.

use proptest::prelude::*;

use super::*;

#[path = "../../tests/support/secrets.rs"]
mod tables;

/// Keeps everything in memory, or nothing.
#[derive(Default)]
struct Shelf {
    blobs: Vec<(String, Vec<u8>)>,
    broken: bool,
}

impl Store for Shelf {
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed> {
        if self.broken {
            return Err(StoreFailed);
        }
        self.blobs.push((sha256.to_owned(), bytes.to_vec()));
        Ok(())
    }
}

fn redactor() -> Redactor {
    with(&Redaction::new())
}

fn with(config: &Redaction) -> Redactor {
    Redactor::new(config, MaskKey::new([7; 32])).expect("the patterns compile")
}

fn text(input: &str) -> String {
    redactor().text(input, &mut Tally::default()).into_owned()
}

fn write_str(key: &str, input: &str) -> String {
    let mut out = Vec::new();
    let mut tally = Tally::default();
    redactor().write_str(
        key,
        input,
        &Limits::default(),
        &mut Shelf::default(),
        &mut out,
        &mut tally,
    );
    String::from_utf8(out).expect("output is UTF-8")
}

fn try_json(key: &str, input: &str) -> Result<String, NotJson> {
    let mut out = Vec::new();
    let mut tally = Tally::default();
    redactor().write_json(
        key,
        input,
        &Limits::default(),
        &mut Shelf::default(),
        &mut out,
        &mut tally,
    )?;
    Ok(String::from_utf8(out).expect("output is UTF-8"))
}

fn json(input: &str) -> String {
    try_json("field", input).expect("valid JSON")
}

fn parsed(output: &str) -> serde_json::Value {
    serde_json::from_str(output).expect("output parses")
}

#[test]
fn every_secret_is_masked_in_every_position() {
    let mut leaks = Vec::new();
    for (family, secret) in tables::secrets() {
        let core = tables::core(&secret);
        for (position, input) in tables::positions(&secret) {
            let plain = write_str("message", &input);
            let structured = try_json("message", &input).unwrap_or_default();
            for output in [&plain, &structured] {
                if output.contains(core) {
                    leaks.push(format!("{family} / {position}: {output}"));
                }
            }
        }
    }
    assert!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
}

#[test]
fn every_secret_with_a_shape_or_context_is_masked_on_its_own() {
    let leaks: Vec<String> = tables::secrets()
        .iter()
        .filter(|(_, secret)| text(secret).contains(tables::core(secret)))
        .map(|(family, secret)| format!("{family}: {}", text(secret)))
        .collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[test]
fn every_look_alike_stays_as_it_is() {
    let mut changed = Vec::new();
    for input in tables::look_alikes() {
        let clean = text(&input);
        if clean != input {
            changed.push(format!("text {input}\n  -> {clean}"));
        }
        let written = parsed(&write_str("message", &input));
        if written != serde_json::Value::from(input.clone()) {
            changed.push(format!("write_str {input}\n  -> {written}"));
        }
        if let Ok(structured) = try_json("message", &input)
            && structured != input
        {
            changed.push(format!("write_json {input}\n  -> {structured}"));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn masking_what_is_masked_changes_nothing() {
    for (family, secret) in tables::secrets() {
        for (position, input) in tables::positions(&secret) {
            let once = text(&input);
            assert_eq!(text(&once), once, "{family} / {position}");
            if let Ok(once) = try_json("message", &input) {
                assert_eq!(json(&once), once, "{family} / {position}");
            }
        }
    }
}

#[test]
fn a_name_of_many_styles_is_sensitive() {
    for key in [
        "password",
        "Passwd",
        "DB_PASSWORD",
        "dbPassword",
        "PGPASSWORD",
        "user.password",
        "pwd",
        "passphrase",
        "api_key",
        "apiKey",
        "APIKEY",
        "X-Api-Key",
        "apikey",
        "HTTPAuthorization",
        "Authorization",
        "proxy-authorization",
        "cookie",
        "Set-Cookie",
        "credentials",
        "secret",
        "client_secret",
        "clientSecret",
        "AWS_SECRET_ACCESS_KEY",
        "aws access key",
        "private_key",
        "signingKey",
        "encryption-key",
        "AccountKey",
        "refresh_token",
        "access_token",
        "idToken",
        "session_token",
        "auth_token",
        "authToken",
        "x-auth-token",
        "bearer",
        "jwt",
        "otp",
        "connection_string",
        "ConnectionString",
        "webhook_url",
        "GITHUB_TOKEN",
        "token",
        "slack_bot_token",
        "api_key_openai",
        "password1",
        "secret_key",
        "GITHUB_PAT",
        "SMTP_PASS",
        "dsn",
        "sas_token",
        "passcode",
        "password_hash",
        "x-amz-security-token",
        "api keys",
    ] {
        let output = json(&format!(r#"{{"{key}":"some value"}}"#));
        assert!(output.contains("[masked rule=key:"), "{key}: {output}");
    }
}

#[test]
fn a_name_that_only_sounds_sensitive_is_not() {
    for key in [
        "input_tokens",
        "max_tokens",
        "maxTokens",
        "token_count",
        "tokens",
        "token_type",
        "token_limit",
        "token_usage",
        "tokenizer",
        "prompt_tokens",
        "reasoning_tokens",
        "next_page_token",
        "pageToken",
        "public_key",
        "secret_name",
        "secret_id",
        "password_policy",
        "key",
        "keyboard",
        "author",
        "authority",
        "cookie_policy",
        "cache_key",
        "primary_key",
        "sort_key",
        "foreign_key",
        "keys",
        "session_id",
        "pinned",
        "pin_count",
        "passed",
        "passes",
        "path",
        "pattern",
        "compass",
        "design",
        "signature",
        "bypass",
        "completion_tokens_details",
        "time_to_first_token",
        "tokens_per_second",
        "eos_token",
        "authorized",
        "access_key_id",
        "webhook_id",
        "connection",
        "monkey",
        "keywords",
        "spin",
        "token_budget",
        "authorization_endpoint",
        "cookie_consent",
        "continuation_token",
    ] {
        let input = format!(r#"{{"{key}":"some value"}}"#);
        assert_eq!(json(&input), input, "{key}");
    }
}

#[test]
fn the_more_telling_rule_names_the_mask() {
    let key = concat!("s", "k-ant-api03-AbCdEfGh1234567890abcdefgh");
    for input in [
        key.to_owned(),
        format!("ANTHROPIC_API_KEY={key}"),
        format!("Bearer {key}"),
    ] {
        assert!(
            text(&input).contains("rule=anthropic-key "),
            "{}",
            text(&input)
        );
    }
}
