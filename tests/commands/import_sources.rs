//! `import`: which format a file has, what is said of files that can't be read, and of sources that have changed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::imports::{SECRET, files, refused};
use crate::support::cli::run;

const SESSION: &str = "5b2e7a52-2b1c-4f0e-9d53-6f6b4c1a9e10";

fn said(second: u32, text: &str) -> Value {
    json!({
        "type": "user", "uuid": format!("u{second}"), "parentUuid": null, "sessionId": SESSION,
        "timestamp": format!("2026-11-10T08:00:{second:02}.000Z"), "cwd": "/home/ada/app", "version": "2.0.1",
        "message": {"role": "user", "content": text},
    })
}

fn write(path: &Path, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(path, text).unwrap();
}

#[track_caller]
fn import(root: &Path, format: &str, path: &Path) -> Vec<Value> {
    let done = run(root, &["import", format, path.to_str().unwrap(), "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    done.objects()
}

#[test]
fn claude_code_is_known_by_any_of_its_first_lines() {
    let snapshot = json!({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": false});
    let unknown = json!({"type": "last-prompt", "lastPrompt": "Go."});
    let with_data = json!({"type": "progress", "data": {"type": "hook_progress"}, "uuid": "p", "sessionId": SESSION, "timestamp": "2026-11-10T08:00:00.000Z"});
    let cases = [
        vec![snapshot.clone()],
        vec![json!({"type": "permission-mode", "permissionMode": "default", "sessionId": SESSION})],
        vec![json!({"type": "summary", "summary": "Mend it", "leafUuid": "u"})],
        vec![
            json!({"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "timestamp": "2026-11-10T08:00:00.000Z"}),
        ],
        vec![with_data.clone()],
        vec![unknown.clone(), snapshot],
        // A line that looks like a row of a chat.
        vec![json!({"type": "progress", "data": {"type": "hook_progress"}})],
        vec![unknown; 40],
    ];
    for first in cases {
        let dir = tempfile::tempdir().unwrap();
        let (root, path) = (dir.path().join("root"), dir.path().join("s.jsonl"));
        write(&path, &[&first[..], &[said(1, "Go.")]].concat());
        let sessions = import(&root, "auto", &path);
        assert_eq!(sessions[0]["session_id"], SESSION, "{first:?}");
    }
}

/// The lines of the sessions of a root, without what each import makes anew.
fn lines(root: &Path) -> Vec<Value> {
    let mut all = Vec::new();
    let mut traces = files(&root.join("sessions"));
    traces.retain(|file| file.to_string_lossy().ends_with(".jsonl"));
    traces.sort();
    for trace in traces {
        let text = fs::read_to_string(trace).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        all.extend(lines.filter(|line: &Value| line["kind"] != "segment"));
    }
    all
}

/// Puts a byte order mark before a file, or before each file of a directory.
fn mark(path: &Path) {
    let marked = match path.is_dir() {
        true => files(path),
        false => vec![path.to_owned()],
    };
    for file in marked {
        let text = fs::read(&file).unwrap();
        fs::write(file, [b"\xef\xbb\xbf", &text[..]].concat()).unwrap();
    }
}
