//! Exports that an agent keeps current, while it is killed at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use spanledger::export::{Export, Format, Live, Target, export};
use spanledger::read::session_dir;
use spanledger::{events, spans};
use tracing_subscriber::Registry;

use crate::support::{Recording, agent};

const KILLS: usize = 50;

/// Runs an agent with exports, and kills it after so many reports.
fn live(root: &Path, exports: &str, life: usize, kill_after: Option<usize>) {
    let rounds = if kill_after.is_some() { "1000000" } else { "3" };
    let mut child = Command::new(agent::executable())
        .args(["churn".as_ref(), root.as_os_str()])
        .args(["ses_1", &format!("life{life}"), rounds])
        .env("SPANLEDGER_EXPORT", exports)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let reports = BufReader::new(child.stdout.take().unwrap()).lines();
    for (n, report) in reports.enumerate() {
        report.unwrap();
        if kill_after == Some(n) {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.success(), kill_after.is_none(), "{status}");
}

/// The rows of all tables of a database. The numbers of events and the cursor may differ.
#[cfg(feature = "sqlite")]
fn database_rows(path: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open(path).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
        AND name NOT LIKE 'sqlite%' AND name <> 'spanledger_cursor'";
    let mut tables = database.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get(0)).unwrap();
    let tables: Vec<String> = tables.map(Result::unwrap).collect();
    let mut all = Vec::new();
    for table in tables {
        let select = format!("SELECT * FROM {table}");
        let mut select = database.prepare(&select).unwrap();
        let names: Vec<String> = select.column_names().map(String::from).collect();
        let first = usize::from(table == "events");
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let mut text = table.clone();
            for (at, name) in names.iter().enumerate().skip(first) {
                text += &format!(" {name}={:?}", row.get_ref(at).unwrap());
            }
            all.push(text);
        }
    }
    all
}

/// The rows of all files below a directory, or of one file.
fn rows(path: &Path, into: &mut BTreeMap<PathBuf, Vec<String>>, base: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            rows(&entry.unwrap().path(), into, base);
        }
        return;
    }
    let name = path.to_string_lossy();
    if name.ends_with("-wal") || name.ends_with("-shm") {
        return;
    }
    let bytes = fs::read(path).unwrap();
    let mut lines: Vec<String> = match bytes.starts_with(b"SQLite format 3") {
        #[cfg(feature = "sqlite")]
        true => database_rows(path),
        _ => String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
    };
    if lines
        .first()
        .is_some_and(|line| line.starts_with("{\"type\":\"session\""))
    {
        lines = newest_rows(&lines);
    }
    lines.sort();
    let twice: BTreeSet<_> = lines.iter().collect();
    assert_eq!(
        twice.len(),
        lines.len(),
        "{}: a row is there twice",
        path.display()
    );
    into.insert(path.strip_prefix(base).unwrap().to_owned(), lines);
}

/// The rows of `chat-jsonl`: of those with the same id the last counts.
fn newest_rows(rows: &[String]) -> Vec<String> {
    let key = |row: &str| {
        let row: Value = serde_json::from_str(row).unwrap();
        format!("{} {}", row["type"], row["data"]["id"])
    };
    let newest: BTreeMap<String, &String> = rows.iter().map(|row| (key(row), row)).collect();
    newest.into_values().cloned().collect()
}

fn all_rows(path: &Path) -> BTreeMap<PathBuf, Vec<String>> {
    let mut all = BTreeMap::new();
    rows(path, &mut all, path);
    all
}

#[test]
fn every_row_is_there_once_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let out = |name: &str| dir.path().join("live").join(name);
    let has =
        |format: &&Format| format.is_live() && (cfg!(feature = "sqlite") || !format.is_database());
    let formats: Vec<Format> = Format::ALL.iter().filter(has).copied().collect();
    let exports = formats
        .iter()
        .map(|format| format!("{format}={}", out(format.name()).display()));
    let exports = exports.collect::<Vec<_>>().join(",");
    for life in 0..KILLS {
        live(&root, &exports, life, Some(fastrand::usize(..400)));
    }
    live(&root, &exports, KILLS, None);

    let session = session_dir(&root, "ses_1");
    for format in &formats {
        // The agent's shutdown does not wait for a slow machine. The next process goes on.
        Live::new(*format, out(format.name()))
            .sync(&session)
            .unwrap();
        let file = format!("ses_1.{}", format.extension());
        let live = match out(format.name()).join(file) {
            file if file.exists() => file,
            _ => out(format.name()),
        };
        let again = dir.path().join("again").join(format.name());
        let mut target = Target::file(&again);
        export(*format, &session, &mut target).unwrap();
        target.finish().unwrap();
        let (live, again) = (all_rows(&live), all_rows(&again));
        assert_eq!(
            live.keys().collect::<Vec<_>>(),
            again.keys().collect::<Vec<_>>()
        );
        for (file, rows) in &live {
            assert_eq!(rows, &again[file], "{format}: {}", file.display());
        }
    }
}

fn one_session(recording: &Recording) {
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user("What is here?").emit();
        drop(spans::tool_call("bash", "c1").start());
    });
}

#[test]
fn agent_exports_what_it_records() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log/sessions.jsonl");
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export(Export::new(Format::SessionLog, &log))
    });
    one_session(&recording);
    let root = recording.dir.path().to_owned();
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.export_error, None);
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("What is here?"), "{text}");
    // Nothing is left for the next process.
    assert_eq!(fs::read_dir(root.join("exports")).unwrap().count(), 0);
}

/// The file is in the session's directory, so no path is needed.
#[cfg(feature = "sqlite")]
#[test]
fn agent_writes_trace_sqlite_into_its_session() {
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export("trace-sqlite".parse().unwrap())
    });
    one_session(&recording);
    let root = recording.dir.path().to_owned();
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.export_error, None);
    let file = session_dir(&root, "ses_1").join("trace.sqlite");
    assert_eq!(database_rows(&file).len(), 5);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn target_that_cannot_be_written_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    fs::write(&blocked, "").unwrap();
    let export = Export::new(Format::Trajectory, blocked.join("inside"));
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export(export.clone())
    });
    one_session(&recording);
    let root = recording.dir.path().to_owned();
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.failed, 0);
    let error = health.export_error.unwrap();
    assert!(error.contains("file/inside"), "{error}");

    // The next process catches up.
    fs::remove_file(&blocked).unwrap();
    let (layer, guard) = spanledger::builder()
        .root(&root)
        .shutdown_timeout(Duration::from_secs(60))
        .export(export)
        .build::<Registry>()
        .unwrap();
    assert_eq!(guard.shutdown().unwrap().export_error, None);
    drop(layer);
    let text = fs::read_to_string(blocked.join("inside/ses_1.jsonl")).unwrap();
    assert!(text.contains("tool_result"), "{text}");
}
