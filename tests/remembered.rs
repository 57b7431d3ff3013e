//! What a thread remembers of the spans it made never becomes another span's.

mod support;

use support::{LineExt, Recording};
use tracing::Span;
use tracing::field::Empty;
use tracing::info_span;

fn call(id: &str) -> Span {
    info_span!(
        "tool.call",
        tool_id = "bash",
        tool_call_id = id,
        result = Empty
    )
}

/// Spans of others until one of them has this id: the registry gives ids again, by turns among as
/// many as were ever open at a time.
fn foreign_with_id_of(gone: &tracing::span::Id) -> Span {
    for _ in 0..20_000 {
        let batch = (0..32).map(|_| info_span!("theirs", result = Empty));
        let batch: Vec<_> = batch.collect();
        let mut same = batch
            .into_iter()
            .filter(|span| span.id().as_ref() == Some(gone));
        if let Some(span) = same.next() {
            return span;
        }
    }
    panic!("the registry gave no id again");
}

#[test]
fn two_subscribers_on_a_thread_keep_spans_of_the_same_id_apart() {
    let (one, other) = (Recording::new(), Recording::new());
    let of_one = one.run(|| call("one"));
    let of_other = other.run(|| call("other"));
    assert_eq!(of_one.id(), of_other.id());
    of_one.record("result", "of one");
    of_other.record("result", "of the other");
    of_one.record("result", "of one, again");
    drop((of_one, of_other));
    assert_eq!(
        one.trace().one("tool_result").text("result"),
        "of one, again"
    );
    let told = other.trace();
    assert_eq!(told.one("tool_result").text("result"), "of the other");
}

/// A run in which calls were made, so that it is remembered as what is around.
fn run_with_calls() -> Span {
    let run = info_span!("session.run", session_id = "s", agent = "planner");
    run.in_scope(|| ["a", "b"].map(|id| drop(call(id))));
    run
}

#[test]
fn what_a_subscriber_that_is_gone_left_open_is_not_around_what_the_next_one_sees() {
    let first = Recording::new();
    let leaked = first.run(run_with_calls);
    let id = leaked.id();
    std::mem::forget(leaked);
    let _dir = first.end();
    let next = Recording::new();
    next.run(|| {
        let theirs = info_span!("theirs");
        assert_eq!(theirs.id(), id);
        theirs.in_scope(|| drop(call("next")));
    });
    let trace = next.trace();
    let call = trace.find("tool_call", "tool_call_id", "next");
    assert_ne!(call.session_id, "s");
    assert_eq!(call.parent_span_id, None);
}

#[test]
fn what_is_said_of_another_span_that_got_the_id_of_one_closed_elsewhere_is_not_said_of_that() {
    let recording = Recording::new();
    recording.run(|| {
        let span = call("moved");
        let id = span.id().unwrap();
        std::thread::scope(|scope| scope.spawn(move || drop(span)).join().unwrap());
        foreign_with_id_of(&id).record("result", "theirs");
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").payload.get("result"), None);
    assert!(trace.all("span_update").is_empty());
}

#[test]
fn what_is_made_in_another_span_that_got_the_id_of_one_closed_elsewhere_is_not_made_in_that() {
    let recording = Recording::new();
    recording.run(|| {
        let around = run_with_calls();
        let id = around.id().unwrap();
        std::thread::scope(|scope| scope.spawn(move || drop(around)).join().unwrap());
        foreign_with_id_of(&id).in_scope(|| drop(call("elsewhere")));
    });
    let trace = recording.trace();
    let elsewhere = trace.find("tool_call", "tool_call_id", "elsewhere");
    assert_ne!(elsewhere.session_id, "s");
    assert_eq!(elsewhere.parent_span_id, None);
}

#[test]
fn a_span_closed_on_another_thread_is_closed_with_what_this_one_recorded() {
    let recording = Recording::new();
    recording.run(|| {
        let span = call("moved");
        span.record("result", "of here");
        std::thread::scope(|scope| scope.spawn(move || drop(span)).join().unwrap());
        drop(call("next"));
    });
    let trace = recording.trace();
    let moved = trace.find("tool_result", "tool_call_id", "moved");
    assert_eq!(moved.text("result"), "of here");
    assert_eq!(trace.all("tool_result").len(), 2);
}
