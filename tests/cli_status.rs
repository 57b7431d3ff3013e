//! `spanledger status`.
#![cfg(feature = "cli")]

#[path = "support/cli.rs"]
mod cli;
mod support;

use cli::run;
use serde_json::json;
use spanledger::{Outcome, SpanExt, events, spans};
use support::Recording;

#[test]
fn what_a_live_session_does_is_shown_with_its_arguments_and_process() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let tool = spans::tool_call("bash", "call_1")
            .args(json!({"command": "cargo build"}))
            .start();
        let done = cli::run(recording.dir.path(), &["status"]);
        assert_eq!(done.code, 0, "{done:?}");
        let lines = done.lines();
        let pid = std::process::id();
        assert!(
            lines[0].starts_with(&format!("ses_1  busy  planner, pid {pid}, last event ")),
            "{done:?}"
        );
        assert!(lines[1].starts_with("  tool bash for "), "{done:?}");
        assert!(
            lines[1].ends_with("at 1:3  ← {\"command\":\"cargo build\"}"),
            "{done:?}"
        );
        tool.finish(Outcome::Ok);
    });
}

#[test]
fn an_observer_gets_one_document_with_stable_names() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("edit", "call_1").start().entered();
        events::hitl_request("int_1").tool_id("edit").emit();
        spans::session_run("over", "other")
            .detached()
            .start()
            .finish(Outcome::Ok);
        let document = run_json(&recording, &["status", "--json"]);
        assert_eq!(document["sessions"], 2);
        assert_eq!(document["by_status"]["waiting"], 1);
        assert_eq!(document["by_status"]["ended"], 1);
        assert_eq!(document["deep"], json!(null));
        assert_eq!(document["live"].as_array().unwrap().len(), 1);
        let live = &document["live"][0];
        assert_eq!(live["session_id"], "ses_1");
        assert_eq!(live["status"], "waiting");
        assert_eq!(live["pid"], std::process::id());
        assert_eq!(live["waiting_for"], json!(["int_1"]));
        assert_eq!(live["doing"]["kind"], "tool_call");
        assert_eq!(live["doing"]["name"], "edit");
        assert_eq!(live["doing"]["address"], "1:3");
        assert_eq!(live["stalled"], false);
        assert!(live["last_event_seconds"].is_number() && live["last_event"].is_string());
    });
}

fn run_json(recording: &Recording, args: &[&str]) -> serde_json::Value {
    run(recording.dir.path(), args).json()
}

#[test]
fn a_live_session_that_has_been_quiet_for_too_long_ends_with_1() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let root = recording.dir.path();
        let done = run(root, &["status", "--stalled-after", "0s"]);
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.out.contains("STALLED") && done.err.contains("1 of 1 live sessions"));
        assert_eq!(run(root, &["status", "--stalled-after", "1d"]).code, 0);
    });
}

#[test]
fn a_session_that_ended_never_stalls() {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok)
    });
    let done = run(recording.dir.path(), &["status", "--stalled-after", "0s"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("Nothing is running."));
}

#[test]
fn masks_cuts_and_damage_are_counted_only_when_everything_is_read() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    session.title("password=hunter2hunter2 is not to be seen");
    session.title("whole");
    let root = recording.dir.path();
    let path = spanledger::reader::session_dir(root, "ses_1").join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let masked = text.matches("[masked rule=").count();
    assert!(masked > 0, "{text}");
    std::fs::write(
        &path,
        text.replacen("\"seq\":3", "\"seq\"!3", 1) + "{\"torn",
    )
    .unwrap();
    assert_eq!(run(root, &["status"]).code, 0);
    let done = run(root, &["status", "--deep", "--json"]);
    assert_eq!(done.code, 3, "{done:?}");
    let deep = &done.json()["deep"];
    assert_eq!(deep["masked"], masked);
    assert_eq!(deep["damaged"], 1);
    assert_eq!(deep["cut"], 0);
    assert_eq!(deep["gaps"], 0);
}

#[test]
fn a_root_that_is_not_there_has_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("none");
    let done = run(&root, &["status"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("Nothing is running.") && done.out.contains("0 sessions"));
    assert!(!root.exists());
}
