//! The layer inside other layers: boxed, in a vector, optional, behind `reload`.

use serde_json::json;
use spanledger::{Failure, Guard, Outcome, SpanExt, Usage, events, spans};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{Registry, fmt, reload};

use crate::support::{LineExt, Trace};

fn build(dir: &TempDir) -> (spanledger::LedgerLayer<Registry>, Guard) {
    let builder = spanledger::builder().root(dir.path());
    builder.build().unwrap()
}

/// Everything that has to reach the layer through the layers around it.
fn agent() {
    let run = spans::session_run("s", "planner").start();
    let in_run = run.enter();
    events::system_prompt("Be brief.").emit();
    let turn = spans::session_turn().start();
    let call = spans::model_call("anthropic", "sonnet")
        .child_of(&turn)
        .start();
    call.record_usage(&Usage {
        input_tokens: Some(10),
        ..Usage::default()
    });
    let mut out = call.stream("m1");
    out.push("Hello");
    out.end();
    call.finish(Outcome::Ok);
    let tool = spans::tool_call("bash", "c1")
        .args(json!({"command": "ls"}))
        .child_of(&turn)
        .start();
    tool.record_result(&json!({"files": 3}));
    tool.record_failure(&Failure::message("half of it"));
    tool.set("shard", 7);
    events::artifact("plot.png").on(&tool).emit();
    tool.finish(Outcome::Denied);
    let session = turn.session().unwrap();
    assert_eq!(session.id(), "s");
    session.title("Renamed");
    drop(in_run);
    turn.finish(Outcome::Ok);
    run.finish(Outcome::Ok);
}

fn assert_recorded(dir: &TempDir) {
    let trace = Trace::read(dir.path());
    assert_eq!(
        trace.kinds("s"),
        [
            "segment",
            "session_start",
            "system_prompt",
            "turn_start",
            "model_call",
            "message_delta",
            "message_assistant",
            "model_result",
            "tool_call",
            "span_update",
            "artifact",
            "tool_result",
            "session_title",
            "turn_end",
            "session_end"
        ]
    );
    assert_eq!(trace.sessions.len(), 1);
    assert_eq!(trace.one("model_result").get("usage.input_tokens"), 10);
    assert_eq!(trace.one("message_assistant").text("content"), "Hello");
    let tool = trace.one("tool_result");
    assert_eq!(tool.text("outcome"), "denied");
    assert_eq!(tool.get("args.command"), "ls");
    assert_eq!(tool.get("result.files"), 3);
    assert_eq!(tool.get("error.message"), "half of it");
    assert_eq!(tool.get("shard"), 7);
    assert_eq!(tool.parent_span_id, trace.one("turn_start").span_id);
    assert_eq!(trace.one("artifact").span_id, tool.span_id);
}

#[test]
fn boxed_layer_records_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = build(&dir);
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer.boxed()));
    tracing::dispatcher::with_default(&dispatch, || {
        guard.check().unwrap();
        agent();
    });
    assert_recorded(&dir);
}

#[test]
fn layer_in_a_vector_records_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = build(&dir);
    let layers = vec![
        fmt::layer().with_writer(std::io::sink).boxed(),
        layer.boxed(),
    ];
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layers));
    tracing::dispatcher::with_default(&dispatch, || {
        guard.check().unwrap();
        agent();
    });
    assert_recorded(&dir);
}

#[test]
fn optional_layer_records_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = build(&dir);
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(Some(layer)));
    tracing::dispatcher::with_default(&dispatch, || {
        guard.check().unwrap();
        agent();
    });
    assert_recorded(&dir);
}

#[test]
fn layer_above_another_records_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
    let below = fmt::layer().with_writer(std::io::sink);
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(below).with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        guard.check().unwrap();
        agent();
    });
    assert_recorded(&dir);
}

#[test]
fn layer_behind_reload_records_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (layer, guard) = build(&dir);
    let (layer, _handle) = reload::Layer::new(layer);
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        guard.check().unwrap();
        agent();
    });
    assert_recorded(&dir);
    assert!(guard.check().is_err());
}

#[test]
fn second_ledger_in_a_subscriber_stays_inactive() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, guard) = build(&one);
    let (second, second_guard) = spanledger::builder().root(two.path()).build().unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(first).with(second));
    tracing::dispatcher::with_default(&dispatch, || {
        guard.check().unwrap();
        assert!(second_guard.check().is_err());
        agent();
    });
    assert_recorded(&one);
    assert!(Trace::read(two.path()).sessions.is_empty());
}

#[test]
fn one_of_two_sibling_ledgers_records_everything() {
    type Together = fn(Layered, Layered) -> Dispatch;
    let ways: [Together; 3] = [
        |one, two| registry_with(vec![one.boxed(), two.boxed()]),
        |one, two| registry_with(one.and_then(two)),
        |one, two| registry_with(reload::Layer::new(one).0.and_then(two)),
    ];
    for together in ways {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [(one, guard), (two, other)] = [&dirs[0], &dirs[1]].map(build);
        let records = tracing::dispatcher::with_default(&together(one, two), || {
            agent();
            [guard.check().is_ok(), other.check().is_ok()]
        });
        for (dir, records) in dirs.iter().zip(records) {
            match records {
                true => assert_recorded(dir),
                false => assert!(Trace::read(dir.path()).sessions.is_empty()),
            }
        }
        assert_eq!(records.iter().filter(|records| **records).count(), 1);
    }
}

type Layered = spanledger::LedgerLayer<Registry>;

fn registry_with(layers: impl Layer<Registry> + Send + Sync) -> Dispatch {
    Dispatch::new(tracing_subscriber::registry().with(layers))
}

#[test]
fn nothing_happens_without_a_layer() {
    agent_without_layer();
}

fn agent_without_layer() {
    let tool = spans::tool_call("bash", "c1").start();
    tool.record_result("x");
    tool.finish(Outcome::Ok);
    assert!(tool.session().is_none());
    tool.stream("m1").end();
    events::message_user("x").emit();
}
