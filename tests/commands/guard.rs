//! `spanledger guard`: limits tried on recorded sessions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spanledger::{Limits, LoopPolicy, Outcome, Refused, SpanExt, Usage, spans};

use crate::support::cli::run;
use crate::support::{LineExt, Recording, Trace};

/// An agent of `calls` model and tool calls; the last `same` tool calls are the same. Returns the number of the first
/// tool call that was refused.
fn agent(id: &str, calls: usize, same: usize, outcome: Outcome) -> Option<usize> {
    let run = spans::session_run(id, "worker").start();
    let mut refused = None;
    run.in_scope(|| {
        let _turn = spans::session_turn().start().entered();
        for n in 1..=calls {
            let child = (n == 2).then(|| spans::session_run(format!("{id}.sub"), "helper").start());
            let _in_child = child.as_ref().map(|child| child.enter());
            if step(n.min(calls + 1 - same.max(1))).is_err() {
                refused = Some(n);
                break;
            }
        }
    });
    run.finish(outcome);
    refused
}

fn step(n: usize) -> Result<(), Refused> {
    let model = spans::model_call("openai", "a-model-of-my-own").start();
    model.record_usage(&Usage {
        input_tokens: Some(90),
        output_tokens: Some(10),
        cost_usd: Some(0.25),
        ..Usage::default()
    });
    model.finish(Outcome::Ok);
    let tool = spans::tool_call("bash", format!("call_{n}"))
        .args(json!({"n": n}))
        .start();
    tool.allowed()?;
    tool.record_result("failed");
    tool.finish(Outcome::Ok);
    Ok(())
}

fn recorded() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        agent("good", 3, 0, Outcome::Ok);
        agent("long", 6, 0, Outcome::Ok);
        agent("stuck", 9, 6, Outcome::Error);
    });
    recording
}

fn guard(recording: &Recording, args: &[&str]) -> Value {
    let args = [&["guard", "--json"], args].concat();
    let done = run(recording.dir.path(), &args);
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

fn stop<'a>(document: &'a Value, id: &str) -> &'a Value {
    let stops = document["stops"].as_array().unwrap();
    stops.iter().find(|stop| stop["session_id"] == id).unwrap()
}

#[test]
fn stops_are_shown_with_what_they_save() {
    let recording = recorded();
    let document = guard(&recording, &["--all", "--max-tool-calls", "4"]);
    assert_eq!(document["sessions"], 3);
    assert_eq!(document["ended_well"], 2);
    assert_eq!(document["stopped"], 2);
    assert_eq!(document["false_stops"], 1);
    let stuck = stop(&document, "stuck");
    assert_eq!(stuck["guardrail"], "max_tool_calls");
    assert_eq!(
        (&stuck["threshold"], &stuck["actual"]),
        (&json!(4.0), &json!(5.0))
    );
    assert_eq!(stuck["ended_well"], false);
    // Five tool calls, and the four model calls between them.
    assert_eq!(stuck["saved"]["tool_calls"], 5);
    assert_eq!(stuck["saved"]["model_calls"], 4);
    assert_eq!(stuck["saved"]["tokens"], 400);
    assert_eq!(stuck["saved"]["cost_usd"], 1.0);
    let trace = Trace::read(recording.dir.path());
    let refused = trace
        .session("stuck")
        .iter()
        .filter(|line| line.kind == "tool_call")
        .nth(3);
    assert_eq!(stuck["address"], refused.unwrap().address().to_string());
    assert_eq!(stop(&document, "long")["ended_well"], true);
}

#[test]
fn each_limit_can_be_tried() {
    let recording = recorded();
    let stopped =
        |args: &[&str]| guard(&recording, &[&["--all"], args].concat())["stopped"].clone();
    assert_eq!(stopped(&["--max-model-calls", "6"]), 1);
    assert_eq!(stopped(&["--max-turns", "1"]), 0);
    assert_eq!(stopped(&["--max-turns", "0"]), 3);
    assert_eq!(stopped(&["--max-tokens", "301"]), 2);
    assert_eq!(stopped(&["--max-cost", "0.76"]), 2);
    assert_eq!(stopped(&["--max-duration", "1h"]), 0);
    assert_eq!(stopped(&["--loop", "no_progress:3"]), 1);
    assert_eq!(stopped(&["--loop", "no_progress:7"]), 0);
    assert_eq!(
        guard(&recording, &["long", "stuck", "--max-tool-calls", "4"])["stopped"],
        2
    );
    let file = recording.dir.path().join("limits.toml");
    std::fs::write(&file, "[limits]\nmodel_calls = 6\n").unwrap();
    assert_eq!(stopped(&["--config", file.to_str().unwrap()]), 1);
}

/// The backtest of a trace without limits stops at the call at which an agent with these limits is stopped.
#[test]
fn backtest_stops_where_a_live_agent_is_stopped() {
    let recording = recorded();
    let all = [
        (vec!["--max-tool-calls", "5"], Limits::new().tool_calls(5)),
        (vec!["--max-tokens", "400"], Limits::new().tokens(400)),
        (vec!["--max-cost", "1.6"], Limits::new().cost_usd(1.6)),
        (vec!["--loop", "no_progress:4"], {
            let limits = Limits::new().on_loop(LoopPolicy::Stop);
            limits.repetitions(spanledger::watch::LoopKind::NoProgress, 4)
        }),
    ];
    for (args, limits) in all {
        let document = guard(&recording, &[&["stuck"], &args[..]].concat());
        let live = Recording::with(|builder| builder.limits(limits));
        let refused = live.run(|| agent("stuck", 9, 6, Outcome::Error)).unwrap();
        // A model call may be refused first; the agent asks before its tools only.
        let trace = Trace::read(recording.dir.path());
        let lines = trace.lines();
        let lines: Vec<_> = lines
            .filter(|line| line.session_id.starts_with("stuck"))
            .collect();
        let stopped = stop(&document, "stuck");
        let session = stopped["stopped_session_id"].as_str().unwrap();
        let at = lines.iter().find(|line| {
            line.session_id == session
                && stopped["address"].as_str() == Some(&*line.address().to_string())
        });
        let at = at.unwrap();
        let before = lines
            .iter()
            .filter(|line| line.kind == "tool_call" && line.ts < at.ts);
        assert_eq!(before.count() + 1, refused, "{args:?}");
        let denied = live.trace();
        let denied = denied
            .all("tool_result")
            .into_iter()
            .find(|line| line.text("outcome") == "denied");
        assert_eq!(
            denied.unwrap().text("error.guardrail"),
            stopped["guardrail"]
        );
    }
}

/// What a live agent measures and what its trace has are the same time, so both stop at the same call.
#[test]
fn backtest_stops_at_the_call_at_which_the_time_of_a_live_agent_is_up() {
    let limit = Duration::from_secs(1);
    let live = Recording::with(|builder| builder.limits(Limits::new().duration(limit)));
    let refused: Vec<_> = live.run(|| {
        let _run = spans::session_run("slow", "worker").start().entered();
        let _turn = spans::session_turn().start().entered();
        let began = Instant::now();
        let calls = (1..=6).filter(|n| {
            let tool = spans::tool_call("bash", format!("call_{n}")).start();
            let refused = tool.allowed().is_err();
            // The third tool runs until the time is up.
            while *n == 3 && began.elapsed() < limit + limit / 10 {
                std::thread::yield_now();
            }
            refused
        });
        calls.map(|n| format!("call_{n}")).collect()
    });
    assert_eq!(refused.last().map(String::as_str), Some("call_6"));
    let document = guard(&live, &["slow", "--max-duration", "1s"]);
    let stopped = stop(&document, "slow");
    assert_eq!(stopped["guardrail"], "max_duration_s");
    let trace = live.trace();
    let first = trace.find("tool_call", "tool_call_id", refused[0].as_str());
    assert_eq!(stopped["address"], first.address().to_string());
}

#[test]
fn table_names_stops_and_false_stops() {
    let recording = recorded();
    let done = run(
        recording.dir.path(),
        &["guard", "--all", "--max-tool-calls", "4"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let text = done.lines().join("\n");
    for expected in [
        "the limit max_tool_calls is 4, and this is tool call 5",
        "2 of 3 sessions would have been stopped, 1 of them ended well (false stops).",
        "That would have saved 5 model calls, 7 tool calls, 500 tokens, $1.25.",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn suggestion_is_a_configuration_that_spares_good_sessions() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["guard", "--all", "--suggest"]);
    assert_eq!(done.code, 0, "{done:?}");
    let file = recording.dir.path().join("limits.toml");
    std::fs::write(&file, done.lines().join("\n")).unwrap();
    let limits = Limits::from_file(&file).unwrap().to_json();
    assert_eq!(limits["tool_calls"], 8);
    assert_eq!(limits["tokens"], 720);
    assert_eq!(limits["cost_usd"], 1.8);
    assert_eq!(limits["on_loop"], "stop");
    let document = guard(&recording, &["--all", "--config", file.to_str().unwrap()]);
    assert_eq!(
        (&document["stopped"], &document["false_stops"]),
        (&json!(1), &json!(0))
    );
    let json = guard(&recording, &["--all", "--suggest"]);
    assert_eq!(json["limits"]["tool_calls"], 8);
    assert_eq!(
        json["needed"]["tool_calls"],
        json!({"median": 3.0, "p95": 6.0, "max": 6.0})
    );
    assert_eq!(
        json["backtest"],
        json!({"sessions": 3, "stopped": 1, "false_stops": 0})
    );
}

#[test]
fn last_session_is_the_default() {
    let recording = recorded();
    let last = guard(&recording, &["last", "--max-tool-calls", "5"]);
    assert_eq!(last["sessions"], 1);
    assert_eq!(guard(&recording, &["--max-tool-calls", "5"]), last);
}

#[test]
fn wrong_usage_is_explained() {
    let recording = recorded();
    let root = recording.dir.path();
    let fails = |args: &[&str], expected: &str| {
        let done = run(root, args);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(expected), "{done:?}");
    };
    fails(&["guard", "--all"], "no limit is given");
    fails(&["guard"], "no limit is given");
    fails(
        &["guard", "--all", "--loop", "spin:3"],
        "no_progress, cycle, polling, drifting",
    );
    fails(&["guard", "--all", "--loop", "cycle:1"], "at least 2");
    fails(&["guard", "--all", "--max-cost=-1"], "--max-cost");
    fails(
        &["guard", "nobody", "--max-turns", "1"],
        "no session \"nobody\"",
    );
    fails(
        &["guard", "--all", "--config", "/nonexistent.toml"],
        "/nonexistent.toml: ",
    );
}
