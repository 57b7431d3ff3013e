//! What is in the target of an export.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spanledger::export::{Format, Live, Shape, Target, export};

/// The formats that are kept current.
pub fn live_formats() -> Vec<Format> {
    let has =
        |format: &&Format| format.is_live() && (cfg!(feature = "sqlite") || !format.is_database());
    Format::ALL.iter().filter(has).copied().collect()
}

/// Keeps the export of one session current.
pub fn live(format: Format, target: &Path) -> Live {
    match format.shape() {
        Shape::FileOfSession => Live::file(format, target),
        _ => Live::new(format, target),
    }
}

/// A live target of one session has the rows of an export that is made now.
#[track_caller]
pub fn assert_complete(format: Format, session: &Path, target: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join(format.name());
    let mut fresh = Target::file(&again);
    export(format, session, &mut fresh).unwrap();
    fresh.finish().unwrap();
    let (live, again) = (rows(target), rows(&again));
    assert_eq!(
        live.keys().collect::<Vec<_>>(),
        again.keys().collect::<Vec<_>>(),
        "{format}"
    );
    for (file, rows) in &live {
        assert_eq!(rows, &again[file], "{format}: {}", file.display());
    }
}

/// The rows of each file of a target, sorted; of a conversation's rows with one id the last. No row is there twice.
#[track_caller]
pub fn rows(target: &Path) -> BTreeMap<PathBuf, Vec<String>> {
    let mut all = BTreeMap::new();
    add_rows(target, &mut all, target);
    all
}

#[track_caller]
fn add_rows(path: &Path, all: &mut BTreeMap<PathBuf, Vec<String>>, base: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            add_rows(&entry.unwrap().path(), all, base);
        }
        return;
    }
    let name = path.to_string_lossy();
    if name.ends_with("-wal") || name.ends_with("-shm") {
        return;
    }
    let bytes = fs::read(path).unwrap();
    let mut rows: Vec<String> = match bytes.starts_with(b"SQLite format 3") {
        #[cfg(feature = "sqlite")]
        true => database_rows(path),
        _ => {
            let text = String::from_utf8(bytes).unwrap();
            let is_whole = text.is_empty() || text.ends_with(['\n', '}']);
            assert!(is_whole, "a torn line: {name}");
            text.lines().map(str::to_owned).collect()
        }
    };
    rows.sort();
    let once: BTreeSet<_> = rows.iter().collect();
    assert_eq!(once.len(), rows.len(), "{name}: a row is there twice");
    let first = rows
        .iter()
        .any(|row| row.starts_with("{\"type\":\"session\""));
    if first {
        rows = newest_rows(&fs::read_to_string(path).unwrap());
    }
    all.insert(path.strip_prefix(base).unwrap().to_owned(), rows);
}

/// The rows of `chat-jsonl`: of those with the same id the last counts, and updates change a message.
fn newest_rows(text: &str) -> Vec<String> {
    let mut newest: BTreeMap<String, Value> = BTreeMap::new();
    for row in text.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let id = row["data"]["id"].to_string();
        if row["type"] != "update" {
            newest.insert(format!("{} {id}", row["type"]), row);
            continue;
        }
        let message = newest.get_mut(&format!("\"message\" {id}")).unwrap();
        let hidden = &row["data"]["hidden_at"];
        message["data"]["hidden_at"] = hidden.clone();
        let metadata = message["data"]["metadata_json"].as_str().unwrap();
        let mut metadata: serde_json::Map<String, Value> = serde_json::from_str(metadata).unwrap();
        metadata.remove("hidden_at");
        if !hidden.is_null() {
            metadata.insert("hidden_at".into(), hidden.clone());
        }
        message["data"]["metadata_json"] = Value::Object(metadata).to_string().into();
    }
    newest.values().map(Value::to_string).collect()
}

/// The rows of all tables of a database. The numbers of events and the cursor may differ.
#[cfg(feature = "sqlite")]
pub fn database_rows(path: &Path) -> Vec<String> {
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
