//! `export --follow` until Ctrl-C.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spanledger::{events, spans};

use crate::support::Recording;
use crate::support::cli::{Done, run, spanledger};

fn record(recording: &Recording) {
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user("Go.").emit();
    });
}

/// Follows until `is_seen`, and then until Ctrl-C.
fn follow_until(root: &Path, out: &Path, is_seen: impl Fn() -> bool) -> Done {
    let stderr = tempfile::NamedTempFile::new().unwrap();
    let mut follower = spanledger(root)
        .args(["export", "trajectory", "ses_1", "--follow", "-o"])
        .arg(out)
        .stdout(Stdio::null())
        .stderr(stderr.reopen().unwrap())
        .spawn()
        .unwrap();
    let late = Instant::now() + Duration::from_secs(60);
    let is_reported = || !fs::read_to_string(stderr.path()).unwrap().is_empty();
    while !is_seen() && !is_reported() && Instant::now() < late {
        std::thread::yield_now();
    }
    let pid = follower.id().to_string();
    let killed = Command::new("kill").args(["-INT", &pid]).status();
    assert!(killed.unwrap().success());
    let code = follower.wait().unwrap().code().unwrap();
    Done {
        code,
        out: String::new(),
        err: fs::read_to_string(stderr.path()).unwrap(),
    }
}

#[test]
fn complete_target_ends_with_success() {
    let recording = Recording::new();
    record(&recording);
    let out = recording.dir.path().join("out.jsonl");
    let done = follow_until(recording.dir.path(), &out, || out.exists());
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.err, "");
    assert!(fs::read_to_string(&out).unwrap().contains("Go."));
}

#[test]
fn target_that_lacks_rows_is_an_error_at_the_end() {
    let recording = Recording::new();
    record(&recording);
    let blocked = recording.dir.path().join("file");
    fs::write(&blocked, "").unwrap();
    let done = follow_until(recording.dir.path(), &blocked.join("out.jsonl"), || false);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("file: not a directory"), "{done:?}");
    assert!(done.err.contains("the target lacks rows"), "{done:?}");
}

#[test]
fn damage_is_reported_and_ends_with_an_error() {
    let recording = Recording::new();
    record(&recording);
    let root = recording.end();
    let segment = root.path().join("sessions/ses_1/trace.0001.jsonl");
    let mut text = fs::read_to_string(&segment).unwrap();
    text.push_str("no line\n");
    fs::write(&segment, text).unwrap();
    let out = root.path().join("out.jsonl");
    let done = follow_until(root.path(), &out, || false);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("trace.0001.jsonl"), "{done:?}");
}

#[test]
fn target_that_cannot_be_read_again_is_refused_at_once() {
    let recording = Recording::new();
    record(&recording);
    let root = recording.end();
    let follow = |format: &str, out: &Path| {
        let out = out.to_str().unwrap();
        run(
            root.path(),
            &["export", format, "ses_1", "--follow", "-o", out],
        )
    };
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    for (format, out, why) in [
        ("trajectory", Path::new("/dev/null"), "not a regular file"),
        ("session-log", root.path(), "not a regular file"),
        ("agentdbg", &file, "not a directory"),
    ] {
        let done = follow(format, out);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(why), "{done:?}");
    }
}
