//! How a span ended: `finish`, denials, errors of every make, and what comes too late.

mod support;

use std::error::Error;
use std::fmt;

use anyhow::Context;
use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, events, spans};
use support::{LineExt, Recording};
use tracing::{error, info_span};

#[derive(Debug)]
struct Outer(std::num::ParseIntError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the port is no number")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn outer() -> Outer {
    Outer("eighty".parse::<u16>().unwrap_err())
}

const CAUSE: &str = "invalid digit found in string";

/// The close line's payload of a tool call to which `agent` does something.
fn tool_result(agent: impl FnOnce(&tracing::Span)) -> Value {
    let recording = Recording::new();
    recording.run(|| agent(&spans::tool_call("bash", "c1").start()));
    Value::Object(recording.trace().one("tool_result").payload.clone())
}

#[test]
fn finish_writes_the_close_line_now_and_only_once() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        tool.finish(Outcome::Ok);
        assert_eq!(recording.trace().one("tool_result").text("outcome"), "ok");
        tool.finish(Outcome::Error);
    });
    assert_eq!(recording.trace().one("tool_result").text("outcome"), "ok");
}

#[test]
fn what_comes_after_finish_is_recorded_and_marked_late() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        tool.finish(Outcome::Ok);
        tool.record_result("too late");
        tool.set("note", "later still");
        events::artifact("plot.png").on(&tool).emit();
        tool.in_scope(|| tracing::warn!("still here"));
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").get("result"), &Value::Null);
    let updates = trace.all("span_update");
    assert_eq!(updates[0].text("result"), "too late");
    assert_eq!(updates[1].text("note"), "later still");
    let after = [
        updates[0],
        updates[1],
        trace.one("artifact"),
        trace.one("log"),
    ];
    for line in after {
        assert_eq!(line.get("late"), true, "{line:?}");
        assert_eq!(line.span_id, trace.one("tool_call").span_id);
    }
}

#[test]
fn a_span_opened_inside_one_that_was_finished_is_late() {
    let recording = Recording::new();
    recording.run(|| {
        let turn = spans::session_turn().start();
        let before = spans::tool_call("before", "c1").child_of(&turn).start();
        turn.finish(Outcome::Ok);
        let after = spans::tool_call("after", "c2").child_of(&turn).start();
        drop(spans::permission_evaluate("bash").child_of(&after).start());
        drop((before, after));
    });
    let trace = recording.trace();
    let late = |kind: &str, id: &str| trace.find(kind, "tool_id", id).get("late").clone();
    assert_eq!(late("tool_call", "after"), true);
    assert_eq!(late("tool_call", "before"), Value::Null);
    assert_eq!(late("tool_result", "before"), Value::Null);
    // It hangs from a span that is open itself.
    assert_eq!(late("permission_request", "bash"), Value::Null);
}

#[test]
fn nothing_is_late_before_the_end() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        tool.set("note", "in time");
        events::artifact("plot.png").on(&tool).emit();
        tool.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    assert!(trace.lines().all(|line| line.get("late") == &Value::Null));
}

#[test]
fn a_tool_whose_permission_was_denied_inside_it_is_denied() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = spans::tool_call("bash", "c1").start().entered();
        let permission = spans::permission_evaluate("bash").pattern("rm *").start();
        permission.set("action", "deny");
    });
    let trace = recording.trace();
    assert_eq!(trace.one("permission_evaluate").text("outcome"), "denied");
    assert_eq!(trace.one("tool_result").text("outcome"), "denied");
    let (tool, permission) = (trace.one("tool_call"), trace.one("permission_request"));
    assert_eq!(permission.parent_span_id, tool.span_id);
}

#[test]
fn a_tool_that_was_denied_first_and_allowed_then_is_not_denied() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = spans::tool_call("bash", "c1").start().entered();
        for action in ["deny", "allow"] {
            drop(spans::permission_evaluate("bash").action(action).start());
        }
    });
    assert_eq!(
        recording.trace().one("tool_result").text("outcome"),
        "unset"
    );
}

#[test]
fn an_allowed_permission_is_ok_and_says_nothing_of_its_tool() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = spans::tool_call("bash", "c1").start().entered();
        drop(spans::permission_evaluate("bash").action("allow").start());
    });
    let trace = recording.trace();
    assert_eq!(trace.one("permission_evaluate").text("outcome"), "ok");
    assert_eq!(trace.one("tool_result").text("outcome"), "unset");
}

#[test]
fn record_error_keeps_the_type_and_the_chain_of_causes() {
    let close = tool_result(|tool| tool.record_error(&outer()));
    assert_eq!(close["outcome"], "error");
    let error = &close["error"];
    assert!(error["error_type"].as_str().unwrap().ends_with("Outer"));
    assert_eq!(error["message"], "the port is no number");
    assert_eq!(error["source"], json!([CAUSE]));
}

#[test]
fn record_error_takes_an_anyhow_error_with_its_context() {
    let failed: Result<(), _> = Err(outer());
    let error = failed.context("reading the settings").unwrap_err();
    let close = tool_result(|tool| tool.record_error(&error));
    assert_eq!(close["error"]["message"], "reading the settings");
    assert_eq!(
        close["error"]["source"],
        json!(["the port is no number", CAUSE])
    );
    assert_eq!(close["error"]["error_type"], "Outer");
}

#[test]
fn an_error_of_the_system_has_one_name_however_it_is_wrapped() {
    let missing = || std::io::Error::from_raw_os_error(2);
    let context = Err::<(), _>(missing()).context("reading the settings");
    let wrapped = tool_result(|tool| tool.record_error(&context.unwrap_err()));
    let plain = tool_result(|tool| tool.record_error(&missing()));
    for close in [wrapped, plain] {
        assert_eq!(close["error"]["error_type"], "std::io::Error");
    }
}

#[test]
fn record_error_takes_a_boxed_error() {
    let error: Box<dyn Error + Send + Sync> = Box::new(outer());
    let close = tool_result(|tool| tool.record_error(&error));
    assert_eq!(close["error"]["error_type"], "Outer");
    assert_eq!(close["error"]["source"], json!([CAUSE]));
}

#[test]
fn an_error_made_of_text_has_that_text_as_its_message() {
    let error: Box<dyn Error + Send + Sync> = "out of luck".into();
    let close = tool_result(|tool| tool.record_error(&error));
    assert_eq!(close["error"]["message"], "out of luck");
    assert_eq!(close["outcome"], "error");
}

#[test]
fn a_failure_built_by_hand_keeps_its_guardrail() {
    let close = tool_result(|tool| {
        let failure = Failure::new("GuardrailTripped", "too many calls");
        tool.record_failure(&failure.guardrail("max_tool_calls", 50, 51).stack("at main"));
    });
    assert_eq!(
        close["error"],
        json!({
            "error_type": "GuardrailTripped", "message": "too many calls",
            "guardrail": "max_tool_calls", "threshold": 50, "actual": 51, "stack": "at main",
        })
    );
}

#[test]
fn an_error_field_is_an_object_whatever_it_was_given_as() {
    for (given, expected) in [
        (json!("plain"), json!({"message": "plain"})),
        (json!({"code": 5}), json!({"code": 5})),
        (json!(17), json!({"message": "17"})),
        (json!(["a", "b"]), json!({"message": "[\"a\",\"b\"]"})),
    ] {
        let close = tool_result(|tool| tool.set("error", &given));
        assert_eq!(close["error"], expected, "given {given}");
    }
}

#[test]
fn an_error_given_to_a_macro_as_an_error_keeps_its_causes() {
    let recording = Recording::new();
    recording.run(|| {
        let error = outer();
        let error: &(dyn Error + 'static) = &error;
        drop(info_span!("tool.call", tool_id = "bash", error));
    });
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.text("outcome"), "error");
    assert_eq!(close.get("error.error_type"), "Outer");
    assert_eq!(close.get("error.source"), &json!([CAUSE]));
}

#[test]
fn what_finish_says_beats_a_recorded_error_which_stays_on_the_line() {
    let close = tool_result(|tool| {
        tool.record_error(&outer());
        tool.finish(Outcome::Ok);
    });
    assert_eq!(close["outcome"], "ok");
    assert_eq!(close["error"]["message"], "the port is no number");
}

#[test]
fn an_error_event_with_an_error_field_makes_the_span_around_it_an_error() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = spans::tool_call("bash", "c1").start().entered();
        let _foreign = info_span!("http").entered();
        error!(error = %outer(), "request failed");
    });
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.text("outcome"), "error");
    assert_eq!(
        close.get("error"),
        &json!({"message": "the port is no number"})
    );
    assert_eq!(trace.one("log").text("message"), "request failed");
}

#[test]
fn an_error_event_without_an_error_field_is_only_a_log_line() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = spans::tool_call("bash", "c1").start().entered();
        error!("something odd");
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "unset");
    assert_eq!(trace.one("log").text("level"), "ERROR");
}

#[test]
fn the_first_error_of_a_span_is_not_replaced_by_an_error_event() {
    let close = tool_result(|tool| {
        tool.record_error(&outer());
        tool.in_scope(|| error!(error = "a consequence", "and then"));
    });
    assert_eq!(close["error"]["message"], "the port is no number");
}

#[test]
fn every_outcome_has_its_word() {
    for (outcome, word) in [
        (Outcome::Ok, "ok"),
        (Outcome::Error, "error"),
        (Outcome::Denied, "denied"),
        (Outcome::Cancelled, "cancelled"),
        (Outcome::Interrupted, "interrupted"),
        (Outcome::Unset, "unset"),
    ] {
        assert_eq!(tool_result(|tool| tool.finish(outcome))["outcome"], word);
    }
}

#[test]
fn an_error_that_is_none_is_no_error() {
    let close = tool_result(|tool| tool.set("error", None::<String>));
    assert_eq!(close["outcome"], "unset");
    assert_eq!(close.get("error"), None);
}

#[test]
fn a_text_is_an_error_too() {
    let owned = tool_result(|tool| tool.record_error(&"no such tool".to_owned()));
    assert_eq!(owned["error"], json!({"message": "no such tool"}));
    assert_eq!(owned["outcome"], "error");
    let borrowed = tool_result(|tool| tool.record_error(&"no such tool"));
    assert_eq!(borrowed["error"], owned["error"]);
}

#[test]
fn a_boxed_error_is_told_as_what_is_in_the_box() {
    let boxed: Box<dyn Error> = Box::new(outer());
    let result = tool_result(|tool| tool.record_error(&boxed));
    assert_eq!(result["error"]["error_type"], "Outer");
    assert_eq!(result["error"]["source"], json!([CAUSE]));
}
