//! Makes the recorded trace that is kept as a fixture: `tests/fixtures/v1` was made by it once and
//! is not made again, since what it proves is that old files stay readable. For the next version
//! of the format:
//!
//! ```sh
//! cargo run --features cli --example make-fixture -- tests/fixtures/v2
//! ```
//!
//! The sessions are recorded by the real layer in processes of their own, some of which die over
//! their work. Then times, ids and what is known of the machine are replaced by fixed ones.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};
use tracing_subscriber::layer::SubscriberExt;

const SCENARIOS: [&str; 8] = [
    "whole",
    "interrupted",
    "dies",
    "resumed",
    "blob",
    "gap",
    "masked",
    "future",
];

fn main() {
    match std::env::var("SPANLEDGER_SCENARIO") {
        Ok(scenario) => record(&scenario),
        Err(_) => make(),
    }
}

fn make() {
    let into = std::env::args_os().nth(1).map(PathBuf::from);
    let into = into.expect("the directory to make, such as tests/fixtures/v2");
    let dir = tempfile::tempdir().unwrap();
    for scenario in SCENARIOS {
        let done = Command::new(std::env::current_exe().unwrap())
            .env("SPANLEDGER_DIR", dir.path())
            .env("SPANLEDGER_SCENARIO", scenario)
            .status()
            .unwrap();
        assert!(done.success(), "{scenario}");
    }
    normalize(dir.path(), &into);
}

/// One scenario, in a process that ends without tidying up.
fn record(scenario: &str) {
    let (layer, guard) = spanledger::builder()
        .inline_limit(1024)
        .resource("service.name", "fixture")
        .build()
        .unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    match scenario {
        "whole" => whole(),
        "interrupted" => dies("ses_interrupted"),
        "dies" => dies("ses_resumed"),
        "resumed" => resumed(),
        "blob" => in_a_turn("ses_blob", || {
            let log: String = (1..=90).map(|n| format!("case_{n:03} ... ok\n")).collect();
            tool("bash", "call_1", &json!({"command": "cargo test"}), &log);
        }),
        "gap" => gap(guard.handle().root()),
        "masked" => in_a_turn("ses_masked", || {
            let args = json!({"url": "https://ada:hunter2hunter2@example.com/", "api_key": "k-0123456789abcdef"});
            tool(
                "fetch",
                "call_1",
                &args,
                "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzzzzz\nREGION=eu-1",
            );
        }),
        _ => in_a_turn("ses_future", || {
            tool("bash", "call_1", &json!({"command": "ls"}), "src");
            events::custom(
                "weather_report",
                json!({"sky": "clear", "wind": {"knots": 4}}),
            )
            .emit();
        }),
    }
    // No destructor runs: what is open stays open.
    std::process::exit(0);
}

fn model(used: (u64, u64, u64, f64)) {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5")
        .variant("high")
        .temperature(0.2)
        .start();
    call.record_usage(&Usage {
        input_tokens: Some(used.0),
        cache_read_tokens: Some(used.1),
        output_tokens: Some(used.2),
        cost_usd: Some(used.3),
        ..Usage::default()
    });
    call.set("finish_reason", "tool_use");
    call.finish(Outcome::Ok);
}

fn tool(name: &str, call: &str, args: &Value, result: &str) {
    let tool = spans::tool_call(name, call).args(args).start();
    tool.record_result(result);
    tool.finish(Outcome::Ok);
}

fn in_a_turn(id: &str, work: impl FnOnce()) {
    let run = spans::session_run(id, "builder")
        .model("anthropic", "claude-sonnet-4-5")
        .start();
    let in_run = run.enter();
    let turn = spans::session_turn().trigger("user").start();
    turn.in_scope(|| {
        events::message_user("Have a look.").emit();
        work();
    });
    turn.finish(Outcome::Ok);
    drop(in_run);
    run.finish(Outcome::Ok);
}

fn whole() {
    let run = spans::session_run("ses_whole", "builder")
        .model("anthropic", "claude-sonnet-4-5")
        .variant("high")
        .temperature(0.2)
        .workspace_root("/home/ada/pump")
        .start();
    let in_run = run.enter();
    events::session_title("Fix the failing build").emit();
    events::system_prompt("You are a careful engineer.").emit();
    events::tool_catalog(json!([{"name": "bash", "description": "Run a command"}])).emit();
    events::permission_rules(json!([{"permission": "bash", "pattern": "rm *", "action": "deny"}]))
        .emit();
    let turn = spans::session_turn().trigger("user").start();
    turn.in_scope(whole_first_turn);
    turn.set("stop_reason", "end_turn");
    turn.finish(Outcome::Ok);
    let turn = spans::session_turn().trigger("user").start();
    turn.in_scope(whole_second_turn);
    turn.finish(Outcome::Ok);
    drop(in_run);
    run.set("stop_reason", "end_turn");
    run.finish(Outcome::Ok);
}

fn whole_first_turn() {
    events::message_user("The build fails. Why?")
        .message_id("msg_1")
        .emit();
    events::message_reasoning("The error first, and the manifest.").emit();
    model((1_840, 0, 96, 0.0069));
    // Two at once.
    let build = spans::tool_call("bash", "call_1")
        .args(json!({"command": "cargo build"}))
        .start();
    let read = spans::tool_call("read", "call_2")
        .args(json!({"path": "Cargo.toml"}))
        .start();
    read.record_result("[package]\nname = \"pump\"");
    read.finish(Outcome::Ok);
    build.record_failure(&Failure::new("ExitStatus", "exit status: 101"));
    build.set("exit_code", 101);
    build.finish(Outcome::Error);
    let rm = spans::tool_call("bash", "call_3")
        .args(json!({"command": "rm -rf target"}))
        .start();
    let permission = spans::permission_evaluate("bash")
        .pattern("rm *")
        .action("deny")
        .source("manifest")
        .child_of(&rm)
        .start();
    permission.finish(Outcome::Denied);
    rm.finish(Outcome::Denied);
    let mut answer = tracing::Span::current().stream("msg_2");
    for piece in [
        "The valve's flow is an `f32`, ",
        "but the pump wants ",
        "an `f64`.",
    ] {
        answer.push(piece);
    }
    answer.end();
}

fn whole_second_turn() {
    events::message_user("Then change it, and plot the flow.")
        .message_id("msg_3")
        .emit();
    let compaction = spans::compaction_run().auto(true).start();
    compaction.set("summarized_message_count", 2);
    compaction.set("summary", "The build fails over a type in src/valve.rs.");
    compaction.finish(Outcome::Ok);
    model((2_310, 1_792, 121, 0.0037));
    let edit = spans::tool_call("edit", "call_4")
        .args(json!({"path": "src/valve.rs"}))
        .start();
    let ask = spans::permission_evaluate("edit")
        .action("ask")
        .source("session")
        .child_of(&edit)
        .start();
    events::hitl_request("int_1")
        .tool_call_id("call_4")
        .on(&ask)
        .emit();
    ask.session().unwrap().record(
        events::hitl_response("int_1")
            .decision("allow_once")
            .decided_by("ada"),
    );
    ask.set("decision", "allow_once");
    ask.set("decided_by", "ada");
    ask.finish(Outcome::Ok);
    edit.record_result(&json!({"changed": 1}));
    edit.finish(Outcome::Ok);
    events::artifact("flow.png").mime("image/png").emit();
    let review = spans::session_run("ses_whole-review", "reviewer")
        .model("anthropic", "claude-haiku-4-5")
        .start();
    review.in_scope(|| {
        let turn = spans::session_turn().trigger("agent").start();
        turn.in_scope(|| events::message_assistant("The cast is sound.").emit());
        turn.finish(Outcome::Ok);
    });
    review.finish(Outcome::Ok);
    events::message_assistant("Done: see flow.png.")
        .message_id("msg_4")
        .emit();
}

fn dies(id: &str) {
    let run = spans::session_run(id, "builder")
        .model("anthropic", "claude-sonnet-4-5")
        .start();
    let _run = run.entered();
    let _turn = spans::session_turn().trigger("user").start().entered();
    events::message_user("Run the long test.").emit();
    model((900, 0, 20, 0.001));
    let tool = spans::tool_call("bash", "call_1")
        .args(json!({"command": "cargo test --release"}))
        .start();
    std::mem::forget(tool);
    std::process::exit(0);
}

fn resumed() {
    in_a_turn("ses_resumed", || {
        tool("bash", "call_2", &json!({"command": "cargo test"}), "ok");
    });
}

/// The segment is removed underneath; the writer notices after a while.
fn gap(root: &Path) {
    in_a_turn("ses_gap", || {
        let dir = spanledger::read::session_dir(root, "ses_gap");
        for entry in std::fs::read_dir(&dir).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        // What is said before it notices goes with the segment.
        while std::fs::read_dir(&dir).unwrap().next().is_none() {
            events::message_assistant("Something is missing here.").emit();
        }
    });
}

/// How long each kind of line is said to have taken, in nanoseconds.
fn pace(kind: &str) -> i128 {
    1_000_000
        * match kind {
            "model_result" => 1_250,
            "tool_result" => 420,
            "hitl_response" => 8_000,
            "compaction_end" => 300,
            "message_delta" => 90,
            "session_resume" => 3_600_000,
            _ => 2,
        }
}

struct Normal {
    root: String,
    ids: HashMap<String, String>,
    writers: HashMap<String, usize>,
    /// Times as they were and as they are told.
    times: BTreeMap<i128, i128>,
}

fn ns(text: &str) -> Option<i128> {
    let ts: jiff::Timestamp = text.parse().ok()?;
    Some(ts.as_nanosecond())
}

fn time_text(ns: i128, digits: usize) -> String {
    let ts = jiff::Timestamp::from_nanosecond(ns).unwrap();
    format!("{ts:.digits$}")
}

fn normalize(root: &Path, into: &Path) {
    let mut normal = Normal {
        root: root.display().to_string(),
        ids: HashMap::new(),
        writers: HashMap::new(),
        times: BTreeMap::new(),
    };
    let mut files: Vec<(PathBuf, Vec<Value>)> = Vec::new();
    for id in std::fs::read_dir(root.join("sessions")).unwrap() {
        for entry in std::fs::read_dir(id.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                for blob in std::fs::read_dir(&path).unwrap() {
                    let blob = blob.unwrap().path();
                    let to = into.join(relative.join(blob.file_name().unwrap()));
                    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                    std::fs::copy(blob, to).unwrap();
                }
                continue;
            }
            if path
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let parse = |line| {
                let value: Value = serde_json::from_str(line).unwrap();
                assert_eq!(value.to_string(), line, "it would not be what was written");
                value
            };
            files.push((relative, text.lines().map(parse).collect()));
        }
    }
    let mut all: Vec<(i128, &Value)> = files
        .iter()
        .flat_map(|(_, lines)| lines)
        .map(|line| (ns(line["ts"].as_str().unwrap()).unwrap(), line))
        .collect();
    all.sort_by_key(|(ts, line)| (*ts, line["session_id"].to_string(), line["seq"].as_u64()));
    let mut now = ns("2026-11-16T09:00:00Z").unwrap();
    for (ts, line) in all {
        now += pace(line["kind"].as_str().unwrap());
        normal.times.insert(ts, now);
        if let Some(writer) = line["payload"]["writer"].as_str() {
            let next = normal.writers.len() + 1;
            normal.writers.entry(writer.to_owned()).or_insert(next);
        }
        for key in ["trace_id", "span_id"] {
            if let Some(id) = line[key].as_str() {
                let next = normal.ids.len() + 1;
                let fixed = format!("{next:0width$x}", width = id.len());
                normal.ids.entry(id.to_owned()).or_insert(fixed);
            }
        }
    }
    for (path, lines) in files {
        let to = into.join(&path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        let mut text = String::new();
        for mut line in lines {
            normal.value(&mut line);
            if line["session_id"] == "ses_future" {
                from_the_future(line.as_object_mut().unwrap());
            }
            text.push_str(&line.to_string());
            text.push('\n');
        }
        std::fs::write(to, text).unwrap();
    }
}

/// What a later version may add without being another version of the format.
fn from_the_future(line: &mut Map<String, Value>) {
    let payload = line["payload"].as_object_mut().unwrap();
    payload.insert("mood".into(), json!({"calm": 0.9}));
    line.insert("shard".into(), "b".into());
}

impl Normal {
    /// The time of the line that tells of a moment: the first one that was written after it.
    fn time(&self, old: i128) -> i128 {
        let microsecond = old - old % 1_000;
        let line = self.times.range(microsecond..).next();
        *line.or(self.times.last_key_value()).unwrap().1
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(id) = self.ids.get(text.as_str()) {
                    *text = id.clone();
                } else if let (true, Some(old)) = (text.len() >= 27, ns(text)) {
                    *text = time_text(self.time(old), text.len() - 21);
                }
                *text = text.replace(&self.root, "/home/ada/traces");
                // The key of the masks is the machine's own.
                while let Some(at) = text
                    .find("hmac=")
                    .filter(|at| !text[*at..].starts_with("hmac=00"))
                {
                    let end = at + text[at..].find(']').unwrap();
                    text.replace_range(at..end, "hmac=0011223344556677 key=00112233");
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(map) => {
                let start = map.get("start").and_then(Value::as_str).and_then(ns);
                let took = map.get("duration_ns").and_then(Value::as_u64);
                if let (Some(start), Some(took)) = (start, took) {
                    let end = self.time(start + i128::from(took));
                    map["duration_ns"] = json!((end - self.time(start)) as u64);
                }
                if let Some(writer) = map.get_mut("writer") {
                    let id = self.writers[writer.as_str().unwrap()];
                    *writer = format!("019a8b1f2c00-4242-{id:010x}").into();
                }
                if let Some(process) = map.get_mut("process") {
                    *process = json!({
                        "pid": 4242,
                        "host": "pump-house",
                        "exe": "/usr/bin/agent",
                        "argv": ["agent"],
                        "cwd": "/home/ada/pump",
                        "platform": "linux",
                        "runtime": {"name": "rust", "arch": "x86_64"},
                        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "branch": "main"},
                    });
                }
                map.values_mut().for_each(|value| self.value(value));
            }
            _ => {}
        }
    }
}
