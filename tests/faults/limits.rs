//! Limits of the process: file size, open files.

use std::path::Path;

use crate::agent::Agent;
use crate::scene::{Scene, number};
use crate::support::{LineExt, Trace};

fn segment_sizes(session: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(session).unwrap().map(Result::unwrap);
    let segments = entries.filter(|entry| entry.path().extension().is_some());
    segments
        .map(|entry| entry.metadata().unwrap().len())
        .collect()
}

#[test]
fn segments_stay_below_the_file_size_limit_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["fsize=16384"]);
    agent.tell(&[
        "run run s",
        "turn turn run",
        "tool a turn 0",
        "events run 0 300",
    ]);
    agent.tell(&["finish a", "finish turn", "finish run"]);
    let health = agent.health();
    assert_eq!(health.failed, 0, "{health:?}");
    let sizes = segment_sizes(&dir.path().join("sessions/s"));
    assert!(
        sizes.len() > 3 && sizes.iter().all(|size| *size <= 16384),
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
fn every_close_says_which_segment_opened_it_also_when_it_begins_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["fsize=16384"]);
    agent.tell(&["run run s"]);
    for n in 0..60 {
        // Long enough that many a close line has to go to a new segment.
        let size = 500 + 37 * n;
        agent.tell(&[&format!("tool t{n} run {size}"), &format!("finish t{n}")]);
    }
    let trace = Trace::read(dir.path());
    assert_eq!(agent.health().failed, 0);
    let mut crossed = 0;
    for n in 0..60 {
        let open = trace.find("tool_call", "tool_call_id", format!("t{n}"));
        let close = trace.find("tool_result", "tool_call_id", format!("t{n}"));
        let said = close.get("opened_seg").as_u64();
        let crosses = open.seg != close.seg;
        assert_eq!(
            said,
            crosses.then_some(open.seg.into()),
            "t{n} closed at {}",
            close.address()
        );
        crossed += usize::from(crosses);
    }
    assert!(crossed > 0);
}

#[test]
fn a_span_whose_open_line_is_followed_by_a_new_segment_was_opened_in_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = 1 << 20;
    let mut agent = Agent::with(dir.path(), &[&format!("fsize={}", checkpoint + 600)]);
    agent.tell(&["run run s"]);
    let segment = dir.path().join("sessions/s/trace.0001.jsonl");
    let left = || checkpoint - segment.metadata().unwrap().len();
    // Up to a few bytes before a checkpoint is due, for which there is no room then.
    while left() > 10_000 {
        agent.tell(&["event run 0 8000"]);
    }
    let size = left() - 500;
    agent.tell(&[&format!("event run 0 {size}")]);
    agent.tell(&["tool t run 0", "finish t"]);
    let trace = Trace::read(dir.path());
    let (open, close) = (trace.one("tool_call"), trace.one("tool_result"));
    assert_eq!((open.seg, trace.one("checkpoint").seg), (1, 2));
    assert_eq!(close.seg, 2);
    assert_eq!(number(close, "opened_seg"), 1);
    drop(agent);
    let mut next = Agent::start(dir.path());
    assert_eq!(next.ask("recover s"), "1", "the run");
}

#[test]
fn a_line_over_the_file_size_limit_is_lost_alone_and_the_process_lives() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["fsize=8192"]);
    // The very first line, the open line of a span, and an event: each too long.
    agent.tell(&[
        "run run s",
        "tool big run 9000",
        "event run 1 9000",
        "event run 2 0",
    ]);
    agent.tell(&["finish big", "event run 3 0", "finish run"]);
    let trace = Trace::read(dir.path());
    let probes: Vec<_> = trace
        .all("probe")
        .iter()
        .map(|line| number(line, "n"))
        .collect();
    assert_eq!(probes, [2, 3]);
    let health = agent.health();
    let gaps: u64 = trace
        .all("gap")
        .iter()
        .map(|gap| number(gap, "count"))
        .sum();
    assert_eq!(
        (health.failed, gaps),
        (3, 3),
        "its open line, probe 1, its close line: {health:?}"
    );
    let big = trace.one("tool_call").span_id.clone();
    let close = trace.one("tool_result");
    assert_eq!((*close.get("late") == true, &close.span_id), (true, &big));
    assert_eq!(trace.all("session_end").len(), 1);
    assert!(trace.damage.is_empty());
    assert!(
        segment_sizes(&dir.path().join("sessions/s"))
            .iter()
            .all(|size| *size <= 8192)
    );
}

#[test]
fn a_first_line_over_the_file_size_limit_kills_nobody() {
    let dir = tempfile::tempdir().unwrap();
    // Its stderr is a file, too, and can't be written either.
    let stderr = std::fs::File::create(dir.path().join("stderr")).unwrap();
    let mut agent = Agent::with_stderr(dir.path(), &["fsize=0"], stderr.into());
    agent.tell(&["run run s", "events run 0 3"]);
    assert_eq!(agent.health().failed, 4);
    assert_eq!(agent.ask("shutdown"), "lost 4");
    agent.exit("exit");
}

#[test]
fn a_blob_over_the_file_size_limit_is_cut_and_its_line_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["fsize=32768"]);
    agent.tell(&["run run s", "event run 1 60000", "event run 2 0"]);
    assert_eq!(agent.health().failed, 0);
    let trace = Trace::read(dir.path());
    assert_eq!(trace.all("probe").len(), 2);
    assert!(agent.health().last_error.unwrap().contains("blob"));
    assert_eq!(agent.stderr().lines().count(), 1, "{}", agent.stderr());
    let blobs = std::fs::read_dir(dir.path().join("sessions/s/blobs"));
    assert_eq!(blobs.map_or(0, Iterator::count), 0);
}

#[test]
fn an_agent_without_a_free_descriptor_from_the_start_records_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(Agent::start(dir.path()), dir.path());
    scene.agent.tell(&["fill-files"]);
    scene.during();
    scene.agent.tell(&["free-files"]);
    scene.after();
}

#[test]
fn sessions_share_the_one_descriptor_that_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Agent::start(dir.path());
    first.tell(&["run x one", "turn t x", "finish t", "finish x"]);
    first.exit("exit");
    let mut agent = Agent::start(dir.path());
    agent.tell(&["run two two", "fill-files"]);
    // The one descriptor of ours passes from session to session, and reads their past too.
    agent.tell(&[
        "run one one",
        "turn turn one",
        "events two 0 5",
        "events one 5 10",
    ]);
    agent.tell(&["finish turn", "finish one", "finish two"]);
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
