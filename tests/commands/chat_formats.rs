//! `spanledger export chat-…`, on a session that has everything.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use spanledger::export::{Format, Live};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::run;
use crate::support::rich_session::{self, SESSION, SUBAGENT};

#[track_caller]
fn export(root: &Path, args: &[&str]) -> String {
    let done = run(root, &[&["export"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    done.out
}

/// The rows of a query, each as its JSON values.
fn query(database: &Path, sql: &str) -> Vec<Vec<Value>> {
    use rusqlite::types::ValueRef;
    let database = Connection::open(database).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.column_count();
    let value = |value: ValueRef<'_>| match value {
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        _ => Value::Null,
    };
    let of_row =
        |row: &rusqlite::Row<'_>| (0..columns).map(|at| Ok(value(row.get_ref(at)?))).collect();
    let rows = statement.query_map([], of_row).unwrap();
    rows.map(Result::unwrap).collect()
}

fn parsed(text: &Value) -> Value {
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

#[test]
fn sqlite_has_sessions_messages_and_parts() {
    let dir = rich_session::record();
    let database = dir.path().join("sessions.db");
    export(
        dir.path(),
        &["chat-sqlite", "--all", "-o", database.to_str().unwrap()],
    );
    let query = |sql: &str| query(&database, sql);
    assert_eq!(query("PRAGMA user_version"), [[json!(3)]]);
    assert!(query("PRAGMA foreign_key_check").is_empty());
    let session = &query(
        "SELECT title, agent, model_json, prompt_tokens, completion_tokens, cache_read, total_tokens FROM chat_sessions WHERE id = 'ses_rich'",
    )[0];
    assert_eq!(session[..2], [json!("Fix the build"), json!("planner")]);
    assert_eq!(
        parsed(&session[2]),
        json!({"provider_id": "anthropic", "model_id": "claude-sonnet-4-5"})
    );
    assert_eq!(
        session[3..],
        [
            json!(2 * 807 + 40),
            json!(62 + 3),
            json!(10),
            json!(2 * 843 + 43)
        ]
    );
    // The subagent was started in a message of its parent.
    let parent = &query(
        "SELECT s.parent_id, m.session_id, m.role FROM chat_sessions s JOIN chat_messages m ON m.id = s.parent_message_id",
    )[..];
    assert_eq!(
        parent,
        [[json!(SESSION), json!(SESSION), json!("assistant")]]
    );
    // Every state of a call.
    let states = query(
        "SELECT DISTINCT tool_state FROM chat_parts WHERE session_id = 'ses_rich' AND tool_state IS NOT NULL",
    );
    let states: BTreeSet<_> = states.iter().map(|row| row[0].as_str().unwrap()).collect();
    assert_eq!(
        states,
        BTreeSet::from([
            "input-available",
            "output-available",
            "output-denied",
            "output-error"
        ])
    );
    let repeated = query(
        "SELECT tool_state FROM chat_parts WHERE tool_call_id = 'call_1' ORDER BY message_id, \"index\"",
    );
    assert_eq!(repeated.len(), 3, "{repeated:?}");
    // The rewind hid what followed its target, in the column and in the metadata.
    let hidden = query(
        "SELECT id, hidden_at = json_extract(metadata_json, '$.hidden_at') FROM chat_messages WHERE hidden_at IS NOT NULL ORDER BY created_at",
    );
    assert_eq!(hidden[0], [json!("ses_rich/msg_2"), json!(1)]);
    let shown = query(
        "SELECT id FROM chat_messages WHERE hidden_at IS NULL AND session_id = 'ses_rich' ORDER BY created_at",
    );
    assert!(shown.contains(&vec![json!("ses_rich/msg_1")]), "{shown:?}");
    assert!(shown.contains(&vec![json!("ses_rich/msg_4")]), "{shown:?}");
    let compaction = query("SELECT data_json FROM chat_parts WHERE type = 'data-compaction'");
    assert_eq!(
        parsed(&compaction[0][0])["data"]["summary"],
        "The build fails."
    );
    // The prompt of each turn is found by its digest.
    let prompt = query("SELECT p.body FROM chat_messages m JOIN system_prompts p
        ON p.digest = json_extract(m.metadata_json, '$.system_prompt_digest') WHERE m.id = 'ses_rich/msg_2'");
    assert_eq!(prompt, [[json!("You are a careful engineer.")]]);
    let unknown = query("SELECT data_json FROM chat_parts WHERE type = 'data-from_the_future'");
    assert_eq!(
        parsed(&unknown[0][0])["data"],
        json!({"deep": {"er": [1, null]}})
    );
    let streamed = query("SELECT data_json FROM chat_parts WHERE message_id = 'ses_rich/msg_7'");
    assert_eq!(parsed(&streamed[0][0])["text"], "It was ");
    let whole = query("SELECT length(data_json) FROM chat_parts WHERE tool_call_id = 'call_4'");
    assert!(
        whole[0][0].as_u64().unwrap() > 8000,
        "a blob was not fetched: {whole:?}"
    );
    // The document's query.
    let all = query("SELECT * FROM chat_parts WHERE session_id = 'ses_rich' ORDER BY \"index\"");
    assert_eq!(all[0].len(), 11);
}

#[test]
fn text_formats_have_the_rows_of_the_database() {
    let dir = rich_session::record();
    let root = dir.path();
    let database = root.join("sessions.db");
    export(
        root,
        &["chat-sqlite", SESSION, "-o", database.to_str().unwrap()],
    );
    let json: Value = serde_json::from_str(&export(root, &["chat-json", SESSION])).unwrap();
    let lines = export(root, &["chat-jsonl", SESSION]);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["type"], "session");
    assert_eq!(lines[0]["data"], json["session"]);
    let of = |kind: &str| -> Vec<&Value> {
        let rows = lines.iter().filter(|line| line["type"] == kind);
        rows.map(|line| &line["data"]).collect()
    };
    assert_eq!(of("session").len(), 1);
    assert_eq!(
        of("system_prompt"),
        json["system_prompts"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
    );
    let messages = json["messages"].as_array().unwrap();
    assert_eq!(
        of("message"),
        messages
            .iter()
            .map(|one| &one["message"])
            .collect::<Vec<_>>()
    );
    let parts: Vec<_> = messages
        .iter()
        .flat_map(|one| one["parts"].as_array().unwrap())
        .collect();
    assert_eq!(of("part"), parts);
    let rows = query(
        &database,
        "SELECT id, role, hidden_at, metadata_json FROM chat_messages ORDER BY rowid",
    );
    for (row, message) in rows.iter().zip(of("message")) {
        assert_eq!(row[0], message["id"]);
        assert_eq!(row[2], message["hidden_at"]);
        assert_eq!(parsed(&row[3]), parsed(&message["metadata_json"]));
    }
    assert_eq!(rows.len(), messages.len());
    // Messages are in the order of their times, and parts follow their message.
    let times: Vec<_> = of("message")
        .iter()
        .map(|one| one["created_at"].as_u64())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let csv = export(root, &["chat-csv", "--all"]);
    let csv: Vec<_> = csv.lines().collect();
    assert!(
        csv[0].starts_with("session_id,message_id,role,part_id,index,type,"),
        "{}",
        csv[0]
    );
    assert_eq!(
        csv.iter()
            .filter(|line| line.starts_with("session_id,"))
            .count(),
        1
    );
    assert_eq!(
        csv.iter()
            .filter(|line| line.starts_with("ses_rich,"))
            .count(),
        parts.len()
    );
    assert!(csv.iter().any(|line| line.starts_with(SUBAGENT)));
}

#[test]
fn csv_defuses_formulas_and_counts_tokens_once() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let model = spans::model_call("openai", "=gpt,\"5\"").start();
        model.in_scope(|| {
            events::message_reasoning("Hm").emit();
            events::message_assistant("Yes").message_id("=1+1").emit();
        });
        model.record_usage(&spanledger::Usage {
            input_tokens: Some(10),
            ..Default::default()
        });
        drop(model);
        drop(spans::tool_call("@sum", "+1").start());
    });
    let csv = export(recording.dir.path(), &["chat-csv", "ses_1"]);
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(rows.len(), 4, "{csv}");
    assert!(
        rows[3].contains("tool-@sum,\"'+1\",output-available"),
        "{}",
        rows[3]
    );
    assert!(
        rows[0].contains("\"'=gpt,\"\"5\"\"\",10,0,0,0,0,0,"),
        "{}",
        rows[0]
    );
    assert!(rows[1].contains("\"\"5\"\"\",,,,,,,"), "{}", rows[1]);
}

#[test]
fn live_lines_are_corrected_by_later_ones() {
    let recording = Recording::new();
    let out = recording.dir.path().join("out");
    let mut live = Live::new(Format::ChatJsonl, &out);
    let session = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(out.join("ses_1.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            events::message_user("One").message_id("m1").emit();
            events::message_assistant("Two").message_id("m2").emit();
            events::message_user("Three").message_id("m3").emit();
        });
        live.sync(&session).unwrap();
        let kinds: Vec<_> = lines().iter().map(|line| line["type"].clone()).collect();
        assert_eq!(kinds, ["session", "message", "part", "message", "part"]);
        run.in_scope(|| events::rewind("m1").emit());
        recording.guard.handle().session("ses_1").title("Counting");
        run.finish(Outcome::Ok);
    });
    live.sync(&session).unwrap();
    let hidden: HashMap<String, bool> = lines()
        .iter()
        .filter(|line| line["type"] == "update")
        .map(|line| {
            (
                line["data"]["id"].as_str().unwrap().to_owned(),
                line["data"]["hidden_at"].is_u64(),
            )
        })
        .collect();
    assert_eq!(
        hidden,
        HashMap::from([("ses_1/m2".into(), true), ("ses_1/m3".into(), true)])
    );
    let last = lines().pop().unwrap();
    assert_eq!(last["type"], "session");
    assert_eq!(last["data"]["title"], "Counting");
}

#[test]
fn sqlite_shows_text_while_it_arrives() {
    let recording = Recording::new();
    let database = recording.dir.path().join("sessions.db");
    let mut live = Live::new(Format::ChatSqlite, &database);
    let session = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    let part = || {
        let rows = query(&database, "SELECT data_json FROM chat_parts");
        assert_eq!(rows.len(), 1, "{rows:?}");
        parsed(&rows[0][0])
    };
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let mut stream = run.stream("m1");
        stream.push("I list the files ");
        stream.push("and more ");
        live.sync(&session).unwrap();
        let shown = part();
        assert_eq!(shown["state"], "streaming");
        assert!(
            shown["text"].as_str().unwrap().starts_with("I list"),
            "{shown}"
        );
        stream.push("than that.");
        stream.end();
        live.sync(&session).unwrap();
    });
    assert_eq!(
        part(),
        json!({"type": "text", "text": "I list the files and more than that.", "state": "done"})
    );
}

#[test]
fn formats_that_are_written_once_cannot_be_followed() {
    let dir = rich_session::record();
    let done = run(
        dir.path(),
        &["export", "chat-csv", "--follow", "-o", "x.csv"],
    );
    assert_eq!(done.code, 2, "{done:?}");
    let done = run(dir.path(), &["export", "chat-sqlite"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("-o FILE"), "{done:?}");
    let parsed: Result<spanledger::export::Export, _> = "chat-csv=x".parse();
    assert!(parsed.unwrap_err().to_string().contains("not kept current"));
}

#[test]
fn database_that_was_removed_is_written_again() {
    let dir = rich_session::record();
    let database = dir.path().join("sessions.db");
    let mut live = Live::new(Format::ChatSqlite, &database);
    let sessions = [SESSION, SUBAGENT].map(|id| spanledger::read::session_dir(dir.path(), id));
    let rows = || query(&database, "SELECT count(*) FROM chat_parts");
    for session in &sessions {
        live.sync(session).unwrap();
    }
    let before = rows();
    std::fs::remove_file(&database).unwrap();
    for session in &sessions {
        // The first call finds that the file is gone.
        let synced = live.sync(session).or_else(|_| live.sync(session));
        synced.unwrap();
    }
    assert_eq!(rows(), before);
}

#[test]
fn newer_database_is_left_alone() {
    let dir = rich_session::record();
    let database = dir.path().join("sessions.db");
    let newer = Connection::open(&database).unwrap();
    newer.pragma_update(None, "user_version", 4).unwrap();
    let done = run(
        dir.path(),
        &[
            "export",
            "chat-sqlite",
            SESSION,
            "-o",
            database.to_str().unwrap(),
        ],
    );
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("user_version is 4"), "{done:?}");
    assert!(query(&database, "SELECT * FROM sqlite_schema").is_empty());
}
