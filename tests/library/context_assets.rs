//! System prompt, tool catalog and permission rules are stored once per session and referenced by
//! digest.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use spanledger::{events, spans};
use tracing::info;

use crate::support::{LineExt, Recording};

const PROMPT: &str = "You are a careful agent.";

fn sha256(text: &str) -> String {
    let hex = Sha256::digest(text.as_bytes());
    hex.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tools() -> Value {
    json!([{"name": "bash", "description": "runs", "schema": {"type": "object"}}])
}

fn rules() -> Value {
    json!([{"pattern": "rm *", "action": "deny"}])
}

#[test]
fn system_prompt_is_stored_once_then_by_digest() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt(PROMPT)
            .sources(json!(["base"]))
            .emit();
        events::system_prompt(PROMPT).emit();
        events::system_prompt("Another one.").emit();
        events::system_prompt(PROMPT).emit();
    });
    let trace = recording.trace();
    let stored: Vec<_> = trace
        .all("system_prompt")
        .into_iter()
        .map(|line| Value::Object(line.payload.clone()))
        .collect();
    let (first, other) = (sha256(PROMPT), sha256("Another one."));
    assert_eq!(
        stored,
        [
            json!({"digest": first, "body": PROMPT, "sources": ["base"]}),
            json!({"digest": first}),
            json!({"digest": other, "body": "Another one."}),
            json!({"digest": first}),
        ]
    );
}

#[test]
fn tool_catalog_and_permission_rules_are_stored_once() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        for _ in 0..2 {
            events::tool_catalog(tools()).emit();
            events::permission_rules(rules()).emit();
        }
    });
    let trace = recording.trace();
    for (kind, body, value) in [
        ("tool_catalog", "tools", tools()),
        ("permission_rules", "rules", rules()),
    ] {
        let lines = trace.all(kind);
        assert_eq!(lines[0].get(body), &value);
        assert_eq!(lines[1].get(body), &Value::Null);
        assert_eq!(lines[0].text("digest"), lines[1].text("digest"));
        assert_eq!(lines[0].text("digest").len(), 64);
    }
}

#[test]
fn model_calls_carry_the_current_digests() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::model_call("anthropic", "before").start());
        events::system_prompt(PROMPT).emit();
        events::tool_catalog(tools()).emit();
        events::permission_rules(rules()).emit();
        drop(spans::model_call("anthropic", "after").start());
        drop(tracing::info_span!("model.call", model_id = "by macro"));
        events::system_prompt("Another one.").emit();
        drop(spans::model_call("anthropic", "changed").start());
        drop(spans::permission_evaluate("bash").start());
    });
    let trace = recording.trace();
    let before = trace.find("model_call", "model_id", "before");
    assert_eq!(before.get("system_prompt_digest"), &Value::Null);
    for model in ["after", "by macro"] {
        for kind in ["model_call", "model_result"] {
            let call = trace.find(kind, "model_id", model);
            assert_eq!(call.text("system_prompt_digest"), sha256(PROMPT));
            for digested in ["tool_catalog", "permission_rules"] {
                let digest = trace.one(digested).text("digest");
                assert_eq!(call.text(&format!("{digested}_digest")), digest);
            }
        }
    }
    let changed = trace.find("model_call", "model_id", "changed");
    assert_eq!(changed.text("system_prompt_digest"), sha256("Another one."));
    let permission = trace.one("permission_request");
    let rules = trace.one("permission_rules").text("digest");
    assert_eq!(permission.text("permission_rules_digest"), rules);
}

#[test]
fn resumed_session_knows_stored_digests() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt(PROMPT).emit();
        events::tool_catalog(tools()).emit();
    });
    let recording = Recording::again(recording.end());
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::model_call("anthropic", "sonnet").start());
        events::system_prompt(PROMPT).emit();
    });
    let trace = recording.trace();
    let call = trace.one("model_call");
    assert_eq!(call.seg, 2);
    assert_eq!(call.text("system_prompt_digest"), sha256(PROMPT));
    let catalog = trace.one("tool_catalog").text("digest");
    assert_eq!(call.text("tool_catalog_digest"), catalog);
    let again = trace.all("system_prompt")[1];
    assert_eq!((again.seg, again.get("body")), (2, &Value::Null));
}

#[test]
fn another_session_stores_the_prompt_again() {
    let recording = Recording::new();
    recording.run(|| {
        for id in ["a", "b"] {
            let _run = spans::session_run(id, "planner").start().entered();
            events::system_prompt(PROMPT).emit();
        }
    });
    let trace = recording.trace();
    let bodies = trace.all("system_prompt");
    assert!(bodies.iter().all(|line| line.text("body") == PROMPT));
    assert_eq!(bodies.len(), 2);
}

#[test]
fn prompt_from_a_plain_macro_is_digested() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        info!(target: "spanledger::system_prompt", "You are a careful agent.");
        events::system_prompt(PROMPT).emit();
    });
    let trace = recording.trace();
    let prompts = trace.all("system_prompt");
    assert_eq!(prompts[0].text("body"), PROMPT);
    assert_eq!(prompts[1].get("body"), &Value::Null);
    assert_eq!(prompts[0].text("digest"), prompts[1].text("digest"));
}

#[test]
fn secret_in_a_prompt_is_masked_before_digesting() {
    let recording = Recording::new();
    let secret = ["ghp", "_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let prompt = format!("Use {secret} to push.");
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt(&prompt).emit();
    });
    let trace = recording.trace();
    let line = trace.one("system_prompt");
    assert!(line.text("body").contains("[masked "));
    assert_eq!(line.text("digest"), sha256(line.text("body")));
    assert_ne!(line.text("digest"), sha256(&prompt));
}

#[test]
fn prompt_is_stored_again_after_its_line_was_lost() {
    let recording = Recording::new();
    let sessions = recording.dir.path().join("sessions");
    std::fs::write(&sessions, "in the way").unwrap();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt(PROMPT).emit();
        std::fs::remove_file(&sessions).unwrap();
        assert_eq!(recording.handle().flush(), 0);
        events::system_prompt(PROMPT).emit();
    });
    let trace = recording.trace();
    assert_eq!(trace.one("system_prompt").text("body"), PROMPT);
}

#[test]
fn prompt_is_stored_again_after_trace_was_removed() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt(PROMPT).emit();
        std::fs::remove_dir_all(recording.dir.path().join("sessions")).unwrap();
        assert_eq!(recording.handle().flush(), 0);
        events::system_prompt(PROMPT).emit();
    });
    let trace = recording.trace();
    assert_eq!(trace.one("system_prompt").text("body"), PROMPT);
}
