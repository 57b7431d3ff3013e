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

#[test]
fn unreadable_source_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let [empty, packed, other] =
        ["empty.jsonl", "packed.jsonl.gz", "other.txt"].map(|name| dir.path().join(name));
    fs::write(&empty, "").unwrap();
    fs::write(&packed, b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03").unwrap();
    fs::write(&other, "Dear diary\n").unwrap();
    for format in [
        "auto",
        "atif",
        "chat-json",
        "chat-jsonl",
        "chat-sqlite",
        "claude-code",
        "codex",
        "trace-sqlite",
        "otlp-json",
        "prime",
        "trajectory",
        "trial",
    ] {
        refused(&root, format, &empty, "the file is empty");
        refused(
            &root,
            format,
            &packed,
            "it is compressed with gzip; unpack it with gunzip",
        );
    }
    refused(&root, "auto", &other, "it looks like none of agentdbg, ");
    refused(
        &root,
        "auto",
        dir.path(),
        "it looks like none of agentdbg, ",
    );
    refused(&root, "auto", &dir.path().join("missing"), "No such file");
}

#[test]
fn error_in_the_file_of_a_subagent_imports_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (root, path) = (dir.path().join("root"), dir.path().join("s.jsonl"));
    write(&path, &[said(1, "Go.")]);
    let agents = dir.path().join("s/subagents");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("agent-a1.jsonl"), "{\"type\":\n{}\n").unwrap();
    let done = run(&root, &["import", "auto", path.to_str().unwrap()]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("agent-a1.jsonl, line 1:"), "{done:?}");
    assert!(!root.join("sessions").exists() && !root.join("importing").exists());
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

#[test]
fn byte_order_mark_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let mut sources: Vec<(&str, PathBuf)> = Vec::new();
    for format in [
        "agentdbg",
        "atif",
        "chat-json",
        "chat-jsonl",
        "otlp-json",
        "trajectory",
        "trial",
    ] {
        let out = dir.path().join(format);
        let args = ["export", format, "ses_whole", "-o", out.to_str().unwrap()];
        let done = run(&fixture, &args);
        assert_eq!(done.code, 0, "{done:?}");
        let path = match format {
            "agentdbg" => fs::read_dir(out.join("runs"))
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path(),
            "trial" => files(&out).remove(0),
            _ => out,
        };
        sources.push((format, path));
    }
    let meta = json!({"id": SESSION, "timestamp": "2026-11-10T08:00:00.000Z", "cwd": "/home/ada/app", "cli_version": "0.169.0", "api_token": SECRET});
    let meta =
        json!({"timestamp": "2026-11-10T08:00:00.000Z", "type": "session_meta", "payload": meta});
    let mut secret = said(1, "Go.");
    secret["credentials"] = json!({"note": "quiet river stone"});
    for (format, line) in [("codex", meta), ("claude-code", secret)] {
        let path = dir.path().join(format!("{format}.jsonl"));
        write(&path, &[line]);
        sources.push((format, path));
    }
    for (format, path) in sources {
        let [plain, marked, by_name] =
            ["plain", "marked", "named"].map(|root| dir.path().join(format!("{format}-{root}")));
        // Masks are made with a key of the root.
        import(&plain, "auto", &path);
        for root in [&marked, &by_name] {
            fs::create_dir_all(root).unwrap();
            for entry in fs::read_dir(&plain).unwrap() {
                let file = entry.unwrap().path();
                if file.is_file() {
                    fs::copy(&file, root.join(file.file_name().unwrap())).unwrap();
                }
            }
        }
        mark(&path);
        import(&marked, "auto", &path);
        import(&by_name, format, &path);
        assert!(!lines(&plain).is_empty());
        assert_eq!(lines(&plain), lines(&marked), "{format}");
        assert_eq!(lines(&plain), lines(&by_name), "{format}");
    }
}

#[test]
fn changed_source_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (root, path) = (dir.path().join("root"), dir.path().join("s.jsonl"));
    write(&path, &[said(1, "Go.")]);
    assert_eq!(import(&root, "auto", &path)[0]["changed"], false);
    let again = &import(&root, "auto", &path)[0];
    assert!(
        again["known"] == true && again["changed"] == false,
        "{again}"
    );

    write(&path, &[said(1, "Go."), said(2, "More.")]);
    let before = lines(&root);
    for dry in [&["--dry-run"][..], &[]] {
        let args = ["import", "auto", path.to_str().unwrap()];
        let done = run(&root, &[&args, dry].concat());
        let expected = "is there already, and its source has changed since";
        assert!(done.code == 0 && done.out.contains(expected), "{done:?}");
        let done = run(&root, &[&args, dry, &["--json"]].concat());
        let session = &done.objects()[0];
        assert!(
            session["known"] == true && session["changed"] == true,
            "{session}"
        );
    }
    assert_eq!(lines(&root), before);
}
