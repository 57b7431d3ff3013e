//! What `show` hides in a narrow terminal, and that `--full` hides nothing.

use serde_json::json;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};

use crate::support::Recording;
use crate::support::cli::{Done, spanledger};

fn show(recording: &Recording, width: usize, args: &[&str]) -> Done {
    let mut command = spanledger(recording.dir.path());
    command.env("COLUMNS", width.to_string());
    let done = Done::from(command.args(["show", "ses_1"]).args(args).output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    done
}

fn recorded() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner")
            .temperature(0.2)
            .start();
        let _run = run.clone().entered();
        let turn = spans::session_turn().start();
        let _turn = turn.clone().entered();
        let call = spans::model_call("acme", "m-1")
            .context_window(200_000)
            .params(json!({"top_p": 0.9}))
            .start();
        call.set(
            "input_messages",
            json!([{"role": "user", "content": "sum it up"}]),
        );
        call.set("ttft_ms", 350);
        call.record_usage(&Usage {
            input_tokens: Some(1_200),
            output_tokens: Some(7),
            cost_usd: Some(0.03),
            ..Usage::default()
        });
        call.finish(Outcome::Ok);
        let tool = spans::tool_call("sql", "call_1")
            .args(json!({"query": "SELECT sum(amount) FROM revenue WHERE year = 2026"}))
            .start();
        let permission = spans::permission_evaluate("sql")
            .pattern("SELECT *")
            .child_of(&tool)
            .start();
        permission.set("action", "allow");
        permission.set("source", "project");
        permission.set(
            "rule",
            json!({"pattern": "SELECT *", "added_at": "2026-11-01"}),
        );
        permission.finish(Outcome::Ok);
        tool.record_exit_code(0);
        tool.finish(Outcome::Ok);
        tracing::warn!(target: "agent", "a warning of {}", "many words ".repeat(20));
        turn.record_failure(&Failure::new("Lost", "long reason ".repeat(12)));
        turn.finish(Outcome::Error);
        run.finish(Outcome::Ok);
    });
    recording
}

#[test]
fn verdict_is_shown_or_marked_at_any_width() {
    let recording = recorded();
    for width in (60..220).step_by(2) {
        let done = show(&recording, width, &[]);
        let tool = done
            .lines()
            .into_iter()
            .find(|line| line.contains("  sql  ") || line.contains(" sql "));
        let tool = tool.unwrap_or_else(|| panic!("{done:?}"));
        assert!(
            tool.contains("allowed") || tool.contains('…'),
            "{width}: {tool}"
        );
    }
    let wide = show(&recording, 200, &[]);
    assert!(
        wide.out.contains("allowed by project (SELECT *)"),
        "{wide:?}"
    );
}

#[test]
fn first_token_and_context_window_are_shown() {
    let recording = recorded();
    for width in [80, 200] {
        let done = show(&recording, width, &[]);
        assert!(done.out.contains("first token 350ms"), "{done:?}");
        assert!(done.out.contains("context 1,200 / 200,000"), "{done:?}");
    }
}

#[test]
fn full_hides_nothing() {
    let recording = recorded();
    let full = show(&recording, 80, &["--full"]);
    for text in [
        "added_at",
        "input_messages: [{",
        "top_p",
        "200,000",
        "tool_call_id: call_1",
        "args: {\"query\":",
        "exit_code: 0",
    ] {
        assert!(full.out.contains(text), "{text}: {full:?}");
    }
    let header = full.out.split_once("\n\n").unwrap().0;
    assert!(!header.contains('…'), "{header}");
    let words = header.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("long reason").count(), 12, "{header}");
    assert_eq!(full.out.matches("a warning of").count(), 1, "{full:?}");
}

#[test]
fn note_is_shorter_than_what_it_hides() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let tool = spans::tool_call("sql", "call_1")
            .args(json!({"query": "SELECT sum(amount) FROM revenue WHERE year = 2026"}))
            .start();
        tool.finish(Outcome::Ok);
    });
    let done = show(&recording, 80, &[]);
    assert!(!done.out.contains("+1 line"), "{done:?}");
    assert!(done.out.contains("2026"), "{done:?}");
}

#[test]
fn turn_has_the_temperature_of_its_run() {
    let done = show(&recorded(), 200, &["--turn", "1"]);
    assert!(
        done.out.contains("acme/m-1   variant –   temperature 0.2"),
        "{done:?}"
    );
}

#[test]
fn unknown_cost_of_subagents_is_left_out() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        drop(spans::session_run("ses_2", "worker").start());
    });
    let done = show(&recording, 80, &[]);
    assert!(done.out.contains("subagent   worker"), "{done:?}");
    assert!(!done.out.contains("\n  cost "), "{done:?}");
}

#[test]
fn totals_of_subagents_are_in_the_header() {
    let recording = Recording::new();
    let used = |usd: f64| Usage {
        cost_usd: Some(usd),
        input_tokens: Some(320),
        output_tokens: Some(16),
        ..Usage::default()
    };
    let call = |usd: f64| {
        let call = spans::model_call("acme", "m-1").start();
        call.record_usage(&used(usd));
        call.finish(Outcome::Ok);
    };
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        call(0.03);
        let _child = spans::session_run("ses_2", "worker").start().entered();
        call(0.002);
        let _inner = spans::session_run("ses_3", "helper").start().entered();
        call(0.001);
    });
    let done = show(&recording, 120, &[]);
    assert!(
        done.out
            .contains("  subagent + 2 sessions, $0.0030: 0 turns, 2 model calls, 0 tool calls, 0 errors, 640 in, 32 out\n"),
        "{done:?}"
    );
    let json = show(&recording, 80, &["--json"]).objects();
    assert_eq!(json[0]["subagents"]["sessions"], 2);
    assert_eq!(json[0]["subagents"]["model_calls"], 2);
    // Its own row has what it used, its own subagents included.
    let row = done
        .out
        .lines()
        .find(|line| line.contains("subagent   worker"));
    assert!(row.unwrap().contains("  $0.0030  "), "{done:?}");
    let node = json.iter().find(|node| node["kind"] == "subagent").unwrap();
    assert_eq!(node["usage"]["cost_usd"], 0.003);
}

#[test]
fn parts_and_runs_combine() {
    let recording = recorded();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::system_prompt("Be brief.").emit();
        let turn = spans::session_turn().start();
        turn.in_scope(|| events::message_user("again").emit());
        turn.finish(Outcome::Ok);
    });
    let both = show(&recording, 80, &["--prompt", "--tools"]);
    assert!(
        both.out.contains("Be brief.") && both.out.contains("\nTools  "),
        "{both:?}"
    );
    let second = show(&recording, 80, &["--run", "2", "--turn", "2"]);
    assert!(second.out.contains("user       again"), "{second:?}");
    let mut command = spanledger(recording.dir.path());
    command.args(["show", "ses_1", "--run", "1", "--turn", "2"]);
    let none = Done::from(command.output().unwrap());
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("has no turn 2 in run 1"), "{none:?}");
}
