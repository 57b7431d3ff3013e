//! A long trace continues in another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use spanledger::mirror::otlp::Span as Sent;
use spanledger::spans;
use spanledger::trace::Line;

use crate::context::traces::{UNSAMPLED, of_spans};
use crate::map::setup::{lines, mapped};
use crate::support::{LineExt, Recording, Trace};

const HOUR: Duration = Duration::from_secs(3600);

/// Three turns, each with a tool whose arguments are as long as this.
fn three_turns(size: usize) {
    let run = spans::session_run("s", "planner").start();
    let _run = run.enter();
    for turn in ["a", "b", "c"] {
        let _turn = spans::session_turn().trigger(turn).start().entered();
        let args = json!({"text": "x".repeat(size)});
        let tool = spans::tool_call("write", turn).args(args).start();
        tool.in_scope(|| {
            let sub = spans::session_run(format!("sub-{turn}"), "helper").start();
            sub.in_scope(|| drop(spans::session_turn().trigger(format!("sub-{turn}")).start()));
        });
    }
}

/// The only span of a kind and trigger, by its close line; its open line agrees.
#[track_caller]
fn turn<'a>(trace: &'a Trace, trigger: &str) -> &'a Line {
    let (open, close) = (
        trace.find("turn_start", "trigger", trigger),
        trace.find("turn_end", "trigger", trigger),
    );
    assert_eq!(open.trace_id, close.trace_id);
    assert_eq!(open.parent_span_id, close.parent_span_id);
    assert_eq!(open.get("links"), close.get("links"));
    close
}

#[track_caller]
fn assert_goes_on_alone(turn: &Line, run: &Line) {
    assert_ne!(turn.trace_id, run.trace_id);
    assert_eq!(turn.parent_span_id, None);
    let link = json!([{"trace_id": run.trace_id, "span_id": run.span_id}]);
    assert_eq!(turn.get("links"), &link);
}

#[test]
fn next_turn_starts_another_trace() {
    let recording = Recording::with(|builder| builder.trace_limits(20_000, HOUR));
    recording.run(|| three_turns(12_000));
    let trace = recording.trace();
    let run = trace.find("session_end", "session_id", "s");
    let first = turn(&trace, "a");
    assert_eq!(first.trace_id, run.trace_id);
    assert_eq!(first.parent_span_id, run.span_id);
    let mut seen = BTreeSet::from([&run.trace_id]);
    for (number, trigger) in [(2, "b"), (3, "c")] {
        let turn = turn(&trace, trigger);
        assert_goes_on_alone(turn, run);
        assert!(seen.insert(&turn.trace_id), "a trace has one root");
        assert_eq!(turn.turn, Some(number));
        // Its children follow, including subagents.
        let tool = trace.find("tool_result", "tool_call_id", trigger);
        assert_eq!(tool.trace_id, turn.trace_id);
        assert_eq!(tool.parent_span_id, turn.span_id);
        let sub = trace.find("session_end", "session_id", format!("sub-{trigger}"));
        assert_eq!(sub.trace_id, turn.trace_id);
    }
    // The session is not affected.
    assert_eq!(run.get("totals.turns"), 3);
    assert_eq!(
        trace
            .session("s")
            .iter()
            .filter(|l| l.kind == "turn_end")
            .count(),
        3
    );
    // Each trace has one root, and the mirror sends the links.
    let spans = mapped(&lines(recording.dir.path()), None);
    for id in seen {
        let id = id.as_deref().unwrap();
        let bytes: Vec<u8> = (0..16)
            .map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let of_it = spans.iter().filter(|span| span.trace_id == bytes);
        let roots: Vec<_> = of_it
            .filter(|span| span.parent_span_id.is_empty())
            .collect();
        assert_eq!(roots.len(), 1);
        assert_eq!(
            roots[0].links.len(),
            usize::from(roots[0].name == "session.turn")
        );
    }
}

fn write_file(id: &str) {
    let args = json!({"text": "x".repeat(6_000)});
    drop(spans::tool_call("write", id).args(args).start());
}

/// Asserts that no parent is in another trace, and no trace is much longer than its limit.
#[track_caller]
fn assert_whole_traces(recording: &Recording, limit: usize) {
    let spans = mapped(&lines(recording.dir.path()), None);
    let in_trace = |span: &Sent| (span.trace_id.clone(), span.span_id.clone());
    let all: BTreeSet<_> = spans.iter().map(in_trace).collect();
    for span in &spans {
        let parent = (span.trace_id.clone(), span.parent_span_id.clone());
        assert!(span.parent_span_id.is_empty() || all.contains(&parent));
    }
    let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
    let trace = recording.trace();
    for line in of_spans(&trace) {
        *lengths
            .entry(line.trace_id.as_deref().unwrap())
            .or_default() += serde_json::to_string(&line.payload).unwrap().len();
    }
    assert!(lengths.len() > 2, "{lengths:?}");
    let longest = lengths.values().max().unwrap();
    // The last span of a trace may pass it, by its two lines.
    assert!(*longest < limit + 2 * 6_500, "{lengths:?}");
}

#[test]
fn long_run_without_turns_continues_in_linked_traces() {
    let recording = Recording::with(|builder| builder.trace_limits(20_000, HOUR));
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        (0..10).for_each(|n| write_file(&n.to_string()));
    });
    let trace = recording.trace();
    let run = trace.one("session_end");
    let (first, later): (Vec<_>, Vec<_>) = trace
        .all("tool_result")
        .into_iter()
        .partition(|tool| tool.trace_id == run.trace_id);
    assert_eq!(first.len(), 2);
    for tool in &later {
        assert_goes_on_alone(tool, run);
    }
    // They share traces as far as there is room.
    let traces: BTreeSet<_> = later.iter().map(|tool| &tool.trace_id).collect();
    assert_eq!(traces.len(), 4);
    assert_whole_traces(&recording, 20_000);
}

#[test]
fn long_turn_continues_with_whole_calls() {
    let recording = Recording::with(|builder| builder.trace_limits(20_000, HOUR));
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        for n in 0..10 {
            let id = n.to_string();
            let args = json!({"text": "x".repeat(6_000)});
            let tool = spans::tool_call("write", &id).args(args).start();
            tool.in_scope(|| drop(spans::permission_evaluate("write").action("allow").start()));
        }
    });
    let trace = recording.trace();
    let turn = trace.one("turn_end");
    for (tool, asked) in trace
        .all("tool_result")
        .iter()
        .zip(trace.all("permission_evaluate"))
    {
        assert_eq!(tool.turn, Some(1));
        if tool.trace_id != turn.trace_id {
            assert_goes_on_alone(tool, turn);
        }
        assert_eq!(asked.trace_id, tool.trace_id);
        assert_eq!(asked.parent_span_id, tool.span_id);
    }
    assert_whole_traces(&recording, 20_000);
}

#[test]
fn long_session_without_run_continues() {
    let recording = Recording::with(|builder| builder.trace_limits(20_000, HOUR));
    recording.run(|| {
        let _request = tracing::info_span!("request").entered();
        (0..10).for_each(|n| write_file(&n.to_string()));
    });
    assert_eq!(recording.trace().sessions.len(), 1);
    assert_whole_traces(&recording, 20_000);
}

#[test]
fn continued_lines_are_shown_in_place() {
    use spanledger::session::Turns;
    use spanledger::trace::RawLine;
    let recording = Recording::with(|builder| builder.trace_limits(2_000, HOUR));
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let outer = spans::tool_call("delegate", "outer").args("x".repeat(2_000));
        let _outer = outer.start().entered();
        drop(spans::tool_call("bash", "inner").start());
    });
    let trace = recording.trace();
    let outer = trace.find("tool_result", "tool_call_id", "outer");
    let inner = trace.find("tool_result", "tool_call_id", "inner");
    assert_goes_on_alone(inner, outer);
    let mut turns = Turns::default();
    for line in lines(recording.dir.path()) {
        turns.take(&RawLine::parse(&line).unwrap());
    }
    let turns = turns.finish();
    let mut nodes = turns.iter().flat_map(|turn| &turn.nodes);
    let is_inner = |node: &&spanledger::session::Node| {
        node.get("tool_call_id").and_then(|id| id.text()).as_deref() == Some("inner")
    };
    let inner = nodes.find(is_inner).unwrap();
    let id = u64::from_str_radix(outer.span_id.as_deref().unwrap(), 16).unwrap();
    assert_eq!((inner.parent, inner.within()), (None, Some(id)));
}

#[test]
fn old_trace_continues_in_another() {
    let recording = Recording::with(|builder| builder.trace_limits(u64::MAX, Duration::ZERO));
    recording.run(|| three_turns(1));
    let trace = recording.trace();
    let run = trace.find("session_end", "session_id", "s");
    for trigger in ["a", "b", "c"] {
        assert_goes_on_alone(turn(&trace, trigger), run);
        // A subagent's turn is linked to its own run.
        let sub = format!("sub-{trigger}");
        let run = trace.find("session_end", "session_id", sub.as_str());
        assert_goes_on_alone(turn(&trace, &sub), run);
    }
}

#[test]
fn subagents_count_towards_the_shared_trace() {
    let recording = Recording::with(|builder| builder.trace_limits(20_000, HOUR));
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        {
            let _turn = spans::session_turn().trigger("a").start().entered();
            let _sub = spans::session_run("sub", "helper").start().entered();
            drop(
                spans::tool_call("write", "c")
                    .args("x".repeat(12_000))
                    .start(),
            );
        }
        drop(spans::session_turn().trigger("b").start());
    });
    let trace = recording.trace();
    let run = trace.find("session_end", "session_id", "s");
    assert_goes_on_alone(turn(&trace, "b"), run);
}

#[test]
fn short_trace_stays_one() {
    let recording = Recording::new();
    recording.run(|| three_turns(12_000));
    let trace = recording.trace();
    let traces: BTreeSet<_> = of_spans(&trace).map(|line| &line.trace_id).collect();
    assert_eq!(traces.len(), 1);
}

#[test]
fn continued_turn_is_sampled_like_its_run() {
    let limits = |builder: spanledger::Builder| builder.trace_limits(0, HOUR);
    let recording = Recording::with(limits);
    recording.run(|| {
        let caller = UNSAMPLED.parse().unwrap();
        let run = spans::session_run("s", "planner").parent(caller).start();
        run.in_scope(|| drop(spans::session_turn().trigger("a").start()));
    });
    let trace = recording.trace();
    assert_goes_on_alone(turn(&trace, "a"), trace.one("session_end"));
    assert_eq!(turn(&trace, "a").get("sampled"), false);
}

#[test]
fn several_traces_read_as_one_session() {
    use spanledger::session::{FindId, IdKind, Store, Turns};
    use spanledger::trace::RawLine;
    let recording = Recording::with(|builder| builder.trace_limits(20_000, HOUR));
    recording.run(|| three_turns(12_000));
    let store = Store::new(recording.dir.path());
    let entry = store.read(&store.dir("s")).unwrap();
    assert_eq!(entry.damages.len(), 0);
    assert_eq!(entry.summary.totals().turns, 3);
    assert_eq!(entry.summary.runs, 1);
    assert!(entry.summary.open.is_empty());
    let mut turns = Turns::default();
    let bytes = std::fs::read(recording.dir.path().join("sessions/s/trace.0001.jsonl")).unwrap();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        turns.take(&RawLine::parse(line).unwrap());
    }
    let turns = turns.finish();
    let turns = turns.iter().filter(|turn| turn.index.is_some());
    let mut traces = BTreeSet::new();
    for turn in turns {
        let tools = turn
            .nodes
            .iter()
            .filter(|node| node.kind == spanledger::trace::Kind::ToolCall);
        let tool: Vec<_> = tools.collect();
        assert_eq!(tool.len(), 1, "each turn has its tool");
        let span = turn.span.as_ref().unwrap();
        assert_eq!(tool[0].parent, span.span_id);
        traces.insert(span.trace_id.clone().unwrap());
    }
    assert_eq!(traces.len(), 3);
    // A trace's id, as copied from a backend, leads to its turn.
    let last = turn(&recording.trace(), "c").trace_id.clone().unwrap();
    let find = FindId::new(&last);
    let mut found = Vec::new();
    find.in_session(store.dir("s"), |what, line| {
        found.push((what, line.turn));
    })
    .unwrap();
    assert!(found.len() >= 4);
    let its_turn = (IdKind::Trace, Some(3));
    assert!(found.iter().all(|found| *found == its_turn));
}

#[test]
fn lost_lines_do_not_count() {
    let recording = Recording::with(|builder| builder.trace_limits(1_000_000, HOUR));
    let session = recording.dir.path().join("sessions/s");
    let tools = |count, size| {
        for _ in 0..count {
            let args = json!({"text": "x".repeat(size)});
            drop(spans::tool_call("write", "c1").args(args).start());
        }
    };
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        std::fs::remove_dir_all(&session).unwrap();
        std::fs::write(&session, "in the way").unwrap();
        // Until it is noticed, lines go to the file that has no name any more.
        tools(35, 8_000);
        assert_ne!(recording.guard.health().failed, 0);
        tools(100, 10);
        std::fs::remove_file(&session).unwrap();
        assert_eq!(recording.handle().flush(), 0);
        drop(spans::session_turn().trigger("a").start());
    });
    let trace = recording.trace();
    let run = trace.find("session_end", "session_id", "s");
    assert_eq!(turn(&trace, "a").trace_id, run.trace_id);
}
