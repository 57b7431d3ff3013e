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
