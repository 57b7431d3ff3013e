//! OpenTelemetry spans of the user inside agent spans, with a caller around them, in the real
//! Jaeger and Tempo.
//! and Tempo.

use std::path::Path;

use opentelemetry::trace::{Tracer, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::trace::SdkTracerProvider;
use spanledger::mirror::{Otlp, Protocol};
use spanledger::otel::{LedgerProcessor, not_agent_spans};
use spanledger::{Outcome, SpanExt, spans};
use tracing::info_span;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::support::backends::{Collector, Held, Jaeger, Tempo};
use crate::support::child;
use crate::support::cli;

const CALLER_SPAN: &str = "b7ad6b7169203331";
const ROOT: &str = "SPANLEDGER_TEST_ROOT";
const COLLECTOR: &str = "SPANLEDGER_TEST_COLLECTOR";

/// The agent: a run and a tool of ours, in which a `tracing` span and a span of the API are.
fn agent(root: &Path, endpoint: &str, provider: &SdkTracerProvider) {
    let otlp = Otlp::new().endpoint(endpoint).protocol(Protocol::Grpc);
    let builder = spanledger::builder().root(root).otlp(otlp);
    let patient = std::time::Duration::from_secs(60);
    let (layer, guard) = builder.shutdown_timeout(patient).build().unwrap();
    let neighbour = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("user"))
        .with_filter(not_agent_spans());
    let subscriber = tracing_subscriber::registry().with(layer).with(neighbour);
    tracing::subscriber::with_default(subscriber, || {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            let tool = spans::tool_call("bash", "call_1").start();
            tool.in_scope(|| {
                let _load = info_span!("load").entered();
                drop(provider.tracer("user").start("SELECT"));
            });
            tool.finish(Outcome::Ok);
        });
        run.finish(Outcome::Ok);
    });
    provider.shutdown().unwrap();
    guard.shutdown().unwrap();
}

/// Runs this test once more in a process that was started inside a span of `trace`.
fn call(root: &Path, endpoint: &str, trace: &str) {
    let done = child::calling_test()
        .env("TRACEPARENT", format!("00-{trace}-{CALLER_SPAN}-01"))
        .env(ROOT, root)
        .env(COLLECTOR, endpoint)
        .output();
    assert!(done.unwrap().status.success());
}

/// Each span is there once and lies in the one before it, the first in the caller's.
#[track_caller]
fn assert_nested(held: &[Held]) {
    let names = [
        "invoke_agent planner",
        "execute_tool bash",
        "load",
        "SELECT",
    ];
    assert_eq!(held.len(), names.len(), "{held:?}");
    let mut parent = CALLER_SPAN;
    for name in names {
        let span = held.iter().find(|span| span.name == name);
        let span = span.unwrap_or_else(|| panic!("no {name}: {held:?}"));
        assert_eq!(span.parent_id, parent, "{name}");
        parent = &span.span_id;
    }
}

#[test]
fn user_spans_nest_in_agent_and_caller_spans() {
    if let Some(root) = std::env::var_os(ROOT) {
        let endpoint = std::env::var(COLLECTOR).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let _within = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic();
        let exporter = exporter.with_endpoint(&endpoint).build().unwrap();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
        return agent(root.as_ref(), &endpoint, &provider.build());
    }
    let Some(collector) = Collector::shared() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    call(root.path(), &collector.grpc, trace);
    assert_nested(&Jaeger::shared().unwrap().whole(trace, 4));
    assert_nested(&Tempo::shared().unwrap().whole(trace, 4));
}

#[test]
fn recorded_user_spans_nest_and_verify() {
    if let Some(root) = std::env::var_os(ROOT) {
        let endpoint = std::env::var(COLLECTOR).unwrap();
        let provider = SdkTracerProvider::builder().with_span_processor(LedgerProcessor::new());
        return agent(root.as_ref(), &endpoint, &provider.build());
    }
    let Some(collector) = Collector::shared() else {
        return;
    };
    let (jaeger, tempo) = (Jaeger::shared().unwrap(), Tempo::shared().unwrap());
    let root = tempfile::tempdir().unwrap();
    let trace = "1bf7651916cd43dd8448eb211c80319c";
    call(root.path(), &collector.grpc, trace);
    assert_nested(&jaeger.whole(trace, 4));
    assert_nested(&tempo.whole(trace, 4));
    for (backend, url) in [("--jaeger", &jaeger.url), ("--tempo", &tempo.url)] {
        let args = ["verify", backend, url, "--wait", "60s", "--json"];
        let done = cli::run(root.path(), &args);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(done.json()["same"], 4);
    }
}
