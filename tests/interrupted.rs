//! The close line that a dead writer's span gets: everything the span had said.

mod support;

use std::path::Path;

use serde_json::json;
use spanledger::{SpanExt, Usage, spans};
use support::{LineExt, Recording, Trace};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// What the next process makes of the trace, if this one died at the end of `agent`.
fn recovered(agent: impl FnOnce(&dyn Fn())) -> Trace {
    let recording = Recording::new();
    let next = tempfile::tempdir().unwrap();
    recording.run(|| {
        agent(&|| {
            // Without the lock under `writers`, the writer is dead.
            let sessions = "sessions";
            copy(
                &recording.dir.path().join(sessions),
                &next.path().join(sessions),
            );
        });
    });
    let recording = Recording::again(next);
    recording.handle().session("s").recover();
    recording.trace()
}

#[test]
fn an_interrupted_span_keeps_all_that_its_updates_said() {
    let trace = recovered(|die| {
        let _run = spans::session_run("s", "planner").start().entered();
        let turn = spans::session_turn().start();
        let (a, b) = (spans::session_turn().start(), spans::session_turn().start());
        turn.follows_from(&a);
        turn.follows_from(&b);
        turn.record_usage(&Usage {
            input_tokens: Some(10),
            ..Usage::default()
        });
        turn.record_usage(&Usage {
            output_tokens: Some(3),
            ..Usage::default()
        });
        turn.set("stop_reason", "none yet");
        die();
    });
    let closed = trace.find("interrupted", "turn_index", 1);
    assert_eq!(closed.text("closes"), "turn_end");
    assert_eq!(closed.text("outcome"), "interrupted");
    assert_eq!(closed.text("stop_reason"), "none yet");
    assert_eq!(
        closed.get("usage"),
        &json!({"input_tokens": 10, "output_tokens": 3})
    );
    assert_eq!(closed.get("links").as_array().unwrap().len(), 2);
}

#[test]
fn fields_named_like_an_interrupted_lines_own_members_do_not_disturb_it() {
    let trace = recovered(|die| {
        let _run = spans::session_run("s", "planner").start().entered();
        let tool = spans::tool_call("bash", "c1").start();
        for own in ["closes", "reason", "last_seen", "detected_at", "outcome"] {
            tool.set(own, "mine");
        }
        die();
    });
    let closed = trace.find("interrupted", "tool_id", "bash");
    assert_eq!(closed.text("closes"), "tool_result");
    assert_eq!(closed.text("reason"), "writer_gone");
    assert_eq!(closed.text("outcome"), "interrupted");
    assert_ne!(closed.text("last_seen"), "mine");
    assert_ne!(closed.text("detected_at"), "mine");
    assert_eq!(closed.payload["custom.reason"], "mine");
}

#[test]
fn a_recovered_session_is_recovered_once() {
    let recording = Recording::new();
    let next = tempfile::tempdir().unwrap();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        copy(
            &recording.dir.path().join("sessions"),
            &next.path().join("sessions"),
        );
    });
    let recording = Recording::again(next);
    assert_eq!(recording.handle().session("s").recover(), 1);
    assert_eq!(recording.handle().session("s").recover(), 0);
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    let trace = recording.trace();
    let interrupted = trace.one("interrupted");
    assert_eq!(interrupted.text("closes"), "session_end");
    assert_eq!(interrupted.span_id, trace.one("session_start").span_id);
    assert_eq!(trace.one("session_resume").seg, 2);
}
