//! How a span ends: `finish`, denials, errors of every type, and records that come too late.

use std::error::Error;
use std::fmt;

use anyhow::Context;
use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, events, spans};
use tracing::{error, info_span};

use crate::support::{LineExt, Recording};

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

/// An error whose `Debug` prints a backtrace behind its name, as `anyhow` does.
struct Traced;

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traced { ")?;
        panic!("symbols are resolved here");
    }
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it failed")
    }
}

impl Error for Traced {}

#[test]
fn type_name_is_found_without_a_backtrace() {
    let boxed: Box<dyn Error> = Box::new(Traced);
    let close = tool_result(|tool| tool.record_error(&boxed));
    assert_eq!(close["error"]["error_type"], "Traced");
}

#[test]
fn finish_writes_one_close_line_at_once() {
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
fn records_after_finish_are_late() {
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
fn span_opened_in_a_finished_span_is_late() {
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
fn tool_with_denied_permission_is_denied() {
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
fn tool_denied_then_allowed_is_not_denied() {
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
fn permission_has_the_answer_that_was_recorded_on_it() {
    let recording = Recording::new();
    recording.run(|| {
        for own in [false, true] {
            let permission = spans::permission_evaluate("bash").start();
            if own {
                permission.record_decision("allow", "bob");
            }
            let answer = events::hitl_response("int_1").decision("deny");
            answer.decided_by("ada").on(&permission).emit();
        }
    });
    let trace = recording.trace();
    let closed = trace.all("permission_evaluate");
    let who = |n: usize| (closed[n].text("decision"), closed[n].text("decided_by"));
    assert_eq!(who(0), ("deny", "ada"));
    assert_eq!(who(1), ("allow", "bob"));
}

#[test]
fn allowed_permission_does_not_set_tool_outcome() {
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
fn record_error_keeps_type_and_causes() {
    let close = tool_result(|tool| tool.record_error(&outer()));
    assert_eq!(close["outcome"], "error");
    let error = &close["error"];
    assert!(error["error_type"].as_str().unwrap().ends_with("Outer"));
    assert_eq!(error["message"], "the port is no number");
    assert_eq!(error["source"], json!([CAUSE]));
}

#[test]
fn record_error_accepts_anyhow_with_context() {
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
fn io_error_has_one_type_however_wrapped() {
    let missing = || std::io::Error::from_raw_os_error(2);
    let context = Err::<(), _>(missing()).context("reading the settings");
    let wrapped = tool_result(|tool| tool.record_error(&context.unwrap_err()));
    let plain = tool_result(|tool| tool.record_error(&missing()));
    for close in [wrapped, plain] {
        assert_eq!(close["error"]["error_type"], "std::io::Error");
    }
}

#[test]
fn record_error_accepts_a_boxed_error() {
    let error: Box<dyn Error + Send + Sync> = Box::new(outer());
    let close = tool_result(|tool| tool.record_error(&error));
    assert_eq!(close["error"]["error_type"], "Outer");
    assert_eq!(close["error"]["source"], json!([CAUSE]));
}

#[test]
fn error_from_text_has_that_message() {
    let error: Box<dyn Error + Send + Sync> = "out of luck".into();
    let close = tool_result(|tool| tool.record_error(&error));
    assert_eq!(close["error"]["message"], "out of luck");
    assert_eq!(close["outcome"], "error");
}

#[test]
fn failure_built_by_hand_keeps_its_guardrail() {
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
fn error_field_is_always_an_object() {
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
fn error_field_of_a_macro_keeps_causes() {
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
fn finish_outcome_overrides_recorded_error() {
    let close = tool_result(|tool| {
        tool.record_error(&outer());
        tool.finish(Outcome::Ok);
    });
    assert_eq!(close["outcome"], "ok");
    assert_eq!(close["error"]["message"], "the port is no number");
}

#[test]
fn error_event_with_error_field_fails_the_span() {
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
fn error_event_without_error_field_is_a_log_line() {
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
fn error_event_does_not_replace_the_first_error() {
    let close = tool_result(|tool| {
        tool.record_error(&outer());
        tool.in_scope(|| error!(error = "a consequence", "and then"));
    });
    assert_eq!(close["error"]["message"], "the port is no number");
}

#[test]
fn every_outcome_has_a_word() {
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
fn absent_error_is_no_error() {
    let close = tool_result(|tool| tool.set("error", None::<String>));
    assert_eq!(close["outcome"], "unset");
    assert_eq!(close.get("error"), None);
}

#[test]
fn text_is_accepted_as_error() {
    let owned = tool_result(|tool| tool.record_error(&"no such tool".to_owned()));
    assert_eq!(owned["error"], json!({"message": "no such tool"}));
    assert_eq!(owned["outcome"], "error");
    let borrowed = tool_result(|tool| tool.record_error(&"no such tool"));
    assert_eq!(borrowed["error"], owned["error"]);
    let plain = tool_result(|tool| tool.record_error("no such tool"));
    assert_eq!(plain["error"], owned["error"]);
}

#[test]
fn boxed_error_is_recorded_as_its_content() {
    let boxed: Box<dyn Error> = Box::new(outer());
    let result = tool_result(|tool| tool.record_error(&boxed));
    assert_eq!(result["error"]["error_type"], "Outer");
    assert_eq!(result["error"]["source"], json!([CAUSE]));
}
