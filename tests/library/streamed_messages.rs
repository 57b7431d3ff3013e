//! Messages that arrive in pieces.

use serde_json::Value;
use spanledger::{SpanExt, spans};

use crate::support::{LineExt, Recording, Trace};

fn stream(agent: impl FnOnce(&tracing::Span)) -> Trace {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        agent(&spans::model_call("anthropic", "sonnet").start());
    });
    recording.trace()
}

/// The deltas put together, each at the offset it names.
fn joined(trace: &Trace, kind: &str) -> String {
    trace
        .all(kind)
        .into_iter()
        .fold(String::new(), |text, delta| {
            assert_eq!(delta.get("offset"), text.len());
            text + delta.text("text")
        })
}

#[test]
fn deltas_are_written_at_once_and_the_whole_at_end() {
    let recording = Recording::new();
    let content = "Der Bau schlägt fehl, weil 日本語 und 😀 im Pfad sind.";
    recording.run(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        let mut out = call.stream("m1").part(2);
        for piece in content.split_inclusive(' ') {
            out.push(piece);
        }
        let so_far = recording.trace();
        assert!(so_far.all("message_delta").len() > 3);
        assert!(so_far.all("message_assistant").is_empty());
        out.end();
    });
    let trace = recording.trace();
    assert_eq!(joined(&trace, "message_delta"), content);
    let whole = trace.one("message_assistant");
    assert_eq!(whole.text("content"), content);
    assert_eq!(whole.get("complete"), true);
    assert_eq!(whole.get("part_index"), 2);
    assert_eq!(whole.text("message_id"), "m1");
    assert_eq!(whole.span_id, trace.one("model_call").span_id);
}

#[test]
fn model_call_has_the_time_to_its_first_token() {
    let recording = Recording::new();
    recording.run(|| {
        let stream = |call: &tracing::Span| {
            let mut out = call.stream("m1");
            out.push("");
            out.push("Held back");
            out.end();
        };
        stream(&spans::model_call("acme", "by itself").start());
        let call = spans::model_call("acme", "by the agent").start();
        call.set("ttft_ms", 350);
        stream(&call);
        drop(call);
        drop(spans::model_call("acme", "none").start().stream("m1"));
        stream(&spans::session_turn().start());
    });
    let trace = recording.trace();
    let of = |model: &str| {
        let end = trace.find("model_result", "model_id", model);
        end.get("ttft_ms").clone()
    };
    assert!(of("by itself").is_u64());
    assert_eq!(of("by the agent"), 350);
    assert!(of("none").is_null());
    assert!(trace.one("turn_end").get("ttft_ms").is_null());
}

#[test]
fn dropped_message_is_kept_and_incomplete() {
    let trace = stream(|call| call.stream("m1").push("half a sen"));
    let whole = trace.one("message_assistant");
    assert_eq!(whole.text("content"), "half a sen");
    assert_eq!(whole.get("complete"), false);
    assert_eq!(joined(&trace, "message_delta"), "half a sen");
}

#[test]
fn aborted_message_has_its_reason() {
    let trace = stream(|call| {
        let mut out = call.stream_reasoning("m1");
        out.push("let me see");
        out.abort("the user pressed escape");
    });
    let whole = trace.one("message_reasoning");
    assert_eq!(whole.get("complete"), false);
    assert_eq!(whole.text("abort_reason"), "the user pressed escape");
}

#[test]
fn tool_input_is_deltas_only() {
    let trace = stream(|call| {
        let mut input = call.stream_tool_input("c1");
        input.push("{\"command\":");
        input.push(" \"ls\"}");
        input.end();
    });
    assert_eq!(joined(&trace, "tool_input_delta"), "{\"command\": \"ls\"}");
    assert_eq!(trace.one("model_result").get("events"), &Value::Null);
}

#[test]
fn secret_split_over_deltas_is_masked() {
    let secret = ["ghp", "_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    for cut in 1..secret.len() {
        let trace = stream(|call| {
            let mut out = call.stream("m1");
            out.push("push it with the token ");
            out.push(&secret[..cut]);
            out.push(&secret[cut..]);
            out.push(" and be done with it, will you");
            out.end();
        });
        let deltas: String = trace
            .all("message_delta")
            .iter()
            .map(|d| d.text("text"))
            .collect();
        for text in [&*deltas, trace.one("message_assistant").text("content")] {
            assert!(text.contains("[masked "), "cut at {cut}: {text}");
            assert!(
                !text.contains("Ae178B4a") && !text.contains("16C7e42F"),
                "cut at {cut}: {text}"
            );
        }
    }
}
