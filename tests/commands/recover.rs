//! `spanledger recover`.

use std::path::Path;

use spanledger::{Outcome, SpanExt, spans};

use crate::support::cli::{self, Victim, run};
use crate::support::{LineExt, Recording, Trace};

/// A root in which a process was killed over a tool call.
fn killed() -> tempfile::TempDir {
    cli::in_victim(|| {
        let run = spans::session_run("Odd id!", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("bash", "call_1").start().entered();
        cli::wait_to_be_killed();
    });
    let dir = tempfile::tempdir().unwrap();
    Victim::start(dir.path()).kill();
    dir
}

fn bytes(root: &Path) -> Vec<u8> {
    Trace::read(root).bytes()
}

#[test]
fn open_spans_of_a_killed_process_are_closed() {
    let dir = killed();
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
fn dry_run_reports_and_writes_nothing() {
    let dir = killed();
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
fn live_process_is_left_alone() {
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
fn unknown_session_exits_2() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let done = run(recording.dir.path(), &["recover", "ses_9"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("\"ses_9\""), "{done:?}");
}

#[test]
fn recovered_session_keeps_age_and_agent() {
    let dir = killed();
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
fn unrecoverable_session_does_not_stop_others() {
    let dir = killed();
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
