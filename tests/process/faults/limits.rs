//! Limits on the size of a segment and on open files.

use std::path::Path;

use crate::faults::setup::{Scene, number};
use crate::support::agent::Agent;
use crate::support::{LineExt, Trace};

fn segment_sizes(session: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(session).unwrap().map(Result::unwrap);
    let segments = entries.filter(|entry| entry.path().extension().is_some());
    segments
        .map(|entry| entry.metadata().unwrap().len())
        .collect()
}

#[test]
fn full_segment_continues_in_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["segment=16384"]);
    agent.send(&[
        "run run s",
        "turn turn run",
        "tool a turn 0",
        "events run 0 300",
    ]);
    agent.send(&["finish a", "finish turn", "finish run"]);
    let health = agent.health();
    assert_eq!(health.failed, 0, "{health:?}");
    let sizes = segment_sizes(&dir.path().join("sessions/s"));
    assert!(
        sizes.len() > 3 && sizes.iter().all(|size| *size < 16384 + 8192),
        "{sizes:?}"
    );
    let trace = Trace::read(dir.path());
    let probes: Vec<_> = trace
        .all("probe")
        .iter()
        .map(|line| number(line, "n"))
        .collect();
    assert_eq!(probes, (0..300).collect::<Vec<_>>());
    assert!(trace.damage.is_empty() && trace.all("gap").is_empty());
    for (open, close) in [
        ("tool_call", "tool_result"),
        ("session_start", "session_end"),
    ] {
        let (open, close) = (trace.one(open), trace.one(close));
        assert_ne!(open.seg, close.seg);
        assert_eq!(number(close, "opened_seg"), u64::from(open.seg));
    }
}

#[test]
fn close_names_its_opening_segment() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["segment=16384"]);
    agent.send(&["run run s"]);
    for n in 0..60 {
        // Long enough that many a close line has to go to a new segment.
        let size = 500 + 37 * n;
        agent.send(&[&format!("tool t{n} run {size}"), &format!("finish t{n}")]);
    }
    let trace = Trace::read(dir.path());
    assert_eq!(agent.health().failed, 0);
    let mut crossed = 0;
    for n in 0..60 {
        let open = trace.find("tool_call", "tool_call_id", format!("t{n}"));
        let close = trace.find("tool_result", "tool_call_id", format!("t{n}"));
        let opened_seg = close.get("opened_seg").as_u64();
        let crosses = open.seg != close.seg;
        assert_eq!(
            opened_seg,
            crosses.then_some(open.seg.into()),
            "t{n} closed at {}",
            close.address()
        );
        crossed += usize::from(crosses);
    }
    assert!(crossed > 0);
}

#[test]
fn no_free_descriptor_at_start_records_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(Agent::start(dir.path()), dir.path());
    scene.agent.send(&["fill-files"]);
    scene.during();
    scene.agent.send(&["free-files"]);
    scene.after();
}

#[test]
fn sessions_share_the_last_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Agent::start(dir.path());
    first.send(&["run x one", "turn t x", "finish t", "finish x"]);
    first.exit("exit");
    let mut agent = Agent::start(dir.path());
    agent.send(&["run two two", "fill-files"]);
    // The one descriptor of ours passes from session to session, and reads their past too.
    agent.send(&[
        "run one one",
        "turn turn one",
        "events two 0 5",
        "events one 5 10",
    ]);
    agent.send(&["finish turn", "finish one", "finish two"]);
    assert_eq!(agent.health().failed, 0, "{:?}", agent.health());
    let trace = Trace::read(dir.path());
    assert_eq!(trace.all("probe").len(), 10);
    assert_eq!(
        trace.all("session_resume").len(),
        1,
        "it knows that `one` began before"
    );
    let turns: Vec<_> = trace
        .all("turn_start")
        .iter()
        .map(|line| number(line, "turn_index"))
        .collect();
    assert_eq!(turns, [1, 2]);
}
