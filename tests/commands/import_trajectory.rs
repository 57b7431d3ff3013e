//! `import` of trajectories and conversations.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spanledger::read::session_dir;
use spanledger::{Failure, Outcome, SpanExt, spans};
use tempfile::TempDir;

use super::imports::{SECRET, files, refused};
use crate::support::Recording;
use crate::support::cli::run;

/// Imports rows, by the name of the format, by `auto`, and again. Returns the lines of the session.
#[track_caller]
fn import(rows: &[Value]) -> (TempDir, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.jsonl");
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(&file, text).unwrap();
    let mut known = Vec::new();
    for (root, format) in [("root", "trajectory"), ("root", "auto"), ("other", "auto")] {
        let args = ["import", format, file.to_str().unwrap(), "--json"];
        let done = run(&dir.path().join(root), &args);
        assert_eq!(done.code, 0, "{done:?}");
        known.push(done.objects().remove(0));
    }
    let states: Vec<_> = known.iter().map(|session| &session["imported"]).collect();
    assert_eq!(states, [true, false, true], "{known:?}");
    let id = known[0]["session_id"].as_str().unwrap();
    let trace = session_dir(dir.path().join("root"), id).join("trace.0001.jsonl");
    let text = fs::read_to_string(trace).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines = lines.collect();
    (dir, lines)
}

/// Nothing below the root has the secret, and the source is kept.
#[track_caller]
fn assert_masked(root: &Path) {
    let mut all = String::new();
    for file in files(root) {
        all.push_str(&String::from_utf8_lossy(&fs::read(file).unwrap()));
    }
    assert!(!all.contains(SECRET) && all.contains("[masked rule="));
    assert!(all.contains("\"kind\":\"import\""));
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let found = events.iter().filter(|line| line["kind"] == kind);
    found.map(|line| &line["payload"]).collect()
}

fn call(name: &str, id: Option<&str>, command: &str) -> Value {
    json!({"step": 1, "role": "tool_call", "tool_name": name, "command": command, "metadata": {"tool_call_id": id}})
}

fn result(name: &str, id: Option<&str>, stdout: &str) -> Value {
    json!({"step": 1, "role": "tool_result", "tool_name": name, "stdout": stdout, "exit_code": 0,
        "metadata": {"tool_call_id": id}})
}

/// A step may call a tool several times before the first result.
#[test]
fn results_belong_to_their_calls() {
    let (_dir, lines) = import(&[
        json!({"step": 0, "role": "user", "content": "Go."}),
        call("bash", None, "ls"),
        call("bash", None, "pwd"),
        call("bash", None, "sleep"),
        call("read", Some("c1"), "a"),
        call("read", Some("c1"), "b"),
        result("bash", None, "of ls"),
        result("read", Some("c1"), "of a"),
        result("bash", None, "of pwd"),
        result("read", Some("c1"), "of b"),
        result("edit", None, "of none"),
    ]);
    let of = |line: &&Value| {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (text("command"), text("stdout"), text("outcome"))
    };
    let mut found: Vec<_> = of_kind(&lines, "tool_result").iter().map(of).collect();
    found.sort();
    let expected = [
        ("", "of none", "ok"),
        ("a", "of a", "ok"),
        ("b", "of b", "ok"),
        ("ls", "of ls", "ok"),
        ("pwd", "of pwd", "ok"),
        ("sleep", "", "unset"),
    ];
    let expected = expected.map(|(call, out, how)| (call.into(), out.into(), how.into()));
    assert_eq!(found, expected);
    assert_eq!(of_kind(&lines, "tool_call").len(), 6);
}

/// A source may have no results at all. Memory does not hold all its calls.
#[test]
fn calls_without_results_are_closed() {
    let calls = (0..2_001).map(|n| call("bash", None, &n.to_string()));
    let rows: Vec<_> = calls.chain([result("bash", None, "of 2000")]).collect();
    let (_dir, lines) = import(&rows);
    let results = of_kind(&lines, "tool_result");
    assert_eq!(results.len(), 2_001);
    let last = results.last().unwrap();
    assert_eq!(
        (&last["command"], &last["stdout"]),
        (&json!("2000"), &json!("of 2000"))
    );
    let unset = results.iter().filter(|one| one["outcome"] == "unset");
    assert_eq!(unset.count(), 2_000);
    let first_result = lines.iter().position(|line| line["kind"] == "tool_result");
    assert!(first_result.unwrap() < 1_100);
}

/// Calls of one id that end in another order, and what stands beside the output of a tool.
#[test]
fn own_trajectory_comes_back() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "agent").start();
        run.in_scope(|| {
            let first = spans::tool_call("bash", "c1").start();
            let second = spans::tool_call("bash", "c1").start();
            second.set("stdout", "of the second");
            second.record_result(&json!({"rows": 2}));
            second.finish(Outcome::Ok);
            first.set("stdout", "of the first");
            first.set("stderr", "warning");
            first.record_failure(&Failure::new("ExitStatus", "exit status: 1"));
            first.finish(Outcome::Error);
        });
        run.finish(Outcome::Ok);
    });
    let export = |root: &Path, session: &str| {
        let done = run(root, &["export", "trajectory", session, "--no-header"]);
        assert_eq!(done.code, 0, "{done:?}");
        let mut rows = done.objects();
        for row in &mut rows {
            let members = row["metadata"].as_object_mut().unwrap();
            members.retain(|name, _| !["seg", "seq", "span_id"].contains(&&**name));
            row.as_object_mut().unwrap().remove("timestamp");
            row.as_object_mut().unwrap().remove("duration_ms");
        }
        rows
    };
    let source = run(recording.dir.path(), &["export", "trajectory", "ses_1"]);
    let (dir, lines) = import(&source.objects());
    let results = of_kind(&lines, "tool_result");
    assert_eq!(results[0]["result"], "{\"rows\":2}");
    assert_eq!(results[1]["error"]["error_type"], "ExitStatus");
    let began: Vec<_> = of_kind(&lines, "tool_call");
    assert!(results[0]["start"].as_str() > began[0]["start"].as_str());
    let again = export(&dir.path().join("root"), "last");
    assert_eq!(again, export(recording.dir.path(), "ses_1"));
    assert_eq!(again[2]["content"], "{\"rows\":2}");
    assert_eq!(again[3]["metadata"]["error"]["message"], "exit status: 1");
}

#[test]
fn times_have_offsets_and_roles_may_be_unknown() {
    let note = json!({"step": 1, "role": "narrator", "content": "Meanwhile", "timestamp": "2026-11-16T02:00:02+02:00"});
    let (_dir, lines) = import(&[
        json!({"step": 0, "role": "user", "content": "Go.", "timestamp": "2026-11-16T02:00:01+02:00"}),
        note.clone(),
    ]);
    assert_eq!(of_kind(&lines, "trajectory_entry"), [&note]);
    let time = |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap()["ts"].clone();
    assert_eq!(time("message_user"), "2026-11-16T00:00:01.000000Z");
    assert_eq!(time("trajectory_entry"), "2026-11-16T00:00:02.000000Z");
}

#[test]
fn result_has_the_outcome_that_is_known() {
    for (is_error, text, outcome) in [
        (None, "a.txt", "unset"),
        (Some(false), "a.txt", "ok"),
        (Some(true), "a.txt", "error"),
        (None, "a.txt [exit code: 0]", "ok"),
        (None, "a.txt [exit code: 2]", "error"),
    ] {
        let (_dir, lines) = import(&[
            json!({"role": "user", "content": "List."}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": is_error, "content": text}]}),
        ]);
        let results = of_kind(&lines, "tool_result");
        assert_eq!(results[0]["outcome"], outcome, "{is_error:?} {text}");
    }
}

#[test]
fn conversations_of_three_shapes_are_sessions() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}});
    let secret = format!("a.txt {SECRET} [exit code: 2]");
    let openai = vec![
        json!({"role": "system", "content": "Be careful."}),
        json!({"role": "user", "content": "List."}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": secret}),
        json!({"role": "assistant", "content": "One file."}),
    ];
    let anthropic = vec![
        json!({"role": "user", "content": [{"type": "text", "text": "List."}]}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": true,
            "content": [{"type": "text", "text": secret}]}]}),
        json!({"role": "assistant", "content": "One file."}),
    ];
    let events_shape = vec![
        json!({"role": "user", "event": "message", "content": "List."}),
        json!({"role": "assistant", "event": "message", "content": "I look."}),
        json!({"role": "assistant", "event": "tool_call", "tool_name": "bash", "content": "{\"command\":\"ls\"}"}),
        json!({"role": "tool", "event": "tool_result", "tool_name": "bash", "content": secret}),
        json!({"role": "assistant", "event": "message", "content": "One file."}),
    ];
    for (n, lines) in [openai, anthropic, events_shape].into_iter().enumerate() {
        let (dir, events) = import(&lines);
        let root = dir.path().join("root");
        assert_masked(&root);
        assert_eq!(of_kind(&events, "message_user").len(), 1, "shape {n}");
        let answers = of_kind(&events, "message_assistant");
        assert_eq!(answers.last().unwrap()["content"], "One file.");
        let tools = of_kind(&events, "tool_result");
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0]["args"], json!({"command": "ls"}));
        assert_eq!(tools[0]["tool_id"], "bash");
        assert_eq!(
            (&tools[0]["outcome"], &tools[0]["exit_code"]),
            (&json!("error"), &json!(2))
        );
        assert_eq!(run(&root, &["show", "last"]).code, 0);
    }
}

#[test]
fn conversation_with_an_error_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = dir.path().join("conversation.jsonl");
    let good = "{\"role\":\"user\",\"content\":\"Hi\"}\n";
    for (line, why) in [
        (
            "{\"role\":\"narrator\",\"content\":\"x\"}\n",
            "line 2: unknown role \"narrator\"",
        ),
        ("{\"content\":\"x\"}\n", "line 2: a message has no `role`"),
        ("{\"role\":\n", "line 2"),
    ] {
        fs::write(&file, format!("{good}{line}")).unwrap();
        refused(&root, "trajectory", &file, why);
    }
}
