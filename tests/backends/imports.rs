//! Imported sessions, judged by the programs of the tools that wrote them and by a backend.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::backends::Jaeger;
use crate::support::cli::{mirror, run};
use crate::support::skipped::skipped;

const SESSION: &str = "5b2e7a52-2b1c-4f0e-9d53-6f6b4c1a9e10";

/// A session as Claude Code writes it: answers of several lines with one usage, tools, one of which failed.
fn session_file(dir: &Path) -> PathBuf {
    let entry = |kind: &str, n: usize, message: Value| {
        json!({
            "type": kind, "uuid": format!("u{n}"), "parentUuid": null, "sessionId": SESSION,
            "timestamp": format!("2026-11-10T08:00:{n:02}.000Z"), "cwd": "/home/ada/app", "version": "2.0.1",
            "userType": "external", "isSidechain": false, "requestId": format!("req_{}", message["id"]), "message": message,
        })
    };
    let answer = |id: &str, tokens: u64, block: Value| {
        json!({
            "id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block],
            "usage": {"input_tokens": tokens, "output_tokens": 30, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5},
        })
    };
    let said = |content: Value| json!({"role": "user", "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "cargo test"}});
    let result = |id: &str, failed: bool| json!([{"type": "tool_result", "tool_use_id": id, "content": "test result", "is_error": failed}]);
    let lines = [
        entry("user", 1, said("The build fails.".into())),
        entry("assistant", 2, answer("msg_1", 10, text("I look at it."))),
        entry("assistant", 3, answer("msg_1", 10, call("toolu_1"))),
        entry("assistant", 4, answer("msg_1", 10, call("toolu_2"))),
        entry("user", 5, said(result("toolu_1", true))),
        entry("user", 6, said(result("toolu_2", false))),
        entry("assistant", 7, answer("msg_2", 20, text("It is mended."))),
        entry("user", 8, said("Thanks.".into())),
        entry(
            "assistant",
            9,
            answer("msg_3", 40, text("You are welcome.")),
        ),
    ];
    let file = dir.join("session.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, text).unwrap();
    file
}

fn import(root: &Path, file: &Path) {
    let done = run(root, &["import", "claude-code", file.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
}

/// How often messages of a type are in a tree of messages.
fn count(messages: &Value, kind: &str) -> usize {
    let messages = messages.as_array().into_iter().flatten();
    let counts =
        messages.map(|one| usize::from(one["type"] == kind) + count(&one["children"], kind));
    counts.sum()
}

#[test]
fn claude_code_log_counts_what_was_imported() {
    let Some(program) = std::env::var_os("SPANLEDGER_CLAUDE_CODE_LOG") else {
        return skipped("SPANLEDGER_CLAUDE_CODE_LOG is not set; see .ci/install");
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("root"), session_file(dir.path()));
    import(&root, &file);
    let shown = Command::new(program)
        .arg(&file)
        .args(["-o", "-", "--format", "json", "--no-cache"])
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let theirs: Value = serde_json::from_slice(&shown.stdout).unwrap();

    let trace = root.join("sessions").join(SESSION).join("trace.0001.jsonl");
    let text = std::fs::read_to_string(trace).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    let tree = &theirs["messages"];
    assert_eq!(of("message_user"), count(tree, "user"), "{theirs:#}");
    assert_eq!(of("message_assistant"), count(tree, "assistant"));
    assert_eq!(of("tool_call"), count(tree, "tool_use"));
    assert_eq!(of("tool_result"), count(tree, "tool_result"));
    // Their input leaves out the cache.
    let used = |name: &str| -> u64 {
        let calls = lines.iter().filter(|line| line["kind"] == "model_result");
        calls
            .filter_map(|line| line["payload"]["usage"][name].as_u64())
            .sum()
    };
    let expected = format!(
        "Token usage – Input: {} | Output: {} | Cache Creation: {} | Cache Read: {}",
        used("input_uncached_tokens"),
        used("output_tokens"),
        used("cache_write_tokens"),
        used("cache_read_tokens"),
    );
    assert_eq!(theirs["sessions"][0]["token_summary"], expected);
    assert_eq!(used("input_uncached_tokens"), 70);
}

#[test]
fn imported_session_is_in_jaeger_as_it_is_here() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("root"), session_file(dir.path()));
    import(&root, &file);
    mirror(&root, &jaeger.grpc, "grpc");
    let done = run(&root, &["verify", "--jaeger", &jaeger.url, SESSION]);
    assert_eq!(done.code, 0, "{done:?}");
    // A run, two turns, three model calls, two tools.
    let expected = format!("{SESSION}: 8 spans in 1 trace; all in Jaeger as recorded\n");
    assert_eq!(done.out, expected);
}
