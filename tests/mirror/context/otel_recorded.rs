//! OpenTelemetry spans of the user that are recorded in the trace.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as OtlpKind;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use serde_json::json;
use spanledger::otel::{LedgerProcessor, tracing_layer};
use spanledger::{SpanExt, spans};
use tracing::{Dispatch, info, info_span};
use tracing_subscriber::layer::SubscriberExt;

use crate::map::setup::{attributes, lines, mapped, named};
use crate::support::{LineExt, Recording, Trace};

const TOKEN: &str = "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";

fn with_context() -> Recording {
    Recording::with(|builder| builder.context(true))
}

fn tracer() -> SdkTracer {
    let provider = SdkTracerProvider::builder()
        .with_span_processor(LedgerProcessor::new())
        .build();
    provider.tracer("database")
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn api_span_is_recorded_in_its_session() {
    let recording = with_context();
    let linked = SpanContext::new(
        7.into(),
        9.into(),
        Default::default(),
        true,
        Default::default(),
    );
    let own = recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let _tool = spans::tool_call("sql", "c1").start().entered();
        let builder = tracer()
            .span_builder("SELECT")
            .with_kind(SpanKind::Client)
            .with_start_time(at(1_000))
            .with_links(vec![Link::new(
                linked,
                vec![KeyValue::new("why", "retry")],
                0,
            )])
            .with_attributes([KeyValue::new("db.system.name", "sqlite")]);
        let mut span = tracer().build_with_context(builder, &Context::current());
        span.set_attribute(KeyValue::new("db.rows", 3));
        span.add_event_with_timestamp("first row", at(1_001), vec![KeyValue::new("n", 1)]);
        span.set_status(Status::error("disk gone"));
        span.end_with_timestamp(at(1_002));
        span.span_context().clone()
    });
    let trace = recording.trace();
    let tool = trace.one("tool_call");
    let (open, close) = (trace.one("span_start"), trace.one("span_end"));
    for line in [open, close] {
        assert_eq!(line.session_id, "s");
        assert_eq!(line.turn, Some(1));
        assert_eq!(line.trace_id, tool.trace_id);
        assert_eq!(line.span_id, Some(own.span_id().to_string()));
        assert_eq!(line.parent_span_id, tool.span_id);
        assert_eq!(line.text("name"), "SELECT");
        assert_eq!(line.text("target"), "database");
        assert_eq!(line.text("span_kind"), "client");
        assert_eq!(line.get("fields")["db.system.name"], "sqlite");
    }
    assert_eq!(close.get("fields")["db.rows"], 3);
    assert_eq!(close.get("duration_ns"), 2_000_000_000_u64);
    assert_eq!(close.text("outcome"), "error");
    assert_eq!(close.text("error.message"), "disk gone");
    // And is sent as what it is.
    let policy = json!({"error_text": true});
    let spans = mapped(&lines(recording.dir.path()), Some(&policy));
    let span = named(&spans, "SELECT");
    assert_eq!(span.trace_id, own.trace_id().to_bytes());
    assert_eq!(span.span_id, own.span_id().to_bytes());
    assert_eq!(
        span.parent_span_id,
        named(&spans, "execute_tool sql").span_id
    );
    assert_eq!(span.kind, OtlpKind::Client as i32);
    assert_eq!(span.start_time_unix_nano, 1_000_000_000_000);
    assert_eq!(span.end_time_unix_nano, 1_002_000_000_000);
    let sent = attributes(&span.attributes);
    assert_eq!(sent["db.system.name"], "sqlite");
    assert_eq!(sent["db.rows"], 3);
    assert_eq!(span.status.as_ref().unwrap().message, "disk gone");
    assert_eq!(span.events[0].name, "first row");
    assert_eq!(span.events[0].time_unix_nano, 1_001_000_000_000);
    assert_eq!(attributes(&span.events[0].attributes), json!({"n": 1}));
    assert_eq!(span.links[0].span_id, 9_u64.to_be_bytes());
    assert_eq!(
        attributes(&span.links[0].attributes),
        json!({"why": "retry"})
    );
}

#[test]
fn nested_api_spans_keep_parents() {
    let recording = with_context();
    let tracer = tracer();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        tracer.in_span("outer", |_| tracer.in_span("inner", |_| ()));
    });
    let trace = recording.trace();
    let run = trace.one("session_end");
    let (outer, inner) = (
        trace.find("span_end", "name", "outer"),
        trace.find("span_end", "name", "inner"),
    );
    assert_eq!(outer.parent_span_id, run.span_id);
    assert_eq!(inner.parent_span_id, outer.span_id);
    assert_eq!(inner.trace_id, run.trace_id);
    assert_eq!(inner.get("late"), &json!(null));
}

#[test]
fn api_spans_are_redacted() {
    let recording = with_context();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let secret = |what: &str| format!("{what} {TOKEN}");
        let mut span = tracer().start(secret("name"));
        span.set_attribute(KeyValue::new("attribute", secret("attribute")));
        span.set_attribute(KeyValue::new(TOKEN, "key"));
        span.add_event(secret("event"), vec![KeyValue::new("a", secret("event"))]);
        let other = SpanContext::new(
            7.into(),
            9.into(),
            Default::default(),
            true,
            Default::default(),
        );
        span.add_link(other, vec![KeyValue::new("l", secret("link"))]);
        span.set_status(Status::error(secret("status")));
        span.end();
    });
    let trace = recording.trace();
    let close = trace.one("span_end");
    assert!(close.text("name").starts_with("name [masked"));
    assert!(close.text("error.message").starts_with("status [masked"));
    let bytes = String::from_utf8(trace.bytes()).unwrap();
    assert!(!bytes.contains(TOKEN));
    assert!(bytes.matches("[masked").count() >= 7);
}

#[test]
fn api_spans_outside_sessions_are_ignored() {
    let recording = with_context();
    recording.run(|| tracer().in_span("alone", |_| ()));
    assert_eq!(recording.trace().lines().count(), 0);
}

#[test]
fn api_span_ending_after_its_session_is_recorded() {
    let recording = with_context();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let span = run.in_scope(|| tracer().start("slow"));
        run.finish(spanledger::Outcome::Ok);
        drop(run);
        drop(span);
    });
    let trace = recording.trace();
    assert_eq!(trace.session("s").last().unwrap().kind, "span_end");
}

#[test]
fn api_span_open_at_a_crash_is_interrupted() {
    let recording = with_context();
    let next = recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let builder = tracer().span_builder("SELECT").with_kind(SpanKind::Client);
        let _span = tracer().build_with_context(builder, &Context::current());
        recording.copy_as_crashed()
    });
    let next = Recording::again(next);
    assert_eq!(next.handle().session("s").recover(), 2);
    let spans = mapped(&lines(next.dir.path()), None);
    assert_eq!(named(&spans, "SELECT").kind, OtlpKind::Client as i32);
}

#[test]
fn bundled_layer_records_user_tracing_spans() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = spanledger::builder()
        .root(dir.path())
        .context(true)
        .build()
        .unwrap();
    let dispatch = Dispatch::new(
        tracing_subscriber::registry()
            .with(layer)
            .with(tracing_layer()),
    );
    tracing::dispatcher::with_default(&dispatch, || {
        let _run = spans::session_run("s", "planner").start().entered();
        let tool = spans::tool_call("read", "c1")
            .args(json!({"path": "hidden"}))
            .start();
        let _tool = tool.enter();
        let load = info_span!("load", path = "agent.toml", otel.kind = "client");
        load.in_scope(|| {
            info!(lines = 3, "loaded");
            drop(info_span!("parse").entered());
        });
        drop(load);
        guard.check().unwrap();
    });
    let trace = Trace::read(dir.path());
    let tool = trace.one("tool_result");
    let load = trace.find("span_end", "name", "load");
    assert_eq!(load.parent_span_id, tool.span_id);
    assert_eq!(load.trace_id, tool.trace_id);
    assert_eq!(load.get("span_kind"), "client");
    assert_eq!(load.get("events")[0]["name"], "loaded");
    assert_eq!(load.get("events")[0]["attributes"]["lines"], 3);
    assert_eq!(load.get("fields")["path"], "agent.toml");
    let noise = ["code.file.path", "thread.id", "busy_ns", "target"];
    for name in noise {
        assert_eq!(load.get("fields").get(name), None, "{name}");
    }
    let parse = trace.find("span_end", "name", "parse");
    assert_eq!(parse.parent_span_id, load.span_id);
    // Agent spans have their own lines and no others, and their content is nowhere else.
    assert_eq!(trace.all("span_end").len(), 2);
    let spans = mapped(&lines(dir.path()), None);
    assert_eq!(spans.len(), 4);
    let text = String::from_utf8(trace.bytes()).unwrap();
    assert_eq!(
        text.matches("hidden").count(),
        2,
        "the tool's own two lines"
    );
    assert!(!Context::current().span().span_context().is_valid());
    assert_eq!(tool.get("attributes"), &json!(null));
    let _ = tracing::Span::none().session();
}
