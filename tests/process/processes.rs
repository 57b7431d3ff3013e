//! Several processes, threads, forks and sessions at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use spanledger::trace::Line;

use crate::support::agent::Agent;
use crate::support::{LineExt, Trace};

const CLOSES: [&str; 4] = ["session_end", "turn_end", "tool_result", "interrupted"];

/// How often each span was closed.
fn closes(trace: &Trace) -> BTreeMap<&str, usize> {
    let mut closes = BTreeMap::new();
    for line in trace
        .lines()
        .filter(|line| CLOSES.contains(&line.kind.as_str()))
    {
        *closes.entry(line.span_id.as_deref().unwrap()).or_default() += 1;
    }
    closes
}

fn opens(trace: &Trace) -> Vec<&Line> {
    let open = ["session_start", "session_resume", "turn_start", "tool_call"];
    trace
        .lines()
        .filter(|line| open.contains(&line.kind.as_str()))
        .collect()
}

/// Every span was opened once and closed once, and every line is one.
fn assert_all_closed_once(trace: &Trace) {
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    let closes = closes(trace);
    let opens = opens(trace);
    let ids: BTreeSet<_> = opens
        .iter()
        .map(|line| line.span_id.as_deref().unwrap())
        .collect();
    assert_eq!(ids.len(), opens.len(), "a span id was given twice");
    assert_eq!(ids, closes.keys().copied().collect());
    assert!(closes.values().all(|n| *n == 1), "{closes:?}");
}

#[test]
fn shared_session_has_no_torn_or_mixed_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut agents = [Agent::start(dir.path()), Agent::start(dir.path())];
    for round in 0..3 {
        let orders = ["a", "b"].map(|tag| format!("burst shared 8 40 {tag}{round}"));
        // Both at work before either is asked how it went.
        for (agent, order) in agents.iter_mut().zip(&orders) {
            agent.order(order);
        }
        for (agent, order) in agents.iter_mut().zip(&orders) {
            assert_eq!(agent.answer(order), "ok");
        }
    }
    let trace = Trace::read(dir.path());
    assert_all_closed_once(&trace);
    assert!(trace.all("interrupted").is_empty() && trace.all("gap").is_empty());
    let mut wanted = BTreeSet::new();
    for (tag, round) in ["a", "b"]
        .iter()
        .flat_map(|tag| (0..3).map(move |n| (tag, n)))
    {
        for (thread, n) in (0..8).flat_map(|thread| (0..40).map(move |n| (thread, n))) {
            wanted.insert(format!("{tag}{round}.{thread}.{n}"));
        }
    }
    let probes = trace.all("probe");
    assert_eq!(probes.len(), wanted.len());
    let there: BTreeSet<_> = probes
        .iter()
        .map(|line| line.text("key").to_owned())
        .collect();
    assert_eq!(there, wanted);
    // A segment has one writer for its whole life.
    let writers: BTreeSet<_> = trace
        .all("segment")
        .iter()
        .map(|line| line.text("writer"))
        .collect();
    assert_eq!((trace.all("segment").len(), writers.len()), (2, 2));
    for line in probes {
        let segment = trace
            .all("segment")
            .into_iter()
            .find(|head| head.seg == line.seg)
            .unwrap();
        let first = trace
            .all("probe")
            .into_iter()
            .find(|other| other.seg == line.seg)
            .unwrap();
        assert_eq!(segment.seq, 1);
        assert_eq!(
            first.text("key")[..1],
            line.text("key")[..1],
            "mixed in segment {}",
            line.seg
        );
    }
    for agent in &mut agents {
        assert_eq!(agent.health().failed, 0);
    }
}

#[test]
fn forked_child_does_not_record_and_warns() {
    for (goodbye, settings) in [("exit", &[][..]), ("_exit", &[]), ("exit", &["sync=1"])] {
        let dir = tempfile::tempdir().unwrap();
        let mut parent = Agent::with(dir.path(), settings);
        parent.send(&["run run s", "tool before run 0", "events run 0 3"]);
        let mut child = parent.fork();
        let written = child.health().written;
        for n in 0..20 {
            parent.send(&[&format!("tool p{n} run 0"), &format!("event p{n} 1{n} 0")]);
            child.send(&[&format!("tool c{n} run 0"), &format!("event c{n} 2{n} 0")]);
            parent.send(&[&format!("finish p{n}")]);
            child.send(&[&format!("finish c{n}")]);
        }
        child.send(&["finish before", "drop before", "drop run"]);
        assert_eq!(child.ask("flush"), "0");
        let health = child.health();
        assert_eq!((health.written, health.failed), (written, 61));
        assert!(health.last_error.unwrap().contains("forked"));
        let stderr = parent.stderr();
        assert_eq!(stderr.matches("forked").count(), 1, "{stderr}");

        let mut other = Agent::start(dir.path());
        assert_eq!(other.ask("recover s"), "0");
        child.exit(goodbye);
        assert_eq!(other.ask("recover s"), "0", "the parent lives");
        parent.send(&["events run 3 6", "finish before", "finish run"]);
        let trace = Trace::read(dir.path());
        assert_all_closed_once(&trace);
        assert!(trace.all("interrupted").is_empty());
        assert!(trace.all("gap").is_empty());
        assert_eq!(trace.all("probe").len(), 26);
        assert_eq!(trace.all("tool_call").len(), 21);
        assert_eq!(trace.all("segment").len(), 1);
        assert_eq!(parent.health().failed, 0);
    }
}

#[test]
fn forked_child_keeps_its_dead_parents_lock() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Agent::start(dir.path());
    parent.send(&["run run s", "tool a run 0"]);
    let child = parent.fork();
    let mut other = Agent::start(dir.path());
    parent.kill();
    assert_eq!(other.ask("recover s"), "0", "it looks alive");
    let trace = Trace::read(dir.path());
    let lock = dir
        .path()
        .join("writers")
        .join(trace.one("segment").text("writer"));
    let lock = File::open(lock).unwrap();
    child.exit("exit");
    // The kernel closes the files of a process one by one.
    lock.lock_shared().unwrap();
    drop(lock);
    assert_eq!(other.ask("recover s"), "2");
    assert_all_closed_once(&Trace::read(dir.path()));
}

#[test]
fn deferred_span_is_opened_by_its_creator_after_fork() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Agent::start(dir.path());
    parent.send(&["run run s", "waiting-tool w run"]);
    let mut child = parent.fork();
    child.send(&["enter w", "event w 1 0", "drop w"]);
    child.exit("exit");
    parent.send(&["enter w", "event w 2 0", "drop w", "finish run"]);
    let trace = Trace::read(dir.path());
    assert_all_closed_once(&trace);
    assert_eq!(trace.one("probe").span_id, trace.one("tool_call").span_id);
}

#[test]
fn two_thousand_sessions_need_256_descriptors() {
    const SESSIONS: usize = 2000;
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["nofile=256"]);
    let mut other = Agent::with(dir.path(), &["nofile=256"]);
    agent.send(&[&format!("many {SESSIONS}"), "round 0"]);
    let recover = format!("recover-many {SESSIONS}");
    // Every session is recovered while its spans are created.
    other.order(&recover);
    agent.send(&["round 1"]);
    assert_eq!(other.answer(&recover), "0", "their writer lives");
    agent.send(&["round 2"]);
    // Half of them, or thereabouts, stay the agent's own.
    let open: usize = agent.ask("open-files").parse().unwrap();
    assert!(open < 160, "{open} descriptors are open");
    agent.send(&["close-many"]);
    let health = agent.health();
    assert_eq!(health.failed, 0, "{health:?}");
    assert_eq!(health.last_error, None);
    assert_eq!(other.health().last_error, None);
    let trace = Trace::read(dir.path());
    assert_eq!(trace.sessions.len(), SESSIONS);
    assert_all_closed_once(&trace);
    let kinds = ["tool_call", "probe", "tool_result"];
    let expected: Vec<&str> = ["segment", "session_start"]
        .into_iter()
        .chain(kinds.into_iter().cycle().take(9))
        .chain(["session_end"])
        .collect();
    for n in 0..SESSIONS {
        assert_eq!(trace.kinds(&format!("many_{n}")), expected);
    }
}
