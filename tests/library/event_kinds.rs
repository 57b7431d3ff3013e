//! Every kind of event through its function, with all fields, on each kind of target.

use serde_json::{Value, json};
use spanledger::{SpanExt, spans};
use tracing::info_span;

use crate::support::every_event::every_event;
use crate::support::{Recording, Trace};

fn assert_all_in(trace: &Trace, session: &str, span: Option<&str>, late: bool) {
    let lines = trace.session(session);
    for (kind, _, mut payload) in every_event() {
        let found: Vec<_> = lines.iter().filter(|line| line.kind == kind).collect();
        assert_eq!(found.len(), 1, "{kind}");
        if late {
            payload["late"] = json!(true);
        }
        assert_eq!(Value::Object(found[0].payload.clone()), payload, "{kind}");
        assert_eq!(found[0].span_id.as_deref(), span, "{kind}");
    }
}

#[test]
fn every_kind_on_the_current_span() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let _foreign = info_span!("http").entered();
        every_event()
            .into_iter()
            .for_each(|(_, event, _)| event.emit());
    });
    let trace = recording.trace();
    let turn = trace.one("turn_start").span_id.as_deref();
    assert_all_in(&trace, "s", turn, false);
    assert_eq!(trace.one("artifact").turn, Some(1));
}

#[test]
fn every_kind_on_a_given_span() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!("tool.call", session_id = "s", tool_id = "bash");
        let _other = spans::session_run("other", "planner").start().entered();
        for (_, event, _) in every_event() {
            event.on(&tool).emit();
        }
    });
    let trace = recording.trace();
    let tool = trace.one("tool_call").span_id.as_deref();
    assert_all_in(&trace, "s", tool, false);
}

#[test]
fn every_kind_through_a_handle_after_session_end() {
    let recording = Recording::new();
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    let session = recording.handle().session("s");
    std::thread::spawn(move || {
        for (_, event, _) in every_event() {
            session.record(event);
        }
    })
    .join()
    .unwrap();
    let trace = recording.trace();
    assert_all_in(&trace, "s", None, false);
    let ended = trace.one("session_end").seq;
    assert!(trace.one("evaluation").seq > ended);
}

#[test]
fn every_kind_on_an_ended_span_is_late() {
    let recording = Recording::new();
    let session = recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        run.session().unwrap()
    });
    assert_eq!(session.id(), "s");
    for (_, event, _) in every_event() {
        session.record(event);
    }
    let trace = recording.trace();
    let run = trace.one("session_start").span_id.as_deref();
    assert_all_in(&trace, "s", run, true);
}
