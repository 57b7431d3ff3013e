//! The programs that exports are made for read the export of a session that has everything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use spanledger::export::{Format, Target, export};
use spanledger::{Limits, LoopPolicy, Outcome, SpanExt, events, spans};
use tempfile::TempDir;
use tracing_subscriber::layer::SubscriberExt;

use crate::support::Recording;
use crate::support::loops::Vector;
use crate::support::rich_session::{self, SESSION, SUBAGENT};
use crate::support::skipped::skipped;

/// The program that a variable names.
pub fn program(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        skipped(&format!("{variable} is not set"));
    }
    path
}

/// Exports sessions to one target.
pub fn export_all(format: Format, root: &Path, sessions: &[&str], to: &Path) {
    let mut target = Target::file(to);
    for session in sessions {
        let session = spanledger::read::session_dir(root, session);
        let exported = export(format, session, &mut target).unwrap();
        assert!(exported.damages.is_empty(), "{exported:?}");
        assert!(exported.lost.is_empty(), "{exported:?}");
    }
    target.finish().unwrap();
}

/// Runs a program in an empty directory that is its home too.
pub fn judge(program: &Path, home: &Path, data: &str, args: &[&str]) -> Output {
    let empty = home.join("home");
    std::fs::create_dir_all(&empty).unwrap();
    Command::new(program)
        .args(args)
        .current_dir(&empty)
        .env("HOME", &empty)
        .env("PYTHONWARNINGS", "ignore")
        .env(data, home)
        .output()
        .unwrap()
}

#[track_caller]
pub fn accepted(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn ids(runs: &Value, key: &str) -> Vec<String> {
    let runs = runs.as_array().or_else(|| runs["runs"].as_array()).unwrap();
    runs.iter()
        .map(|run| run[key].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn agentdbg_reads_runs() {
    let Some(agentdbg) = program("SPANLEDGER_AGENTDBG") else {
        return;
    };
    let root = rich_session::record();
    let out = TempDir::new().unwrap();
    export_all(
        Format::AgentDbg,
        root.path(),
        &[SESSION, SUBAGENT],
        out.path(),
    );
    let run = |args: &[&str]| judge(&agentdbg, out.path(), "AGENTDBG_DATA_DIR", args);

    let list: Value = serde_json::from_str(&accepted(run(&["list", "--json"]))).unwrap();
    let runs = list.as_array().or_else(|| list["runs"].as_array()).unwrap();
    assert_eq!(runs.len(), 3, "{list}");
    let whole = runs.iter().find(|run| run["run_name"] == "fill").unwrap();
    assert_eq!(whole["status"], "ok");
    assert_eq!(
        whole["counts"],
        json!({"llm_calls": 3, "tool_calls": 6, "errors": 0, "loop_warnings": 1})
    );
    for id in ids(&list, "run_id") {
        let file = out.path().join("exported.json");
        accepted(run(&["export", &id, "-o", file.to_str().unwrap()]));
        let exported: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let events = exported["events"].as_array().unwrap();
        assert_eq!(events[0]["event_type"], "RUN_START");
        assert_eq!(events.last().unwrap()["event_type"], "RUN_END");
        let baseline = out.path().join("baseline.json");
        let baseline = baseline.to_str().unwrap();
        accepted(run(&["baseline", &id, "-o", baseline]));
        accepted(run(&[
            "assert",
            &id,
            "-b",
            baseline,
            "--no-new-tools",
            "--no-guardrails",
        ]));
        accepted(run(&["diff", &id, "-b", baseline]));
    }
    let id = whole["run_id"].as_str().unwrap();
    assert_eq!(run(&["assert", id, "--no-loops"]).status.code(), Some(1));
}

/// Asks a server on this machine for JSON. It may still be starting.
fn get(port: u16, path: &str) -> Value {
    use std::io::{Read, Write};
    let late = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let ask = || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    loop {
        match ask() {
            Ok(answer) => {
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                assert!(head.contains(" 200 "), "{answer}");
                return serde_json::from_str(body).unwrap();
            }
            Err(error) => assert!(std::time::Instant::now() < late, "{error}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn agentdbg_serves_runs() {
    let Some(agentdbg) = program("SPANLEDGER_AGENTDBG") else {
        return;
    };
    let root = rich_session::record();
    let out = TempDir::new().unwrap();
    export_all(Format::AgentDbg, root.path(), &[SESSION], out.path());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut server = Command::new(&agentdbg)
        .args(["view", "--no-browser", "--port", &port.to_string()])
        .current_dir(out.path())
        .env("HOME", out.path())
        .env("AGENTDBG_DATA_DIR", out.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let runs = get(port, "/api/runs");
    for id in ids(&runs, "run_id") {
        let events = get(port, &format!("/api/runs/{id}/events"));
        let served = events.as_array().or_else(|| events["events"].as_array());
        let file = out.path().join(format!("runs/{id}/events.jsonl"));
        let written = std::fs::read_to_string(file).unwrap().lines().count();
        assert_eq!(served.unwrap().len(), written);
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(ids(&runs, "run_id").len(), 2);
}

#[test]
fn harbor_reads_trajectories() {
    let Some(python) = program("SPANLEDGER_HARBOR_PYTHON") else {
        return;
    };
    let root = rich_session::record();
    let out = TempDir::new().unwrap();
    let file = out.path().join("trajectory.json");
    export_all(Format::Atif, root.path(), &[SESSION], &file);
    let validate = |file: &Path| {
        let mut command = Command::new(&python);
        command.args(["-m", "harbor.utils.trajectory_validator"]);
        command.arg(file).output().unwrap()
    };
    accepted(validate(&file));
    let text = std::fs::read_to_string(&file).unwrap();
    let trajectory: Value = serde_json::from_str(&text).unwrap();
    let steps = trajectory["steps"].as_array().unwrap();
    let refers = |step: &Value| {
        step["observation"]["results"]
            .to_string()
            .contains(SUBAGENT)
    };
    assert!(steps.iter().any(refers), "{text}");
    let inside = &trajectory["subagent_trajectories"][0];
    assert_eq!(inside["trajectory_id"], SUBAGENT);
    assert_eq!(inside["final_metrics"]["total_prompt_tokens"], 812);
    assert_eq!(trajectory["final_metrics"]["total_cost_usd"], 0.03);
    // The judge judges.
    std::fs::write(&file, text.replace("\"step_id\":2", "\"step_id\":9")).unwrap();
    assert!(!validate(&file).status.success());
}

#[test]
fn acp_messages_follow_the_schema() {
    let Some(packages) = program("SPANLEDGER_ACP") else {
        return;
    };
    let root = rich_session::record();
    let out = TempDir::new().unwrap();
    let file = out.path().join("acp.jsonl");
    export_all(Format::Acp, root.path(), &[SESSION], &file);
    let text = std::fs::read_to_string(&file).unwrap();
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backends/acp_schema.cjs");
        let mut node = Command::new("node");
        node.arg(script).stdin(std::fs::File::open(&file).unwrap());
        node.env("NODE_PATH", packages.join("node_modules"));
        node.env("SPANLEDGER_ACP", &packages).output().unwrap()
    };
    let lines = accepted(check(&text));
    assert_eq!(lines.trim(), text.lines().count().to_string());
    // The judge judges.
    let wrong = text.replace(r#""status":"failed""#, r#""status":"denied""#);
    assert!(!check(&wrong).status.success());
}

/// The document's queries, and the answers to them.
fn queries(rich: &str, invented: &str) -> Vec<(&'static str, Value)> {
    vec![
        (
            "SELECT * FROM read_json_auto('sessions.jsonl', format='newline_delimited') LIMIT 10",
            Value::Null,
        ),
        (
            "SELECT session_id, model, iterations, grounded_in_roster, final_verdict
             FROM read_json_auto('sessions.jsonl', format='newline_delimited')
             WHERE final_verdict = 'accepted' AND iterations > 1 AND list_contains(
               list_transform(attempts, x -> x.error LIKE '%consistency%' OR x.error LIKE '%phantom%'), true)",
            json!([{"session_id": rich, "model": "claude-sonnet-4-5", "iterations": 2, "grounded_in_roster": true, "final_verdict": "accepted"}]),
        ),
        (
            "SELECT model, COUNT(*) AS sessions,
               SUM(CASE WHEN iterations = 1 AND final_verdict = 'accepted' THEN 1 ELSE 0 END)::INT AS first_shot,
               ROUND(100.0 * SUM(CASE WHEN iterations = 1 AND final_verdict = 'accepted' THEN 1 ELSE 0 END) / COUNT(*), 1) AS pct
             FROM read_json_auto('sessions.jsonl', format='newline_delimited')
             WHERE kind = 'fill' GROUP BY model ORDER BY pct DESC",
            json!([
                {"model": "m2", "sessions": 1, "first_shot": 1, "pct": 100.0},
                {"model": "claude-sonnet-4-5", "sessions": 1, "first_shot": 0, "pct": 0.0},
            ]),
        ),
        (
            "SELECT session_id, model, iterations, attempts
             FROM read_json_auto('sessions.jsonl', format='newline_delimited')
             WHERE kind = 'fill' AND final_verdict = 'accepted' AND grounded_in_roster = false",
            json!([{"session_id": invented, "model": "m2", "iterations": 1}]),
        ),
        (
            "SELECT model, AVG(iterations) AS avg_iter, COUNT(*) AS n
             FROM read_json_auto('sessions.jsonl', format='newline_delimited')
             WHERE kind = 'fill' AND final_verdict = 'accepted' GROUP BY model ORDER BY avg_iter ASC",
            json!([
                {"model": "m2", "avg_iter": 1.0, "n": 1},
                {"model": "claude-sonnet-4-5", "avg_iter": 2.0, "n": 1},
            ]),
        ),
        (
            "WITH errors AS (
               SELECT session_id, model, unnest(attempts) AS att
               FROM read_json_auto('sessions.jsonl', format='newline_delimited'))
             SELECT model, split_part(att.error, ':', 1) AS kind, COUNT(*) AS n FROM errors
             WHERE att.verdict_kind = 'validation_failed' GROUP BY model, kind ORDER BY n DESC",
            json!([{"model": "claude-sonnet-4-5", "kind": "consistency", "n": 1}]),
        ),
    ]
}

/// Records a session whose accepted result is not grounded.
fn record_invented(root: &Path) {
    let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let run = spans::session_run("ses_invented", "validator").model("p", "m2");
        let _run = run.start().entered();
        events::iterate_result("accepted")
            .kind("fill")
            .grounded(false)
            .artifact(json!([1]))
            .emit();
    });
}

#[test]
fn duckdb_answers_queries_about_runs() {
    let root = rich_session::record();
    record_invented(root.path());
    let out = TempDir::new().unwrap();
    let log = out.path().join("sessions.jsonl");
    export_all(
        Format::SessionLog,
        root.path(),
        &[SESSION, SUBAGENT, "ses_invented"],
        &log,
    );
    let text = std::fs::read_to_string(&log).unwrap();
    let rows: Vec<Value> = text
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows.len(), 4);
    let id = |row: usize| rows[row]["session_id"].as_str().unwrap();
    let script = "import duckdb, sys\n\
        db = duckdb.connect()\n\
        if duckdb.__version__ >= '2': db.execute(\"SET lambda_syntax='ENABLE_SINGLE_ARROW'\")\n\
        db.execute(f\"COPY ({sys.argv[1]}) TO 'answer.json' (FORMAT json, ARRAY true)\")";
    for variable in ["SPANLEDGER_DUCKDB_1_PYTHON", "SPANLEDGER_DUCKDB_PYTHON"] {
        let Some(python) = program(variable) else {
            continue;
        };
        for (query, expected) in queries(id(0), id(3)) {
            let done = Command::new(&python)
                .args(["-c", script, query])
                .current_dir(out.path())
                .output()
                .unwrap();
            accepted(done);
            let answer = std::fs::read(out.path().join("answer.json")).unwrap();
            let mut answer: Value = serde_json::from_slice(&answer).unwrap();
            for row in answer.as_array_mut().unwrap() {
                row.as_object_mut().unwrap().remove("attempts");
            }
            match expected {
                Value::Null => assert_eq!(answer.as_array().unwrap().len(), 4),
                expected => assert_eq!(answer, expected, "{variable}: {query}"),
            }
        }
    }
}

/// AgentDbg's own loop detector, on the tool and model calls that we export of it.
const DETECT: &str = r#"
import json, sys
from agentdbg.loopdetect import detect_loop, pattern_key
window, seen, patterns = [], set(), []
for line in open(sys.argv[1]):
    event = json.loads(line)
    if event["event_type"] not in ("LLM_CALL", "TOOL_CALL", "STATE_UPDATE"):
        continue
    # The agent of the vectors calls one more tool at the end.
    if event["payload"].get("tool_name") == "done":
        continue
    window.append(event)
    found = detect_loop(window, 12, 3)
    if found and pattern_key(found) not in seen:
        seen.add(pattern_key(found))
        patterns.append(found["pattern"])
print(json.dumps(patterns))
"#;

/// The only run that was exported.
fn only_run(out: &Path) -> PathBuf {
    let mut runs = std::fs::read_dir(out.join("runs")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    assert!(runs.next().is_none());
    run
}

#[test]
fn loops_differ_from_agentdbg_only_where_explained() {
    let Some(agentdbg) = program("SPANLEDGER_AGENTDBG") else {
        return;
    };
    let python = agentdbg.with_file_name("python");
    for vector in Vector::all() {
        let recording = Recording::with(|builder| builder.limits(vector.limits()));
        recording.run(|| vector.run());
        let out = TempDir::new().unwrap();
        export_all(
            Format::AgentDbg,
            recording.dir.path(),
            &["looping"],
            out.path(),
        );
        let events = only_run(out.path()).join("events.jsonl");
        let events = events.to_str().unwrap();
        let theirs = accepted(judge(
            &python,
            out.path(),
            "AGENTDBG_DATA_DIR",
            &["-c", DETECT, events],
        ));
        let theirs: Value = serde_json::from_str(&theirs).unwrap();
        assert_eq!(theirs, vector.json["agentdbg"], "{}", vector.name());
        let ours = vector.json["warnings"].as_array().unwrap().iter();
        let ours = ours.map(|warning| {
            let tools = warning[1].as_str().unwrap().split(" -> ");
            let tools: Vec<_> = tools.map(|tool| format!("TOOL_CALL:{tool}")).collect();
            tools.join(" -> ")
        });
        let same = json!(ours.collect::<Vec<_>>()) == theirs;
        assert_eq!(
            same,
            vector.json["difference"].is_null(),
            "{}",
            vector.name()
        );
    }
}

#[test]
fn agentdbg_finds_stops_and_loops() {
    let Some(agentdbg) = program("SPANLEDGER_AGENTDBG") else {
        return;
    };
    let limits = Limits::new().on_loop(LoopPolicy::Stop);
    let recording = Recording::with(|builder| builder.limits(limits));
    recording.run(|| {
        let run = spans::session_run("stopped", "agent").start();
        let stopped = run.in_scope(|| {
            loop {
                let tool = spans::tool_call("bash", "c")
                    .args(json!({"command": "make"}))
                    .start();
                if let Err(stopped) = tool.allowed() {
                    break stopped;
                }
                tool.record_result("failed");
                tool.finish(Outcome::Ok);
            }
        });
        run.record_error(&stopped);
        run.finish(Outcome::Error);
    });
    let out = TempDir::new().unwrap();
    export_all(
        Format::AgentDbg,
        recording.dir.path(),
        &["stopped"],
        out.path(),
    );
    let run = only_run(out.path());
    let id = run.file_name().unwrap().to_str().unwrap();
    for check in ["--no-loops", "--no-guardrails"] {
        let args = ["assert", id, check];
        let done = judge(&agentdbg, out.path(), "AGENTDBG_DATA_DIR", &args);
        assert_eq!(done.status.code(), Some(1), "{check}: {done:?}");
    }
    let events = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| {
        events
            .iter()
            .filter(|event| event["event_type"] == kind)
            .collect::<Vec<_>>()
    };
    let error = &of("ERROR")[0]["payload"];
    assert_eq!(error["error_type"], "Stopped");
    assert_eq!(error["guardrail"], "loop");
    assert_eq!(
        (&error["threshold"], &error["actual"]),
        (&json!(3), &json!(3))
    );
    // The evidence is the events of the calls.
    let tools = of("TOOL_CALL");
    let ids: Vec<_> = tools[..3].iter().map(|event| &event["event_id"]).collect();
    assert_eq!(
        of("LOOP_WARNING")[0]["payload"]["evidence_event_ids"],
        json!(ids)
    );
}
