//! `spanledger recover`.
#![cfg(feature = "cli")]

#[path = "support/cli.rs"]
mod cli;
mod support;

use std::path::Path;

use cli::{Victim, run};
use spanledger::{Outcome, SpanExt, spans};
use support::{LineExt, Recording, Trace};
use tracing_subscriber::layer::SubscriberExt;

/// A root in which a process was killed over a tool call.
fn killed(name: &str) -> tempfile::TempDir {
    if let Some(root) = cli::is_victim() {
        let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let run = spans::session_run("Odd id!", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("bash", "call_1").start().entered();
        cli::wait_to_be_killed();
    }
    let dir = tempfile::tempdir().unwrap();
    Victim::start(name, dir.path()).kill();
    dir
}

fn bytes(root: &Path) -> Vec<u8> {
    Trace::read(root).bytes()
}

#[test]
fn what_a_killed_process_left_open_is_closed_and_said() {
    let dir = killed("what_a_killed_process_left_open_is_closed_and_said");
    let done = run(dir.path(), &["recover"]);
    assert_eq!(done.code, 0, "{done:?}");
    let lines = done.lines();
    assert_eq!(lines[0], "Odd id!");
    assert!(
        lines[1].contains("closed") && lines[1].contains("tool bash, open since 2"),
        "{done:?}"
    );
    assert!(lines[2].contains("run planner"), "{done:?}");
    assert_eq!(lines[3], "2 spans closed in 1 session");
    let trace = Trace::read(dir.path());
    let closed = trace.all("interrupted");
    assert_eq!(closed.len(), 2);
    assert_eq!(closed[0].text("closes"), "tool_result");
    assert_eq!(closed[0].seg, 2);
    let again = run(dir.path(), &["recover"]);
    assert_eq!(again.out, "Nothing was left open by a dead process.\n");
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let dir = killed("a_dry_run_says_the_same_and_writes_nothing");
    let before = bytes(dir.path());
    let dry = run(dir.path(), &["recover", "--dry-run", "--json"]);
    assert_eq!(bytes(dir.path()), before);
    let wet = run(dir.path(), &["recover", "--json"]);
    let (dry, wet) = (dry.objects().remove(0), wet.objects().remove(0));
    assert_eq!(dry["session_id"], "Odd id!");
    assert_eq!(dry["closed"], wet["closed"]);
    assert_eq!(dry["closed"][0]["kind"], "tool_call");
}

#[test]
fn what_a_living_process_has_open_is_left_alone() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let before = bytes(recording.dir.path());
        let done = cli::run(recording.dir.path(), &["recover", "ses_1"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.out.starts_with("Nothing was left open"));
        assert_eq!(bytes(recording.dir.path()), before);
        run.finish(Outcome::Ok);
    });
}

#[test]
fn a_session_that_is_not_there_ends_with_2_and_is_named() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let done = run(recording.dir.path(), &["recover", "ses_9"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("\"ses_9\""), "{done:?}");
}

#[test]
fn a_recovered_session_is_no_younger_and_still_its_agents() {
    let dir = killed("a_recovered_session_is_no_younger_and_still_its_agents");
    let listed = || run(dir.path(), &["list", "--json"]).objects().remove(0);
    let before = listed();
    assert_eq!(run(dir.path(), &["recover"]).code, 0);
    let after = listed();
    assert_eq!(after["open"], serde_json::json!([]));
    assert_eq!(after["last"], before["last"]);
    assert_eq!(after["process"], before["process"]);
    let shown = run(dir.path(), &["show"]);
    let stands = "status   interrupted  its process died";
    assert!(shown.out.contains(stands), "{shown:?}");
    let pid = format!("pid {},", before["process"]["pid"]);
    assert!(shown.out.contains(&pid), "{shown:?}");
}

#[test]
fn one_that_can_not_be_recovered_keeps_none_of_the_others() {
    let dir = killed("one_that_can_not_be_recovered_keeps_none_of_the_others");
    let sessions = dir.path().join("sessions");
    let whole = std::fs::read_dir(&sessions).unwrap().next().unwrap();
    let copy = sessions.join("copy");
    std::fs::create_dir(&copy).unwrap();
    let segment = "trace.0001.jsonl";
    std::fs::copy(whole.unwrap().path().join(segment), copy.join(segment)).unwrap();
    let done = run(dir.path(), &["recover"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains(copy.to_str().unwrap()), "{done:?}");
    assert!(
        done.out.ends_with("2 spans closed in 1 session\n"),
        "{done:?}"
    );
}
