//! What a thread remembers of the spans it made never becomes another span's.

mod support;

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

use spanledger::{Outcome, SpanExt};
use support::{LineExt, Recording};
use tracing::Span;
use tracing::field::{Empty, debug};
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

fn open_files(under: &Path) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let paths = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(under)).count()
}

#[test]
fn a_ledger_that_has_ended_holds_no_file_open_though_a_thread_remembers_its_spans() {
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

/// One that may hold no more than 32 files of sessions open.
fn with_few_files() -> Recording {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let set = |limit: &libc::rlimit| {
        // SAFETY: `limit` is a valid place to read from.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) }, 0);
    };
    // SAFETY: `limit` is a valid place for the answer.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(known, 0);
    set(&libc::rlimit {
        rlim_cur: 64,
        ..limit
    });
    let recording = Recording::new();
    set(&limit);
    recording
}

#[test]
fn a_flush_of_many_sessions_holds_no_more_files_open_than_before() {
    let recording = with_few_files();
    let session = |n| info_span!("session.run", session_id = format!("s{n}"));
    let runs: Vec<_> = recording.run(|| (0..100).map(session).collect());
    let before = open_files(recording.dir.path());
    assert!((1..40).contains(&before), "{before}");
    assert_eq!(recording.handle().flush(), 0);
    assert_eq!(open_files(recording.dir.path()), before);
    drop(runs);
    assert_eq!(recording.trace().all("session_end").len(), 100);
}

/// Says something of a span when it is dropped.
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
fn what_is_said_of_a_span_while_its_thread_ends_is_recorded_whatever_the_thread_has_forgotten() {
    let recording = Recording::new();
    let dispatch = recording.dispatch.clone();
    let thread = std::thread::spawn(move || {
        // One is dropped before and one after what the thread remembers.
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

/// A value that does something with its own span while it is spelled.
struct Meddling<'a>(&'a Span, fn(&Span));

impl fmt::Debug for Meddling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.1(self.0);
        f.write_str("spelled")
    }
}

#[test]
fn a_value_may_do_anything_with_its_own_span_while_it_is_spelled() {
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
