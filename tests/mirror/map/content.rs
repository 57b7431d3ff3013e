//! Content, with and without the opt-in.

use serde_json::json;
use spanledger::mirror::without_content;
use spanledger::{SpanExt, spans};

use crate::map::setup::{attributes, digest, hmac, named, one, sent};

fn agent() {
    let tool = spans::tool_call("bash", "c1")
        .args(json!({"command": "ls", "deep": [1, {"a": null}]}))
        .command("ls -l")
        .start();
    tool.record_result("Cargo.toml\nsrc");
    tool.set("stdout", "Cargo.toml");
    tool.set("shard", 7);
    tool.set("owner", "build");
    tool.set("extra", json!({"k": "v"}));
}

#[test]
fn opt_in_sends_content_unchanged() {
    let spans = sent(Some(json!({"content": true})), agent);
    let sent_attributes = attributes(&named(&spans, "execute_tool bash").attributes);
    assert_eq!(
        sent_attributes["gen_ai.tool.call.arguments"],
        r#"{"command":"ls","deep":[1,{"a":null}]}"#
    );
    assert_eq!(
        sent_attributes["gen_ai.tool.call.result"],
        "Cargo.toml\nsrc"
    );
    assert_eq!(sent_attributes["agent.command"], "ls -l");
    assert_eq!(sent_attributes["agent.stdout"], "Cargo.toml");
    assert_eq!(sent_attributes["agent.extra"], r#"{"k":"v"}"#);
    assert_eq!(sent_attributes["agent.shard"], 7);
    assert!(sent_attributes["agent.trace.address"].is_string());
    assert_eq!(sent_attributes.get("agent.args.bytes"), None);
}

#[test]
fn without_opt_in_only_lengths_and_digests() {
    use prost::Message;
    let spans = sent(None, agent);
    let span = named(&spans, "execute_tool bash");
    let sent_attributes = attributes(&span.attributes);
    let args = r#"{"command":"ls","deep":[1,{"a":null}]}"#;
    assert_eq!(sent_attributes["agent.args.bytes"], args.len());
    assert_eq!(sent_attributes["agent.args.hmac"], hmac(args));
    assert_eq!(
        sent_attributes["agent.result.hmac"],
        hmac("Cargo.toml\nsrc")
    );
    assert_eq!(sent_attributes["agent.stdout.bytes"], 10);
    assert_eq!(sent_attributes["agent.extra.bytes"], 9);
    assert_eq!(sent_attributes["agent.owner.hmac"], hmac("build"));
    assert_eq!(sent_attributes.get("agent.shard"), None);
    let bytes = span.encode_to_vec();
    for secret in ["Cargo.toml", "ls -l", "deep", "build"] {
        let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!found, "{secret}");
    }
}

#[test]
fn model_texts_under_older_names_are_content() {
    let fields = [
        ("input_messages", "gen_ai.input.messages"),
        ("gen_ai.output.messages", "gen_ai.output.messages"),
        ("gen_ai.prompt.0.content", "gen_ai.prompt.0.content"),
        ("gen_ai.completion", "gen_ai.completion"),
        ("system_instructions", "gen_ai.system_instructions"),
        ("prompt", "agent.prompt"),
    ];
    for (field, key) in fields {
        let payload = json!({field: "hello"});
        let on = one(json!({"content": true}), "model_result", payload.clone()).unwrap();
        assert_eq!(attributes(&on.attributes)[key], "hello");
        let off = attributes(&one(json!({}), "model_result", payload).unwrap().attributes);
        assert_eq!(off.get(key), None);
        assert_eq!(off[format!("agent.{field}.bytes")], 5, "{field}");
    }
}

#[test]
fn other_semantic_convention_fields_keep_names() {
    let payload = json!({"gen_ai.usage.cache_creation.input_tokens": 3,
        "gen_ai.response.finish_reasons": ["stop"]});
    let sent_attributes = attributes(&one(json!({}), "model_result", payload).unwrap().attributes);
    assert_eq!(
        sent_attributes["gen_ai.usage.cache_creation.input_tokens"],
        3
    );
    assert_eq!(
        sent_attributes["gen_ai.response.finish_reasons"],
        json!(["stop"])
    );
}

#[test]
fn blob_or_truncated_value_is_sent_as_its_marker() {
    let sha = "ab".repeat(32);
    let blob = json!({"$blob": sha, "bytes": 70000, "media_type": "text/plain", "head": "abc",
        "$cut": {"bytes": 5, "sha256": sha, "rule": "value-limit"}});
    let cut = json!({"$cut": {"bytes": 9, "sha256": sha, "rule": "blob-failed"}, "head": "x"});
    let lossy = json!({"$lossy": {"bytes": 4, "replaced": 1}, "text": "ab\u{fffd}"});
    let payload = json!({"result": blob, "args": cut, "stderr": lossy});
    let off = attributes(
        &one(json!({}), "tool_result", payload.clone())
            .unwrap()
            .attributes,
    );
    assert_eq!(off["agent.result.bytes"], 70000);
    assert_eq!(off["agent.result.hmac"], hmac(&sha));
    assert_eq!(off["agent.result.cut"], 5);
    assert_eq!(off["agent.args.bytes"], 9);
    assert_eq!(off["agent.args.cut"], 9);
    assert_eq!(off["agent.stderr.bytes"], 4);
    assert_eq!(off["agent.stderr.hmac"], hmac("ab\u{fffd}"));
    let on = one(json!({"content": true}), "tool_result", payload).unwrap();
    let sent_attributes = attributes(&on.attributes);
    assert_eq!(sent_attributes["gen_ai.tool.call.result"], blob.to_string());
    assert_eq!(
        sent_attributes["gen_ai.tool.call.arguments"],
        cut.to_string()
    );
    // A server that finds it too large gets the same digests.
    let least = attributes(&without_content(on).attributes);
    assert_eq!(least["agent.result.bytes"], 70000);
    assert_eq!(least["agent.result.sha256"], sha);
}

#[test]
fn forged_marker_is_measured_as_a_value() {
    let forged = json!({"$blob": "not a digest", "bytes": 1});
    let payload = json!({"result": forged});
    let sent_attributes = attributes(&one(json!({}), "tool_result", payload).unwrap().attributes);
    assert_eq!(
        sent_attributes["agent.result.bytes"],
        forged.to_string().len()
    );
    assert_eq!(
        sent_attributes["agent.result.hmac"],
        hmac(&forged.to_string())
    );
}

#[test]
fn oversized_span_has_digests_for_long_values() {
    use prost::Message;
    let long = "x".repeat(100_000);
    let payload = json!({"outcome": "error", "error": {"error_type": "E", "message": long},
        "tool_id": "bash", "args": "ls", "result": long, "note": long, "shard": 7,
        "events": [{"ts": "2026-11-16T00:31:05.123456Z", "name": "log", "message": long}]});
    let whole = one(json!({"content": true}), "tool_result", payload.clone()).unwrap();
    assert!(whole.encoded_len() > 400_000);
    let least = without_content(whole.clone());
    assert!(least.encoded_len() < 2_000, "{}", least.encoded_len());
    let sent_attributes = attributes(&least.attributes);
    for name in ["result", "note"] {
        assert_eq!(sent_attributes[format!("agent.{name}.bytes")], 100_000);
        assert_eq!(
            sent_attributes[format!("agent.{name}.sha256")],
            digest(&long)
        );
    }
    // Content is gone however short.
    assert_eq!(sent_attributes.get("gen_ai.tool.call.arguments"), None);
    assert_eq!(sent_attributes["agent.args.sha256"], digest("ls"));
    assert_eq!(sent_attributes["agent.shard"], 7);
    assert_eq!(sent_attributes["gen_ai.tool.name"], "bash");
    assert_eq!(sent_attributes["agent.trace.address"], "s/1:17");
    assert_eq!(sent_attributes["agent.content_removed"], "too_large");
    assert_eq!(sent_attributes["agent.cut.status"], 100_000 - 256);
    assert_eq!(least.status.as_ref().unwrap().message.len(), 256);
    let event = attributes(&least.events[0].attributes);
    assert_eq!(event["agent.message.bytes"], 100_000);
    assert_eq!(least.span_id, whole.span_id);
    assert_eq!(without_content(least.clone()), least);
}
