//! Redaction settings of the builder.

use serde_json::json;
use spanledger::{Error, Redaction, SpanExt, events, spans};

use crate::support::{LineExt, Recording};

/// Shaped like a token of a code host.
fn token() -> String {
    format!("{}{}", concat!("gh", "p_"), "A1b2C3d4E5".repeat(4))
}

fn recording(redaction: Redaction) -> Recording {
    Recording::with(|builder| builder.redact(redaction))
}

/// The content of one message as it was read back.
fn message(recording: &Recording, content: &str) -> String {
    recording.run(|| events::message_user(content).emit());
    let trace = recording.trace();
    trace.one("message_user").text("content").to_owned()
}

#[test]
fn user_rule_masks_group_or_whole_match() {
    let recording = recording(
        Redaction::new()
            .rule("badge", r"BADGE-(?<secret>\d{6})")
            .rule("room", r"room \d+"),
    );
    let content = message(&recording, "BADGE-123456 opens room 42 for Ann");
    assert!(
        content.starts_with("BADGE-[masked rule=badge bytes=6 hmac="),
        "{content}"
    );
    assert!(
        content.contains("] opens [masked rule=room bytes=7 hmac="),
        "{content}"
    );
    assert!(content.ends_with("] for Ann"), "{content}");
    assert_eq!(recording.guard.health().masked, 2);
}

#[test]
fn user_rule_reaches_nested_values_and_names() {
    let recording = recording(Redaction::new().rule("badge", r"BADGE-\d{6}"));
    recording.run(|| {
        let deep =
            json!({"BADGE-123456": [{"x": "BADGE-123456"}], "json": "{\"y\":\"BADGE-123456\"}"});
        let tool = spans::tool_call("bash", "BADGE-123456").args(deep).start();
        tool.set("BADGE-123456", 1);
        let mut out = tool.stream("m");
        out.push("BADGE-");
        out.push("123456 is mine, and so on and on");
        out.end();
    });
    let bytes = recording.trace().bytes();
    assert_eq!(memchr::memmem::find(&bytes, b"123456"), None);
    assert!(recording.guard.health().masked >= 7);
}

#[test]
fn user_key_matches_every_case_style() {
    let recording = recording(Redaction::new().key("door code"));
    let codes = json!({"doorCode": "a1", "DOOR_CODE": "a2", "front-door-code": "a3", "code": "a4", "doorcode": "a5"});
    recording.run(|| events::custom("codes", codes).emit());
    let trace = recording.trace();
    let line = trace.one("codes");
    for name in ["doorCode", "DOOR_CODE", "front-door-code", "doorcode"] {
        let rule = format!("[masked rule=key:{name} bytes=2 ");
        assert!(line.text(name).starts_with(&rule), "{}", line.text(name));
    }
    assert_eq!(line.text("code"), "a4");
}

#[test]
fn exempt_key_keeps_value_without_secret_shape() {
    let recording = recording(Redaction::new().exempt_key("team_token"));
    let teams = json!({"team_token": "blue", "teamToken": "green", "token": "blue-7-green", "TEAM_TOKEN": token()});
    recording.run(|| events::custom("teams", teams).emit());
    let trace = recording.trace();
    let line = trace.one("teams");
    assert_eq!(
        (line.text("team_token"), line.text("teamToken")),
        ("blue", "green")
    );
    assert!(line.text("token").starts_with("[masked rule=key:token "));
    assert!(line.text("TEAM_TOKEN").starts_with("[masked rule=github"));
}

#[test]
fn without_value_shapes_only_keys_and_rules_mask() {
    let redaction = Redaction::new()
        .without_value_shapes()
        .rule("badge", r"BADGE-\d{6}");
    let recording = recording(redaction);
    let input = format!("{} and --password hunter2-Correct", token());
    recording.run(|| {
        events::custom(
            "mine",
            json!({"note": input, "password": "x1", "body": "{\"api_key\":\"y2\"}"}),
        )
        .emit();
        events::message_user("BADGE-123456").emit();
    });
    let trace = recording.trace();
    let line = trace.one("mine");
    assert_eq!(line.text("note"), input);
    assert!(
        line.text("password")
            .starts_with("[masked rule=key:password bytes=2 ")
    );
    assert!(
        line.text("body")
            .starts_with("{\"api_key\":\"[masked rule=key:api_key bytes=2 ")
    );
    assert!(
        trace
            .one("message_user")
            .text("content")
            .starts_with("[masked rule=badge ")
    );
}

#[test]
fn invalid_pattern_is_an_error_naming_the_rule() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let redaction = Redaction::new().rule("fine", "a+").rule("badge", "BADGE-(");
    let built = spanledger::builder().root(&root).redact(redaction);
    let error = built.build::<tracing_subscriber::Registry>().unwrap_err();
    assert!(matches!(error, Error::Pattern(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("`badge`") && text.contains("`BADGE-(`"),
        "{text}"
    );
    assert!(!root.join("sessions").exists());
}
