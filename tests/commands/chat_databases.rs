//! Databases of chat sessions that are kept current, that have other rows already, and that are of other programs.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use spanledger::export::{Format, Live};
use spanledger::{Outcome, SpanExt, Usage, events, spans};
use tempfile::TempDir;

use crate::support::Recording;
use crate::support::cli::{Done, run};

const TABLES: [&str; 4] = [
    "chat_sessions",
    "chat_messages",
    "chat_parts",
    "permission_rules",
];

/// All rows of the chat tables, in order.
fn rows(database: &Path) -> Vec<String> {
    let database = Connection::open(database).unwrap();
    let mut all = Vec::new();
    for table in TABLES {
        let select = format!("SELECT * FROM {table} ORDER BY rowid");
        let mut select = database.prepare(&select).unwrap();
        let columns = select.column_count();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..columns).map(|at| match row.get_ref(at).unwrap() {
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            });
            all.push(format!("{table} {}", cells.collect::<Vec<_>>().join(" | ")));
        }
    }
    all
}

fn export(root: &Path, format: &str, sessions: &[&str], target: &Path) -> Done {
    let target = ["-o", target.to_str().unwrap()];
    run(root, &[&["export", format], sessions, &target[..]].concat())
}

#[track_caller]
fn exported(root: &Path, format: &str, target: &Path) {
    let done = export(root, format, &["ses_1"], target);
    assert_eq!(done.code, 0, "{done:?}");
}

/// A database that is kept current, and new ones to compare it with.
struct Current<'a> {
    recording: &'a Recording,
    live: Live,
    path: PathBuf,
    compared: usize,
}

impl<'a> Current<'a> {
    fn new(recording: &'a Recording) -> Self {
        let path = recording.dir.path().join("live.db");
        Self {
            recording,
            live: Live::new(Format::ChatSqlite, &path),
            path,
            compared: 0,
        }
    }

    /// It has the rows of an export that is made now.
    #[track_caller]
    fn compare(&mut self) -> Vec<String> {
        let root = self.recording.dir.path();
        let session = spanledger::read::session_dir(root, "ses_1");
        self.live.sync(&session).unwrap();
        self.compared += 1;
        let new = root.join(format!("{}.db", self.compared));
        exported(root, "chat-sqlite", &new);
        let (live, new) = (rows(&self.path), rows(&new));
        for (live, new) in live.iter().zip(&new) {
            assert_eq!(live, new);
        }
        assert_eq!(live.len(), new.len(), "{live:#?}");
        live
    }
}

#[test]
fn current_database_is_like_a_new_one_at_every_moment() {
    let recording = Recording::new();
    let mut current = Current::new(&recording);
    let shown = recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _inside = run.enter();
        events::message_user("List the files.")
            .message_id("u1")
            .emit();
        let mut stream = run.stream("m1");
        stream.push("I list the files of the directory and ");
        let streaming = current.compare();
        assert!(streaming.iter().any(|row| row.contains("streaming")));
        // A call begins before the text is whole.
        let call = spans::tool_call("bash", "c1").start();
        current.compare();
        stream.push("more than that.");
        stream.end();
        call.finish(Outcome::Ok);
        let whole = current.compare();
        // The input of a call arrives.
        let mut input = run.stream_tool_input("c2");
        input.push("{\"command\": \"a rather long command");
        current.compare();
        input.push("\"}");
        input.end();
        drop(spans::tool_call("bash", "c2").args(json!({})).start());
        current.compare();
        // The conversation goes back while a text arrives.
        let mut stream = run.stream("m2");
        stream.push("Another text that is long enough to be written ");
        current.compare();
        events::rewind("u1").emit();
        current.compare();
        stream.push("arrives.");
        stream.end();
        current.compare();
        // A text starts anew.
        let mut stream = run.stream("m3");
        stream.push("It is never finished, because it starts anew. ");
        current.compare();
        drop(stream);
        let mut stream = run.stream("m3");
        stream.push("The second time it is finished, as it should be. ");
        current.compare();
        stream.end();
        events::model_usage(&Usage::default()).emit();
        current.compare();
        whole
    });
    current.compare();
    assert!(
        !shown.iter().any(|row| row.contains("complete")),
        "{shown:#?}"
    );
}

/// A session with one message of the user.
fn one_message(text: &str) -> TempDir {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user(text).message_id("m1").emit();
    });
    recording.end()
}

#[test]
fn another_session_of_the_same_name_is_refused() {
    for format in ["chat-sqlite", "trace-sqlite"] {
        let (one, other) = (one_message("One"), one_message("Other"));
        let path = one.path().join("target.db");
        exported(one.path(), format, &path);
        let done = export(other.path(), format, &["ses_1"], &path);
        assert_eq!(done.code, 2, "{format}: {done:?}");
        for why in ["target.db", "another session named ses_1", "another file"] {
            assert!(done.err.contains(why), "{format}: {why}: {}", done.err);
        }
        exported(one.path(), format, &path);
    }
}

/// A copy of the whole file, which must stay as it is.
#[track_caller]
fn refused_untouched(root: &Path, path: &Path, why: &str) {
    let before = fs::read(path).unwrap();
    let done = export(root, "chat-sqlite", &["ses_1"], path);
    assert_eq!(done.code, 2, "{why}: {done:?}");
    assert!(done.err.contains(why), "{why}: {}", done.err);
    assert!(fs::read(path).unwrap() == before, "{why}: it was changed");
}

#[test]
fn database_of_another_program_stays_as_it_is() {
    let dir = one_message("Hello");
    let made = dir.path().join("made.db");
    exported(dir.path(), "chat-sqlite", &made);
    let complete = {
        let made = Connection::open(&made).unwrap();
        let select = "SELECT group_concat(sql, ';') FROM sqlite_schema WHERE name LIKE 'chat_%' AND type = 'table'";
        made.query_row(select, [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    let cases = [
        (
            complete.replace("workspace_id TEXT,", ""),
            "no column `workspace_id`",
        ),
        (
            complete.replace("hidden_at INTEGER,", ""),
            "no column `hidden_at`",
        ),
        (
            format!("{complete}; PRAGMA user_version = 2"),
            "user_version is 2",
        ),
        (
            format!("{complete}; PRAGMA user_version = 4"),
            "user_version is 4",
        ),
        (
            "CREATE TABLE bookmarks (url TEXT)".to_owned(),
            "another program",
        ),
        (
            "CREATE TABLE events (id INTEGER)".to_owned(),
            "another program",
        ),
    ];
    for (number, (tables, why)) in cases.iter().enumerate() {
        let path = dir.path().join(format!("{number}.db"));
        Connection::open(&path)
            .unwrap()
            .execute_batch(tables)
            .unwrap();
        refused_untouched(dir.path(), &path, why);
    }
    let text = dir.path().join("text.db");
    fs::write(
        &text,
        "No database, but a text that is long enough. ".repeat(30),
    )
    .unwrap();
    refused_untouched(dir.path(), &text, "not a database");
    // One that has all columns takes the rows.
    let path = dir.path().join("complete.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(&complete)
        .unwrap();
    exported(dir.path(), "chat-sqlite", &path);
}

#[test]
fn database_that_another_program_writes_to_is_named() {
    let dir = one_message("Hello");
    let path = dir.path().join("target.db");
    exported(dir.path(), "chat-sqlite", &path);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let done = export(dir.path(), "chat-sqlite", &["ses_1"], &path);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.err.contains("another program writes to it"),
        "{done:?}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    exported(dir.path(), "chat-sqlite", &path);
}

#[test]
fn messages_that_another_program_added_stay() {
    let recording = Recording::new();
    let root = recording.dir.path();
    let path = root.join("target.db");
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user("One").emit();
        exported(root, "chat-sqlite", &path);
        let insert = "INSERT INTO chat_messages (id, session_id, role, created_at, updated_at)
            VALUES ('msg_grida', 'ses_1', 'user', 9000000000000, 9000000000000)";
        Connection::open(&path)
            .unwrap()
            .execute_batch(insert)
            .unwrap();
        events::message_assistant("Two").emit();
        events::message_user("Three").emit();
    });
    exported(root, "chat-sqlite", &path);
    let all = rows(&path).join("\n");
    for text in ["msg_grida", "\"One\"", "\"Two\"", "\"Three\""] {
        assert!(all.contains(text), "{text}: {all}");
    }
}

/// A session of which only the first line of its segment was written.
fn header_only() -> TempDir {
    let dir = one_message("Hello");
    let session = spanledger::read::session_dir(dir.path(), "ses_1");
    let cut = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{}\n", text.lines().next().unwrap())).unwrap();
    };
    let files = fs::read_dir(session)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .for_each(cut);
    dir
}

#[test]
fn session_with_only_a_header_is_exported() {
    for format in [
        "chat-sqlite",
        "chat-json",
        "chat-jsonl",
        "chat-csv",
        "trace-sqlite",
    ] {
        let dir = header_only();
        let path = dir.path().join("target");
        exported(dir.path(), format, &path);
        if format.starts_with("chat") && format != "chat-csv" {
            let other = dir.path().join("other");
            let done = run(&other, &["import", format, path.to_str().unwrap()]);
            assert_eq!(done.code, 0, "{format}: {done:?}");
        }
    }
}

#[test]
fn all_goes_on_after_a_session_that_fails() {
    let recording = Recording::new();
    recording.run(|| {
        for session in ["ses_1", "ses_2", "ses_3"] {
            let _run = spans::session_run(session, "planner").start().entered();
            events::message_user("Hello").emit();
        }
    });
    let dir = recording.end();
    let file =
        |session: &str| spanledger::read::session_dir(dir.path(), session).join("trace.sqlite");
    std::os::unix::fs::symlink("/dev/null", file("ses_2")).unwrap();
    let done = run(dir.path(), &["export", "trace-sqlite", "--all"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("ses_2/trace.sqlite"), "{done:?}");
    assert!(file("ses_1").exists() && file("ses_3").exists(), "{done:?}");
    // One database of all sessions: the others are in it.
    let path = dir.path().join("chat.db");
    let other = one_message("Other");
    exported(other.path(), "chat-sqlite", &path);
    let done = run(
        dir.path(),
        &[
            "export",
            "chat-sqlite",
            "--all",
            "-o",
            path.to_str().unwrap(),
        ],
    );
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("another session named ses_1"), "{done:?}");
    let all = rows(&path).join("\n");
    assert!(all.contains("ses_2") && all.contains("ses_3"), "{all}");
}

/// The value of a member of the only document.
fn document(root: &Path) -> Value {
    run(root, &["export", "chat-json", "ses_1"]).json()
}

#[test]
fn usage_of_a_call_counts_once() {
    let used = |input: u64| Usage {
        input_tokens: Some(input),
        output_tokens: Some(1),
        ..Usage::default()
    };
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user("Hello").emit();
        // Its own usage is the newest of what was reported meanwhile.
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.in_scope(|| {
            events::model_usage(&used(10)).emit();
            events::model_usage(&used(11)).emit();
            events::message_assistant("One").emit();
        });
        call.record_usage(&used(12));
        call.finish(Outcome::Ok);
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.in_scope(|| {
            events::model_usage(&used(100)).emit();
            events::model_usage(&used(200)).emit();
        });
        call.finish(Outcome::Ok);
        events::model_usage(&used(3000)).emit();
    });
    let dir = recording.end();
    let expected = [3212, 3];
    let session = &document(dir.path())["session"];
    assert_eq!(
        [&session["prompt_tokens"], &session["completion_tokens"]],
        expected
    );
    let messages = document(dir.path());
    let of_messages = |name: &str| -> u64 {
        let messages = messages["messages"].as_array().unwrap().iter();
        let metadata = messages.map(|one| {
            let text = one["message"]["metadata_json"].as_str().unwrap();
            serde_json::from_str::<Value>(text).unwrap()
        });
        metadata.filter_map(|one| one["usage"][name].as_u64()).sum()
    };
    assert_eq!([of_messages("input"), of_messages("output")], expected);
    let total = &run(dir.path(), &["stats", "ses_1", "--json"]).json()["total"];
    assert_eq!([&total["input_tokens"], &total["output_tokens"]], expected);
    let path = dir.path().join("trace.db");
    exported(dir.path(), "trace-sqlite", &path);
    let sum = |name: &str| -> i64 {
        let select = format!(
            "SELECT sum(json_extract(payload_json, '$.{name}')) FROM events WHERE kind = 'model_usage'"
        );
        let database = Connection::open(&path).unwrap();
        database.query_row(&select, [], |row| row.get(0)).unwrap()
    };
    assert_eq!([sum("input_tokens"), sum("output_tokens")], [3212, 3]);
    // The events come back.
    let other = dir.path().join("other");
    let done = run(&other, &["import", "trace-sqlite", path.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    let trace = crate::support::Trace::read(&other);
    assert_eq!(trace.all("model_usage").len(), 5);
    let listed = run(&other, &["list", "--json"]).objects();
    assert!(
        listed[0].to_string().contains("\"input_tokens\":3212"),
        "{listed:?}"
    );
}

#[test]
fn tokens_beyond_the_largest_number_do_not_overflow() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        for _ in 0..2 {
            let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
            call.record_usage(&Usage {
                input_tokens: Some(u64::MAX),
                output_tokens: Some(u64::MAX),
                reasoning_tokens: Some(1),
                ..Usage::default()
            });
            call.finish(Outcome::Ok);
        }
    });
    let dir = recording.end();
    let session = &document(dir.path())["session"];
    assert_eq!(session["prompt_tokens"], u64::MAX);
    assert_eq!(session["total_tokens"], u64::MAX);
}
