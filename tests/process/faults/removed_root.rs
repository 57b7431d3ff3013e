//! The trace is removed while an agent runs.

use crate::faults::setup::number;
use crate::support::agent::Agent;
use crate::support::{LineExt, Trace};

/// Run and tool open, probes 0 to 5 written, then everything removed.
fn removed_under_a_run(root: &std::path::Path) -> Agent {
    let mut agent = Agent::start(root);
    agent.send(&["run run s", "tool a run 0", "events run 0 5"]);
    assert_eq!(Trace::read(root).all("probe").len(), 5);
    std::fs::remove_dir_all(root).unwrap();
    agent
}

#[test]
fn trace_continues_in_a_new_segment() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let mut agent = removed_under_a_run(&root);
    // The file is checked periodically: the lines until then are lost with it.
    agent.send(&["events run 5 200", "finish a", "finish run"]);
    assert_eq!(agent.ask("flush"), "0");
    let trace = Trace::read(&root);
    let there: Vec<u64> = trace
        .all("probe")
        .iter()
        .map(|line| number(line, "n"))
        .collect();
    let first = there[0];
    assert!((5..=5 + 64).contains(&first), "noticed at {first}");
    assert_eq!(there, (first..200).collect::<Vec<_>>());
    let gap = trace.one("gap");
    // The open lines of the run and the tool were removed too, and are written late.
    assert_eq!(number(gap, "count"), first + 2);
    assert!(gap.text("cause").contains("removed"));
    assert_eq!(
        trace.kinds("s")[..4],
        ["segment", "gap", "session_start", "tool_call"]
    );
    assert_eq!(*trace.one("tool_call").get("late"), true);
    assert_eq!(
        trace.all("tool_result").len() + trace.all("session_end").len(),
        2
    );
    let health = agent.health();
    assert_eq!(health.failed, first + 2);
    assert!(health.last_error.unwrap().contains("removed"));
    assert_eq!(agent.stderr().lines().count(), 1, "{}", agent.stderr());
}

#[test]
fn only_the_removed_segment_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["segment=13000"]);
    agent.send(&["run run s", "events run 0 90", "tool a run 0"]);
    let trace = Trace::read(dir.path());
    let (first, second) = (trace.one("session_start").seg, trace.one("tool_call").seg);
    assert_eq!((first, second), (1, 2));
    let lost = trace
        .lines()
        .filter(|line| line.seg == 2 && line.kind != "segment")
        .count();
    std::fs::remove_file(dir.path().join("sessions/s/trace.0002.jsonl")).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    agent.send(&["finish a", "finish run"]);
    let trace = Trace::read(dir.path());
    assert_eq!(number(trace.one("gap"), "count"), lost as u64);
    assert_eq!(*trace.one("tool_call").get("late"), true);
    assert_eq!(trace.one("session_start").seg, 1, "its line is still there");
    assert_eq!(number(trace.one("session_end"), "opened_seg"), 1);
    agent.kill();
    let mut next = Agent::start(dir.path());
    assert_eq!(next.ask("recover s"), "0", "everything is closed");
}

#[test]
fn shutdown_notices_the_removal() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let mut agent = removed_under_a_run(&root);
    assert_eq!(agent.ask("shutdown"), "ok 7");
    let trace = Trace::read(&root);
    assert_eq!(
        trace.kinds("s"),
        ["segment", "gap", "session_start", "tool_call"]
    );
    assert_eq!(number(trace.one("gap"), "count"), 7);
}

#[test]
fn writer_with_removed_lock_is_not_dead() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let mut agent = removed_under_a_run(&root);
    assert_eq!(agent.ask("flush"), "0");
    let mut other = Agent::start(&root);
    assert_eq!(other.ask("recover s"), "0", "its writer lives");
    agent.send(&["finish a", "finish run"]);
    assert!(Trace::read(&root).all("interrupted").is_empty());
}

#[test]
fn removed_gap_is_recorded_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::write(&root, "").unwrap();
    let mut agent = Agent::start(&root);
    agent.send(&["run run s", "events run 0 4"]);
    std::fs::remove_file(&root).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    assert_eq!(number(Trace::read(&root).one("gap"), "count"), 5);
    agent.send(&["events run 4 6"]);
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    let gap = Trace::read(&root);
    assert_eq!(
        number(gap.one("gap"), "count"),
        7,
        "five that failed, two that were removed"
    );
    assert_eq!(agent.health().failed, 7);
}
