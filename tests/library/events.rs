//! Events: routing, custom kinds, plain macros, and log events that become lines.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};
use tracing::{debug, info, info_span, warn};

use crate::support;
use crate::support::{LineExt, Recording};

#[test]
fn session_id_field_routes_the_event() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("here", "planner").start().entered();
        events::message_user("a").set("session_id", "there").emit();
        info!(target: "spanledger::message_system", session_id = "there", "b");
    });
    let trace = recording.trace();
    assert_eq!(
        trace.kinds("there"),
        ["segment", "message_user", "message_system"]
    );
    assert_eq!(trace.session("there")[1].span_id, None);
}

#[test]
fn custom_payload_keeps_object_members_or_value() {
    let recording = Recording::new();
    recording.run(|| {
        events::custom("cache_hit", json!({"key": "x", "bytes": 10})).emit();
        events::custom("progress", json!(0.5)).emit();
    });
    let trace = recording.trace();
    assert_eq!(trace.one("cache_hit").get("bytes"), 10);
    assert_eq!(trace.one("progress").get("value"), 0.5);
}

#[test]
fn custom_kind_is_normalized_to_a_plain_word() {
    let recording = Recording::new();
    recording.run(|| {
        events::custom("My \"kind\"\n", json!({})).emit();
        events::custom("", json!({})).emit();
        events::custom(&"x".repeat(500), json!({})).emit();
    });
    let trace = recording.trace();
    assert!(trace.damage.is_empty());
    assert_eq!(trace.all("my__kind__").len(), 1);
    assert_eq!(trace.all("custom").len(), 1);
    assert_eq!(trace.all(&"x".repeat(64)).len(), 1);
}

#[test]
fn custom_kind_cannot_imitate_ledger_lines() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start().entered();
        drop(spans::session_turn().start());
        for kind in ["checkpoint", "session_end", "interrupted", "gap", "segment"] {
            events::custom(kind, json!({})).emit();
        }
        info!(target: "spanledger::turn_start", turn_index = 77);
        drop(run);
    });
    let trace = recording.trace();
    assert_eq!(trace.all("session_end").len(), 1);
    assert_eq!(trace.all("turn_start").len(), 1);
    assert_eq!(trace.all("custom.checkpoint").len(), 1);
    assert_eq!(trace.all("custom.turn_start").len(), 1);
    // What is read on resume is the ledger's own.
    let recording = Recording::again(recording.end());
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::session_turn().start());
    });
    let trace = recording.trace();
    assert_eq!(trace.all("session_resume").len(), 1);
    assert_eq!(trace.all("turn_start")[1].get("turn_index"), 2);
}

#[test]
fn macro_target_sets_the_kind() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        info!(target: "spanledger::message_user", message_id = "m1", "Why does {} fail?", "it");
        debug!(target: "spanledger::artifact", path = "plot.png", size_px = "[1, 2]");
    });
    let trace = recording.trace();
    let message = trace.one("message_user");
    assert_eq!(
        Value::Object(message.payload.clone()),
        json!({"content": "Why does it fail?", "message_id": "m1"})
    );
    assert_eq!(message.span_id, trace.one("session_start").span_id);
    assert_eq!(trace.one("artifact").get("size_px"), &json!([1, 2]));
}

#[test]
fn json_looking_message_stays_text() {
    let recording = Recording::new();
    recording.run(|| {
        events::message_user(r#"{"a":1}"#).emit();
        info!(target: "spanledger::message_assistant", "[1, 2]");
    });
    let trace = recording.trace();
    assert_eq!(trace.one("message_user").text("content"), r#"{"a":1}"#);
    assert_eq!(trace.one("message_assistant").text("content"), "[1, 2]");
}

#[test]
fn warnings_inside_a_session_become_log_lines() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _foreign = info_span!("http").entered();
        warn!(target: "client", retry = 2, host = "example.org", "slow");
        tracing::error!("broken");
        info!("not this");
    });
    let trace = recording.trace();
    let logs = trace.all("log");
    assert_eq!(logs.len(), 2);
    assert_eq!(
        Value::Object(logs[0].payload.clone()),
        json!({"level": "WARN", "target": "client", "message": "slow",
            "fields": {"retry": 2, "host": "example.org"}})
    );
    assert_eq!(logs[1].text("level"), "ERROR");
    let events = trace.one("session_end").get("events");
    assert_eq!(events[0]["name"], "log");
    assert_eq!(events[0]["message"], "slow");
}

#[test]
fn log_events_outside_sessions_are_not_recorded() {
    let recording = Recording::new();
    recording.run(|| {
        warn!("nowhere");
        let _foreign = info_span!("http").entered();
        tracing::error!(error = "x", "nowhere either");
    });
    assert!(recording.trace().sessions.is_empty());
}

#[test]
fn log_event_with_session_id_goes_there() {
    let recording = Recording::new();
    recording.run(|| {
        warn!(session_id = "there", "from outside");
        let _run = spans::session_run("here", "planner").start().entered();
        warn!(session_id = "there", "from another session");
        warn!(session_id = "here", "from inside");
    });
    let trace = recording.trace();
    assert_eq!(trace.kinds("there"), ["segment", "log", "log"]);
    let inside = &trace.session("here")[2];
    assert_eq!(inside.text("message"), "from inside");
    assert_eq!(inside.span_id, trace.one("session_start").span_id);
}

#[test]
fn record_events_selects_more_log_lines() {
    let recording = Recording::with(|b| b.record_events(|meta| meta.target() == "mine"));
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        tracing::trace!(target: "mine", "even this");
        warn!(target: "theirs", "not this");
    });
    let trace = recording.trace();
    assert_eq!(trace.one("log").text("message"), "even this");
}

#[test]
fn error_event_counts_and_is_an_object() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::error(&"x".parse::<u8>().unwrap_err()).emit();
        info!(target: "spanledger::error", error = "as text");
    });
    let trace = recording.trace();
    let errors = trace.all("error");
    assert!(
        errors[0].payload["error"]["error_type"]
            .as_str()
            .unwrap()
            .ends_with("ParseIntError")
    );
    assert_eq!(errors[1].get("error"), &json!({"message": "as text"}));
    let end = trace.one("session_end");
    assert_eq!(end.get("totals.errors"), 2);
    assert_eq!(end.text("outcome"), "unset");
}

#[test]
fn handle_shortcuts_record_in_its_session() {
    let recording = Recording::new();
    let session = recording.handle().session("s");
    session.hitl_response("int_1", json!({"allow": true}));
    session.title("Renamed");
    session.report_status("waiting");
    events::artifact("plot.png").emit_in(&session);
    let trace = recording.trace();
    assert_eq!(
        trace.kinds("s"),
        [
            "segment",
            "hitl_response",
            "session_title",
            "session_status",
            "artifact"
        ]
    );
    assert_eq!(trace.one("hitl_response").get("decision.allow"), true);
}

#[test]
fn close_line_has_128_events_and_counts_the_rest() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        for n in 0..131 {
            events::custom("step", json!({"n": n})).on(&tool).emit();
        }
        tool.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.get("events").as_array().unwrap().len(), 128);
    assert_eq!(close.get("events_dropped"), 3);
    assert_eq!(trace.all("step").len(), 131);
}

#[test]
fn event_on_disabled_span_goes_to_current_session() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let off = tracing::Span::none();
        assert!(off.is_disabled());
        events::artifact("plot.png").on(&off).emit();
    });
    let trace = recording.trace();
    let artifact = trace.one("artifact");
    assert_eq!(artifact.span_id, trace.one("session_start").span_id);
}

#[test]
fn recording_continues_after_shutdown() {
    let recording = Recording::new();
    let handle = recording.handle();
    let Recording {
        dispatch,
        guard,
        dir,
    } = recording;
    tracing::dispatcher::with_default(&dispatch, || {
        let run = spans::session_run("s", "planner").start();
        let health = guard.shutdown().unwrap();
        assert_eq!((health.written, health.failed), (1, 0));
        run.in_scope(|| events::message_user("after").emit());
        run.finish(Outcome::Ok);
    });
    handle.session("s").title("and later");
    let trace = support::Trace::read(dir.path());
    assert_eq!(
        trace.kinds("s"),
        [
            "segment",
            "session_start",
            "message_user",
            "session_end",
            "session_title"
        ]
    );
}
