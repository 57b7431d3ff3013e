//! Beside other layers: filters don't affect each other, and other layers see no content.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use serde_json::{Value, json};
use spanledger::{Failure, FutureExt, Outcome, SpanExt, Usage, events, spans};
use tracing::{Dispatch, Subscriber, debug, debug_span, info, info_span, trace_span, warn};
#[cfg(feature = "mirror")]
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, fmt};

use crate::support::{Recording, Trace};

/// What a `fmt` layer printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Printed {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A `fmt` layer that prints all it can see, without times.
fn printer<S>(to: &Printed) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fmt::layer()
        .with_writer(to.clone())
        .with_ansi(false)
        .without_time()
        .with_thread_ids(false)
        .with_span_events(FmtSpan::FULL)
}

/// Occurs in everything that no other layer may see.
const CONTENT: &str = "for-our-eyes-only";

/// Gives content in every way there is.
fn talkative_agent() {
    let text = |what: &str| format!("{what} {CONTENT}");
    let run = spans::session_run("s", "planner")
        .title(text("title"))
        .metadata(json!({"m": CONTENT}))
        .set("own", CONTENT)
        .start();
    let _run = run.enter();
    let turn = spans::session_turn().trigger(text("trigger")).start();
    let _turn = turn.enter();
    events::system_prompt(text("prompt")).emit();
    events::tool_catalog(json!([{"name": CONTENT}])).emit();
    events::message_user(text("user")).emit();
    let call = spans::model_call("anthropic", "sonnet")
        .params(json!({"stop": CONTENT}))
        .start();
    call.record_usage(&Usage {
        usage_details: Some(json!({"d": CONTENT})),
        ..Usage::default()
    });
    let mut out = call.stream("m1");
    for word in ["a", "b", "c", "d", CONTENT] {
        out.push(&format!("{word} "));
    }
    out.end();
    call.stream_reasoning("m1").abort(CONTENT);
    let mut input = call.stream_tool_input("c1");
    input.push(CONTENT);
    input.end();
    call.finish(Outcome::Ok);
    let tool = spans::tool_call("bash", "c1")
        .args(json!({"command": CONTENT}))
        .command(CONTENT)
        .start();
    tool.record_result(CONTENT);
    tool.record_error(&std::io::Error::other(text("error")));
    tool.set("stdout", CONTENT);
    events::custom("mine", json!({"c": CONTENT}))
        .on(&tool)
        .emit();
    let session = tool.session().unwrap();
    session.hitl_response("int_1", CONTENT);
    session.record(events::failure(&Failure::message(CONTENT)));
    drop(spans::permission_evaluate("bash").pattern(CONTENT).start());
    drop(spans::compaction_run().set("summary", CONTENT).start());
    let failing = async { Err::<(), _>(std::io::Error::other(text("future"))) };
    let failing = failing.recorded(spans::tool_call("read", "c2").start());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(failing).unwrap_err();
}

#[test]
fn fmt_layer_sees_spans_without_content() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let printed = Printed::default();
    let subscriber = tracing_subscriber::registry()
        .with(layer)
        .with(printer(&printed));
    tracing::dispatcher::with_default(&Dispatch::new(subscriber), talkative_agent);
    let text = printed.text();
    assert!(!text.contains(CONTENT), "{text}");
    for shown in [
        "session.run",
        "tool_id=\"bash\"",
        "model_id=\"sonnet\"",
        "close",
    ] {
        assert!(text.contains(shown), "{shown} is missing in {text}");
    }
    assert!(!text.contains("spanledger::hidden"));
    let trace = String::from_utf8(Trace::read(dir.path()).bytes()).unwrap();
    assert!(trace.matches(CONTENT).count() > 25);
    guard.shutdown().unwrap();
}

/// The trace has the content, and what was printed only the spans.
fn assert_kept_from(printed: &Printed, root: &Path) {
    let text = printed.text();
    assert!(text.contains("tool.call"), "{text}");
    assert!(!text.contains(CONTENT), "{text}");
    let trace = String::from_utf8(Trace::read(root).bytes()).unwrap();
    assert!(trace.matches(CONTENT).count() > 25);
}

#[test]
fn fmt_layer_above_reload_sees_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, _guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let (layer, _handle) = tracing_subscriber::reload::Layer::new(layer);
    let printed = Printed::default();
    let subscriber = tracing_subscriber::registry()
        .with(layer)
        .with(printer(&printed));
    tracing::dispatcher::with_default(&Dispatch::new(subscriber), talkative_agent);
    assert_kept_from(&printed, dir.path());
}

#[test]
fn fmt_layer_below_reload_sees_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, _guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let (layer, _handle) = tracing_subscriber::reload::Layer::new(layer);
    let printed = Printed::default();
    // It sees each event before our layer has removed the hidden content.
    let subscriber = tracing_subscriber::registry()
        .with(printer(&printed))
        .with(layer);
    tracing::dispatcher::with_default(&Dispatch::new(subscriber), talkative_agent);
    assert_kept_from(&printed, dir.path());
}

#[test]
fn opentelemetry_layer_exports_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, _guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let otel = tracing_opentelemetry::layer().with_tracer(provider.tracer("agent"));
    let subscriber = tracing_subscriber::registry().with(layer).with(otel);
    tracing::dispatcher::with_default(&Dispatch::new(subscriber), talkative_agent);
    provider.force_flush().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    for name in ["session.run", "session.turn", "model.call", "tool.call"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    let exported = format!("{spans:?}");
    assert!(!exported.contains(CONTENT), "{exported}");
}

/// Spans and events of every level, ours and others'.
fn mixed_agent() {
    let _run = spans::session_run("s", "planner").start().entered();
    let _foreign = debug_span!("deep").entered();
    let _worker = info_span!("worker", n = 1).entered();
    debug!("details");
    warn!(code = 3, "careful");
    info!(target: "spanledger::message_user", "hello");
    drop(debug_span!("tool.call", tool_id = "by macro"));
    drop(trace_span!("model.call", model_id = "deeper"));
    drop(spans::tool_call("bash", "c1").start());
}

fn recorded_beside(filter: &str) -> Vec<(String, Option<u32>, Value)> {
    let dir = tempfile::tempdir().unwrap();
    let (layer, _guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let neighbour = printer(&Printed::default()).with_filter(EnvFilter::new(filter));
    let subscriber = tracing_subscriber::registry().with(layer).with(neighbour);
    tracing::dispatcher::with_default(&Dispatch::new(subscriber), mixed_agent);
    Trace::read(dir.path()).without_run_details()
}

#[test]
fn filter_of_another_layer_does_not_affect_the_trace() {
    let alone = Recording::new();
    alone.run(mixed_agent);
    let alone = alone.trace().without_run_details();
    assert_eq!(alone.len(), 10);
    for filter in [
        "off",
        "error",
        "info",
        "trace",
        "spanledger=off",
        "neighbours[deep]=trace",
    ] {
        assert_eq!(recorded_beside(filter), alone, "beside {filter}");
    }
}

#[test]
fn our_layer_enables_nothing_for_other_layers() {
    for filter in ["off", "error", "warn,neighbours=debug", "info", "trace"] {
        let (alone, beside) = (Printed::default(), Printed::default());
        let neighbour = printer(&alone).with_filter(EnvFilter::new(filter));
        let subscriber = tracing_subscriber::registry().with(neighbour);
        tracing::dispatcher::with_default(&Dispatch::new(subscriber), mixed_agent);

        let dir = tempfile::tempdir().unwrap();
        let (layer, _guard) = spanledger::builder().root(dir.path()).build().unwrap();
        let neighbour = printer(&beside).with_filter(EnvFilter::new(filter));
        let subscriber = tracing_subscriber::registry().with(layer).with(neighbour);
        tracing::dispatcher::with_default(&Dispatch::new(subscriber), mixed_agent);
        assert_eq!(without_times(&alone), without_times(&beside), "{filter}");
    }
}

/// `FmtSpan` prints how long a span was busy and idle.
fn without_times(printed: &Printed) -> Vec<String> {
    let text = printed.text();
    let line = |line: &str| line.split(" time.busy=").next().unwrap().to_owned();
    text.lines().map(line).collect()
}

#[test]
fn check_passes_when_agent_spans_arrive() {
    let recording = Recording::new();
    recording.run(|| recording.guard.check()).unwrap();
}

/// What to do about a filter that disables more than it should.
const ADVICE: &str = "filter your fmt layer instead: `fmt::layer().with_filter(..)`";

#[test]
fn check_fails_without_the_layer() {
    let recording = Recording::new();
    let error = recording.guard.check().unwrap_err().to_string();
    assert!(error.contains("not installed"), "{error}");
    assert!(error.contains("`registry().with(layer)`"), "{error}");
    let other = Recording::new();
    let error = other
        .run(|| recording.guard.check())
        .unwrap_err()
        .to_string();
    assert!(error.contains("another ledger"), "{error}");
}

#[test]
fn check_reports_lost_events_and_cause() {
    let recording = Recording::new();
    std::fs::write(recording.dir.path().join("sessions"), "in the way").unwrap();
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    let error = recording.run(|| recording.guard.check()).unwrap_err();
    let start = "2 events could not be written to the trace in ";
    assert!(error.to_string().starts_with(start), "{error}");
    match error {
        spanledger::Error::Lost {
            events,
            root,
            cause,
        } => {
            assert_eq!(events, 2);
            assert_eq!(root, recording.dir.path());
            assert!(cause.contains("sessions is not a directory"), "{cause}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn check_fails_under_a_filter_that_disables_our_spans() {
    let dir = tempfile::tempdir().unwrap();
    for filter in ["myagent=info", "info,spanledger=off"] {
        let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
        let subscriber = tracing_subscriber::registry()
            .with(layer)
            .with(EnvFilter::new(filter));
        let checked =
            tracing::dispatcher::with_default(&Dispatch::new(subscriber), || guard.check());
        let error = checked.unwrap_err().to_string();
        let why =
            "a global filter, or one on spanledger's own layer, disables the target `spanledger`";
        assert!(error.contains(why), "{filter}: {error}");
        assert!(error.contains(ADVICE), "{filter}: {error}");
    }
}

#[test]
fn check_fails_if_our_own_layer_is_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let printed = Printed::default();
    let subscriber = tracing_subscriber::registry()
        .with(layer.with_filter(EnvFilter::new("myagent=info")))
        .with(printer(&printed));
    let checked = tracing::dispatcher::with_default(&Dispatch::new(subscriber), || guard.check());
    let error = checked.unwrap_err().to_string();
    assert!(error.contains("spanledger's own layer"), "{error}");
    assert!(error.contains(ADVICE), "{error}");
}

#[test]
fn check_fails_under_a_filter_that_keeps_only_our_target() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let subscriber = tracing_subscriber::registry()
        .with(layer)
        .with(EnvFilter::new("spanledger=info"));
    let checked = tracing::dispatcher::with_default(&Dispatch::new(subscriber), || guard.check());
    let error = checked.unwrap_err().to_string();
    assert!(error.contains("only the target `spanledger`"), "{error}");
    assert!(error.contains(ADVICE), "{error}");
}

#[test]
fn check_passes_under_a_filter_that_keeps_our_spans() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let subscriber = tracing_subscriber::registry()
        .with(layer)
        .with(EnvFilter::new("info"));
    let checked = tracing::dispatcher::with_default(&Dispatch::new(subscriber), || guard.check());
    checked.unwrap();
}

/// Before any agent span, in either order, and without sending anything itself.
#[cfg(feature = "mirror")]
#[test]
fn check_finds_an_opentelemetry_layer_that_sends_too() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(opentelemetry_sdk::trace::Sampler::AlwaysOn)
        .with_simple_exporter(exporter.clone())
        .build();
    let checked = |filtered: bool, activation: bool, above: bool, sends: bool| {
        let dir = tempfile::tempdir().unwrap();
        let otel = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("agent"))
            .with_context_activation(activation)
            .with_filter(filter_fn(move |meta| {
                !filtered || meta.target() != "spanledger"
            }))
            .boxed();
        let builder = spanledger::builder().root(dir.path()).context(!sends);
        let builder = match sends {
            true => builder.otlp_endpoint("http://127.0.0.1:9"),
            false => builder,
        };
        let (ours, guard) = builder.build().unwrap();
        let mut layers = vec![ours.boxed(), otel];
        if above {
            layers.reverse();
        }
        let subscriber = tracing_subscriber::registry().with(layers);
        let found = tracing::subscriber::with_default(subscriber, || guard.check());
        assert!(Trace::read(dir.path()).sessions.is_empty());
        found
    };
    for case in 0..8 {
        let [activation, above, sends] = [1, 2, 4].map(|bit| case & bit != 0);
        checked(true, activation, above, sends).unwrap();
        let found = checked(false, activation, above, sends).unwrap_err();
        assert!(matches!(found, spanledger::Error::SentTwice), "{found}");
        assert!(found.to_string().contains("not_agent_spans"));
    }
    let exported = exporter.get_finished_spans().unwrap();
    assert!(exported.is_empty(), "{exported:?}");
}

#[test]
fn disabled_ledger_writes_nothing() {
    let recording = Recording::with(|b| b.disabled(true));
    recording.run(talkative_agent_if_recorded);
    let session = recording.handle().session("s");
    session.title("not this");
    session.recover();
    recording.handle().flush();
    let left: Vec<_> = std::fs::read_dir(recording.dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(recording.guard.health(), spanledger::Health::default());
}

/// As an agent whose spans may have no session.
fn talkative_agent_if_recorded() {
    let run = spans::session_run("s", "planner").start();
    let _run = run.enter();
    events::message_user("hello").emit();
    let tool = spans::tool_call("bash", "c1").start();
    tool.record_result("done");
    events::artifact("plot.png").on(&tool).emit();
    let mut out = tool.stream("m1");
    out.push("some words of a message");
    out.end();
    if let Some(session) = run.session() {
        session.title("not this");
    }
    warn!("nor this");
}
