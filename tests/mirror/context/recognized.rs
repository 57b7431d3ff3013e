//! Recognized spans: which traces they belong to, and which other layers export them.

use std::collections::BTreeSet;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use serde_json::json;
use spanledger::mirror::otlp::Span as Sent;
use spanledger::otel::NotAgentSpans;
use spanledger::trace::Line;
use spanledger::{Builder, Rule, otel, spans};
use tracing::field::Empty;
use tracing::info_span;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::map::setup::{lines, mapped};
use crate::support::rig_spans::{call, execute_tool, invoke_agent, text, tool};
use crate::support::{LineExt, Recording, Trace};

const HOUR: Duration = Duration::from_secs(3600);

/// Two calls, and a tool with something in it after each.
fn two_turns() {
    two_turns_after(|| {});
}

/// The same after something else in the same run.
fn two_turns_after(first: impl FnOnce()) {
    let _agent = invoke_agent("adder").entered();
    first();
    for id in ["c1", "c2"] {
        call(&[text("user", "What is 1 + 1?")], Some("I'll add."));
        tool("add", id);
        let _waits = execute_tool().entered();
        drop(info_span!("plan", gen_ai.operation.name = "plan"));
    }
}

/// A tool call that alone, by its two lines, is longer than [`LIMIT`].
fn long_call() {
    let args = "x".repeat(LIMIT as usize / 2);
    drop(spans::tool_call("write", "long").args(args).start());
}

/// Room for all spans of a turn, but not for [`long_call`].
const LIMIT: u64 = 20_000;

fn limited(bytes: u64) -> impl FnOnce(Builder) -> Builder {
    move |builder| builder.trace_limits(bytes, HOUR)
}

fn link_to(run: &Line) -> serde_json::Value {
    json!([{"trace_id": run.trace_id, "span_id": run.span_id}])
}

/// The sent spans of a session. Asserts that every parent was sent too.
fn sent(recording: &Recording) -> Vec<Sent> {
    let spans = mapped(&lines(recording.dir.path()), None);
    for span in &spans {
        let parent =
            |other: &Sent| other.span_id == span.parent_span_id && other.trace_id == span.trace_id;
        let hangs = span.parent_span_id.is_empty() || spans.iter().any(parent);
        assert!(hangs, "{span:?}");
    }
    spans
}

#[test]
fn long_trace_continues_with_each_synthetic_turn() {
    let recording = Recording::with(limited(LIMIT));
    recording.run(|| two_turns_after(long_call));
    let trace = recording.trace();
    let run = trace.one("session_end");
    let mut seen = BTreeSet::from([run.trace_id.clone()]);
    for (turn, model) in trace.all("turn_end").iter().zip(trace.all("model_result")) {
        assert!(seen.insert(turn.trace_id.clone()), "a trace of its own");
        assert_eq!(turn.parent_span_id, None);
        assert_eq!(turn.get("links"), &link_to(run));
        // Children of the run are linked to it.
        let inside = trace.all("tool_result").into_iter();
        let inside = inside.filter(|line| line.turn == turn.turn);
        let inside: Vec<_> = inside.chain([model]).collect();
        assert_eq!(inside.len(), 3);
        for line in inside {
            assert_eq!((line.turn, &line.trace_id), (turn.turn, &turn.trace_id));
            assert_eq!(line.parent_span_id, None);
            assert_eq!(line.get("links"), &link_to(run));
        }
        // Children of other spans keep their parents.
        let mut plans = trace.all("span_end").into_iter();
        let plan = plans.find(|line| line.turn == turn.turn).unwrap();
        assert_eq!(plan.trace_id, turn.trace_id);
        assert!(plan.parent_span_id.is_some());
    }
    assert_eq!(seen.len(), 3);
    assert_eq!(sent(&recording).len(), 2 + 2 * 4, "all but the turns");
    assert_eq!(recording.guard.health().failed, 0);
}

#[test]
fn turn_at_the_limit_continues_with_the_next_call() {
    let recording = Recording::with(limited(12_000));
    recording.run(|| {
        let _agent = invoke_agent("adder").entered();
        call(&[text("user", &"x".repeat(6_000))], Some("I'll add."));
        // Text of others counts for nothing here: only spans are sent.
        let long = "y".repeat(12_000);
        let tool = execute_tool();
        tool.record("gen_ai.tool.call.arguments", long.as_str());
        drop(tool);
        drop(execute_tool());
        call(&[text("user", "again")], Some("I'll add."));
    });
    let trace = recording.trace();
    let run = trace.one("session_end");
    let tools = trace.all("tool_result");
    assert_eq!(tools[0].parent_span_id, run.span_id);
    assert_eq!(tools[0].trace_id, run.trace_id);
    assert_eq!(tools[1].turn, tools[0].turn);
    assert_ne!(tools[1].trace_id, run.trace_id);
    assert_eq!(tools[1].get("links"), &link_to(run));
    let models = trace.all("model_result");
    assert_eq!(models[0].trace_id, run.trace_id);
    assert_ne!(models[1].trace_id, run.trace_id);
    sent(&recording);
}

#[test]
fn retried_call_stays_in_the_first_trace() {
    let recording = Recording::with(limited(LIMIT));
    recording.run(|| {
        let _agent = invoke_agent("adder").entered();
        long_call();
        call(&[text("user", "1 + 1?")], None);
        call(&[text("user", "1 + 1?")], Some("2"));
    });
    let trace = recording.trace();
    let turn = trace.one("turn_end");
    for call in trace.all("model_result") {
        assert_eq!(call.trace_id, turn.trace_id);
    }
}

#[test]
fn calls_in_an_explicit_turn_stay_in_its_trace() {
    let recording = Recording::with(limited(LIMIT));
    recording.run(|| {
        let _run = spans::session_run("s", "host").start().entered();
        long_call();
        let _turn = spans::session_turn().start().entered();
        call(&[text("user", "1 + 1?")], Some("2"));
        let agent = info_span!("invoke_agent", gen_ai.operation.name = "invoke_agent");
        let _agent = agent.enter();
        call(&[text("user", "2 + 2?")], Some("4"));
    });
    let trace = recording.trace();
    let turn = trace.one("turn_end");
    let run = trace.one("session_resume");
    let calls = trace.all("model_result");
    for (call, parent) in calls.iter().zip([turn, run]) {
        assert_eq!(call.trace_id, turn.trace_id);
        assert_eq!(call.parent_span_id, parent.span_id);
        assert_eq!(call.turn, turn.turn);
    }
}

#[test]
fn synthetic_turns_of_several_traces_are_one_session() {
    use spanledger::session::Turns;
    use spanledger::trace::RawLine;
    let recording = Recording::with(limited(0));
    recording.run(two_turns);
    let mut turns = Turns::default();
    for line in lines(recording.dir.path()) {
        turns.take(&RawLine::parse(&line).unwrap());
    }
    let turns = turns.finish();
    let turns = turns.iter().filter(|turn| turn.index.is_some());
    let of_turn = turns.map(|turn| {
        let spans = turn.nodes.iter().map(|node| node.kind_name());
        let spans = spans.filter(|kind| matches!(*kind, "model_call" | "tool_call" | "span_start"));
        spans.collect::<Vec<_>>()
    });
    let each = ["model_call", "tool_call", "tool_call", "span_start"];
    assert_eq!(of_turn.collect::<Vec<_>>(), [each, each]);
}

#[test]
fn shortened_synthetic_turn_is_not_sent() {
    let recording = Recording::new();
    let in_the_way = recording.dir.path().join("sessions/s");
    std::fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
    std::fs::write(&in_the_way, "").unwrap();
    recording.run(|| {
        let agent = info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = "s"
        );
        let _agent = agent.enter();
        call(&[text("user", "1 + 1?")], Some("2"));
        call(&[text("user", "2 + 2?")], Some("4"));
        std::fs::remove_file(&in_the_way).unwrap();
        assert_eq!(recording.handle().flush(), 0);
    });
    let trace = recording.trace();
    let short = trace.all("turn_end")[0];
    assert_eq!(short.get("late"), true);
    assert_eq!(short.get("synthetic"), true);
    let names: BTreeSet<_> = sent(&recording).into_iter().map(|span| span.name).collect();
    assert!(!names.contains("session.turn"), "{names:?}");
}

#[test]
fn late_operation_makes_the_span_current() {
    let recording = Recording::with(|builder| builder.context(true));
    let current = || {
        Context::current()
            .span()
            .span_context()
            .span_id()
            .to_string()
    };
    recording.run(|| {
        let _run = spans::session_run("s", "host").start().entered();
        let before = current();
        {
            let work = info_span!("work", gen_ai.operation.name = Empty);
            let _in_work = work.enter();
            assert_eq!(current(), before);
            work.record("gen_ai.operation.name", "execute_tool");
            let opened = recording.trace().one("tool_call").span_id.clone();
            assert_eq!(Some(current()), opened);
        }
        assert_eq!(current(), before);
    });
}

/// The spans that a `tracing-opentelemetry` layer with this filter exports, and those of the trace.
fn beside(
    configure: impl FnOnce(Builder) -> Builder,
    filter: NotAgentSpans,
) -> (BTreeSet<String>, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let builder = spanledger::builder().root(dir.path()).context(true);
    let (layer, guard) = configure(builder).build().unwrap();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let neighbour = tracing_opentelemetry::layer().with_tracer(provider.tracer("user"));
    let subscriber = tracing_subscriber::registry()
        .with(layer)
        .with(neighbour.with_filter(filter));
    tracing::subscriber::with_default(subscriber, || {
        let _agent = invoke_agent("adder").entered();
        let _query = info_span!("agent.query").entered();
        let _load = info_span!("load").entered();
        tool("add", "c1");
    });
    guard.shutdown().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let names = spans.into_iter().map(|span| span.name.into_owned());
    (names.collect(), Trace::read(dir.path()))
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn recognized_span_is_not_exported_twice() {
    let (exported, trace) = beside(|builder| builder, otel::not_agent_spans());
    assert_eq!(exported, names(["agent.query", "load"]));
    assert_eq!(trace.all("tool_result").len(), 1);
}

#[test]
fn rule_recognized_span_can_be_hidden() {
    let rule = || Rule::turn("agent.query");
    let (exported, trace) = beside(
        |builder| builder.recognize(rule()),
        otel::not_agent_spans().recognize(rule()),
    );
    assert_eq!(exported, names(["load"]));
    assert_eq!(trace.all("turn_end").len(), 1);
}

#[test]
fn unrecognized_span_is_left_to_the_layer() {
    let (exported, trace) = beside(
        |builder| builder.recognize_gen_ai(false),
        otel::not_agent_spans().recognize_gen_ai(false),
    );
    let all = ["agent.query", "execute_tool", "invoke_agent", "load"];
    assert_eq!(exported, names(all));
    assert_eq!(trace.sessions.len(), 0);
}
