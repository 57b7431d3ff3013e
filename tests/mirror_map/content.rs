//! What is content, sent or not.

use serde_json::json;
use spanledger::mirror::without_content;
use spanledger::{SpanExt, spans};

use crate::scene::{attributes, digest, named, one, sent};

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
fn with_the_opt_in_content_goes_as_it_stands_in_the_line() {
    let spans = sent(Some(json!({"content": true})), agent);
    let said = attributes(&named(&spans, "execute_tool bash").attributes);
    assert_eq!(
        said["gen_ai.tool.call.arguments"],
        r#"{"command":"ls","deep":[1,{"a":null}]}"#
    );
    assert_eq!(said["gen_ai.tool.call.result"], "Cargo.toml\nsrc");
    assert_eq!(said["agent.command"], "ls -l");
    assert_eq!(said["agent.stdout"], "Cargo.toml");
    assert_eq!(said["agent.extra"], r#"{"k":"v"}"#);
    assert_eq!(said["agent.shard"], 7);
    assert!(said["agent.trace.address"].is_string());
    assert_eq!(said.get("agent.args.bytes"), None);
}

#[test]
fn without_the_opt_in_no_content_leaves_only_lengths_and_digests() {
    use prost::Message;
    let spans = sent(None, agent);
    let span = named(&spans, "execute_tool bash");
    let said = attributes(&span.attributes);
    let args = r#"{"command":"ls","deep":[1,{"a":null}]}"#;
    assert_eq!(said["agent.args.bytes"], args.len());
    assert_eq!(said["agent.args.sha256"], digest(args));
    assert_eq!(said["agent.result.sha256"], digest("Cargo.toml\nsrc"));
    assert_eq!(said["agent.stdout.bytes"], 10);
    assert_eq!(said["agent.extra.bytes"], 9);
    assert_eq!(said["agent.shard"], 7);
    assert_eq!(said["agent.owner"], "build");
    let bytes = span.encode_to_vec();
    for secret in ["Cargo.toml", "ls -l", "deep"] {
        let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!found, "{secret}");
    }
}

#[test]
fn the_texts_of_a_model_call_and_of_its_older_names_are_content() {
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
fn other_fields_by_the_conventions_names_keep_them() {
    let payload = json!({"gen_ai.usage.cache_creation.input_tokens": 3,
        "gen_ai.response.finish_reasons": ["stop"]});
    let said = attributes(&one(json!({}), "model_result", payload).unwrap().attributes);
    assert_eq!(said["gen_ai.usage.cache_creation.input_tokens"], 3);
    assert_eq!(said["gen_ai.response.finish_reasons"], json!(["stop"]));
}

#[test]
fn a_value_that_was_moved_out_or_cut_is_told_by_what_the_line_says_of_it() {
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
    assert_eq!(off["agent.result.sha256"], sha);
    assert_eq!(off["agent.result.cut"], 5);
    assert_eq!(off["agent.args.bytes"], 9);
    assert_eq!(off["agent.args.cut"], 9);
    assert_eq!(off["agent.stderr.bytes"], 4);
    assert_eq!(off["agent.stderr.sha256"], digest("ab\u{fffd}"));
    let on = one(json!({"content": true}), "tool_result", payload).unwrap();
    let said = attributes(&on.attributes);
    assert_eq!(said["gen_ai.tool.call.result"], blob.to_string());
    assert_eq!(said["gen_ai.tool.call.arguments"], cut.to_string());
    // A server that finds it too large gets the same digests.
    let least = attributes(&without_content(on).attributes);
    assert_eq!(least["agent.result.bytes"], 70000);
    assert_eq!(least["agent.result.sha256"], sha);
}

#[test]
fn a_marker_that_a_user_made_up_is_measured_like_anything_else() {
    let forged = json!({"$blob": "not a digest", "bytes": 1});
    let payload = json!({"result": forged});
    let said = attributes(&one(json!({}), "tool_result", payload).unwrap().attributes);
    assert_eq!(said["agent.result.bytes"], forged.to_string().len());
    assert_eq!(said["agent.result.sha256"], digest(&forged.to_string()));
}

#[test]
fn a_span_that_is_too_large_is_sent_with_digests_for_all_that_is_long() {
    use prost::Message;
    let long = "x".repeat(100_000);
    let payload = json!({"outcome": "error", "error": {"error_type": "E", "message": long},
        "tool_id": "bash", "args": "ls", "result": long, "note": long, "shard": 7,
        "events": [{"ts": "2026-11-16T00:31:05.123456Z", "name": "log", "message": long}]});
    let whole = one(json!({"content": true}), "tool_result", payload.clone()).unwrap();
    assert!(whole.encoded_len() > 400_000);
    let least = without_content(whole.clone());
    assert!(least.encoded_len() < 2_000, "{}", least.encoded_len());
    let said = attributes(&least.attributes);
    for name in ["result", "note"] {
        assert_eq!(said[format!("agent.{name}.bytes")], 100_000);
        assert_eq!(said[format!("agent.{name}.sha256")], digest(&long));
    }
    // Content is gone however short.
    assert_eq!(said.get("gen_ai.tool.call.arguments"), None);
    assert_eq!(said["agent.args.sha256"], digest("ls"));
    assert_eq!(said["agent.shard"], 7);
    assert_eq!(said["gen_ai.tool.name"], "bash");
    assert_eq!(said["agent.trace.address"], "s/1:17");
    assert_eq!(said["agent.content_removed"], "too_large");
    assert_eq!(said["agent.cut.status"], 100_000 - 256);
    assert_eq!(least.status.as_ref().unwrap().message.len(), 256);
    let event = attributes(&least.events[0].attributes);
    assert_eq!(event["agent.message.bytes"], 100_000);
    assert_eq!(least.span_id, whole.span_id);
    assert_eq!(without_content(least.clone()), least);
}
