//! The commands that read a trace, on traces whose every line is written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanledger::session::{Retention, Store};
use spanledger::spans;
use tempfile::tempdir;

use crate::support::Recording;
use crate::support::cli::run;
use crate::support::written::{line, span, write};

fn at(mut line: Value, ts: &str) -> Value {
    line["ts"] = format!("2026-11-16T{ts}.000000Z").into();
    line
}

fn message(id: &str, ts: &str, text: &str) -> Value {
    at(line(id, "message_user", json!({"content": text})), ts)
}

/// The ids of a command's objects, in their order.
fn ids(root: &Path, args: &[&str]) -> Vec<String> {
    let objects = run(root, args).objects();
    let id = |object: &Value| object["session_id"].as_str().unwrap().to_owned();
    objects.iter().map(id).collect()
}

/// A session in which two lines name a blob.
fn with_blob(root: &Path, blob: &str) -> PathBuf {
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let moved = json!({"content": {"$blob": sha256, "bytes": 5, "head": ""}});
    let dir = write(
        root,
        "ses_1",
        1,
        &vec![line("ses_1", "message_user", moved); 2],
    );
    fs::create_dir_all(dir.join("blobs")).unwrap();
    fs::write(dir.join("blobs").join(sha256), blob).unwrap();
    dir
}

#[test]
fn since_omits_earlier_sessions() {
    let root = tempdir().unwrap();
    write(
        root.path(),
        "ses_old",
        1,
        &[message("ses_old", "00:00:00", "hello")],
    );
    let mut now = message("ses_new", "00:00:00", "hello");
    now["ts"] = "2100-01-01T00:00:00.000000Z".into();
    write(root.path(), "ses_new", 1, &[now]);
    assert_eq!(
        ids(root.path(), &["list", "--json", "--since", "1s"]),
        ["ses_new"]
    );
}

#[test]
fn branch_is_under_its_origin() {
    let root = tempdir().unwrap();
    let run_of = |id: &str, ts: &str, fields: Value| at(line(id, "session_start", fields), ts);
    let branched = json!({"agent": "a", "branched_from": {"session_id": "ses_1"}});
    write(
        root.path(),
        "ses_1",
        1,
        &[run_of("ses_1", "00:00:01", json!({"agent": "a"}))],
    );
    write(
        root.path(),
        "ses_2",
        1,
        &[run_of("ses_2", "00:00:02", branched)],
    );
    let done = run(root.path(), &["list", "--tree"]);
    let rows = done.lines();
    assert!(
        rows[1].starts_with("ses_1 ") && rows[2].starts_with("  ses_2 "),
        "{}",
        done.out
    );
}

#[test]
fn errors_are_shown_where_they_happened() {
    let root = tempdir().unwrap();
    let tool = |id, parent, name: &str, outcome: &str| {
        let fields = json!({"tool_id": name, "outcome": outcome});
        span("ses_1", "tool_result", id, parent, fields)
    };
    let lines = [
        tool(1, 0, "outer", "ok"),
        tool(2, 1, "inner", "error"),
        tool(3, 1, "fine", "ok"),
    ];
    write(root.path(), "ses_1", 1, &lines);
    let done = run(root.path(), &["show", "ses_1", "--errors"]);
    let timeline = done.out.split("Turn 1").nth(1).unwrap();
    assert!(
        timeline.contains("outer") && timeline.contains("inner"),
        "{timeline}"
    );
    assert!(!timeline.contains("fine"), "{timeline}");
}

#[test]
fn blob_with_wrong_digest_is_reported_not_shown() {
    let root = tempdir().unwrap();
    with_blob(root.path(), "hellO");
    let done = run(root.path(), &["show", "ses_1", "--event", "1:1"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("blob digest mismatch"), "{done:?}");
    assert!(!done.out.contains("hellO"), "{done:?}");
}

#[test]
fn blob_larger_than_its_line_says_is_not_read() {
    let root = tempdir().unwrap();
    let dir = with_blob(root.path(), "hello");
    let blob = fs::read_dir(dir.join("blobs")).unwrap().next().unwrap();
    let blob = fs::File::options().write(true).open(blob.unwrap().path());
    // Sparse: it takes no space, but would not fit into memory.
    blob.unwrap().set_len(1 << 42).unwrap();
    for args in [
        &["show", "ses_1", "--event", "1:1"][..],
        &["show", "ses_1", "--full"],
        &["grep", "hell"],
    ] {
        let done = run(root.path(), args);
        assert_eq!(done.code, 3, "{done:?}");
        assert!(done.err.contains("its line names 5"), "{done:?}");
    }
}

#[test]
fn blob_is_searched_with_its_first_line() {
    let root = tempdir().unwrap();
    with_blob(root.path(), "hello");
    let done = run(root.path(), &["grep", "hell", "--json"]);
    let found: Vec<_> = done
        .objects()
        .iter()
        .map(|o| o["address"].clone())
        .collect();
    assert_eq!(found, ["1:1"]);
}

#[test]
fn repeated_text_is_found_where_it_was_recorded() {
    let root = tempdir().unwrap();
    let noted =
        json!({"tool_id": "t", "events": [{"message": "needle"}], "totals": {"needle": "needle"}});
    let lines = [
        line("ses_1", "log", json!({"message": "needle"})),
        span("ses_1", "tool_result", 1, 0, noted),
    ];
    write(root.path(), "ses_1", 1, &lines);
    let done = run(root.path(), &["grep", "needle"]);
    assert_eq!(done.lines(), ["ses_1 1:1 log message: needle"]);
}

#[test]
fn grep_starts_with_the_earliest_session() {
    let root = tempdir().unwrap();
    for (id, ts) in [
        ("ses_b", "00:00:01"),
        ("ses_a", "00:00:02"),
        ("ses_c", "00:00:03"),
    ] {
        write(root.path(), id, 1, &[message(id, ts, "needle")]);
    }
    let found = ids(root.path(), &["grep", "needle", "--json"]);
    assert_eq!(found, ["ses_b", "ses_a", "ses_c"]);
}

#[test]
fn segments_merge_in_time_order() {
    let root = tempdir().unwrap();
    for (seg, times) in [(1, ["00:00:01", "00:00:04"]), (2, ["00:00:02", "00:00:03"])] {
        write(
            root.path(),
            "ses_1",
            seg,
            &times.map(|ts| message("ses_1", ts, ts)),
        );
    }
    let done = run(root.path(), &["tail", "ses_1", "--no-follow", "--json"]);
    let printed = done.objects();
    let printed: Vec<_> = printed
        .iter()
        .map(|o| o["payload"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(printed, ["00:00:01", "00:00:02", "00:00:03", "00:00:04"]);
}

#[test]
fn address_limits_subagents_to_later_lines() {
    let root = tempdir().unwrap();
    let lines = ["00:00:01", "00:00:03"].map(|ts| message("ses_1", ts, ts));
    write(root.path(), "ses_1", 1, &lines);
    let lines = [
        at(
            line(
                "ses_2",
                "session_start",
                json!({"parent_session_id": "ses_1"}),
            ),
            "00:00:02",
        ),
        message("ses_2", "00:00:04", "00:00:04"),
    ];
    write(root.path(), "ses_2", 1, &lines);
    let args = ["tail", "ses_1", "--from", "1:2", "--no-follow", "--json"];
    let printed = run(root.path(), &args).objects();
    let printed: Vec<_> = printed
        .iter()
        .map(|o| o["payload"]["content"].as_str())
        .collect();
    assert_eq!(printed, [Some("00:00:03"), Some("00:00:04")]);
}

#[test]
fn ambiguous_id_prefers_the_other_match() {
    let root = tempdir().unwrap();
    let lines = [
        line("ses_1", "message_user", json!({"content": "x"})),
        line(
            "ses_1",
            "tool_call",
            json!({"tool_id": "t", "tool_call_id": "ses_1"}),
        ),
    ];
    write(root.path(), "ses_1", 1, &lines);
    let found = run(root.path(), &["find", "ses_1", "--json"]).objects();
    assert_eq!((found.len(), &found[0]["type"]), (1, &json!("tool_call")));
}

#[test]
fn unfinished_last_line_is_counted_not_damage() {
    let root = tempdir().unwrap();
    let dir = write(
        root.path(),
        "ses_1",
        1,
        &[message("ses_1", "00:00:01", "x")],
    );
    let path = dir.join("trace.0001.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{{\"v\":1,")).unwrap();
    let done = run(root.path(), &["status", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let checks = &done.json()["checks"];
    assert_eq!(
        (&checks["torn"], &checks["damaged"]),
        (&json!(1), &json!(0))
    );
}

#[test]
fn last_is_never_a_subagent() {
    let root = tempdir().unwrap();
    write(
        root.path(),
        "ses_1",
        1,
        &[message("ses_1", "00:00:01", "x")],
    );
    let lines = [at(
        line(
            "ses_2",
            "session_start",
            json!({"parent_session_id": "ses_1"}),
        ),
        "00:00:02",
    )];
    write(root.path(), "ses_2", 1, &lines);
    assert_eq!(ids(root.path(), &["show", "last", "--json"])[0], "ses_1");
}

#[test]
fn old_sessions_do_not_count_against_max_size() {
    let root = tempdir().unwrap();
    let big = "x".repeat(2_000);
    for id in ["ses_old", "ses_new"] {
        let mut long = message(id, "00:00:01", &big);
        if id == "ses_new" {
            long["ts"] = "2100-01-01T00:00:00.000000Z".into();
        }
        let writer = line(id, "segment", json!({"writer": "gone"}));
        write(root.path(), id, 1, &[writer, long]);
    }
    let args = ["prune", "--older-than", "1s", "--max-size", "3KB", "--json"];
    let done = run(root.path(), &args);
    assert_eq!(
        done.json()["removed"].as_array().unwrap().len(),
        1,
        "{done:?}"
    );
    assert_eq!(ids(root.path(), &["list", "--json"]), ["ses_new"]);
}

#[test]
fn first_close_of_a_span_is_shown() {
    let root = tempdir().unwrap();
    let tool = |kind: &str, result: &str| {
        span(
            "ses_1",
            kind,
            1,
            0,
            json!({"tool_id": "t", "result": result}),
        )
    };
    let lines = [
        tool("tool_call", ""),
        tool("tool_result", "first"),
        tool("tool_result", "second"),
    ];
    write(root.path(), "ses_1", 1, &lines);
    let done = run(root.path(), &["show", "ses_1"]);
    assert!(
        done.out.contains("first") && !done.out.contains("second"),
        "{}",
        done.out
    );
}

#[test]
fn dry_run_keeps_an_interrupted_prune() {
    let root = tempdir().unwrap();
    let dir = write(
        root.path(),
        "ses_1",
        1,
        &[message("ses_1", "00:00:01", "x")],
    );
    let left = dir.with_file_name(".gone-ses_0-17f3");
    fs::create_dir(&left).unwrap();
    let prune = |args: &[&str]| run(root.path(), &[&["prune", "--keep", "9"], args].concat());
    prune(&["--dry-run"]);
    assert!(left.exists());
    prune(&[]);
    assert!(!left.exists());
}

#[test]
fn turn_of_two_processes_is_shown_by_its_opener() {
    let root = tempdir().unwrap();
    let in_turn = |text: &str| {
        let mut line = message("ses_1", "00:00:01", text);
        line["turn"] = 1.into();
        line
    };
    let opened = span("ses_1", "turn_start", 1, 0, json!({}));
    write(root.path(), "ses_1", 1, &[opened, in_turn("opened here")]);
    write(root.path(), "ses_1", 2, &[in_turn("continued here")]);
    let done = run(root.path(), &["show", "ses_1", "--turn", "1"]);
    assert!(done.out.contains("opened here"), "{}", done.out);
}

#[test]
fn deltas_and_damage_are_no_last_lines() {
    let root = tempdir().unwrap();
    let piece = json!({"message_id": "m", "offset": 0, "text": "piece"});
    let mut lines = ["one", "two", "three"]
        .map(|text| message("ses_1", "00:00:01", text))
        .to_vec();
    lines.extend(vec![line("ses_1", "message_delta", piece); 5]);
    let dir = write(root.path(), "ses_1", 1, &lines);
    let path = dir.join("trace.0001.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}no line\n")).unwrap();
    let done = run(
        root.path(),
        &["tail", "ses_1", "-n", "2", "--no-follow", "--json"],
    );
    let printed = done.objects();
    let printed: Vec<_> = printed
        .iter()
        .filter_map(|o| o["payload"]["content"].as_str())
        .collect();
    assert_eq!(printed, ["two", "three"], "{done:?}");
}

#[test]
fn current_span_is_more_specific_than_its_turn() {
    let root = tempdir().unwrap();
    let lines = [
        at(
            span("ses_1", "tool_call", 1, 0, json!({"tool_id": "bash"})),
            "00:00:01",
        ),
        at(span("ses_1", "turn_start", 2, 0, json!({})), "00:00:02"),
    ];
    write(root.path(), "ses_1", 1, &lines);
    let done = run(root.path(), &["show", "ses_1"]);
    assert!(
        done.out.contains("tool bash was open since 00:00:01"),
        "{}",
        done.out
    );
}

#[test]
fn no_limit_selects_a_live_session() {
    let recording = Recording::new();
    recording.run(|| std::mem::forget(spans::session_run("ses_live", "watcher").start()));
    let entries = Store::new(recording.dir.path()).list().unwrap();
    assert_eq!(entries.len(), 1);
    for retention in [
        Retention {
            keep: Some(0),
            ..Retention::default()
        },
        Retention {
            older_than: Some(0),
            ..Retention::default()
        },
        Retention {
            max_size: Some(0),
            ..Retention::default()
        },
    ] {
        let chosen = retention.over(&entries, &|_| 1, u64::MAX);
        assert!(chosen.is_empty(), "{retention:?}");
    }
}

#[test]
fn thousands_of_sessions_take_little_memory() {
    let root = tempdir().unwrap();
    // Together they would take more than 32 MB.
    let process = json!({"writer": "w", "process": {"argv": ["x".repeat(16 << 10)]}});
    for n in 0..2_000 {
        let id = format!("ses_{n}");
        let lines = [
            line(&id, "segment", process.clone()),
            message(&id, "00:00:00", "hello"),
        ];
        write(root.path(), &id, 1, &lines);
    }
    for args in [
        &["list"][..],
        &["status"],
        &["grep", "-l", "hello"],
        &["show", "last"],
    ] {
        let limited = std::process::Command::new("sh")
            .args(["-c", "ulimit -d 28000; exec \"$@\"", "sh"])
            .arg(env!("CARGO_BIN_EXE_spanledger"))
            .arg("--root")
            .arg(root.path())
            .args(args)
            .output()
            .unwrap();
        assert!(limited.status.success(), "{args:?}: {limited:?}");
    }
}
