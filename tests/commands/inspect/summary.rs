//! `spanledger summary`.

use std::path::Path;

use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, events, spans};

use super::{model, session, tool, usage};
use crate::support::Recording;
use crate::support::cli::run;
use crate::support::written::{self, span};

fn ending(root: &Path, id: &str) -> Value {
    run(root, &["summary", id, "--json"]).json()["ending"].clone()
}

#[test]
fn summary_says_how_a_session_ended() {
    let recording = Recording::new();
    session(&recording, "completed", || {
        model("claude-sonnet-4-5", &usage(10, 0, 1));
        Outcome::Ok
    });
    session(&recording, "error", || {
        let call = spans::tool_call("bash", "call_1").start();
        call.record_failure(&Failure::new("Timeout", "no output for 30 s"));
        call.finish(Outcome::Error);
        Outcome::Error
    });
    session(&recording, "loop", || {
        events::loop_warning("bash, bash", 3).emit();
        Outcome::Error
    });
    session(&recording, "limit", || {
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.set("finish_reason", "max_tokens");
        call.finish(Outcome::Ok);
        Outcome::Ok
    });
    session(&recording, "denied", || {
        tool("bash", "", Outcome::Denied);
        Outcome::Ok
    });
    session(&recording, "interrupted", || Outcome::Cancelled);
    let root = recording.dir.path();
    for class in [
        "completed",
        "error",
        "loop",
        "limit",
        "denied",
        "interrupted",
    ] {
        assert_eq!(ending(root, class), class);
    }
    let open = recording.run(|| spans::session_run("running", "planner").start());
    assert_eq!(ending(root, "running"), "running");
    drop(open);

    let summary = run(root, &["summary", "error", "--json"]).json();
    assert_eq!(
        (&summary["turns"], &summary["tool_errors"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(summary["first_error"]["what"], "bash");
    let text = run(root, &["summary", "error"]).out;
    assert!(text.starts_with("error  error"), "{text}");
    assert!(text.contains("bash: no output for 30 s"), "{text}");
    assert_eq!(
        run(root, &["summary", "loop", "--json"]).json()["loop_warnings"],
        1
    );
}

#[test]
fn summary_names_what_subagents_add() {
    let recording = Recording::new();
    let call = || {
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.record_usage(&usage(1_000, 0, 100));
        call.finish(Outcome::Ok);
    };
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        call();
        let _child = spans::session_run("ses_2", "reviewer").start().entered();
        call();
        let tool = spans::tool_call("read", "call_1").start();
        tool.record_error("no such file");
        tool.finish(Outcome::Error);
    });
    let root = recording.dir.path();
    let text = run(root, &["summary", "ses_1"]).out;
    for row in [
        "model calls 1 (+1 in subagents)\n",
        "tool calls  0 (+1 in subagents)\n",
        "errors      0 (+1 in subagents)\n",
        "tokens      2,000 → 200 (with subagents)\n",
        ", by list prices (with subagents)\n",
    ] {
        assert!(text.contains(row), "{row}{text}");
    }
    let json = run(root, &["summary", "ses_1", "--json"]).json();
    assert_eq!(json["usage"]["input_tokens"], 2_000);
    assert_eq!(json["subagents"]["tool_calls"], 1);
}

#[test]
fn duration_up_to_a_death_is_the_least() {
    let root = tempfile::tempdir().unwrap();
    let start = span("ses_1", "session_start", 1, 0, json!({"agent": "planner"}));
    let payload = json!({"closes": "session_end", "outcome": "interrupted"});
    let end = span("ses_1", "interrupted", 1, 0, payload);
    for lines in [&[start.clone(), end][..], &[start]] {
        written::write(root.path(), "ses_1", 1, lines);
        let text = run(root.path(), &["summary", "ses_1"]).out;
        assert!(text.contains("duration    ≥0µs"), "{text}");
    }
}
