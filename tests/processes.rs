//! Several processes, threads, forks and sessions at once.

#[path = "support/agent.rs"]
mod agent;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use agent::Agent;
use spanledger::ledger::Line;
use support::{LineExt, Trace};

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
fn two_processes_with_eight_threads_each_share_a_session_and_no_line_is_torn_or_mixed() {
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
fn a_fork_goes_on_as_two_writers_with_ids_of_their_own() {
    for (goodbye, settings) in [("exit", &[][..]), ("_exit", &[]), ("exit", &["sync=1"])] {
        let dir = tempfile::tempdir().unwrap();
        let mut parent = Agent::with(dir.path(), settings);
        parent.tell(&["run run s", "tool before run 0", "events run 0 3"]);
        let mut child = parent.fork();
        for n in 0..20 {
            parent.tell(&[&format!("tool p{n} run 0"), &format!("event p{n} 1{n} 0")]);
            child.tell(&[&format!("tool c{n} run 0"), &format!("event c{n} 2{n} 0")]);
            parent.tell(&[&format!("finish p{n}")]);
            child.tell(&[&format!("finish c{n}")]);
        }
        // The child's copies of its parent's spans prove nothing about them.
        child.tell(&["finish before", "drop before", "drop run"]);
        let trace = Trace::read(dir.path());
        assert!(
            !closes(&trace).contains_key(trace.one("session_start").span_id.as_deref().unwrap())
        );
        let before = trace.find("tool_call", "tool_call_id", "before");
        assert!(!closes(&trace).contains_key(before.span_id.as_deref().unwrap()));

        // A recovery in between finds everybody alive.
        let mut other = Agent::start(dir.path());
        assert_eq!(other.ask("recover s"), "0");
        child.exit(goodbye);
        assert_eq!(other.ask("recover s"), "0", "the parent lives");
        parent.tell(&["events run 3 6", "finish before", "finish run"]);
        let trace = Trace::read(dir.path());
        assert_all_closed_once(&trace);
        assert!(trace.all("interrupted").is_empty());
        assert_eq!(trace.all("probe").len(), 46);
        let writers: BTreeSet<_> = trace
            .all("segment")
            .iter()
            .map(|line| line.text("writer"))
            .collect();
        assert_eq!(writers.len(), 2);
        let pids: BTreeSet<_> = trace
            .all("segment")
            .iter()
            .map(|line| line.get("process.pid").as_u64().unwrap())
            .collect();
        assert_eq!(pids.len(), 2);
        assert_eq!(parent.health().failed, 0);
    }
}

#[test]
fn a_forked_child_does_not_touch_the_trace_that_its_parents_full_one_goes_on_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Agent::with(dir.path(), &["trace=0"]);
    parent.tell(&["run run s", "tool before run 0", "finish before"]);
    let mut child = parent.fork();
    child.tell(&[
        "tool c run 0",
        "tool inside c 0",
        "finish inside",
        "finish c",
    ]);
    parent.tell(&["tool p run 0", "finish p", "finish run"]);
    child.exit("exit");
    let trace = Trace::read(dir.path());
    let run = trace.one("session_end");
    let tool = |id: &str| trace.find("tool_result", "tool_call_id", id);
    assert_eq!(tool("c").trace_id, run.trace_id);
    assert_eq!(tool("c").parent_span_id, run.span_id);
    assert_eq!(tool("inside").trace_id, run.trace_id);
    assert_eq!(tool("inside").parent_span_id, tool("c").span_id);
    for id in ["before", "p"] {
        assert_ne!(tool(id).trace_id, run.trace_id);
        assert_eq!(tool(id).parent_span_id, None);
    }
}

#[test]
fn a_parent_that_dies_is_recovered_although_its_forked_child_lives_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Agent::start(dir.path());
    parent.tell(&["run run s", "tool a run 0"]);
    let mut child = parent.fork();
    child.tell(&["tool c run 0"]);
    let mut other = Agent::start(dir.path());
    assert_eq!(other.ask("recover s"), "0");
    parent.kill();
    assert_eq!(
        other.ask("recover s"),
        "2",
        "the parent's spans, not the child's"
    );
    let trace = Trace::read(dir.path());
    let spans: BTreeSet<_> = trace
        .all("interrupted")
        .iter()
        .map(|line| line.span_id.clone())
        .collect();
    let a = trace.find("tool_call", "tool_call_id", "a").span_id.clone();
    assert_eq!(
        spans,
        BTreeSet::from([trace.one("session_start").span_id.clone(), a])
    );
    child.tell(&["event c 1 0", "finish c"]);
    child.exit("exit");
    assert_eq!(other.ask("recover s"), "0");
    assert_all_closed_once(&Trace::read(dir.path()));
}

#[test]
fn a_child_forked_before_the_first_line_has_ids_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    // Ids were given before the fork, but no lock could be taken.
    std::fs::write(&root, "").unwrap();
    let mut parent = Agent::start(&root);
    parent.tell(&["run lost lost"]);
    let mut child = parent.fork();
    std::fs::remove_file(&root).unwrap();
    parent.tell(&["run p one", "tool p1 p 0"]);
    child.tell(&["run c two", "tool c1 c 0"]);
    parent.tell(&["finish p1", "finish p"]);
    child.tell(&["finish c1", "finish c"]);
    // What was lost before the fork is the parent's to tell.
    assert_eq!(parent.ask("flush"), "0");
    assert_eq!(child.ask("flush"), "0");
    parent.tell(&["finish lost"]);
    let trace = Trace::read(&root);
    assert_all_closed_once(&trace);
    assert_eq!(*trace.one("gap").get("count"), 1);
    assert_eq!(
        trace.kinds("lost"),
        ["segment", "gap", "session_start", "session_end"]
    );
}

#[test]
fn a_span_that_waits_for_its_name_across_a_fork_is_opened_by_its_maker_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Agent::start(dir.path());
    parent.tell(&["run run s", "waiting-tool w run"]);
    let mut child = parent.fork();
    child.tell(&["enter w", "event w 1 0", "drop w"]);
    child.exit("exit");
    let mut other = Agent::start(dir.path());
    assert_eq!(other.ask("recover s"), "0");
    parent.tell(&["enter w", "event w 2 0", "drop w", "finish run"]);
    let trace = Trace::read(dir.path());
    assert_all_closed_once(&trace);
    let span = &trace.one("tool_call").span_id;
    assert!(trace.all("probe").iter().all(|line| line.span_id == *span));
    assert_eq!(trace.all("probe").len(), 2);
}

#[test]
fn two_thousand_live_sessions_need_no_more_than_256_descriptors() {
    const SESSIONS: usize = 2000;
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(dir.path(), &["nofile=256"]);
    let mut other = Agent::with(dir.path(), &["nofile=256"]);
    agent.tell(&[&format!("many {SESSIONS}"), "round 0"]);
    let recover = format!("recover-many {SESSIONS}");
    // A recovery of every session while its spans are being made.
    other.order(&recover);
    agent.tell(&["round 1"]);
    assert_eq!(other.answer(&recover), "0", "their writer lives");
    agent.tell(&["round 2"]);
    // Half of them, or thereabouts, stay the agent's own.
    let open: usize = agent.ask("open-files").parse().unwrap();
    assert!(open < 160, "{open} descriptors are open");
    agent.tell(&["close-many"]);
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
