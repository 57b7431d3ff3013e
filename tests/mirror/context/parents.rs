//! The parent of a root span.

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::{Value, json};
use spanledger::trace::Line;
use spanledger::{RemoteContext, SpanExt, spans};
use tracing::info_span;

use crate::support::child::with_env;
use crate::support::{LineExt, Recording};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CALLER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN: &str = "b7ad6b7169203331";

fn caller() -> RemoteContext {
    CALLER.parse().unwrap()
}

/// A span of the OpenTelemetry API, as it is current in a request.
fn request(sampled: bool, remote: bool) -> Context {
    let span = SpanContext::new(
        TraceId::from(0x11),
        SpanId::from(0x22),
        TraceFlags::default().with_sampled(sampled),
        remote,
        TraceState::from_key_value([("vendor", "7")]).unwrap(),
    );
    Context::new().with_remote_span_context(span)
}

fn in_request(line: &Line) -> bool {
    line.trace_id.as_deref() == Some(&format!("{:032x}", 0x11))
        && line.parent_span_id.as_deref() == Some(&format!("{:016x}", 0x22))
}

#[test]
fn explicit_caller_precedes_the_surroundings() {
    let recording = Recording::new();
    recording.run(|| {
        let _request = request(true, false).attach();
        let _around = spans::session_run("around", "planner").start().entered();
        let caller = caller().with_tracestate("vendor=1,other=2");
        let run = spans::session_run("s", "planner").parent(caller).start();
        run.in_scope(|| drop(spans::tool_call("bash", "c1").start()));
    });
    let trace = recording.trace();
    for kind in ["session_start", "session_end"] {
        let run = trace.find(kind, "session_id", "s");
        assert_eq!(run.trace_id.as_deref(), Some(CALLER_TRACE));
        assert_eq!(run.parent_span_id.as_deref(), Some(CALLER_SPAN));
        assert_eq!(run.get("parent_remote"), true);
        assert_eq!(run.get("tracestate"), "vendor=1,other=2");
        assert_eq!(run.get("sampled"), &Value::Null);
    }
    // What is inside is of the same trace, and its parent of this process.
    for kind in ["tool_call", "tool_result"] {
        let tool = trace.one(kind);
        assert_eq!(tool.trace_id.as_deref(), Some(CALLER_TRACE));
        assert_eq!(tool.get("tracestate"), "vendor=1,other=2");
        assert_eq!(tool.get("parent_remote"), &Value::Null);
    }
}

#[test]
fn agent_span_precedes_the_otel_context() {
    let recording = Recording::new();
    recording.run(|| {
        let _outer = spans::session_run("outer", "planner").start().entered();
        let _request = request(true, false).attach();
        drop(spans::session_run("s", "helper").start());
    });
    let trace = recording.trace();
    let outer = trace.find("session_start", "session_id", "outer");
    let run = trace.find("session_start", "session_id", "s");
    assert_eq!(run.trace_id, outer.trace_id);
    assert_eq!(run.parent_span_id, outer.span_id);
}

#[test]
fn run_is_a_child_of_the_current_api_span() {
    let recording = Recording::new();
    let provider = SdkTracerProvider::builder().build();
    let tracer = provider.tracer("server");
    let (trace_id, span_id) = recording.run(|| {
        let span = tracer.start("GET /chat");
        let context = Context::current_with_span(span);
        let _request = context.clone().attach();
        drop(spans::session_run("s", "planner").start());
        let span = context.span().span_context().clone();
        (span.trace_id().to_string(), span.span_id().to_string())
    });
    let trace = recording.trace();
    let run = trace.one("session_end");
    assert_eq!(run.trace_id.as_deref(), Some(trace_id.as_str()));
    assert_eq!(run.parent_span_id.as_deref(), Some(span_id.as_str()));
    assert_eq!(run.get("parent_remote"), &Value::Null);
    assert_eq!(run.get("sampled"), &Value::Null);
}

#[test]
fn sampling_and_tracestate_are_kept() {
    let recording = Recording::new();
    recording.run(|| {
        let _request = request(false, true).attach();
        drop(spans::session_run("s", "planner").start());
    });
    let trace = recording.trace();
    for kind in ["session_start", "session_end"] {
        let run = trace.one(kind);
        assert!(in_request(run), "{run:?}");
        assert_eq!(run.get("parent_remote"), true);
        assert_eq!(run.get("sampled"), false);
        assert_eq!(run.get("tracestate"), "vendor=7");
    }
}

#[test]
fn agent_spans_without_run_use_the_context() {
    let recording = Recording::new();
    recording.run(|| {
        let _request = request(true, true).attach();
        let _handler = info_span!("handler").entered();
        let tool = spans::tool_call("bash", "c1").start();
        tool.in_scope(|| drop(spans::permission_evaluate("bash").start()));
    });
    let trace = recording.trace();
    let tool = trace.one("tool_call");
    assert!(in_request(tool));
    let permission = trace.one("permission_request");
    assert_eq!(permission.trace_id, tool.trace_id);
    assert_eq!(permission.parent_span_id, tool.span_id);
}

#[test]
fn detached_run_has_no_parent() {
    with_env(&[("TRACEPARENT", CALLER)], || {
        let recording = Recording::new();
        recording.run(|| {
            let _request = request(false, true).attach();
            let _outer = spans::session_run("outer", "planner").start().entered();
            drop(spans::session_run("s", "helper").detached().start());
        });
        let trace = recording.trace();
        let run = trace.find("session_end", "session_id", "s");
        assert_eq!(run.parent_span_id, None);
        assert!(!in_request(run));
        assert_ne!(run.trace_id.as_deref(), Some(CALLER_TRACE));
        assert_eq!(run.get("links"), &Value::Null);
        assert_eq!(run.get("sampled"), &Value::Null);
    });
}

#[test]
fn traceparent_is_the_first_runs_parent_only() {
    let variables = [("TRACEPARENT", CALLER), ("TRACESTATE", "vendor=1")];
    with_env(&variables, || {
        let recording = Recording::new();
        recording.run(|| {
            // Neither a span without a run nor a run that has a parent uses it up.
            drop(spans::tool_call("bash", "c0").start());
            {
                let _request = request(true, true).attach();
                drop(spans::session_run("asked", "planner").start());
            }
            drop(spans::session_run("first", "planner").start());
            drop(spans::session_run("second", "planner").start());
        });
        let trace = recording.trace();
        assert_eq!(trace.one("tool_call").parent_span_id, None);
        assert!(in_request(trace.find(
            "session_start",
            "session_id",
            "asked"
        )));
        for kind in ["session_start", "session_end"] {
            let first = trace.find(kind, "session_id", "first");
            assert_eq!(first.trace_id.as_deref(), Some(CALLER_TRACE));
            assert_eq!(first.parent_span_id.as_deref(), Some(CALLER_SPAN));
            assert_eq!(first.get("parent_remote"), true);
            assert_eq!(first.get("tracestate"), "vendor=1");
            let second = trace.find(kind, "session_id", "second");
            assert_ne!(second.trace_id.as_deref(), Some(CALLER_TRACE));
            assert_eq!(second.parent_span_id, None);
            assert_eq!(second.get("tracestate"), &Value::Null);
            let link = json!([{"trace_id": CALLER_TRACE, "span_id": CALLER_SPAN}]);
            assert_eq!(second.get("links"), &link);
        }
    });
}

#[test]
fn invalid_traceparent_is_ignored() {
    with_env(&[("TRACEPARENT", "00-zz-01")], || {
        let recording = Recording::new();
        recording.run(|| drop(spans::session_run("s", "planner").start()));
        let trace = recording.trace();
        assert_eq!(trace.one("session_end").parent_span_id, None);
        assert_eq!(recording.guard.health().failed, 0);
    });
}

#[test]
fn secret_in_tracestate_is_not_written() {
    let secret = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIj-AbCdEfAA";
    let recording = Recording::new();
    let context = recording.run(|| {
        let caller = caller().with_tracestate(&format!("vendor={secret}"));
        let run = spans::session_run("s", "planner").parent(caller).start();
        run.remote_context().unwrap()
    });
    // It is passed to the next process unchanged, and not written to disk.
    assert_eq!(context.tracestate(), Some(&*format!("vendor={secret}")));
    let bytes = String::from_utf8(recording.trace().bytes()).unwrap();
    assert!(!bytes.contains(secret));
    assert!(
        recording
            .trace()
            .one("session_end")
            .text("tracestate")
            .contains("[masked")
    );
}
