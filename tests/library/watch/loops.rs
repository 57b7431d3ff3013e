//! Loops are found, recorded once, and stop the agent where it asks for that.

use serde_json::json;
use spanledger::read::SessionReader;
use spanledger::trace::ReadItem;
use spanledger::watch::{LoopKind, Replay};
use spanledger::{Limits, LoopPolicy, Outcome, SpanExt, spans};

use crate::support::loops::Vector;
use crate::support::{LineExt, Recording};

#[test]
fn vectors_get_the_expected_verdicts() {
    for vector in Vector::all() {
        let recording = Recording::with(|builder| builder.limits(vector.limits()));
        assert_eq!(recording.run(|| vector.run()), None, "{}", vector.name());
        let trace = recording.trace();
        let warnings = trace.all("loop_warning").into_iter();
        let found: Vec<_> = warnings
            .map(|line| json!([line.text("verdict"), line.text("pattern")]))
            .collect();
        assert_eq!(json!(found), vector.json["warnings"], "{}", vector.name());
    }
}

#[test]
fn policy_stop_stops_the_call_after_the_loop() {
    for vector in Vector::all() {
        let limits = vector.limits().on_loop(LoopPolicy::Stop);
        let recording = Recording::with(|builder| builder.limits(limits.clone()));
        let stopped = recording.run(|| vector.run());
        assert_eq!(
            json!(stopped),
            vector.json["stopped_at"],
            "{}",
            vector.name()
        );
    }
}

/// The trace of an agent without limits, replayed with them, stops at the call that a live agent stops at.
#[test]
fn replay_stops_at_the_same_call() {
    for vector in Vector::all() {
        let recording = Recording::new();
        recording.run(|| vector.run());
        assert_eq!(recording.trace().all("loop_warning").len(), 0);
        let limits = vector.limits().on_loop(LoopPolicy::Stop);
        let mut replay = Replay::new(&limits, "looping");
        let dir = spanledger::read::session_dir(recording.dir.path(), "looping");
        let mut reader = SessionReader::open(dir).unwrap();
        let (mut tools, mut stopped) = (0, None);
        while let Some(ReadItem::Line(line)) = reader.next().unwrap() {
            tools += u64::from(line.kind == "tool_call");
            if replay.take(&line).is_some() && line.kind == "tool_call" {
                stopped.get_or_insert(tools);
            }
        }
        assert_eq!(
            json!(stopped),
            vector.json["stopped_at"],
            "{}",
            vector.name()
        );
        let warnings = replay.warnings().iter();
        let warnings = warnings.map(|(_, it)| json!([it.kind.as_str(), it.pattern]));
        let warnings: Vec<_> = warnings.collect();
        assert_eq!(
            json!(warnings),
            vector.json["warnings"],
            "{}",
            vector.name()
        );
    }
}

fn bash(result: &str) {
    let tool = spans::tool_call("bash", "c")
        .args(json!({"command": "make"}))
        .start();
    tool.record_result(result);
    tool.finish(Outcome::Ok);
}

#[test]
fn evidence_has_the_close_lines_of_the_calls() {
    let recording = Recording::with(|builder| builder.limits(Limits::new()));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        (0..3).for_each(|_| bash("failed"));
    });
    let trace = recording.trace();
    let closed: Vec<_> = trace
        .all("tool_result")
        .iter()
        .map(|line| line.address().to_string())
        .collect();
    let warning = trace.one("loop_warning");
    assert_eq!(*warning.get("evidence"), json!(closed));
    assert_eq!(*warning.get("repetitions"), 3);
    assert_eq!(*warning.get("window_size"), 3);
    // It belongs to the span around the calls.
    assert_eq!(warning.span_id, trace.one("session_start").span_id);
}

#[test]
fn turn_gets_another_chance_and_the_loop_is_named_once() {
    let limits = Limits::new().on_loop(LoopPolicy::Stop);
    let recording = Recording::with(|builder| builder.limits(limits));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        {
            let _turn = spans::session_turn().start().entered();
            (0..3).for_each(|_| bash("failed"));
            assert!(spans::model_call("p", "m").start().allowed().is_err());
        }
        let turn = spans::session_turn().start();
        assert!(turn.allowed().is_ok());
        let _turn = turn.entered();
        assert!(spans::model_call("p", "m").start().allowed().is_ok());
        bash("failed");
        assert!(spans::model_call("p", "m").start().allowed().is_err());
    });
    assert_eq!(recording.trace().all("loop_warning").len(), 1);
}

#[test]
fn loop_of_a_subagent_does_not_stop_its_parent() {
    let limits = Limits::new().on_loop(LoopPolicy::Stop);
    let recording = Recording::with(|builder| builder.limits(limits));
    recording.run(|| {
        let _run = spans::session_run("parent", "agent").start().entered();
        {
            let _child = spans::session_run("child", "agent").start().entered();
            (0..3).for_each(|_| bash("failed"));
            assert!(spans::tool_call("bash", "c").start().allowed().is_err());
        }
        assert!(spans::tool_call("bash", "c").start().allowed().is_ok());
    });
}

#[test]
fn repetitions_and_policy_can_be_set() {
    let warnings = |limits: Limits| {
        let recording = Recording::with(|builder| builder.limits(limits));
        recording.run(|| {
            let _run = spans::session_run("s", "agent").start().entered();
            (0..4).for_each(|_| bash("failed"));
        });
        recording.trace().all("loop_warning").len()
    };
    assert_eq!(
        warnings(Limits::new().repetitions(LoopKind::NoProgress, 4)),
        1
    );
    assert_eq!(
        warnings(Limits::new().repetitions(LoopKind::NoProgress, 5)),
        0
    );
    assert_eq!(
        warnings(Limits::new().on_loop(LoopPolicy::Off).tool_calls(9)),
        0
    );
}

/// However long a session loops, it keeps a window of calls, and each pattern once.
#[test]
fn many_patterns_are_each_one_line() {
    let recording = Recording::with(|builder| builder.limits(Limits::new()));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        for pattern in 0..100 {
            for _ in 0..5 {
                let tool = spans::tool_call("bash", "c")
                    .args(json!({"n": pattern}))
                    .start();
                tool.record_result("failed");
                tool.finish(Outcome::Ok);
            }
        }
    });
    assert_eq!(recording.trace().all("loop_warning").len(), 100);
}
