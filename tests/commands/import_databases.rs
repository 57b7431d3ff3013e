//! `import` of databases, chat sessions and trajectories: as their own programs write them, twice, damaged,
//! and with secrets.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::imports::{SECRET, files, refused};
use crate::support::cli::{Done, run};
use crate::support::rich_session::{self, SESSION};

fn import(root: &Path, format: &str, path: &Path) -> Done {
    run(root, &["import", format, path.to_str().unwrap(), "--json"])
}

#[track_caller]
fn has_no_secret(root: &Path) {
    let mut blobs = 0;
    for file in files(root) {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET), "{}", file.display());
        blobs += u32::from(file.to_string_lossy().contains("/blobs/"));
    }
    assert!(blobs > 0, "the source is kept");
}

/// The names of the files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A trace as jutul-agent writes it.
fn jutul(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database
        .execute_batch(
            "PRAGMA journal_mode = WAL;
            CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TEXT NOT NULL,
                kind TEXT NOT NULL, payload_json TEXT NOT NULL);
            CREATE INDEX events_kind_idx ON events(kind);",
        )
        .unwrap();
    let rows = [
        (
            "session_start",
            json!({"session_id": "jut_1", "simulator": "JutulDarcy"}),
        ),
        ("message_user", json!({"content": "Run the case."})),
        (
            "session_title",
            json!({"session_id": "jut_1", "title": "Run the case."}),
        ),
        ("message_reasoning", json!({"content": "First the mesh."})),
        ("message_assistant", json!({"content": "I run it."})),
        (
            "model_usage",
            json!({"input_tokens": 120, "output_tokens": 7, "total_tokens": 127, "input_token_details": {"cache_read": 100}}),
        ),
        (
            "tool_call",
            json!({"id": "c1", "name": "run_julia", "args": {"code": "1 + 1"}}),
        ),
        (
            "hitl_request",
            json!({"interrupt_id": "i1", "value": {"action_requests": [{"name": "run_julia", "args": {}}]}}),
        ),
        (
            "hitl_response",
            json!({"interrupt_id": "i1", "payload": {"decisions": [{"type": "approve"}]}}),
        ),
        (
            "tool_result",
            json!({"tool_call_id": "c1", "name": "run_julia", "content": format!("GITHUB_TOKEN={SECRET}"), "status": "success"}),
        ),
        (
            "tool_call",
            json!({"id": "c2", "name": "run_julia", "args": {"code": "error()"}}),
        ),
        (
            "tool_result",
            json!({"tool_call_id": "c2", "name": "run_julia", "content": "ErrorException", "status": "error"}),
        ),
        (
            "artifact",
            json!({"path": "artifacts/p.png", "mime": "image/png", "caption": "Pressure"}),
        ),
        (
            "attempt",
            json!({"id": "a1", "parent_id": null, "rationale": "Finer mesh", "metrics": {"loss": 0.5}}),
        ),
        (
            "cwd=/home/ada",
            json!({"cwd": "/home/ada", "api_key": SECRET}),
        ),
        (
            "context_compaction",
            json!({"summarized": 9, "kept": 3, "manual": true}),
        ),
        ("session_end", json!({})),
        (
            "session_resume",
            json!({"session_id": "jut_1", "simulator": null}),
        ),
        ("message_user", json!({"content": "Go on."})),
    ];
    for (second, (kind, payload)) in rows.into_iter().enumerate() {
        let time = format!("2026-11-10T08:00:{second:02}.250000+00:00");
        let insert = "INSERT INTO events (timestamp, kind, payload_json) VALUES (?1, ?2, ?3)";
        database
            .execute(insert, (time, kind, payload.to_string()))
            .unwrap();
    }
    database
}

#[test]
fn trace_of_jutul_agent_is_an_ordinary_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    let path = source.join("trace.sqlite");
    // Its program has it open, and all rows are in the write-ahead log.
    let open = jutul(&path);
    let dry = run(
        &root,
        &["import", "auto", path.to_str().unwrap(), "--dry-run"],
    );
    assert!(
        dry.code == 0 && dry.out.contains("could be imported"),
        "{dry:?}"
    );
    assert_eq!(run(&root, &["list", "--json"]).objects().len(), 0);
    let done = import(&root, "auto", &path);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.objects()[0]["session_id"], "jut_1");
    drop(open);
    assert_eq!(names(&source), ["trace.sqlite"]);

    let shown = run(&root, &["show", "jut_1"]).out;
    for text in [
        "Run the case.",
        "First the mesh.",
        "I run it.",
        "run_julia",
        "ErrorException",
        "artifacts/p.png",
        "Finer mesh",
        "cwd=/home/ada",
        "Go on.",
        "2026-11-10",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let listed = run(&root, &["list", "--json"]).objects()[0].to_string();
    assert!(listed.contains("\"input_tokens\":120"), "{listed}");
    assert!(listed.contains("\"tool_calls\":2"), "{listed}");
    has_no_secret(&root);

    let before = files(&root).len();
    let again = import(&root, "trace-sqlite", &path);
    assert!(
        again.code == 0 && again.objects()[0]["known"] == true,
        "{again:?}"
    );
    assert_eq!(files(&root).len(), before);
    // Nothing is left beside the source.
    assert_eq!(names(&source), ["trace.sqlite"]);
}

#[test]
fn write_ahead_log_without_its_program_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let (source, copied) = (dir.path().join("trace.sqlite"), dir.path().join("copied"));
    let open = jutul(&source);
    fs::create_dir(&copied).unwrap();
    for name in ["trace.sqlite", "trace.sqlite-wal"] {
        fs::copy(dir.path().join(name), copied.join(name)).unwrap();
    }
    drop(open);
    let done = import(&root, "auto", &copied.join("trace.sqlite"));
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.objects()[0]["events"].as_u64().unwrap() > 19,
        "{done:?}"
    );
    assert_eq!(names(&copied), ["trace.sqlite", "trace.sqlite-wal"]);
    assert!(!root.join("importing").exists());
}

/// A database as Grida writes it, with a session that was forked from another.
fn grida(path: &Path, extra_columns: bool) {
    let database = Connection::open(path).unwrap();
    let (session, message, part) = match extra_columns {
        true => (
            ", title TEXT NOT NULL DEFAULT 'New Chat', workspace_id TEXT, mode TEXT",
            ", hidden_at INTEGER",
            ", continuation_run_id TEXT",
        ),
        false => ("", "", ""),
    };
    let counts = "prompt_tokens INTEGER DEFAULT 0, completion_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0,
        cache_read INTEGER DEFAULT 0, cache_write INTEGER DEFAULT 0, total_tokens INTEGER DEFAULT 0, cost_usd REAL DEFAULT 0";
    let tables = format!(
        "PRAGMA user_version = 3;
        CREATE TABLE chat_sessions (id TEXT PRIMARY KEY, agent TEXT NOT NULL, workspace_root TEXT, model_json TEXT,
            parent_id TEXT, parent_message_id TEXT, permissions_json TEXT NOT NULL DEFAULT '[]',
            metadata_json TEXT NOT NULL DEFAULT '{{}}', {counts}, created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL, archived_at INTEGER {session});
        CREATE TABLE chat_messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
            metadata_json TEXT NOT NULL DEFAULT '{{}}', created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL {message});
        CREATE TABLE chat_parts (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
            \"index\" INTEGER NOT NULL, type TEXT NOT NULL, data_json TEXT NOT NULL, tool_call_id TEXT,
            tool_state TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL {part});"
    );
    database.execute_batch(&tables).unwrap();
    let execute = |sql: &str| database.execute(sql, []).unwrap();
    execute("INSERT INTO chat_sessions (id, agent, model_json, prompt_tokens, completion_tokens, created_at, updated_at)
        VALUES ('ses_a', 'grida', '{\"provider_id\":\"anthropic\",\"tier\":\"pro\"}', 50, 9, 1795000000000, 1795000009000)");
    execute("INSERT INTO chat_sessions (id, agent, parent_id, parent_message_id, created_at, updated_at)
        VALUES ('ses_b', 'grida', 'ses_a', 'msg_1', 1795000010000, 1795000010000)");
    let messages = [
        (
            "msg_1",
            "user",
            json!({}),
            0,
            vec![
                json!({"type": "text", "text": "Draw a house."}),
                json!({"type": "file", "mediaType": "image/png", "url": "file:///a.png"}),
            ],
        ),
        (
            "msg_2",
            "assistant",
            json!({"usage": {"input": 50, "output": 9}, "hidden_at": 1795000005000u64}),
            1000,
            vec![
                json!({"type": "step-start"}),
                json!({"type": "reasoning", "text": "Walls first.", "providerMetadata": {"anthropic": {"signature": "x"}}}),
                json!({"type": "tool-bash", "toolCallId": "c1", "state": "output-available", "input": {"command": "ls"}, "output": {"files": [SECRET]}}),
                json!({"type": "tool-bash", "toolCallId": "c1", "state": "output-error", "input": {"command": "x"}, "errorText": "not found"}),
                json!({"type": "tool-rm", "toolCallId": "c2", "state": "output-denied", "input": {}, "approval": {"id": "a1", "approved": false, "reason": "user: no"}}),
                json!({"type": "tool-edit", "toolCallId": "c3", "state": "approval-requested", "input": {}, "approval": {"id": "a2"}}),
                json!({"type": "data-plan", "data": {"steps": 3}}),
                json!({"type": "text", "text": "Done."}),
            ],
        ),
    ];
    for (id, role, metadata, after, parts) in messages {
        let at = 1_795_000_000_000i64 + after;
        database
            .execute(
                "INSERT INTO chat_messages (id, session_id, role, metadata_json, created_at, updated_at) VALUES (?1, 'ses_a', ?2, ?3, ?4, ?4)",
                (id, role, metadata.to_string(), at),
            )
            .unwrap();
        for (index, part) in parts.into_iter().enumerate() {
            database
                .execute(
                    "INSERT INTO chat_parts (id, message_id, session_id, \"index\", type, data_json, created_at, updated_at) VALUES (?1, ?2, 'ses_a', ?3, ?4, ?5, ?6, ?6)",
                    (format!("{id}.{index}"), id, index as i64, part["type"].as_str().unwrap(), part.to_string(), at),
                )
                .unwrap();
        }
    }
}

#[test]
fn chat_database_of_grida_and_of_the_document() {
    for extra_columns in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let path = dir.path().join("sessions.db");
        grida(&path, extra_columns);
        let done = import(&root, "auto", &path);
        assert_eq!(done.code, 0, "{done:?}");
        let ids: Vec<_> = done
            .objects()
            .iter()
            .map(|one| one["session_id"].clone())
            .collect();
        assert_eq!(ids, ["ses_a", "ses_b"]);
        let shown = run(&root, &["show", "ses_a", "--hidden"]).out;
        for text in [
            "Draw a house.",
            "Walls first.",
            "not found",
            "Done.",
            "bash",
            "plan",
        ] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        let lines = run(&root, &["show", "ses_a", "--hidden", "--json"]).out;
        for text in [
            "\"rewind\"",
            "\"denied\"",
            "\"interrupted\"",
            "\"hitl_request\"",
            "\"signature\"",
            "a.png",
        ] {
            assert!(lines.contains(text), "{text}: {lines}");
        }
        let listed = run(&root, &["list", "--json"]).out;
        assert!(listed.contains("\"input_tokens\":50"), "{listed}");
        has_no_secret(&root);
        let again = import(&root, "chat-sqlite", &path).objects();
        assert!(again.iter().all(|one| one["known"] == true), "{again:?}");
    }
}

/// A trajectory as Harbor writes it: indented, with times in another zone.
#[test]
fn atif_of_harbor_is_an_ordinary_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let path = dir.path().join("trajectory.json");
    let document = json!({
        "schema_version": "ATIF-v1.6", "session_id": "harbor_1",
        "agent": {"name": "terminus", "version": "2.0", "model_name": "gpt-5", "tool_definitions": [{"type": "function", "function": {"name": "bash"}}]},
        "notes": "A trial",
        "steps": [
            {"step_id": 1, "source": "system", "message": "Be brief."},
            {"step_id": 2, "source": "user", "timestamp": "2026-11-10T09:00:00+01:00", "message": [{"type": "text", "text": "Look at this."}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}]},
            {"step_id": 3, "source": "agent", "timestamp": "2026-11-10T09:00:05+01:00", "message": "", "reasoning_content": "Hm.",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": format!("TOKEN={SECRET}")}}, {"tool_call_id": "c1", "function_name": "bash", "arguments": {}}],
                "observation": {"results": [{"source_call_id": "c1", "content": "one"}, {"source_call_id": "c1", "content": [{"type": "text", "text": "two"}]}, {"subagent_trajectory_ref": [{"trajectory_id": "sub_1"}]}]},
                "metrics": {"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": 20, "cost_usd": 0.5}},
        ],
        "subagent_trajectories": [{"schema_version": "ATIF-v1.6", "session_id": "harbor_1", "trajectory_id": "sub_1", "agent": {"name": "helper", "version": "1"}, "steps": [{"step_id": 1, "source": "user", "message": "Help."}]}],
    });
    fs::write(&path, serde_json::to_string_pretty(&document).unwrap()).unwrap();
    let done = import(&root, "auto", &path);
    assert_eq!(done.code, 0, "{done:?}");
    let ids: Vec<_> = done
        .objects()
        .iter()
        .map(|one| one["session_id"].clone())
        .collect();
    assert_eq!(ids, ["harbor_1", "sub_1"]);
    let shown = run(&root, &["show", "harbor_1"]).out;
    for text in ["Look at this.", "Hm.", "one", "two", "gpt-5", "08:00:05"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let listed = run(&root, &["list", "--json"]).out;
    assert!(listed.contains("\"input_tokens\":100"), "{listed}");
    has_no_secret(&root);
    let again = import(&root, "atif", &path).objects();
    assert!(again.iter().all(|one| one["known"] == true), "{again:?}");
}

/// Exports the rich session, for a file that is then damaged.
fn exported(dir: &Path, format: &str) -> PathBuf {
    let rich = rich_session::record();
    let path = dir.join("exported");
    let out = path.to_str().unwrap();
    let done = run(rich.path(), &["export", format, SESSION, "-o", out]);
    assert_eq!(done.code, 0, "{done:?}");
    path
}

#[test]
fn exported_session_is_shown_as_the_original() {
    let rich = rich_session::record();
    for format in [
        "trace-sqlite",
        "chat-sqlite",
        "chat-json",
        "chat-jsonl",
        "atif",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let path = dir.path().join("exported");
        let out = path.to_str().unwrap();
        let done = run(rich.path(), &["export", format, SESSION, "-o", out]);
        assert_eq!(done.code, 0, "{done:?}");
        let done = import(&root, "auto", &path);
        assert_eq!(done.code, 0, "{done:?}");
        let shown = run(&root, &["show", SESSION, "--hidden"]).out;
        for text in [
            "What is here?",
            "I list the files.",
            "rm -rf /",
            "Done: see flow.png.",
            "Edit it.",
        ] {
            assert!(shown.contains(text), "{format}: {text}: {shown}");
        }
        let again = import(&root, format, &path).objects();
        assert!(again.iter().all(|one| one["known"] == true), "{again:?}");
    }
}

#[test]
fn damaged_database_is_refused() {
    for format in ["trace-sqlite", "chat-sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let path = exported(dir.path(), format);
        let whole = fs::read(&path).unwrap();
        assert!(whole.len() > 16_384, "{}", whole.len());
        // Cut in the middle of a page, and after one.
        for length in [whole.len() / 2 + 7, 8192, 100, 15] {
            fs::write(&path, &whole[..length]).unwrap();
            refused(&root, format, &path, "");
        }
        let mut torn = whole.clone();
        torn[4096..12_288].fill(0x5a);
        fs::write(&path, torn).unwrap();
        refused(&root, format, &path, "");
        fs::write(
            &path,
            "no database at all, but long enough to have a header",
        )
        .unwrap();
        refused(&root, format, &path, "not a SQLite database");
        // What it would run is code of the file.
        fs::remove_file(&path).unwrap();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, '' AS timestamp, '' AS kind, '' AS payload_json FROM n";
        let views =
            ["events", "chat_sessions"].map(|name| format!("CREATE VIEW {name} AS {endless};"));
        Connection::open(&path)
            .unwrap()
            .execute_batch(&views.concat())
            .unwrap();
        refused(&root, format, &path, "it has no table");
    }
}

#[test]
fn rows_that_can_t_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let path = dir.path().join("trace.sqlite");
    let deep = format!(
        "{{\"a\":{}1{}}}",
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    for (payload, why) in [
        ("[1]", "no JSON object"),
        ("{\"a\":", "no JSON object"),
        (&deep, "no JSON object"),
    ] {
        let database = jutul(&path);
        let insert = "INSERT INTO events (timestamp, kind, payload_json) VALUES ('2026-11-10T08:00:00Z', 'log', ?1)";
        database.execute(insert, [payload]).unwrap();
        drop(database);
        refused(&root, "trace-sqlite", &path, "row 20 of `events`");
        refused(&root, "auto", &path, why);
        fs::remove_file(&path).unwrap();
    }
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT)")
        .unwrap();
    refused(&root, "trace-sqlite", &path, "no column `timestamp`");
    let path = dir.path().join("sessions.db");
    grida(&path, true);
    let database = Connection::open(&path).unwrap();
    database
        .execute(
            "UPDATE chat_parts SET data_json = '{' WHERE id = 'msg_2.3'",
            [],
        )
        .unwrap();
    refused(&root, "chat-sqlite", &path, "\"msg_2.3\"");
    database
        .execute(
            "UPDATE chat_parts SET data_json = ?1 WHERE id = 'msg_2.3'",
            [&deep],
        )
        .unwrap();
    refused(&root, "chat-sqlite", &path, "\"msg_2.3\"");
    database.execute_batch("PRAGMA user_version = 4").unwrap();
    refused(&root, "chat-sqlite", &path, "user_version is 4");
}

#[test]
fn damaged_text_is_refused_with_its_line() {
    let deep = "[".repeat(1_000_000);
    let long = format!("{{\"type\":\"session\",\"data\":\"{}", "x".repeat(3 << 20));
    for format in ["chat-json", "chat-jsonl", "atif"] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let path = exported(dir.path(), format);
        let whole = fs::read_to_string(&path).unwrap();
        let is_lines = format == "chat-jsonl";
        let lines = whole.lines().count();
        let after = format!("line {}", lines + 1);
        let torn = format!("{}\n{}", &whole[..whole.len() / 2], "{}");
        let cases = [
            (
                format!("{whole}{deep}\n"),
                if is_lines { after.as_str() } else { "line" },
            ),
            (format!("{deep}\n"), "line 1"),
            (torn, "line"),
            (
                format!("{long}\n"),
                if is_lines { "line 1" } else { "line" },
            ),
            (
                long.clone(),
                if is_lines {
                    "no session is in it"
                } else {
                    "line 1"
                },
            ),
            ("[1]\n".to_owned(), "a JSON object"),
        ];
        for (text, why) in cases {
            fs::write(&path, text).unwrap();
            refused(&root, format, &path, why);
        }
    }
}

#[test]
fn wrong_versions_and_shapes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let path = dir.path().join("source");
    let atif = |version: &str, steps: Value| json!({"schema_version": version, "agent": {}, "steps": steps});
    let row = |kind: &str, data: Value| json!({"type": kind, "data": data});
    let session = || json!({"id": "s", "agent": "a", "created_at": 1, "updated_at": 1});
    let message = json!({"id": "m", "session_id": "s", "role": "wizard", "created_at": 1});
    for (format, document, why) in [
        ("atif", atif("ATIF-v2.0", json!([])), "ATIF-v2.0"),
        ("atif", atif("ATIF-v1.7", Value::Null), "no `steps`"),
        (
            "atif",
            atif("ATIF-v1.7", json!([{"source": "wizard", "message": ""}])),
            "step 1",
        ),
        (
            "chat-json",
            json!({"session": {"agent": "a"}, "messages": []}),
            "no `id`",
        ),
        (
            "chat-json",
            json!({"session": session(), "messages": [{"message": message, "parts": []}]}),
            "unknown role",
        ),
        ("chat-jsonl", row("wizard", session()), "line 1"),
        ("chat-jsonl", row("message", json!({"id": "m"})), "line 1"),
        (
            "chat-jsonl",
            row("session", json!({"id": "s"})),
            "`created_at`",
        ),
    ] {
        fs::write(&path, format!("{document}\n")).unwrap();
        refused(&root, format, &path, why);
    }
}
