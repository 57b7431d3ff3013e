//! `stats`, `context`, `summary`, `baseline`, `assert` and `permissions`.

mod baseline;
mod context;
mod memory;
mod permissions;
mod stats;
mod summary;

use serde_json::json;
use spanledger::{Failure, Outcome, SpanExt, Usage, spans};

use crate::support::Recording;
use crate::support::cli::run;

fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        cache_read_tokens: Some(cached),
        output_tokens: Some(output),
        ..Usage::default()
    }
}

fn model(name: &str, used: &Usage) {
    let call = spans::model_call("anthropic", name).start();
    call.record_usage(used);
    call.set("ttft_ms", 40);
    call.finish(Outcome::Ok);
}

fn tool(name: &str, result: &str, outcome: Outcome) {
    let call = spans::tool_call(name, "call_1").start();
    call.record_result(result);
    call.finish(outcome);
}

/// Runs an agent in a session of its own.
fn session(recording: &Recording, id: &str, agent: impl FnOnce() -> Outcome) {
    recording.run(|| {
        let run = spans::session_run(id, "planner").start();
        let _run = run.clone().entered();
        let turn = spans::session_turn().start();
        let outcome = turn.in_scope(agent);
        turn.finish(outcome);
        run.finish(outcome);
    });
}

/// A session with a subagent, and a model that has no price.
fn family() -> Recording {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        model("claude-sonnet-4-5", &usage(1_000, 400, 100));
        model("a-model-of-my-own", &usage(10, 0, 1));
        tool("bash", "ok", Outcome::Ok);
        tool("bash", "no", Outcome::Error);
        tool("=1+1", "ok", Outcome::Ok);
        let child = spans::session_run("ses_1-child", "reviewer").start();
        child.in_scope(|| {
            let recorded = Usage {
                cost_usd: Some(0.5),
                ..usage(100, 0, 10)
            };
            model("claude-haiku-4-5", &recorded);
        });
        child.finish(Outcome::Ok);
        Outcome::Ok
    });
    recording
}

/// A tool call that its permission decides.
fn guarded(command: &str, action: &str, answer: Option<&str>) {
    let tool = spans::tool_call("bash", "call_1")
        .args(json!({"command": command}))
        .start();
    let permission = spans::permission_evaluate("bash")
        .pattern("*")
        .child_of(&tool)
        .start();
    permission.set("action", action);
    permission.set("source", "project");
    if let Some(answer) = answer {
        permission.set("decision", answer);
        permission.set("decided_by", "ada");
    }
    let denied = action == "deny" || answer == Some("deny");
    let outcome = if denied { Outcome::Denied } else { Outcome::Ok };
    permission.finish(outcome);
    tool.finish(outcome);
}

#[test]
fn names_from_a_trace_do_not_affect_the_terminal() {
    const HOSTILE: &str = "\u{1b}[31m\u{202e}<&\"";
    let recording = Recording::new();
    session(&recording, HOSTILE, || {
        tool(HOSTILE, "ok", Outcome::Ok);
        model(HOSTILE, &usage(10, 0, 1));
        guarded(HOSTILE, "ask", Some(HOSTILE));
        let call = spans::tool_call("bash", "call_1").start();
        call.record_failure(&Failure::new(HOSTILE, HOSTILE));
        call.finish(Outcome::Error);
        Outcome::Error
    });
    let root = recording.dir.path();
    let rules = root.join("rules.json");
    std::fs::write(&rules, "[]").unwrap();
    let rules = rules.to_str().unwrap();
    for args in [
        &["stats"][..],
        &["stats", "--by", "model"],
        &["stats", "--by", "tool"],
        &["stats", "--by", "session", "--json"],
        &["summary"],
        &["summary", "--json"],
        &["context"],
        &["context", "--json"],
        &["permissions"],
        &["permissions", "--json"],
        &["permissions", "--what-if", rules],
        &["baseline", "last"],
        &["assert", "last", "--max-errors", "9"],
        &["assert", "last", "--max-errors", "9", "--format", "junit"],
    ] {
        let done = run(root, args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        assert!(
            !done.out.contains(['\u{1b}', '\u{202e}']),
            "{args:?}: {done:?}"
        );
    }
}
