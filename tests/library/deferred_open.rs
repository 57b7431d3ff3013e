//! A span whose identity fields are declared empty: its open line is deferred until they are known.

use serde_json::{Value, json};
use spanledger::{events, spans};
use tracing::field::Empty;
use tracing::info_span;

use crate::support::{LineExt, Recording};

#[test]
fn empty_identity_defers_the_open_line() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!(
            "tool.call",
            tool_id = Empty,
            tool_call_id = "c1",
            args = Empty
        );
        tool.record("args", "early");
        assert!(recording.trace().all("tool_call").is_empty());
        tool.record("tool_id", "bash");
        let trace = recording.trace();
        let open = trace.one("tool_call");
        assert_eq!(open.text("tool_id"), "bash");
        assert_eq!(open.text("args"), "early");
        assert!(trace.all("span_update").is_empty());
    });
}

#[test]
fn deferred_open_line_has_the_creation_time() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!("tool.call", tool_id = Empty);
        events::custom("between", json!({})).emit();
        tool.record("tool_id", "bash");
    });
    let trace = recording.trace();
    let (open, between) = (trace.one("tool_call"), trace.one("between"));
    // `start` has nanoseconds, `ts` microseconds.
    assert!(open.text("start")[..26] <= between.ts[..26]);
    assert!(open.ts >= between.ts && open.seq > between.seq);
}

#[test]
fn first_enter_writes_the_open_line() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!("tool.call", tool_id = Empty);
        tool.in_scope(|| assert_eq!(recording.trace().all("tool_call").len(), 1));
    });
}

#[test]
fn child_open_line_comes_after_the_parents() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!("tool.call", tool_id = Empty);
        let _child = info_span!(parent: &tool, "permission.evaluate", tool_id = "bash");
        let trace = recording.trace();
        let (open, child) = (trace.one("tool_call"), trace.one("permission_request"));
        assert!(open.seq < child.seq);
        assert_eq!(child.parent_span_id, open.span_id);
    });
}

#[test]
fn event_comes_after_the_open_line() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!("tool.call", tool_id = Empty);
        events::artifact("plot.png").on(&tool).emit();
        let trace = recording.trace();
        let (open, event) = (trace.one("tool_call"), trace.one("artifact"));
        assert!(open.seq < event.seq);
        assert_eq!(event.span_id, open.span_id);
    });
}

#[test]
fn close_line_comes_after_the_open_line() {
    let recording = Recording::new();
    recording.run(|| {
        drop(info_span!(
            "tool.call",
            tool_id = Empty,
            tool_call_id = "c1"
        ))
    });
    let trace = recording.trace();
    let (open, close) = (trace.one("tool_call"), trace.one("tool_result"));
    assert!(open.seq < close.seq);
    assert_eq!(close.get("tool_id"), &Value::Null);
    assert_eq!(close.text("tool_call_id"), "c1");
}

#[test]
fn id_recorded_later_chooses_the_session() {
    let recording = Recording::new();
    recording.run(|| {
        let run = info_span!("session.run", session_id = Empty, agent = "planner");
        assert!(recording.trace().sessions.is_empty());
        run.record("session_id", "ses_late");
        run.in_scope(|| drop(spans::tool_call("bash", "c1").start()));
    });
    assert_eq!(
        recording.trace().kinds("ses_late"),
        [
            "segment",
            "session_start",
            "tool_call",
            "tool_result",
            "session_end"
        ]
    );
}
