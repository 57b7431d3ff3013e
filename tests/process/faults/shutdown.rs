//! Shutdown, dropping the guard, and recording after either.

use spanledger::trace::Line;

use crate::support::agent::Agent;
use crate::support::{LineExt, Trace};

/// A line without what differs from run to run.
fn shape(line: &Line) -> (u32, u64, String, Option<u32>, Vec<String>) {
    let members = line.payload.keys().cloned().collect();
    (line.seg, line.seq, line.kind.clone(), line.turn, members)
}

#[test]
fn every_sync_mode_writes_the_same_lines() {
    let record = |settings: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let mut agent = Agent::with(dir.path(), settings);
        agent.send(&[
            "run run s",
            "turn turn run",
            "tool a turn 0",
            "events run 0 20",
        ]);
        agent.send(&[
            "event run 20 40000",
            "finish a",
            "finish turn",
            "finish run",
        ]);
        assert_eq!(agent.ask("work w 5"), "30");
        assert_eq!(agent.ask("shutdown"), "ok 0");
        let health = agent.health();
        assert_eq!((health.failed, health.last_error), (0, None));
        // Recording continues after a shutdown, synced or not.
        agent.send(&["run again s", "events again 21 25", "finish again"]);
        agent.exit("exit");
        let trace = Trace::read(dir.path());
        assert!(trace.damage.is_empty());
        assert_eq!(trace.all("probe").len(), 25);
        assert_eq!(trace.all("session_resume").len(), 1);
        trace.lines().map(shape).collect::<Vec<_>>()
    };
    let os = record(&[]);
    // An interval so long that only the shutdown syncs, and one that always syncs.
    assert_eq!(record(&["sync=3600000"]), os);
    assert_eq!(record(&["sync=1"]), os);
    assert_eq!(record(&["sync=always"]), os);
}

#[test]
fn shutdown_during_a_fault_reports_missing_events() {
    for settings in [&[][..], &["sync=always"], &["sync=50"]] {
        let dir = tempfile::tempdir().unwrap();
        let sessions = dir.path().join("sessions");
        std::fs::write(&sessions, "").unwrap();
        let mut agent = Agent::with(dir.path(), settings);
        agent.send(&["run run s", "events run 0 5"]);
        assert_eq!(agent.ask("shutdown"), "lost 6");
        // Still recording: the trace gets its gap when the fault is lifted.
        std::fs::remove_file(&sessions).unwrap();
        assert_eq!(agent.ask("flush"), "0");
        agent.send(&["events run 5 7", "finish run"]);
        let trace = Trace::read(dir.path());
        assert_eq!(*trace.one("gap").get("count"), 6);
        assert_eq!(trace.all("probe").len(), 2);
    }
}

#[test]
fn dropped_guard_is_silent_and_writes_pending() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions");
    std::fs::write(&sessions, "").unwrap();
    let mut agent = Agent::start(dir.path());
    agent.send(&["run run s"]);
    let stderr = agent.stderr();
    assert_eq!(stderr.lines().count(), 1);
    std::fs::remove_file(&sessions).unwrap();
    agent.send(&["drop-guard"]);
    let trace = Trace::read(dir.path());
    assert_eq!(trace.kinds("s"), ["segment", "gap", "session_start"]);
    agent.send(&["events run 0 3", "finish run"]);
    assert_eq!(Trace::read(dir.path()).all("probe").len(), 3);
    assert_eq!(agent.stderr(), stderr, "not a word more");
}

#[test]
fn dropped_guard_during_a_fault_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::write(&root, "").unwrap();
    let mut agent = Agent::start(&root);
    agent.send(&["run run s", "events run 0 3", "drop-guard", "finish run"]);
    assert_eq!(agent.health().failed, 5);
    assert_eq!(agent.stderr().lines().count(), 1, "{}", agent.stderr());
    agent.exit("exit");
}
