//! `spanledger export trace-sqlite`, on a session that has everything.

use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use spanledger::{SpanExt, events, spans};

use crate::support::cli::{run, spanledger};
use crate::support::rich_session::{self, SESSION, SUBAGENT};
use crate::support::{Recording, kills};

struct Row {
    time: String,
    kind: String,
    payload: Value,
}

fn rows(path: &Path) -> Vec<Row> {
    let database = Connection::open(path).unwrap();
    let query = "SELECT timestamp, kind, payload_json FROM events ORDER BY id";
    let mut query = database.prepare(query).unwrap();
    let of_row = |row: &rusqlite::Row<'_>| {
        let payload: String = row.get(2)?;
        Ok(Row {
            time: row.get(0)?,
            kind: row.get(1)?,
            payload: serde_json::from_str(&payload).unwrap(),
        })
    };
    let rows = query.query_map([], of_row).unwrap();
    rows.map(Result::unwrap).collect()
}

#[track_caller]
fn export(root: &Path, args: &[&str]) {
    let done = run(root, &[&["export", "trace-sqlite"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn has_the_kinds_and_members_of_the_document() {
    let dir = rich_session::record();
    export(dir.path(), &["--all"]);
    let session = rich_session::dir(dir.path());
    assert!(
        session
            .with_file_name(SUBAGENT)
            .join("trace.sqlite")
            .exists()
    );
    let rows = rows(&session.join("trace.sqlite"));
    for row in &rows {
        assert!(row.payload.is_object(), "{}", row.payload);
        assert!(row.time.ends_with("+00:00"), "{}", row.time);
    }
    let of = |kind: &str| -> Vec<&Value> {
        let rows = rows.iter().filter(|row| row.kind == kind);
        rows.map(|row| &row.payload).collect()
    };
    let has = |kind: &str, members: &[&str]| {
        let row = of(kind).first().copied();
        let row = row.unwrap_or_else(|| panic!("no {kind}"));
        for member in members {
            assert!(row.get(*member).is_some(), "{kind} has no {member}: {row}");
        }
    };
    has("session_start", &["session_id", "simulator"]);
    has("session_resume", &["session_id", "simulator"]);
    has("session_title", &["session_id", "title"]);
    has("session_end", &[]);
    for kind in ["message_user", "message_reasoning", "message_assistant"] {
        has(kind, &["content"]);
        assert!(of(kind).iter().all(|row| row["content"].is_string()));
    }
    has(
        "model_usage",
        &["input_tokens", "output_tokens", "total_tokens"],
    );
    has("tool_call", &["id", "name", "args"]);
    has(
        "tool_result",
        &["tool_call_id", "name", "content", "status"],
    );
    has(
        "context_compaction",
        &["messages_before", "messages_after", "manual"],
    );
    has("context_compaction", &["summarized", "kept", "offloaded"]);
    has("hitl_request", &["interrupt_id", "value"]);
    has("hitl_response", &["interrupt_id", "payload"]);
    has("artifact", &["path", "mime", "caption", "tool_call_id"]);
    has("attempt", &["id", "rationale", "metrics"]);
    // Ours.
    for kind in [
        "turn_start",
        "model_call",
        "verdict",
        "weather_report",
        "gap",
        "log",
    ] {
        has(kind, &["spanledger"]);
    }
    assert_eq!(of("from_the_future")[0]["deep"], json!({"er": [1, null]}));
    assert_eq!(of("context_compaction")[0]["summarized"], 6);
    assert_eq!(of("context_compaction")[0]["kept"], 3);
    assert_eq!(of("context_compaction")[0]["offloaded"], false);
    let decisions = &of("hitl_response")[0]["payload"]["decisions"];
    assert_eq!(*decisions, json!([{"type": "approve"}]));
}

#[test]
fn repeated_call_ids_are_unique() {
    let dir = rich_session::record();
    export(dir.path(), &[SESSION]);
    let rows = rows(&rich_session::dir(dir.path()).join("trace.sqlite"));
    let ids = |kind: &str, id: &str| -> Vec<String> {
        let rows = rows.iter().filter(|row| row.kind == kind);
        rows.map(|row| row.payload[id].as_str().unwrap().to_owned())
            .collect()
    };
    let calls = ids("tool_call", "id");
    assert_eq!(calls.iter().collect::<HashSet<_>>().len(), calls.len());
    assert!(calls.contains(&"call_1#3".to_owned()), "{calls:?}");
    // They run one after the other, so results are in the order of calls.
    assert_eq!(ids("tool_result", "tool_call_id"), calls);
    let status: HashSet<_> = ids("tool_result", "status").into_iter().collect();
    assert_eq!(status, HashSet::from(["success".into(), "error".into()]));
}

#[test]
fn exporting_again_adds_only_new_rows() {
    let recording = Recording::new();
    let session = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    let file = session.join("trace.sqlite");
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| events::message_user("Hello").emit());
        export(recording.dir.path(), &["ses_1"]);
        let before = rows(&file).len();
        export(recording.dir.path(), &["ses_1"]);
        assert_eq!(rows(&file).len(), before);
        let tool = run.in_scope(|| spans::tool_call("bash", "c1").start());
        export(recording.dir.path(), &["ses_1"]);
        tool.set("args", json!({"command": "ls"}));
        drop(tool);
    });
    export(recording.dir.path(), &["ses_1"]);
    let rows = rows(&file);
    let kinds: Vec<_> = rows.iter().map(|row| row.kind.as_str()).collect();
    let expected = [
        "session_start",
        "message_user",
        "tool_call",
        "tool_result",
        "session_end",
    ];
    assert_eq!(kinds, expected);
    // They were recorded after the row was written.
    assert_eq!(rows[2].payload["args"], json!({"command": "ls"}));
}

/// A question as it is recorded, and the request that readers show.
#[test]
fn question_has_the_arguments_of_its_call() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let call = spans::tool_call("bash", "c1").args(json!({"command": "ls"}));
        let call = call.start();
        let ask = |pending: Value| {
            let question = events::hitl_request("i").tool_call_id("c1");
            question.pending(pending).on(&call).emit();
        };
        ask(json!({"name": "sh", "args": {"command": "pwd"}, "description": "Where"}));
        ask(json!({"name": "sh", "args": "pwd"}));
        ask(json!({"name": "sh", "description": "Where"}));
        ask(json!({"command": "pwd"}));
        ask(json!("pwd"));
        events::hitl_request("i")
            .tool_call_id("c1")
            .on(&call)
            .emit();
        events::hitl_request("i").on(&call).emit();
    });
    let dir = recording.end();
    export(dir.path(), &["ses_1"]);
    let session = spanledger::read::session_dir(dir.path(), "ses_1");
    let rows = rows(&session.join("trace.sqlite"));
    let asked = rows.iter().filter(|row| row.kind == "hitl_request");
    let asked: Vec<_> = asked
        .map(|row| {
            let request = &row.payload["value"]["action_requests"][0];
            json!([request["name"], request["args"], request["description"]])
        })
        .collect();
    let expected = [
        json!(["sh", {"command": "pwd"}, "Where"]),
        json!(["sh", {"input": "pwd"}, null]),
        json!(["sh", {"command": "ls"}, "Where"]),
        json!(["bash", {"command": "pwd"}, null]),
        json!(["bash", {"input": "pwd"}, null]),
        json!(["bash", {"command": "ls"}, null]),
        json!(["bash", {"command": "ls"}, null]),
    ];
    assert_eq!(asked, expected);
}

#[test]
fn prune_removes_it_with_its_session() {
    let recording = Recording::new();
    recording.run(|| drop(spans::session_run("ses_1", "planner").start()));
    let dir = recording.end();
    export(dir.path(), &["--all"]);
    // A reader keeps the files of the write-ahead log.
    let session = spanledger::read::session_dir(dir.path(), "ses_1");
    let reader = Connection::open(session.join("trace.sqlite")).unwrap();
    let count = "SELECT count(*) FROM events";
    reader.query_row(count, [], |_| Ok(())).unwrap();
    assert!(session.join("trace.sqlite-wal").exists());
    for command in ["list", "show", "status", "recover"] {
        let done = run(dir.path(), &[command]);
        assert_eq!(done.code, 0, "{command}: {done:?}");
    }
    let done = run(dir.path(), &["prune", "--keep", "0"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!session.exists(), "{done:?}");
}

#[test]
fn refuses_a_symbolic_link() {
    let recording = Recording::new();
    recording.run(|| drop(spans::session_run("ses_1", "planner").start()));
    let dir = recording.end();
    let elsewhere = dir.path().join("elsewhere");
    std::fs::write(&elsewhere, "").unwrap();
    let session = spanledger::read::session_dir(dir.path(), "ses_1");
    std::os::unix::fs::symlink(&elsewhere, session.join("trace.sqlite")).unwrap();
    let done = run(dir.path(), &["export", "trace-sqlite", "ses_1"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.err.contains("trace.sqlite: not a regular file"),
        "{done:?}"
    );
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"");
}

#[test]
fn killed_follower_leaves_every_row_once() {
    let recording = Recording::new();
    let record = |tools: usize| {
        recording.run(|| {
            let run = spans::session_run("ses_1", "planner").start();
            run.in_scope(|| (0..tools).for_each(|_| drop(spans::tool_call("bash", "c").start())));
        });
    };
    let root = recording.dir.path();
    let session = spanledger::read::session_dir(root, "ses_1");
    let file = session.join("trace.sqlite");
    record(1);
    export(root, &["ses_1"]);
    let reader = Connection::open(&file).unwrap();
    let count = "SELECT max(id) FROM events";
    let count = || -> i64 { reader.query_row(count, [], |row| row.get(0)).unwrap() };
    let kills = kills(12);
    for _ in 0..kills {
        let before = count();
        record(2);
        let mut follower = spanledger(root)
            .args(["export", "trace-sqlite", "ses_1", "--follow"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It is at work when rows are added.
        let late = Instant::now() + Duration::from_secs(60);
        while count() == before && Instant::now() < late {
            std::thread::yield_now();
        }
        assert_ne!(count(), before, "the follower adds no row");
        record(fastrand::usize(..40));
        follower.kill().unwrap();
        follower.wait().unwrap();
    }
    export(root, &["ses_1"]);
    let whole = root.join("whole.sqlite");
    export(root, &["ses_1", "-o", whole.to_str().unwrap()]);
    let texts = |path: &Path| -> Vec<String> {
        let rows = rows(path).into_iter();
        rows.map(|row| format!("{} {} {}", row.time, row.kind, row.payload))
            .collect()
    };
    // A run and two tool calls each time, at least.
    assert!(texts(&whole).len() > 5 * kills);
    assert_eq!(texts(&file), texts(&whole));
}
