//! The per-thread cache of recent spans never applies to another span.

use std::cell::RefCell;
use std::fmt;

use spanledger::{Outcome, SpanExt};
use tracing::Span;
use tracing::field::{Empty, debug};
use tracing::info_span;

use crate::support::{LineExt, Recording, open_files};

fn call(id: &str) -> Span {
    info_span!(
        "tool.call",
        tool_id = "bash",
        tool_call_id = id,
        result = Empty
    )
}

/// Creates foreign spans until one of them has this id: the registry reuses ids, cycling through as
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
fn subscribers_keep_spans_with_equal_ids_apart() {
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
    let of_other_trace = other.trace();
    assert_eq!(
        of_other_trace.one("tool_result").text("result"),
        "of the other"
    );
}

/// A run with calls, so that it is cached as their parent.
fn run_with_calls() -> Span {
    let run = info_span!("session.run", session_id = "s", agent = "planner");
    run.in_scope(|| ["a", "b"].map(|id| drop(call(id))));
    run
}

#[test]
fn leaked_span_does_not_enclose_the_next_subscribers() {
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
fn record_on_a_reused_id_misses_the_closed_span() {
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
fn span_inside_a_reused_id_is_not_in_the_closed_span() {
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
fn span_closed_elsewhere_keeps_its_records() {
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

#[test]
fn ended_ledger_holds_no_open_files() {
    let recording = Recording::new();
    recording.run(|| {
        let run = run_with_calls();
        let last = run.in_scope(|| call("moved"));
        std::thread::scope(|scope| scope.spawn(move || drop((last, run))).join().unwrap());
    });
    assert_ne!(open_files(recording.dir.path()), 0);
    let dir = recording.end();
    assert_eq!(open_files(dir.path()), 0);
}

/// Records something on a span when it is dropped.
struct LastWords(Span);

impl Drop for LastWords {
    fn drop(&mut self) {
        self.0.record("result", "at the end");
    }
}

thread_local! {
    static FIRST: RefCell<Option<LastWords>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<LastWords>> = const { RefCell::new(None) };
}

#[test]
fn record_during_thread_exit_is_kept() {
    let recording = Recording::new();
    let dispatch = recording.dispatch.clone();
    let thread = std::thread::spawn(move || {
        // One is dropped before and one after the thread's span cache.
        FIRST.with(|_| ());
        let _default = tracing::dispatcher::set_default(&dispatch);
        FIRST.set(Some(LastWords(call("first"))));
        SECOND.set(Some(LastWords(call("second"))));
    });
    thread.join().unwrap();
    let trace = recording.trace();
    for id in ["first", "second"] {
        let closed = trace.find("tool_result", "tool_call_id", id);
        assert_eq!(closed.text("result"), "at the end");
    }
}

/// A value that uses its own span while it is formatted.
struct Meddling<'a>(&'a Span, fn(&Span));

impl fmt::Debug for Meddling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.1(self.0);
        f.write_str("spelled")
    }
}

#[test]
fn value_may_use_its_own_span_while_formatted() {
    let recording = Recording::new();
    let meddle = |what: fn(&Span)| {
        recording.run(|| {
            let span = call("meddled with");
            span.record("result", debug(Meddling(&span, what)));
        });
    };
    meddle(|span| _ = span.record("result", "by itself"));
    meddle(|span| span.in_scope(|| drop(call("inside"))));
    meddle(|span| span.finish(Outcome::Ok));
    let trace = recording.trace();
    assert_eq!(trace.one("span_update").text("result"), "spelled");
    let closed = trace.all("tool_result");
    let results = closed.iter().map(|line| line.get("result").as_str());
    assert_eq!(
        results.collect::<Vec<_>>(),
        [Some("spelled"), None, Some("spelled"), None]
    );
}
