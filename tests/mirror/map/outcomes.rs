//! Status, errors, denials and interrupted spans.

use std::time::Duration;

use serde_json::{Value, json};
use spanledger::mirror::otlp::status::StatusCode;
use spanledger::{Failure, Limits, Outcome, SpanExt, spans};

use crate::map::setup::{attributes, lines, mapped, named, one, sent};
use crate::map::spans::status_of;
use crate::support::Recording;

#[test]
fn error_sets_status_and_type() {
    let spans = sent(Some(json!({"error_text": true})), || {
        let tool = spans::tool_call("bash", "c1").start();
        let failure = Failure::new("Timeout", "took too long")
            .guardrail("max_seconds", 5, 6)
            .stack("at main")
            .details(json!({"cwd": "/"}));
        tool.record_failure(&failure);
    });
    let tool = named(&spans, "execute_tool bash");
    assert_eq!(status_of(tool), (StatusCode::Error, "took too long"));
    let sent_attributes = attributes(&tool.attributes);
    assert_eq!(sent_attributes["error.type"], "Timeout");
    assert_eq!(sent_attributes["agent.outcome"], "error");
    assert_eq!(sent_attributes["agent.error.guardrail"], "max_seconds");
    assert_eq!(sent_attributes["agent.error.threshold"], 5);
    assert_eq!(sent_attributes["agent.error.details"], r#"{"cwd":"/"}"#);
    assert_eq!(sent_attributes.get("agent.error.message"), None);
    let exception = &tool.events[0];
    assert_eq!(exception.name, "exception");
    assert_eq!(exception.time_unix_nano, tool.end_time_unix_nano);
    let expected = json!({"exception.type": "Timeout", "exception.message": "took too long",
        "exception.stacktrace": "at main"});
    assert_eq!(attributes(&exception.attributes), expected);
}

#[test]
fn timeout_is_an_error() {
    let spans = sent(None, || {
        let limited = spans::tool_call("limited", "c1").timeout(Duration::ZERO);
        limited.start().finish(Outcome::Cancelled);
        let given_up = spans::tool_call("given_up", "c2").start();
        given_up.finish(Outcome::TimedOut);
    });
    for name in ["limited", "given_up"] {
        let tool = named(&spans, &format!("execute_tool {name}"));
        assert_eq!(status_of(tool).0, StatusCode::Error);
        let sent_attributes = attributes(&tool.attributes);
        assert_eq!(sent_attributes["agent.outcome"], "timed_out");
        assert_eq!(sent_attributes["error.type"], "timeout");
    }
}

#[test]
fn stop_by_a_limit_has_type_and_event() {
    let limits = Limits::new().tool_calls(0);
    let recording = Recording::with(|builder| builder.limits(limits));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let turn = spans::session_turn().start();
        turn.in_scope(|| {
            spans::tool_call("bash", "c1")
                .start()
                .allowed()
                .unwrap_err()
        });
        turn.finish(Outcome::Ok);
    });
    let spans = mapped(&lines(recording.dir.path()), Some(&json!({})));
    let tool = named(&spans, "execute_tool bash");
    let tool_attributes = attributes(&tool.attributes);
    assert_eq!(tool_attributes["error.type"], "Stopped");
    assert_eq!(tool_attributes["agent.outcome"], "denied");
    assert_eq!(tool_attributes["agent.error.guardrail"], "max_tool_calls");
    assert_eq!(tool_attributes["agent.error.threshold"], 0);
    assert_eq!(tool_attributes["agent.error.actual"], 1);
    let events = spans.iter().flat_map(|span| &span.events);
    let types: Vec<_> = events
        .map(|event| attributes(&event.attributes)["exception.type"].clone())
        .collect();
    assert_eq!(types, ["Stopped"]);
}

#[test]
fn error_of_unknown_type_is_other() {
    let payload = json!({"outcome": "error", "error": {"message": "no"}});
    let span = one(json!({}), "tool_result", payload).unwrap();
    assert_eq!(attributes(&span.attributes)["error.type"], "_OTHER");
}

#[test]
fn status_is_the_whole_chain_or_the_type() {
    let error = json!({"error_type": "E", "message": "a", "source": ["b", "c"]});
    let payload = json!({"outcome": "error", "error": error});
    for (policy, status) in [
        (json!({"content": true}), "a: b: c"),
        (json!({"content": true, "error_text": false}), "E"),
        (json!({}), "E"),
    ] {
        let span = one(policy.clone(), "tool_result", payload.clone()).unwrap();
        assert_eq!(status_of(&span), (StatusCode::Error, status), "{policy}");
        let exception = attributes(&span.events[0].attributes);
        assert_eq!(exception["exception.type"], "E");
        let message = (status != "E").then(|| json!(status));
        assert_eq!(exception.get("exception.message"), message.as_ref());
    }
}

#[test]
fn exception_is_an_event_once_and_within_the_limit() {
    let event = |name: &str| json!({"ts": "2026-11-16T00:31:05.123456Z", "name": name});
    let payload =
        |events: Value| json!({"outcome": "error", "error": {"message": "no"}, "events": events});
    let names = |policy: Value, events: Value| {
        let span = one(policy, "tool_result", payload(events)).unwrap();
        let names = span.events.into_iter().map(|event| event.name);
        (names.collect::<Vec<_>>(), span.dropped_events_count)
    };
    let both = names(json!({}), json!([event("log")]));
    assert_eq!(both, (vec!["log".to_owned(), "exception".into()], 0));
    let own = names(json!({}), json!([event("exception")]));
    assert_eq!(own, (vec!["exception".to_owned()], 0));
    let limited = names(json!({"limits": {"event_count": 1}}), json!([event("log")]));
    assert_eq!(limited, (vec!["log".to_owned()], 1));
}

#[test]
fn denial_is_not_an_error() {
    let spans = sent(None, || {
        let tool = spans::tool_call("bash", "c1").start();
        tool.in_scope(|| {
            let permission = spans::permission_evaluate("bash").pattern("rm *").start();
            permission.set("action", "deny");
        });
        drop(tool);
    });
    for name in ["execute_tool bash", "permission.evaluate"] {
        let span = named(&spans, name);
        assert_eq!(status_of(span), (StatusCode::Unset, ""), "{name}");
        let sent_attributes = attributes(&span.attributes);
        assert_eq!(sent_attributes["agent.outcome"], "denied");
        assert_eq!(sent_attributes.get("error.type"), None);
    }
}

#[test]
fn overridden_error_is_kept_beside_the_status() {
    let error = json!({"error_type": "Denied", "message": "not allowed"});
    for outcome in ["ok", "denied", "cancelled", "unset"] {
        let payload = json!({"outcome": outcome, "error": error});
        let span = one(json!({"error_text": true}), "tool_result", payload).unwrap();
        assert_ne!(status_of(&span).0, StatusCode::Error, "{outcome}");
        let sent_attributes = attributes(&span.attributes);
        assert_eq!(sent_attributes["agent.error.type"], "Denied");
        assert_eq!(sent_attributes["agent.error.message"], "not allowed");
        assert_eq!(sent_attributes.get("error.type"), None);
    }
}

#[test]
fn interrupted_span_is_an_error() {
    let recording = Recording::new();
    let next = recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _tool = spans::tool_call("bash", "c1").start().entered();
        recording.copy_as_crashed()
    });
    let recording = Recording::again(next);
    assert_eq!(recording.handle().session("s").recover(), 2);
    let spans = mapped(&lines(recording.dir.path()), None);
    assert_eq!(spans.len(), 2);
    let (run, tool) = (
        named(&spans, "invoke_agent planner"),
        named(&spans, "execute_tool bash"),
    );
    assert_eq!(tool.parent_span_id, run.span_id);
    for span in [run, tool] {
        let status = status_of(span);
        assert_eq!(status, (StatusCode::Error, "interrupted: writer gone"));
        assert!(span.end_time_unix_nano > span.start_time_unix_nano);
        let sent_attributes = attributes(&span.attributes);
        assert_eq!(sent_attributes["error.type"], "interrupted");
        assert_eq!(sent_attributes["agent.outcome"], "interrupted");
        assert_eq!(sent_attributes["agent.reason"], "writer_gone");
        assert!(sent_attributes["agent.last_seen"].is_string());
        assert_eq!(sent_attributes.get("agent.closes"), None);
        let address = sent_attributes["agent.trace.address"].as_str().unwrap();
        assert!(address.starts_with("s/2:"), "{address}");
    }
}
