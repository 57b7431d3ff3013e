//! `export`: formats, targets, and a follower that is killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use spanledger::{SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{run, spanledger};

const KILLS: usize = 50;

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

#[test]
fn list_describes_every_format() {
    let formats = run(&fixture(), &["export", "--list", "--json"]).objects();
    assert_eq!(formats.len(), spanledger::export::Format::ALL.len());
    assert!(formats.iter().all(|format| format["about"].is_string()));
}

#[test]
fn wrong_use_says_what_to_do() {
    let unknown = run(&fixture(), &["export", "trajectories"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("use one of trajectory"), "{unknown:?}");
    let directory = run(&fixture(), &["export", "agentdbg"]);
    assert_eq!(directory.code, 2);
    assert!(directory.err.contains("give -o DIR"), "{directory:?}");
    let several = run(&fixture(), &["export", "trajectory", "--all"]);
    assert_eq!(several.code, 2);
    let missing = run(&fixture(), &["export", "trajectory", "ses_nowhere"]);
    assert_eq!(missing.code, 2);
}

#[test]
fn target_that_cannot_be_written_keeps_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    fs::write(&out, "before").unwrap();
    fs::create_dir(dir.path().join("out.jsonl.part")).unwrap();
    let done = run(
        &fixture(),
        &[
            "export",
            "trajectory",
            "ses_whole",
            "-o",
            out.to_str().unwrap(),
        ],
    );
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("out.jsonl"), "{done:?}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "before");
}

#[test]
fn all_sessions_get_a_file_each() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::new();
    for id in ["ses_1", "../ses_2"] {
        recording.run(|| {
            let _run = spans::session_run(id, "planner").start().entered();
            events::message_user("=1+1\u{0}\u{202e}").emit();
        });
    }
    let root = recording.end();
    let out = dir.path().join("out");
    let done = run(
        root.path(),
        &["export", "trajectory", "--all", "-o", out.to_str().unwrap()],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let files: Vec<_> = fs::read_dir(&out).unwrap().collect();
    assert_eq!(files.len(), 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Records so many tool calls.
fn record(recording: &Recording, tools: usize) {
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            for n in 0..tools {
                let tool = spans::tool_call("bash", format!("c{n}")).start();
                tool.record_exit_code(0);
            }
        });
    });
}

#[test]
fn killed_follower_leaves_every_row_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("trajectory.jsonl");
    let recording = Recording::new();
    record(&recording, 1);
    let root = recording.dir.path().to_owned();
    let args = ["export", "trajectory", "ses_1", "--follow", "-o"];
    let size = || out.metadata().map_or(0, |meta| meta.len());
    for _ in 0..KILLS {
        let before = size();
        record(&recording, 20);
        let mut follower = spanledger(&root)
            .args(args)
            .arg(&out)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It is at work when the file grows.
        let late = Instant::now() + Duration::from_secs(60);
        while size() == before && Instant::now() < late {
            std::thread::yield_now();
        }
        record(&recording, fastrand::usize(..200));
        follower.kill().unwrap();
        follower.wait().unwrap();
    }
    let session = spanledger::read::session_dir(&root, "ses_1");
    spanledger::export::Live::file(spanledger::export::Format::Trajectory, &out)
        .sync(&session)
        .unwrap();
    let once = run(&root, &["export", "trajectory", "ses_1"]).out;
    let text = fs::read_to_string(&out).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    let addresses: BTreeSet<String> = rows
        .iter()
        .map(|row| serde_json::from_str::<Value>(row).unwrap()["metadata"].to_string())
        .collect();
    assert_eq!(addresses.len(), rows.len(), "a row is there twice");
    assert_eq!(text, once);
}
