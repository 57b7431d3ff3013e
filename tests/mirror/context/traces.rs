//! Which traces are sampled, and what a resumed session links to.

use opentelemetry::trace::{Link, SpanKind, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};
use serde_json::{Value, json};
use spanledger::trace::Line;
use spanledger::{Outcome, SpanExt, spans};

use crate::map::setup::{lines, mapped};
use crate::support::child::with_env;
use crate::support::{LineExt, Recording, Trace};

pub const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn agent() {
    let run = spans::session_run("s", "planner").start();
    let _run = run.enter();
    let _turn = spans::session_turn().start().entered();
    let tool = spans::tool_call("bash", "c1").start();
    tool.in_scope(|| drop(spans::session_run("sub", "helper").start()));
    tool.record_result("done");
    tool.finish(Outcome::Ok);
}

/// The lines that open or close a span.
pub fn of_spans(trace: &Trace) -> impl Iterator<Item = &Line> {
    trace
        .lines()
        .filter(|line| line.payload.contains_key("start"))
}

#[test]
fn unsampled_trace_is_recorded_and_not_sent() {
    let recording = Recording::with(|builder| builder.sampler(Sampler::AlwaysOff));
    let context = recording.run(|| {
        agent();
        let run = spans::session_run("other", "planner").start();
        run.remote_context().unwrap()
    });
    assert!(!context.sampled());
    assert!(context.traceparent().ends_with("-00"));
    let trace = recording.trace();
    assert_eq!(of_spans(&trace).count(), 10);
    for line in of_spans(&trace) {
        assert_eq!(line.get("sampled"), false, "{line:?}");
    }
    assert_eq!(trace.one("tool_result").get("result"), "done");
    assert_eq!(mapped(&lines(recording.dir.path()), None), []);
}

#[test]
fn sampled_trace_has_no_marker() {
    let recording = Recording::with(|builder| builder.sampler(Sampler::AlwaysOn));
    recording.run(agent);
    let trace = recording.trace();
    for line in of_spans(&trace) {
        assert_eq!(line.get("sampled"), &Value::Null, "{line:?}");
    }
    assert_eq!(mapped(&lines(recording.dir.path()), None).len(), 4);
}

#[test]
fn environment_sampler_decides() {
    let variables = [
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0"),
    ];
    with_env(&variables, || {
        let recording = Recording::new();
        recording.run(agent);
        assert_eq!(recording.trace().one("tool_result").get("sampled"), false);
        let recording = Recording::with(|builder| builder.sampler(Sampler::AlwaysOn));
        recording.run(agent);
        assert_eq!(
            recording.trace().one("tool_result").get("sampled"),
            &Value::Null
        );
    });
}

#[test]
fn caller_decides_by_default() {
    let recording = Recording::new();
    recording.run(|| {
        let caller = UNSAMPLED.parse().unwrap();
        drop(spans::session_run("s", "planner").parent(caller).start());
        drop(spans::session_run("t", "planner").start());
    });
    let trace = recording.trace();
    let sampled = |id: &str| trace.find("session_end", "session_id", id).get("sampled");
    assert_eq!(sampled("s"), false);
    assert_eq!(sampled("t"), &Value::Null);
}

/// Samples one session, and sets the tracestate.
#[derive(Clone, Debug)]
struct OneSession;

impl ShouldSample for OneSession {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        _: TraceId,
        _: &str,
        _: &SpanKind,
        attributes: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        assert!(parent.is_none());
        let wanted = KeyValue::new("gen_ai.conversation.id", "wanted");
        SamplingResult {
            decision: if attributes.contains(&wanted) {
                SamplingDecision::RecordAndSample
            } else {
                SamplingDecision::RecordOnly
            },
            attributes: Vec::new(),
            trace_state: TraceState::from_key_value([("chosen", "1")]).unwrap(),
        }
    }
}

#[test]
fn custom_sampler_sees_session_and_sets_tracestate() {
    let recording = Recording::with(|builder| builder.sampler(OneSession));
    recording.run(|| {
        drop(spans::session_run("wanted", "planner").start());
        drop(spans::session_run("other", "planner").start());
    });
    let trace = recording.trace();
    let end = |id: &str| trace.find("session_end", "session_id", id);
    assert_eq!(end("wanted").get("sampled"), &Value::Null);
    assert_eq!(end("wanted").get("tracestate"), "chosen=1");
    assert_eq!(end("other").get("sampled"), false);
}

#[test]
fn interrupted_unsampled_span_is_not_sent() {
    let recording = Recording::new();
    let next = recording.run(|| {
        let caller = UNSAMPLED.parse::<spanledger::RemoteContext>().unwrap();
        let caller = caller.with_tracestate("vendor=1");
        let _run = spans::session_run("s", "planner").parent(caller).start();
        recording.copy_as_crashed()
    });
    let next = Recording::again(next);
    assert_eq!(next.handle().session("s").recover(), 1);
    let trace = next.trace();
    let interrupted = trace.one("interrupted");
    assert_eq!(interrupted.get("sampled"), false);
    assert_eq!(interrupted.get("tracestate"), "vendor=1");
    assert_eq!(interrupted.get("parent_remote"), true);
    assert_eq!(mapped(&lines(next.dir.path()), None), []);
}

#[test]
fn resumed_session_links_to_its_last_trace() {
    let recording = Recording::new();
    recording.run(|| {
        drop(spans::session_run("s", "planner").start());
        drop(spans::session_run("s", "planner").start());
    });
    let recording = Recording::again(recording.end());
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    let trace = recording.trace();
    let ends = trace.all("session_end");
    assert_eq!(ends[0].get("links"), &Value::Null);
    for (before, after) in [(ends[0], ends[1]), (ends[1], ends[2])] {
        assert_ne!(before.trace_id, after.trace_id);
        assert_eq!(after.parent_span_id, None);
        let link = json!([{"trace_id": before.trace_id, "span_id": before.span_id}]);
        assert_eq!(after.get("links"), &link);
    }
    let opens = trace.all("session_resume");
    assert_eq!(opens[1].get("links"), ends[2].get("links"));
}

#[test]
fn resume_after_megabytes_finds_the_last_run() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let _run = run.enter();
        // Far enough that the start lies before the last checkpoint.
        for n in 0..400 {
            let tool = spans::tool_call("write", format!("c{n}"));
            drop(tool.args("x".repeat(12_000)).start());
        }
    });
    let recording = Recording::again(recording.end());
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    let trace = recording.trace();
    assert!(!trace.all("checkpoint").is_empty());
    let first = trace.one("session_start");
    let link = json!([{"trace_id": first.trace_id, "span_id": first.span_id}]);
    assert_eq!(trace.one("session_resume").get("links"), &link);
}

#[test]
fn nested_run_of_a_session_has_no_link() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::session_run("s", "helper").start());
    });
    let trace = recording.trace();
    for end in trace.all("session_end") {
        assert_eq!(end.get("links"), &Value::Null);
    }
}

#[test]
fn shortened_line_of_unsampled_trace_is_not_sent() {
    let recording = Recording::with(|builder| builder.sampler(Sampler::AlwaysOff));
    let in_the_way = recording.dir.path().join("sessions/s");
    std::fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
    std::fs::write(&in_the_way, "").unwrap();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::tool_call("bash", "c1").start());
        std::fs::remove_file(&in_the_way).unwrap();
        assert_eq!(recording.handle().flush(), 0);
    });
    let trace = recording.trace();
    for kind in ["tool_result", "session_start", "session_end"] {
        assert_eq!(trace.one(kind).get("sampled"), false, "{kind}");
    }
    assert_eq!(trace.one("tool_result").get("late"), true);
    assert_eq!(mapped(&lines(recording.dir.path()), None), []);
}
