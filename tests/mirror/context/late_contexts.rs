//! Contexts that outlive their agent span, or are used on another thread.

use opentelemetry::trace::{Span as _, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use serde_json::json;
use spanledger::otel::LedgerProcessor;
use spanledger::spans;

use crate::support::{LineExt, Recording, Trace};

#[derive(Debug, PartialEq)]
struct Tenant(u32);

fn with_context() -> Recording {
    Recording::with(|builder| builder.context(true))
}

/// The spans of a provider that the ledger knows nothing of.
fn foreign() -> SdkTracer {
    SdkTracerProvider::builder().build().tracer("web")
}

/// The context inside a tool call of a turn, as `inside` leaves it.
fn in_a_call(inside: impl FnOnce() -> Context) -> Context {
    let _run = spans::session_run("s", "planner").start().entered();
    let _turn = spans::session_turn().start().entered();
    let call = spans::tool_call("fetch", "outer").start();
    call.in_scope(inside)
}

/// What is done in a context on a thread that has nothing else.
fn elsewhere(recording: &Recording, context: Context, what: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            recording.run(|| {
                let _context = context.attach();
                what();
            });
        });
    });
}

fn inner_call() {
    drop(spans::tool_call("parse", "inner").start());
}

#[track_caller]
fn assert_inner_lies_in_outer(trace: &Trace) {
    let outer = trace.find("tool_call", "tool_call_id", "outer");
    let inner = trace.find("tool_call", "tool_call_id", "inner");
    assert_eq!(inner.session_id, "s");
    assert_eq!(inner.turn, Some(1));
    assert_eq!(inner.trace_id, outer.trace_id);
    assert_eq!(inner.parent_span_id, outer.span_id);
}

#[test]
fn context_outlives_its_span() {
    let recording = with_context();
    let kept = recording.run(|| in_a_call(Context::current));
    kept.span().set_attribute(KeyValue::new("after", 1));
    elsewhere(&recording, kept, inner_call);
    let trace = recording.trace();
    assert_inner_lies_in_outer(&trace);
    let after = trace.one("span_update");
    assert_eq!(after.span_id, trace.all("tool_call")[0].span_id);
    assert_eq!(after.get("attributes"), &json!({"after": 1}));
    assert_eq!(after.get("late"), true);
}

#[test]
fn agent_span_under_a_carried_user_span() {
    let recording = with_context();
    let context = recording.run(|| {
        in_a_call(|| {
            let request = Context::current_with_span(foreign().start("request"));
            request.with_span(foreign().start_with_context("retry", &request))
        })
    });
    elsewhere(&recording, context, inner_call);
    assert_inner_lies_in_outer(&recording.trace());
}

#[test]
fn user_span_under_a_foreign_span() {
    let recording = with_context();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(LedgerProcessor::new())
        .build();
    let request = foreign();
    let context = recording.run(|| {
        in_a_call(|| {
            Context::current_with_span(request.start_with_context("request", &Context::current()))
        })
    });
    let around = context.span().span_context().span_id().to_string();
    elsewhere(&recording, context, || {
        drop(provider.tracer("database").start("SELECT"));
    });
    let trace = recording.trace();
    let select = trace.one("span_end");
    assert_eq!(select.session_id, "s");
    assert_eq!(select.turn, Some(1));
    assert_eq!(select.trace_id, trace.one("session_start").trace_id);
    assert_eq!(select.parent_span_id, Some(around));
}

#[test]
fn added_value_propagates_with_the_span() {
    let recording = with_context();
    let context = recording.run(|| in_a_call(|| Context::current_with_value(Tenant(7))));
    elsewhere(&recording, context, || {
        let inner = spans::tool_call("parse", "inner").start();
        inner.in_scope(|| {
            let inside = Context::current();
            assert_eq!(inside.get(), Some(&Tenant(7)));
            assert_ne!(inside.span().span_context().span_id(), 0.into());
        });
    });
    assert_inner_lies_in_outer(&recording.trace());
}

#[test]
fn agent_span_under_another_ledgers_context() {
    let (caller, callee) = (with_context(), with_context());
    let context = caller.run(|| in_a_call(Context::current));
    elsewhere(&callee, context, || {
        drop(spans::session_run("theirs", "helper").start());
    });
    let (caller, callee) = (caller.trace(), callee.trace());
    let call = caller.one("tool_call");
    let run = callee.one("session_start");
    assert_eq!(run.session_id, "theirs");
    assert_eq!(run.trace_id, call.trace_id);
    assert_eq!(run.parent_span_id, call.span_id);
    assert_eq!(run.get("parent_remote"), true);
    assert_eq!(caller.all("subagent").len(), 0);
}

#[test]
fn context_outliving_its_ledger_is_inert() {
    let recording = with_context();
    let kept = recording.run(|| in_a_call(Context::current));
    let dir = recording.end();
    let before = Trace::read(dir.path()).lines().count();
    kept.span().set_attribute(KeyValue::new("after", 1));
    kept.span().add_event("after", vec![]);
    kept.span().end();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(LedgerProcessor::new())
        .build();
    let tracer = provider.tracer("database");
    tracer.start_with_context("SELECT", &kept).end();
    assert_eq!(Trace::read(dir.path()).lines().count(), before);
}

#[test]
fn user_value_is_released_with_the_span() {
    let recording = with_context();
    let value = std::sync::Arc::new(Tenant(7));
    recording.run(|| {
        let context = Context::current_with_value(std::sync::Arc::clone(&value)).attach();
        let call = spans::tool_call("fetch", "c1").start();
        drop(context);
        call.in_scope(|| ());
        std::thread::scope(|scope| scope.spawn(move || drop(call)).join().unwrap());
    });
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}

#[test]
fn concurrent_enters_keep_creation_values() {
    let recording = with_context();
    let call = recording.run(|| {
        let _context = Context::current_with_value(Tenant(7)).attach();
        spans::tool_call("fetch", "c1").start()
    });
    let enter = || {
        recording.run(|| {
            (0..100_000)
                .all(|_| call.in_scope(|| Context::map_current(|c| c.get() == Some(&Tenant(7)))))
        })
    };
    let same = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(enter));
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(same, [true; 4]);
}
