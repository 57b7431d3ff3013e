//! Rewinds, questions and parts of chat sessions: as they are recorded, exported and imported.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::imports::refused;
use crate::support::cli::run;
use crate::support::{Recording, Trace};

/// The rows of messages and of parts, with their JSON parsed.
fn messages(root: &Path) -> (Vec<Value>, Vec<Value>) {
    let mut document = run(root, &["export", "chat-json", "ses_1"]).json();
    let (mut messages, mut parts) = (Vec::new(), Vec::new());
    for one in document["messages"].as_array_mut().unwrap() {
        messages.push(one["message"].take());
        for part in one["parts"].as_array().unwrap() {
            parts.push(serde_json::from_str(part["data_json"].as_str().unwrap()).unwrap());
        }
    }
    (messages, parts)
}

/// Exports a session that was recorded this way.
fn recorded(record: impl FnOnce()) -> (Vec<Value>, Vec<Value>) {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(record);
        run.finish(Outcome::Ok);
    });
    messages(recording.end().path())
}

#[test]
fn rewind_goes_back_to_the_last_message_with_the_recorded_id() {
    let (messages, _) = recorded(|| {
        for id in ["m1", "m2", "m1", "m3"] {
            events::message_user(id).message_id(id).emit();
        }
        events::rewind("m1").emit();
    });
    let hidden: Vec<_> = messages
        .iter()
        .map(|row| (row["id"].as_str().unwrap(), row["hidden_at"].is_u64()))
        .collect();
    let expected = [
        ("ses_1/m1", false),
        ("ses_1/m2", false),
        ("ses_1/m1#2", false),
        ("ses_1/m3", true),
    ];
    assert_eq!(hidden, expected);
}

/// A file of lines with messages of the user, each created a second after the one before.
fn lines(hidden: &[Option<u64>]) -> String {
    let mut lines = vec![json!({"type": "session", "data": {
        "id": "s", "agent": "a", "created_at": 1000, "updated_at": 1000}})];
    for (number, at) in hidden.iter().enumerate() {
        lines.push(json!({"type": "message", "data": {
            "id": format!("m{number}"), "session_id": "s", "role": "user", "hidden_at": at,
            "created_at": 1000 * (number + 1), "updated_at": 1000}}));
    }
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect()
}

#[test]
fn imported_rewind_has_its_target() {
    type Rewinds = &'static [(Option<&'static str>, &'static [&'static str])];
    let cases: &[(&[Option<u64>], Rewinds)] = &[
        (&[None, Some(2500), None], &[(Some("m0"), &["m1"])]),
        // The second one goes back to a message after the first.
        (
            &[None, Some(2500), None, Some(9000)],
            &[(Some("m0"), &["m1"]), (Some("m2"), &["m3"])],
        ),
        // Both went back, the second one further.
        (
            &[None, Some(9000), Some(8000)],
            &[(Some("m1"), &["m2"]), (Some("m0"), &["m1"])],
        ),
        // A message between hidden ones is visible: only the list is known.
        (&[None, Some(9000), None], &[(None, &["m1"])]),
        // All are hidden.
        (&[Some(9000), Some(9000)], &[(None, &["m0", "m1"])]),
    ];
    for (hidden, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("source.jsonl");
        fs::write(&path, lines(hidden)).unwrap();
        let root = dir.path().join("root");
        let done = run(&root, &["import", "chat-jsonl", path.to_str().unwrap()]);
        assert_eq!(done.code, 0, "{done:?}");
        let trace = Trace::read(&root);
        let rewinds: Vec<_> = trace
            .all("rewind")
            .iter()
            .map(|line| {
                json!([
                    line.payload.get("to_message_id"),
                    line.payload["hidden_ids"]
                ])
            })
            .collect();
        let expected: Vec<_> = expected.iter().map(|rewind| json!(rewind)).collect();
        assert_eq!(rewinds, expected, "{hidden:?}");
        // The same messages are hidden, at the same times.
        let again = run(&root, &["export", "chat-jsonl", "s"]).objects();
        let again = again.iter().filter(|line| line["type"] == "message");
        let again: Vec<_> = again
            .map(|line| line["data"]["hidden_at"].as_u64())
            .collect();
        assert_eq!(again, *hidden);
    }
}

#[test]
fn question_belongs_to_the_call_that_it_lies_in() {
    let (_, parts) = recorded(|| {
        // Both have the same id, and the first is the one that is asked about.
        let first = spans::tool_call("bash", "c1").start();
        events::message_assistant("In another message.")
            .message_id("m2")
            .emit();
        let second = spans::tool_call("bash", "c1").message_id("m2").start();
        events::hitl_request("i1")
            .tool_call_id("c1")
            .on(&first)
            .emit();
        events::hitl_response("i1")
            .tool_call_id("c1")
            .decision("reject")
            .emit();
        first.finish(Outcome::Denied);
        second.finish(Outcome::Ok);
        // A question inside the permission of a call.
        let third = spans::tool_call("edit", "c3").start();
        let permission = third.in_scope(|| spans::permission_evaluate("edit").start());
        let other = spans::tool_call("edit", "c4").start();
        events::hitl_request("i2").on(&permission).emit();
        events::hitl_response("i2")
            .decision("no")
            .on(&permission)
            .emit();
        permission.finish(Outcome::Denied);
        third.finish(Outcome::Denied);
        other.finish(Outcome::Denied);
    });
    let of = |id: &str| -> Vec<_> {
        let its = parts.iter().filter(|part| part["toolCallId"] == id);
        its.map(|part| json!([part["state"], part["approval"]["id"]]))
            .collect()
    };
    assert_eq!(
        of("c1"),
        [
            json!(["output-denied", "i1"]),
            json!(["output-available", null])
        ]
    );
    assert_eq!(of("c3"), [json!(["output-denied", "i2"])]);
    assert_eq!(of("c4"), [json!(["output-denied", "c4"])]);
}

#[test]
fn answer_in_other_words_is_no_denial() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let call = run.in_scope(|| spans::tool_call("bash", "c1").start());
        events::hitl_request("i1").on(&call).emit();
        events::hitl_response("i1")
            .decision("Use the other one.")
            .on(&call)
            .emit();
        let (_, parts) = messages(recording.dir.path());
        assert_eq!(parts[0]["state"], "approval-requested");
        assert_eq!(parts[0]["approval"], json!({"id": "i1"}));
        call.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
}

/// Parts of tool calls that the AI SDK accepts.
fn tool_parts() -> Vec<Value> {
    let provider = json!({"anthropic": {"signature": "x"}});
    vec![
        json!({"type": "tool-bash", "toolCallId": "a", "state": "input-streaming"}),
        json!({"type": "tool-bash", "toolCallId": "b", "state": "input-available", "input": {"command": "ls"}, "title": "List", "callProviderMetadata": provider}),
        json!({"type": "dynamic-tool", "toolName": "mcp", "toolCallId": "c", "state": "output-available", "input": null, "output": null, "providerExecuted": true, "preliminary": true}),
        json!({"type": "tool-bash", "toolCallId": "d", "state": "output-error", "rawInput": "{", "errorText": "no JSON"}),
        json!({"type": "tool-bash", "toolCallId": "e", "state": "approval-requested", "input": {}, "approval": {"id": "q"}}),
        json!({"type": "tool-bash", "toolCallId": "f", "state": "approval-responded", "input": {}, "approval": {"id": "q", "approved": true, "reason": "ok"}}),
        json!({"type": "tool-bash", "toolCallId": "g", "state": "output-denied", "input": {}, "approval": {"id": "q", "approved": false}}),
    ]
}

#[test]
fn recorded_tool_parts_are_kept_verbatim() {
    let valid = tool_parts();
    let (_, parts) = recorded(|| {
        events::message_assistant("").parts(json!(valid)).emit();
    });
    assert_eq!(parts, valid);
    // What the AI SDK refuses becomes a part that it accepts.
    let invalid = json!([
        {"type": "tool-bash", "toolCallId": "a", "state": "input-available", "input": {}, "output": 1},
        {"type": "tool-bash", "toolCallId": "b", "state": "interrupted", "input": {}},
        {"type": "tool_call", "id": "c", "name": "bash", "arguments": {"command": "ls"}},
        {"type": "tool-bash", "toolCallId": "d", "state": "input-available", "input": {}, "errorText": null},
    ]);
    let (_, parts) = recorded(|| events::message_assistant("").parts(invalid).emit());
    let states: Vec<_> = parts.iter().map(|part| part["state"].clone()).collect();
    let expected = [
        "output-available",
        "input-available",
        "input-available",
        "input-available",
    ];
    assert_eq!(states, expected);
    assert_eq!(parts[2]["input"], json!({"command": "ls"}));
}

/// A message of Grida: snake case, and a tool without a name.
#[test]
fn grida_spellings_are_read_and_queued_messages_are_not() {
    let row = |kind: &str, data: Value| json!({"type": kind, "data": data});
    let message = |id: &str, role: &str, at: u64, metadata: Value| {
        row(
            "message",
            json!({"id": id, "session_id": "s", "role": role, "created_at": at, "updated_at": at,
            "metadata_json": metadata.to_string()}),
        )
    };
    let part = |message: &str, index: u64, data: Value| {
        row(
            "part",
            json!({"id": format!("{message}.{index}"), "message_id": message, "session_id": "s", "index": index,
            "type": data["type"], "data_json": data.to_string(), "created_at": 2000, "updated_at": 2000}),
        )
    };
    let lines = [
        row(
            "session",
            json!({"id": "s", "agent": "grida", "created_at": 1000, "updated_at": 1000}),
        ),
        message("u1", "user", 1000, json!({})),
        part("u1", 0, json!({"type": "text", "text": "Draw."})),
        message("a1", "assistant", 2000, json!({})),
        part(
            "a1",
            0,
            json!({"type": "tool-bash", "tool_call_id": "c1", "tool_name": "bash", "state": "output-error", "input": {"command": "ls"}, "error_text": "not found"}),
        ),
        part(
            "a1",
            1,
            json!({"type": "dynamic-tool", "tool_call_id": "c2", "tool_name": "mcp", "state": "output-available", "input": {}, "output": "ok"}),
        ),
        part(
            "a1",
            2,
            json!({"type": "tool", "tool_call_id": "c3", "state": "input-streaming", "input_text_delta": "{"}),
        ),
        message(
            "u2",
            "user",
            3000,
            json!({"queued_at": 3000, "queue_enqueued_at": 3000}),
        ),
        part("u2", 0, json!({"type": "text", "text": "It waits."})),
        message("u3", "user", 4000, json!({"queue_canceled_at": 4000})),
        part(
            "u3",
            0,
            json!({"type": "text", "text": "It was withdrawn."}),
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("source.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    let root = dir.path().join("root");
    let done = run(&root, &["import", "chat-jsonl", path.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    let trace = Trace::read(&root);
    let calls: Vec<_> = trace
        .all("tool_result")
        .iter()
        .map(|line| {
            let payload = &line.payload;
            json!([
                payload["tool_id"],
                payload["tool_call_id"],
                payload["outcome"],
                payload.get("error")
            ])
        })
        .collect();
    let expected = [
        json!(["bash", "c1", "error", {"message": "not found"}]),
        json!(["mcp", "c2", "ok", null]),
        json!(["unknown", "c3", "interrupted", null]),
    ];
    assert_eq!(calls.len(), expected.len(), "{calls:?}");
    for call in expected {
        assert!(calls.contains(&call), "{call}: {calls:?}");
    }
    assert_eq!(
        trace.all("message_user").len(),
        1,
        "queued messages are not part of it"
    );
}

#[test]
fn error_in_a_row_of_chat_jsonl_has_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let (root, path) = (dir.path().join("root"), dir.path().join("source.jsonl"));
    let part = r#"{"type":"part","data":{"id":"m1.0","message_id":"m1","index":0,"type":"text","data_json":"{"}}"#;
    let mut text = lines(&[None, None]);
    text.insert(0, '\n');
    fs::write(&path, format!("{text}{part}\n")).unwrap();
    refused(&root, "chat-jsonl", &path, "line 5: ");
    fs::write(&path, text.replace("\"user\"", "\"wizard\"")).unwrap();
    refused(&root, "chat-jsonl", &path, "line 3: ");
    let no_time = text.replace("\"agent\":\"a\",\"created_at\":1000", "\"agent\":\"a\"");
    fs::write(&path, no_time).unwrap();
    refused(&root, "chat-jsonl", &path, "line 2: ");
}
