//! `import codex`: how turns and commands end, and what a fork repeats.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::cli::run;

/// Ids of sessions and turns begin with the time in milliseconds. This one is of 08:00:00.
const ID: &str = "019a6cc7-6c00-7000-8000-000000000001";

fn line(millis: u32, kind: &str, payload: Value) -> Value {
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let time = format!(
        "2025-11-10T08:{:02}:{:02}.{millis:03}Z",
        seconds / 60,
        seconds % 60
    );
    json!({"timestamp": time, "type": kind, "payload": payload})
}

fn meta(members: Value) -> Value {
    let mut payload = json!({
        "id": ID, "timestamp": "2025-11-10T08:00:00.000Z", "cwd": "/home/ada/app", "originator": "cli",
        "cli_version": "0.169.0", "model_provider": "openai",
    });
    let members = members.as_object().unwrap().clone();
    payload.as_object_mut().unwrap().extend(members);
    line(0, "session_meta", payload)
}

fn event(millis: u32, kind: &str, mut payload: Value) -> Value {
    payload["type"] = kind.into();
    line(millis, "event_msg", payload)
}

fn item(millis: u32, kind: &str, mut payload: Value) -> Value {
    payload["type"] = kind.into();
    line(millis, "response_item", payload)
}

fn asked(millis: u32) -> Value {
    event(millis, "user_message", json!({"message": "Go on."}))
}

fn used(millis: u32, last: u64, total: u64) -> Value {
    let tokens =
        |count: u64| json!({"input_tokens": count, "output_tokens": 1, "total_tokens": count + 1});
    let info = json!({"last_token_usage": tokens(last), "total_token_usage": tokens(total)});
    event(millis, "token_count", json!({"info": info}))
}

/// Imports a rollout. Returns the lines of the session.
fn imported(dir: &Path, lines: &[Value]) -> Vec<Value> {
    let path: PathBuf = dir.join("rollout.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    let root = dir.join("root");
    let done = run(&root, &["import", "auto", path.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    let trace = root.join("sessions").join(ID).join("trace.0001.jsonl");
    let text = fs::read_to_string(trace).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let lines = lines.iter().filter(|line| line["kind"] == kind);
    lines.map(|line| &line["payload"]).collect()
}

#[test]
fn turn_ends_as_the_rollout_says() {
    let dir = tempfile::tempdir().unwrap();
    let call = |millis: u32, id: &str| {
        let call = json!({"name": "shell", "arguments": "{}", "call_id": id});
        item(millis, "function_call", call)
    };
    let lines = [
        meta(json!({})),
        asked(1000),
        used(3000, 900, 900),
        event(4000, "task_complete", json!({"last_agent_message": "Yes."})),
        asked(60_000),
        call(61_000, "c1"),
        event(62_000, "turn_aborted", json!({"reason": "interrupted"})),
        asked(120_000),
        used(123_000, 900, 1800),
        asked(180_000),
    ];
    let lines = imported(dir.path(), &lines);
    let ends: Vec<(&str, u64)> = of_kind(&lines, "turn_end")
        .into_iter()
        .map(|turn| {
            let duration = turn["duration_ns"].as_u64().unwrap();
            (turn["outcome"].as_str().unwrap(), duration / 1_000_000_000)
        })
        .collect();
    // The third one has no end in the file, and ends at its last line.
    assert_eq!(
        ends,
        [("ok", 3), ("interrupted", 2), ("ok", 3), ("unset", 0)]
    );
    let tool = of_kind(&lines, "tool_result")[0];
    assert_eq!(tool["outcome"], "interrupted");
    assert_eq!(tool["duration_ns"], 1_000_000_000);
}

#[test]
fn exit_code_is_read_from_text() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nok",
            json!(0),
            "ok",
        ),
        (
            "Exit code: 101\nWall time: 12 seconds\nTotal output lines: 900\nOutput:\nfailed",
            json!(101),
            "error",
        ),
        (
            "Chunk ID: 5f\nWall time: 0.1 seconds\nProcess exited with code 2\nOriginal token count: 3\nOutput:\nno",
            json!(2),
            "error",
        ),
        (
            "Chunk ID: 5f\nWall time: 1 seconds\nProcess running with session ID 4\nOutput:\nProcess exited with code 2",
            Value::Null,
            "unset",
        ),
        (
            "Exit code: 3\nis what the manual says",
            Value::Null,
            "unset",
        ),
        (
            "{\"output\":\"no\",\"metadata\":{\"exit_code\":4}}",
            json!(4),
            "error",
        ),
    ];
    let mut lines = vec![meta(json!({})), asked(500)];
    for (at, (output, ..)) in (1..).zip(&cases) {
        let id = format!("c{at}");
        let call = json!({"name": "shell", "arguments": "{}", "call_id": id});
        lines.push(item(at * 1000, "function_call", call));
        let output = json!({"call_id": id, "output": output});
        lines.push(item(at * 1000 + 1, "function_call_output", output));
    }
    let lines = imported(dir.path(), &lines);
    let results = of_kind(&lines, "tool_result");
    assert_eq!(results.len(), cases.len());
    for (result, (output, code, outcome)) in results.iter().zip(&cases) {
        assert_eq!(&result["exit_code"], code, "{output}");
        assert_eq!(&result["outcome"], outcome, "{output}");
        if !output.starts_with('{') {
            assert_eq!(&result["result"], output);
        }
    }
}

#[test]
fn fork_does_not_count_what_it_repeats() {
    let parent = "019a6c00-0000-7000-8000-00000000000a";
    let of_parent = line(2, "session_meta", json!({"id": parent, "cwd": "/"}));
    let turn = |millis: u32, id: &str| event(millis, "task_started", json!({"turn_id": id}));
    let (before, own) = (
        "019a6c00-0001-7000-8000-00000000000b",
        "019a6cc7-6c64-7000-8000-00000000000c",
    );
    let spawned =
        json!({"source": {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}});
    let forked = json!({"forked_from_id": parent});
    let cases = [
        // The turn says that it is the fork's own.
        (
            forked.clone(),
            vec![
                turn(3, before),
                asked(4),
                used(5, 700, 700),
                used(6, 800, 1500),
                turn(100, own),
                asked(101),
                used(900, 50, 1550),
            ],
        ),
        // Turns have no ids: what is written at once was repeated.
        (
            spawned.clone(),
            vec![
                asked(3),
                used(4, 700, 700),
                used(5, 800, 1500),
                asked(9000),
                used(12_000, 50, 1550),
            ],
        ),
    ];
    for (named, lines) in cases {
        let dir = tempfile::tempdir().unwrap();
        let lines = [vec![meta(named.clone()), of_parent.clone()], lines].concat();
        let lines = imported(dir.path(), &lines);
        let start = of_kind(&lines, "session_start")[0];
        let by = match named == forked {
            true => &start["branched_from"]["session_id"],
            false => &start["parent_session_id"],
        };
        assert_eq!(by, parent, "{start}");
        let input: Vec<_> = of_kind(&lines, "model_result")
            .iter()
            .map(|call| call["usage"]["input_tokens"].as_u64())
            .collect();
        assert_eq!(input, [Some(50)], "{named}");
        assert_eq!(of_kind(&lines, "message_user").len(), 2);
    }
}
