//! Maida and AgentDbg read runs of many traces, runs that failed, and what was recorded outside of runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use spanledger::export::Format;
use spanledger::{Failure, Outcome, SpanExt, events, spans};
use tempfile::TempDir;

use super::exports::{accepted, export_all, judge, program};
use crate::support::Recording;
use crate::support::rich_session::{self, SESSION, SUBAGENT};

/// The events of a run, as Maida makes them from its spans, once it has checked the directory.
fn maida_events(maida: &Path, out: &Path, dir: &Path) -> Vec<Value> {
    let run = |args: &[&str]| judge(maida, out, "MAIDA_DATA_DIR", args);
    let valid = run(&["validate-trace", dir.to_str().unwrap(), "--json"]);
    let valid: Value = serde_json::from_str(&accepted(valid)).unwrap();
    assert_eq!(valid["valid"], true, "{valid}");
    assert_eq!(valid["diagnostics"], json!([]));
    let id = valid["trace_id"].as_str().unwrap();
    let file = out.join("exported.json");
    accepted(run(&["export", id, "-o", file.to_str().unwrap()]));
    let exported: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    exported["events"].as_array().unwrap().clone()
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let is = |event: &&Value| event["event_type"] == kind;
    events.iter().filter(is).collect()
}

fn run_dirs(out: &Path) -> Vec<std::path::PathBuf> {
    let dirs = fs::read_dir(out.join("runs")).unwrap();
    dirs.map(|dir| dir.unwrap().path()).collect()
}

#[test]
fn maida_reads_runs() {
    let Some(maida) = program("SPANLEDGER_MAIDA") else {
        return;
    };
    let root = rich_session::record();
    let out = TempDir::new().unwrap();
    export_all(Format::Maida, root.path(), &[SESSION, SUBAGENT], out.path());
    let mut counted = Vec::new();
    for dir in run_dirs(out.path()) {
        let events = maida_events(&maida, out.path(), &dir);
        let count = |kind: &str| of(&events, kind).len();
        counted.push((count("LLM_CALL"), count("TOOL_CALL"), count("LOOP_WARNING")));
    }
    counted.sort();
    // The interrupted run, the subagent, and the whole run.
    assert_eq!(counted, [(0, 1, 0), (1, 0, 0), (3, 6, 1)]);
}

/// A session whose spans are in many traces and segments, with a run that failed and a call that outlived it.
fn record_many_traces() -> TempDir {
    let recording = Recording::with(|builder| {
        let builder = builder.record_spans(|_| true).segment_size(4096);
        builder.trace_limits(1, Duration::MAX)
    });
    recording
        .handle()
        .session("alone")
        .record(events::state_update().state(json!({"step": 1})));
    recording.run(|| {
        let run = spans::session_run("many", "agent").run_name("fill").start();
        let late = run.in_scope(|| {
            (0..5).for_each(|_| turn());
            spans::tool_call("bash", "late").start()
        });
        run.record_failure(&Failure::new("RunFailed", "no answer"));
        run.finish(Outcome::Error);
        late.finish(Outcome::Ok);
    });
    recording.end()
}

fn turn() {
    let turn = spans::session_turn().start();
    turn.in_scope(|| {
        events::message_user("Build it.").emit();
        let model = spans::model_call("anthropic", "opus").start();
        model.in_scope(|| events::message_assistant("I build it.").emit());
        model.record_finish_reason("tool_use");
        model.finish(Outcome::Ok);
        let step = tracing::info_span!("step");
        step.in_scope(|| {
            let tool = spans::tool_call("bash", "c1").start();
            tool.set("stderr", "error[E0308]");
            tool.record_exit_code(101);
            tool.finish(Outcome::Error);
        });
    });
    turn.finish(Outcome::Error);
}

#[test]
fn maida_reads_a_run_of_many_traces() {
    let Some(maida) = program("SPANLEDGER_MAIDA") else {
        return;
    };
    let root = record_many_traces();
    let out = TempDir::new().unwrap();
    export_all(Format::Maida, root.path(), &["many", "alone"], out.path());
    let runs = run_dirs(out.path());
    assert_eq!(runs.len(), 2);
    let runs = runs.iter().map(|dir| maida_events(&maida, out.path(), dir));
    let (many, alone): (Vec<_>, Vec<_>) = runs.partition(|events| events.len() > 5);
    assert_eq!(of(&alone[0], "STATE_UPDATE").len(), 1);
    let many = &many[0];
    let calls = of(many, "LLM_CALL");
    assert_eq!(calls.len(), 5);
    for call in calls {
        let payload = &call["payload"];
        let said = ["prompt", "response", "stop_reason"].map(|name| &payload[name]);
        assert_eq!(json!(said), json!(["Build it.", "I build it.", "tool_use"]));
    }
    let tools = of(many, "TOOL_CALL");
    assert_eq!(tools.len(), 6);
    assert_eq!(tools[0]["meta"]["exit_code"], 101);
    // The run's own error. Turns that failed are no errors of their own.
    let errors = of(many, "ERROR");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["payload"]["error_type"], "RunFailed");
    assert_eq!(of(many, "RUN_START")[0]["payload"]["run_name"], "fill");
    assert_eq!(of(many, "RUN_END")[0]["payload"]["status"], "error");
}

#[test]
fn agentdbg_reads_a_run_of_many_traces() {
    let Some(agentdbg) = program("SPANLEDGER_AGENTDBG") else {
        return;
    };
    let root = record_many_traces();
    let out = TempDir::new().unwrap();
    export_all(
        Format::AgentDbg,
        root.path(),
        &["many", "alone"],
        out.path(),
    );
    let run = |args: &[&str]| judge(&agentdbg, out.path(), "AGENTDBG_DATA_DIR", args);
    let list: Value = serde_json::from_str(&accepted(run(&["list", "--json"]))).unwrap();
    let runs = list.as_array().or_else(|| list["runs"].as_array()).unwrap();
    let mut found: Vec<_> = runs
        .iter()
        .map(|run| json!([run["run_name"], run["status"], run["counts"]["tool_calls"]]))
        .collect();
    found.sort_by_key(Value::to_string);
    assert_eq!(found, [json!(["fill", "error", 6]), json!([null, "ok", 0])]);
    for run_dir in runs {
        let id = run_dir["run_id"].as_str().unwrap();
        let file = out.path().join("baseline.json");
        let file = file.to_str().unwrap();
        accepted(run(&["baseline", id, "-o", file]));
        accepted(run(&["assert", id, "-b", file, "--no-new-tools"]));
    }
}
