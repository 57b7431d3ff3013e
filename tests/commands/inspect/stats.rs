//! `spanledger stats`.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};

use super::{family, model, session, usage};
use crate::support::Recording;
use crate::support::cli::run;
use crate::support::written::{self, line, span};

fn row<'a>(report: &'a Value, key: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| row["key"] == key);
    found.unwrap_or_else(|| panic!("no {key}: {report:#}"))
}

#[test]
fn stats_add_up_a_session_and_its_subagents() {
    let recording = family();
    let root = recording.dir.path();
    let report = run(root, &["stats", "ses_1", "--json"]).json();
    let total = &report["total"];
    for (name, expected) in [
        ("sessions", json!(1)),
        ("subagents", json!(1)),
        ("model_calls", json!(3)),
        ("tool_calls", json!(3)),
        ("input_tokens", json!(1_110)),
        ("output_tokens", json!(111)),
        ("cache_read_tokens", json!(400)),
        ("errors", json!(1)),
    ] {
        assert_eq!(total[name], expected, "{name} in {total:#}");
    }
    assert_eq!(total["first_token_ms"]["p50"], 40.0);
    let cost = &total["cost"];
    assert_eq!(
        (&cost["recorded_calls"], &cost["priced_calls"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&cost["unknown_calls"], &cost["partial"]),
        (&json!(1), &json!(true))
    );
    // 600 tokens of input, 400 of cached input and 100 of output.
    let listed = 0.5 + 600e-6 * 3.0 + 400e-6 * 0.3 + 100e-6 * 15.0;
    let usd = cost["usd"].as_f64().unwrap();
    assert!((usd - listed).abs() < 1e-9, "{usd}, {listed}");
    let text = run(root, &["stats", "ses_1"]).out;
    assert!(text.contains("≥~$0.50"), "{text}");
    assert!(
        text.contains("The cost of 1 model call is not known."),
        "{text}"
    );
}

#[test]
fn stats_have_rows_by_what_was_asked_for() {
    let recording = family();
    let root = recording.dir.path();
    let by = |what: &str| run(root, &["stats", "--all", "--json", "--by", what]).json();
    let models = by("model");
    assert_eq!(row(&models, "claude-sonnet-4-5")["cache_rate"], 0.4);
    assert_eq!(
        row(&models, "a-model-of-my-own")["cost"]["usd"],
        Value::Null
    );
    let tools = by("tool");
    assert_eq!(row(&tools, "bash")["tool_calls"], 2);
    assert_eq!(row(&tools, "bash")["errors"], 1);
    let agents = by("agent");
    assert_eq!(row(&agents, "reviewer")["model_calls"], 1);
    assert_eq!(row(&agents, "planner")["model_calls"], 2);
    let sessions = by("session");
    assert_eq!(sessions["rows"].as_array().unwrap().len(), 1);
    assert_eq!(row(&sessions, "ses_1")["model_calls"], 3);
    let days = by("day");
    assert_eq!(days["rows"][0]["model_calls"], days["total"]["model_calls"]);
    // Nothing ended in the future.
    let none = run(root, &["stats", "--since", "0s", "--json"]).json();
    assert_eq!(none["total"]["model_calls"], 0);
    let some = run(root, &["stats", "--since", "1h", "--json"]).json();
    assert_eq!(some["total"]["model_calls"], 3);
}

#[test]
fn stats_as_csv_have_no_formulas() {
    let recording = family();
    let done = run(
        recording.dir.path(),
        &["stats", "--all", "--by", "tool", "--csv"],
    );
    let lines = done.lines();
    assert!(lines[0].starts_with("tool,sessions,"), "{done:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("'=1+1,")),
        "{done:?}"
    );
    let cells = |line: &str| line.split(',').count();
    assert!(
        lines.iter().all(|line| cells(line) == cells(lines[0])),
        "{done:?}"
    );
}

/// A wait and a denial count once, wherever they were recorded.
#[test]
fn stats_count_waits_and_denials_once() {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        let tool = spans::tool_call("edit", "call_1").start();
        let ask = spans::permission_evaluate("edit").child_of(&tool).start();
        ask.set("action", "ask");
        events::hitl_request("int_1").on(&ask).emit();
        events::hitl_response("int_1")
            .decision("deny")
            .on(&ask)
            .emit();
        ask.finish(Outcome::Denied);
        tool.set("blocked_ms", 3_600_000);
        tool.finish(Outcome::Denied);
        let blocked = spans::tool_call("edit", "call_2").start();
        blocked.set("blocked_ms", 1_000);
        blocked.finish(Outcome::Ok);
        Outcome::Ok
    });
    let report = run(recording.dir.path(), &["stats", "--json"]).json();
    assert_eq!(report["total"]["denials"], 1);
    let waited = report["total"]["waited_ms"].as_f64().unwrap();
    // The question took next to no time; the hour on the tool is the same wait again.
    assert!((1_000.0..60_000.0).contains(&waited), "{waited}");
}

#[test]
fn usage_of_a_turn_counts_where_its_calls_have_none() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner")
            .model("anthropic", "claude-sonnet-4-5")
            .start();
        let _run = run.clone().entered();
        for with_call in [true, false] {
            let turn = spans::session_turn().start();
            if with_call {
                turn.in_scope(|| model("claude-sonnet-4-5", &usage(100, 0, 10)));
            }
            turn.record_usage(&usage(100, 0, 10));
            turn.finish(Outcome::Ok);
        }
        run.record_usage(&usage(200, 0, 20));
        run.finish(Outcome::Ok);
    });
    let root = recording.dir.path();
    let total = run(root, &["stats", "--json"]).json()["total"].clone();
    assert_eq!(
        (&total["input_tokens"], &total["model_calls"]),
        (&json!(200), &json!(1))
    );
    let listed = run(root, &["list", "--json"]).objects();
    assert_eq!(listed[0]["usage"]["input_tokens"], total["input_tokens"]);
}

/// Of a call whose process died only the least duration is known, often 0: it would lower the median.
#[test]
fn interrupted_calls_have_no_duration() {
    let root = tempfile::tempdir().unwrap();
    let call = |id: u64, kind: &str, name: &str, ns: u64, outcome: &str| {
        let start = "2026-11-16T00:31:05.000000000Z";
        let payload = json!({
            "tool_id": "bash", "model_id": "m-1", "start": start, "duration_ns": ns,
            "outcome": outcome, "closes": name,
        });
        span("ses_1", kind, id, 1, payload)
    };
    let lines = [
        line("ses_1", "session_start", json!({"agent": "planner"})),
        call(2, "tool_result", "", 4_000_000_000, "ok"),
        call(3, "interrupted", "tool_result", 0, "interrupted"),
        call(4, "model_result", "", 2_000_000_000, "ok"),
        call(5, "interrupted", "model_result", 0, "interrupted"),
    ];
    written::write(root.path(), "ses_1", 1, &lines);
    let total = &run(root.path(), &["stats", "ses_1", "--json"]).json()["total"];
    assert_eq!(total["tool_calls"], 2);
    assert_eq!(total["model_calls"], 2);
    let p50 = |times: &str| total[times]["p50"].as_f64().unwrap();
    assert!((3_900.0..4_100.0).contains(&p50("tool_ms")), "{total:#}");
    assert!((1_900.0..2_100.0).contains(&p50("model_ms")), "{total:#}");
}
