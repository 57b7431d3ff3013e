//! Agent spans as the OpenTelemetry API sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::Context;
use opentelemetry::trace::{FutureExt as _, SpanContext, Status, TraceContextExt, get_active_span};
use opentelemetry::{Array, KeyValue, Value as OtelValue};
use opentelemetry_sdk::trace::Sampler;
use serde_json::{Value, json};
use spanledger::trace::Line;
use spanledger::{Outcome, SpanExt, events, spans};
use tracing::instrument::WithSubscriber;
use tracing::{Instrument, Span, info_span};

use crate::map::setup::{attributes, lines, mapped, named};
use crate::support::{LineExt, Recording};

fn with_context() -> Recording {
    Recording::with(|builder| builder.context(true))
}

fn current() -> SpanContext {
    Context::current().span().span_context().clone()
}

#[track_caller]
fn assert_is(context: &SpanContext, line: &Line) {
    assert_eq!(Some(context.trace_id().to_string()), line.trace_id);
    assert_eq!(Some(context.span_id().to_string()), line.span_id);
}

#[test]
fn current_context_is_the_agent_span() {
    let recording = with_context();
    let (run, tool, after_tool) = recording.run(|| {
        assert!(!current().is_valid());
        let _run = spans::session_run("s", "planner").start().entered();
        let run = current();
        let tool = spans::tool_call("bash", "c1").start();
        assert_eq!(current(), run, "a span that is not entered is not current");
        let tool = tool.in_scope(current);
        (run, tool, current())
    });
    let trace = recording.trace();
    assert_is(&run, trace.one("session_start"));
    assert_is(&tool, trace.one("tool_call"));
    assert_eq!(after_tool, run);
    assert!(tool.is_sampled() && !tool.is_remote());
    assert!(!current().is_valid());
}

#[test]
fn without_mirror_context_is_unset_unless_enabled() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        assert!(!run.in_scope(current).is_valid());
        // It can be had all the same.
        let own = run.otel_context().span().span_context().clone();
        assert_eq!(own.span_id().to_string().len(), 16);
        let traceparent = run.remote_context().unwrap().traceparent();
        assert!(traceparent.contains(&own.span_id().to_string()));
    });
}

#[test]
fn foreign_span_inside_changes_nothing() {
    let recording = with_context();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let run = current();
        let foreign = info_span!("foreign");
        foreign.in_scope(|| {
            assert_eq!(current(), run);
            assert_eq!(Span::current().otel_context().span().span_context(), &run);
        });
        assert_eq!(current(), run);
    });
}

#[test]
fn exit_in_any_order_and_enter_twice() {
    let recording = with_context();
    recording.run(|| {
        let a = spans::session_run("a", "planner").detached().start();
        let b = spans::session_run("b", "planner").detached().start();
        let (in_a, in_b) = (a.in_scope(current), b.in_scope(current));
        let entered_a = a.clone().entered();
        let entered_b = b.clone().entered();
        let again_a = a.clone().entered();
        assert_eq!(current(), in_a);
        drop(entered_a);
        assert_eq!(
            current(),
            in_b,
            "a was left once, the last time it was entered"
        );
        drop(again_a);
        assert_eq!(current(), in_b);
        drop(entered_b);
        assert!(!current().is_valid());
    });
}

#[test]
fn deferred_span_is_current_once_entered() {
    let recording = with_context();
    let seen = recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let tool = info_span!("tool.call", tool_id = tracing::field::Empty);
        tool.in_scope(current)
    });
    assert_is(&seen, recording.trace().one("tool_call"));
}

#[test]
fn other_context_values_are_kept() {
    #[derive(Debug, PartialEq)]
    struct Tenant(u32);
    let recording = with_context();
    recording.run(|| {
        let span = {
            let _tenant = Context::current_with_value(Tenant(7)).attach();
            spans::session_run("s", "planner").start()
        };
        assert_eq!(Context::current().get::<Tenant>(), None);
        span.in_scope(|| assert_eq!(Context::current().get(), Some(&Tenant(7))));
    });
}

#[test]
fn carried_context_brings_its_session() {
    let recording = with_context();
    let dispatch = recording.dispatch.clone();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let context = run.in_scope(Context::current);
        let thread = std::thread::spawn(move || {
            tracing::dispatcher::with_default(&dispatch, || {
                let _context = context.attach();
                drop(spans::tool_call("bash", "c1").start());
                drop(info_span!(parent: None, "tool.call", tool_id = "alone"));
            });
        });
        thread.join().unwrap();
    });
    let trace = recording.trace();
    let run = trace.one("session_start");
    let tool = trace.find("tool_call", "tool_id", "bash");
    assert_eq!(tool.session_id, "s");
    assert_eq!(tool.parent_span_id, run.span_id);
    // A span with an explicit empty parent has none.
    let alone = trace.find("tool_call", "tool_id", "alone");
    assert_eq!(alone.parent_span_id, None);
    assert_ne!(alone.trace_id, run.trace_id);
}

#[test]
fn unsampled_trace_is_unsampled_in_the_api() {
    let recording = Recording::with(|b| b.context(true).sampler(Sampler::AlwaysOff));
    let seen = recording.run(|| spans::session_run("s", "p").start().in_scope(current));
    assert!(seen.is_valid() && !seen.is_sampled());
}

#[test]
fn tracestate_of_the_caller_is_current() {
    let recording = with_context();
    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let seen = recording.run(|| {
        let caller: spanledger::RemoteContext = caller.parse().unwrap();
        let caller = caller.with_tracestate("vendor=1");
        let run = spans::session_run("s", "p").parent(caller).start();
        let _run = run.enter();
        spans::session_turn().start().in_scope(current)
    });
    assert_eq!(seen.trace_state().header(), "vendor=1");
}

#[test]
fn api_calls_on_the_current_span_are_recorded() {
    let recording = with_context();
    let token = "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
    let other = SpanContext::new(
        7.into(),
        9.into(),
        Default::default(),
        true,
        Default::default(),
    );
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _tool = spans::tool_call("bash", "c1").start().entered();
        get_active_span(|span| {
            assert!(span.is_recording());
            span.set_attribute(KeyValue::new("enduser.id", 7));
            span.set_attributes([
                KeyValue::new("deep", true),
                KeyValue::new("ratio", 0.5),
                KeyValue::new("token", token),
                KeyValue::new("tags", OtelValue::Array(Array::String(vec!["a".into()]))),
            ]);
            span.set_attribute(KeyValue::new("enduser.id", 8));
            span.add_event("cache.miss", vec![KeyValue::new("cache.key", "k1")]);
            span.record_error(&std::io::Error::other("no such table"));
            span.add_link(other.clone(), Vec::new());
            span.set_status(Status::error("gave up"));
        });
    });
    let trace = recording.trace();
    let tool = trace.one("tool_result");
    let recorded = tool.get("attributes");
    assert_eq!(recorded["enduser.id"], 8);
    assert_eq!(recorded["deep"], true);
    assert_eq!(recorded["ratio"], 0.5);
    assert_eq!(recorded["tags"], json!(["a"]));
    assert!(recorded["token"].as_str().unwrap().starts_with("[masked"));
    assert_eq!(tool.text("outcome"), "error");
    assert_eq!(tool.text("error.message"), "gave up");
    let notes = tool.get("events").as_array().unwrap();
    let names: Vec<_> = notes.iter().map(|note| &note["name"]).collect();
    assert_eq!(names, ["cache.miss", "exception"]);
    assert_eq!(notes[0]["attributes"], json!({"cache.key": "k1"}));
    // Each is on disk before the span ends, and redacted.
    let updates = trace.all("span_update");
    assert_eq!(updates[0].get("attributes"), &json!({"enduser.id": 7}));
    let events = trace.all("span_event");
    assert_eq!(events[0].get("attributes.cache.key"), &Value::Null);
    assert_eq!(events[0].get("attributes")["cache.key"], "k1");
    assert_eq!(
        events[1].get("attributes")["exception.message"],
        "no such table"
    );
    assert!(!String::from_utf8(trace.bytes()).unwrap().contains(token));
    // And goes out under the names that were given.
    let policy = json!({"error_text": true});
    let spans = mapped(&lines(recording.dir.path()), Some(&policy));
    let span = named(&spans, "execute_tool bash");
    let sent = attributes(&span.attributes);
    assert_eq!(sent["enduser.id"], 8);
    assert_eq!(sent["tags"], json!(["a"]));
    assert_eq!(
        attributes(&span.events[0].attributes),
        json!({"cache.key": "k1"})
    );
    assert_eq!(span.links.len(), 1);
    assert_eq!(span.status.as_ref().unwrap().message, "gave up");
}

#[test]
fn api_may_end_the_current_span() {
    let recording = with_context();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let tool = spans::tool_call("bash", "c1").start();
        tool.in_scope(|| {
            get_active_span(|span| {
                span.set_status(Status::Ok);
                span.end();
                span.set_attribute(KeyValue::new("after", 1));
            });
        });
        tool.finish(Outcome::Error);
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "ok");
    let after = trace.one("span_update");
    assert_eq!(after.get("attributes"), &json!({"after": 1}));
    assert_eq!(after.get("late"), true);
}

#[test]
fn interrupted_span_keeps_api_attributes() {
    let recording = with_context();
    let next = recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let set = |key: &'static str| {
            run.in_scope(|| get_active_span(|span| span.set_attribute(KeyValue::new(key, 1))));
        };
        set("a");
        set("b");
        recording.copy_as_crashed()
    });
    let next = Recording::again(next);
    next.handle().session("s").recover();
    let trace = next.trace();
    assert_eq!(
        trace.one("interrupted").get("attributes"),
        &json!({"a": 1, "b": 1})
    );
}

#[test]
fn thread_may_end_inside_a_span() {
    let recording = with_context();
    let dispatch = recording.dispatch.clone();
    let thread = std::thread::spawn(move || {
        tracing::dispatcher::with_default(&dispatch, || {
            std::mem::forget(spans::session_run("s", "planner").start().entered());
            assert!(current().is_valid());
        });
    });
    thread.join().unwrap();
}

#[test]
fn borrowed_context_does_not_break_recording() {
    let recording = with_context();
    recording.run(|| {
        Context::map_current(|_| {
            let _run = spans::session_run("s", "planner").start().entered();
            events::artifact("plot.png").emit();
        });
    });
    assert_eq!(recording.trace().one("artifact").session_id, "s");
    assert!(!current().is_valid());
}

/// One of many tasks: at each step the context is that of the span it is in.
async fn task(n: usize, seen: Arc<AtomicUsize>) {
    let check = |span: &Span| {
        let own = span.remote_context().unwrap().traceparent();
        let current = current();
        let seen_here = format!("00-{}-{}-01", current.trace_id(), current.span_id());
        assert_eq!(own, seen_here, "task {n}");
        seen.fetch_add(1, Ordering::Relaxed);
    };
    check(&Span::current());
    for _ in 0..3 {
        tokio::task::yield_now().await;
        check(&Span::current());
        let tool = spans::tool_call("bash", format!("c{n}")).start();
        let work = async {
            for _ in 0..5 {
                check(&Span::current());
                tokio::task::yield_now().await;
                let inner = spans::permission_evaluate("bash").start();
                inner.in_scope(|| check(&inner));
            }
        };
        // The loser is dropped in the middle of its work.
        tokio::select! {
            () = work.instrument(tool) => {}
            () = async { for _ in 0..n % 7 { tokio::task::yield_now().await; } } => {}
        }
        check(&Span::current());
    }
}

#[test]
fn each_task_has_its_own_current_span() {
    let recording = with_context();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let tasks = async {
        let mut tasks = Vec::new();
        for n in 0..400 {
            let run = spans::session_run(format!("s{}", n % 8), "planner").start();
            let task = task(n, Arc::clone(&seen)).instrument(run);
            tasks.push(tokio::spawn(task.with_current_subscriber()));
        }
        for task in tasks {
            task.await.unwrap();
        }
    };
    runtime.block_on(tasks.with_subscriber(recording.dispatch.clone()));
    assert!(seen.load(Ordering::Relaxed) > 400 * 10);
    // Nothing stays behind on the threads.
    runtime.block_on(async {
        for _ in 0..32 {
            let left = tokio::spawn(async { current().is_valid() });
            assert!(!left.await.unwrap());
        }
    });
    assert!(!current().is_valid());
    assert_eq!(recording.guard.health().failed, 0);
}

#[test]
fn future_with_context_runs_in_it() {
    let recording = with_context();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let future = async { current() }.with_context(run.otel_context());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let seen = runtime.block_on(future);
        assert_eq!(&seen, run.otel_context().span().span_context());
    });
}
