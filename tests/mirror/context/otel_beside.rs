//! OpenTelemetry spans of the user that are exported beside ours.

use opentelemetry::Context;
use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracer, SdkTracerProvider, SpanData};
use spanledger::trace::Line;
use spanledger::{Guard, LedgerLayer, SpanExt, otel, spans};
use tempfile::TempDir;
use tracing::{Dispatch, Subscriber, info_span};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::{Recording, Trace};

/// A ledger, and a `tracing-opentelemetry` layer that exports to memory.
struct Beside {
    dispatch: Dispatch,
    guard: Guard,
    dir: TempDir,
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
}

/// How the two layers are combined.
enum Way {
    Filtered,
    FilteredBelowOurs,
}

fn theirs<S>(provider: &SdkTracerProvider) -> OpenTelemetryLayer<S, SdkTracer>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer().with_tracer(provider.tracer("user"))
}

fn ours<S>(dir: &TempDir) -> (LedgerLayer<S>, Guard)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let builder = spanledger::builder().root(dir.path()).context(true);
    builder.build().unwrap()
}

fn beside(way: Way) -> Beside {
    let dir = tempfile::tempdir().unwrap();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let registry = tracing_subscriber::registry();
    let filter = otel::not_agent_spans();
    let (dispatch, guard) = match way {
        Way::Filtered => {
            let (layer, guard) = ours(&dir);
            let theirs = theirs(&provider).with_filter(filter);
            (Dispatch::new(registry.with(layer).with(theirs)), guard)
        }
        Way::FilteredBelowOurs => {
            let (layer, guard) = ours(&dir);
            let theirs = theirs(&provider).with_filter(filter);
            (Dispatch::new(registry.with(theirs).with(layer)), guard)
        }
    };
    Beside {
        dispatch,
        guard,
        dir,
        exporter,
        _provider: provider,
    }
}

impl Beside {
    fn run<T>(&self, agent: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch, agent)
    }

    fn exported(&self, name: &str) -> SpanData {
        let spans = self.exporter.get_finished_spans().unwrap();
        let mut found = spans.into_iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("no span {name:?}"));
        assert!(found.next().is_none(), "{name:?} was exported twice");
        span
    }
}

#[track_caller]
fn assert_child(child: &SpanData, parent: &Line) {
    let trace = child.span_context.trace_id().to_string();
    assert_eq!(Some(trace), parent.trace_id, "{}", child.name);
    let span = child.parent_span_id.to_string();
    assert_eq!(Some(span), parent.span_id, "{}", child.name);
}

#[track_caller]
fn assert_hangs_from(child: &Line, parent: &SpanData) {
    let context = &parent.span_context;
    assert_eq!(child.trace_id, Some(context.trace_id().to_string()));
    assert_eq!(child.parent_span_id, Some(context.span_id().to_string()));
}

#[test]
fn tracing_opentelemetry_spans_nest_with_agent_spans() {
    for way in [Way::Filtered, Way::FilteredBelowOurs] {
        let beside = beside(way);
        beside.run(|| {
            let _request = info_span!("request").entered();
            let _run = spans::session_run("s", "planner").start().entered();
            let _load = info_span!("load").entered();
            let _parse = info_span!("parse").entered();
            let _tool = spans::tool_call("bash", "c1").start().entered();
            drop(info_span!("spawn").entered());
        });
        let trace = Trace::read(beside.dir.path());
        let run = trace.one("session_end");
        assert_hangs_from(run, &beside.exported("request"));
        assert_child(&beside.exported("load"), run);
        let load = beside.exported("load").span_context;
        assert_eq!(beside.exported("parse").parent_span_id, load.span_id());
        assert_child(&beside.exported("spawn"), trace.one("tool_result"));
        // Agent spans are not among them.
        let count = beside.exporter.get_finished_spans().unwrap().len();
        assert_eq!(count, 4);
        beside.run(|| beside.guard.check()).unwrap();
    }
}

#[test]
fn api_spans_nest_in_agent_spans() {
    let recording = Recording::with(|builder| builder.context(true));
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let tracer = provider.tracer("user");
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _tool = spans::tool_call("bash", "c1").start().entered();
        tracer.in_span("query", |context| {
            assert!(context.span().span_context().is_valid());
            drop(tracer.start("row"));
        });
    });
    let trace = recording.trace();
    let finished = exporter.get_finished_spans().unwrap();
    let of = |name: &str| finished.iter().find(|span| span.name == name).unwrap();
    assert_child(of("query"), trace.one("tool_result"));
    assert_eq!(of("row").parent_span_id, of("query").span_context.span_id());
}

#[test]
fn explicit_parent_gets_the_agent_context() {
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    let beside = beside(Way::Filtered);
    beside.run(|| {
        let run = spans::session_run("s", "planner").start();
        let span = info_span!("elsewhere");
        span.set_parent(run.otel_context()).unwrap();
        span.in_scope(|| ());
    });
    let trace = Trace::read(beside.dir.path());
    assert_child(&beside.exported("elsewhere"), trace.one("session_end"));
}

#[test]
fn recorded_spans_can_be_hidden_from_the_layer() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, _guard) = spanledger::builder()
        .root(dir.path())
        .context(true)
        .record_spans(|meta| meta.name() == "chosen")
        .build()
        .unwrap();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let filter = otel::not_agent_spans().nor(|meta| meta.name() == "chosen");
    let neighbour = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("user"))
        .with_filter(filter);
    let subscriber = tracing_subscriber::registry().with(layer).with(neighbour);
    tracing::subscriber::with_default(subscriber, || {
        let _run = spans::session_run("s", "planner").start().entered();
        let _chosen = info_span!("chosen").entered();
        drop(info_span!("other").entered());
    });
    let trace = Trace::read(dir.path());
    let finished = exporter.get_finished_spans().unwrap();
    assert_eq!(finished.len(), 1);
    assert_child(&finished[0], trace.one("span_end"));
    assert!(!Context::current().span().span_context().is_valid());
}
