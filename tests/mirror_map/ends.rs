//! How spans end: status, error, denial, a writer that is gone.

use serde_json::json;
use spanledger::mirror::otlp::status::StatusCode;
use spanledger::{Failure, SpanExt, spans};

use crate::scene::{attributes, lines, mapped, named, one, sent};
use crate::spans::status_of;
use crate::support::Recording;

#[test]
fn an_error_is_the_status_and_says_its_type() {
    let spans = sent(None, || {
        let tool = spans::tool_call("bash", "c1").start();
        let failure = Failure::new("Timeout", "took too long")
            .guardrail("max_seconds", 5, 6)
            .stack("at main")
            .details(json!({"cwd": "/"}));
        tool.record_failure(&failure);
    });
    let tool = named(&spans, "execute_tool bash");
    assert_eq!(status_of(tool), (StatusCode::Error, "took too long"));
    let said = attributes(&tool.attributes);
    assert_eq!(said["error.type"], "Timeout");
    assert_eq!(said["agent.outcome"], "error");
    assert_eq!(said["agent.error.guardrail"], "max_seconds");
    assert_eq!(said["agent.error.threshold"], 5);
    assert_eq!(said["agent.error.stack"], "at main");
    assert_eq!(said["agent.error.details.bytes"], 11);
    assert_eq!(said.get("agent.error.message"), None);
}

#[test]
fn an_error_of_no_known_type_is_of_the_conventions_other_type() {
    let payload = json!({"outcome": "error", "error": {"message": "no"}});
    let span = one(json!({}), "tool_result", payload).unwrap();
    assert_eq!(attributes(&span.attributes)["error.type"], "_OTHER");
}

#[test]
fn the_causes_of_an_error_come_in_order() {
    let error = json!({"error_type": "E", "message": "a", "source": ["b", "c"]});
    let span = one(
        json!({}),
        "tool_result",
        json!({"outcome": "error", "error": error}),
    )
    .unwrap();
    let said = attributes(&span.attributes);
    assert_eq!(said["agent.error.source"], json!(["b", "c"]));
}

#[test]
fn a_denial_is_not_an_error() {
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
        let said = attributes(&span.attributes);
        assert_eq!(said["agent.outcome"], "denied");
        assert_eq!(said.get("error.type"), None);
    }
}

#[test]
fn an_error_that_did_not_decide_the_outcome_is_told_beside_the_status() {
    let error = json!({"error_type": "Denied", "message": "not allowed"});
    for outcome in ["ok", "denied", "cancelled", "unset"] {
        let payload = json!({"outcome": outcome, "error": error});
        let span = one(json!({}), "tool_result", payload).unwrap();
        assert_ne!(status_of(&span).0, StatusCode::Error, "{outcome}");
        let said = attributes(&span.attributes);
        assert_eq!(said["agent.error.type"], "Denied");
        assert_eq!(said["agent.error.message"], "not allowed");
        assert_eq!(said.get("error.type"), None);
    }
}

#[test]
fn an_interrupted_span_is_an_error_that_says_its_writer_is_gone() {
    let recording = Recording::new();
    let next = tempfile::tempdir().unwrap();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _tool = spans::tool_call("bash", "c1").start().entered();
        // Without the lock under `writers`, the writer is dead.
        let from = recording.dir.path().join("sessions/s/trace.0001.jsonl");
        let to = next.path().join("sessions/s");
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from, to.join("trace.0001.jsonl")).unwrap();
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
        let said = attributes(&span.attributes);
        assert_eq!(said["error.type"], "interrupted");
        assert_eq!(said["agent.outcome"], "interrupted");
        assert_eq!(said["agent.reason"], "writer_gone");
        assert!(said["agent.last_seen"].is_string());
        assert_eq!(said.get("agent.closes"), None);
        let address = said["agent.trace.address"].as_str().unwrap();
        assert!(address.starts_with("s/2:"), "{address}");
    }
}
