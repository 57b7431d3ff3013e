//! `spanledger export`, on a session that has everything.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use spanledger::request::Request;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{Done, run};
use crate::support::request_schema;
use crate::support::rich_session::{self, SESSION, SUBAGENT};

#[track_caller]
fn export(root: &Path, args: &[&str]) -> Done {
    let done = run(root, &[&["export"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    done
}

/// An entry of a trajectory as aec-bench reads it: a closed model.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    step: Option<u64>,
    role: Option<String>,
    content: Option<String>,
    tool_name: Option<String>,
    command: Option<String>,
    arguments: Option<Map<String, Value>>,
    stdout: Option<String>,
    stderr: Option<String>,
    exit_code: Option<i64>,
    duration_ms: Option<u64>,
    media: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
    call_type: Option<String>,
    output_summary: Option<String>,
    timestamp: Option<String>,
}

#[test]
fn trajectory_has_entries_of_the_closed_model() {
    let dir = rich_session::record();
    let done = export(dir.path(), &["trajectory", SESSION]);
    let lines = done.lines();
    assert_eq!(lines[0], r#"{"version":1,"format":"aec-bench-trajectory"}"#);
    let entries: Vec<Entry> = lines[1..]
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for entry in &entries {
        let (step, role) = (entry.step.unwrap(), entry.role.as_deref().unwrap());
        assert_eq!(step == 0, matches!(role, "user" | "system"), "{entry:?}");
        assert!(entry.metadata.as_ref().unwrap().contains_key("seg"));
        assert!(entry.timestamp.is_some());
        assert!(matches!(
            entry.call_type.as_deref(),
            None | Some("warmup" | "main" | "subagent")
        ));
    }
    let of = |role: &str| {
        let entries = entries
            .iter()
            .filter(|entry| entry.role.as_deref() == Some(role));
        entries.collect::<Vec<_>>()
    };
    assert_eq!(of("tool_call").len(), 7);
    assert_eq!(of("tool_result").len(), 7);
    let failed = of("tool_result");
    let failed = failed
        .iter()
        .filter(|entry| entry.exit_code.is_some_and(|code| code != 0));
    assert_eq!(failed.count(), 1);
    assert_eq!(of("assistant").len(), 4, "{:#?}", of("assistant"));
    assert_eq!(
        of("user")[2].content.as_deref(),
        Some("Half \u{fffd} of a pair")
    );
    // A blob is fetched, a masked value stays masked.
    let fetched = of("tool_result")[4].stdout.clone().unwrap();
    assert_eq!(fetched.len(), 8000);
    let arguments = of("tool_call")[4].arguments.clone().unwrap();
    assert!(arguments["api_key"].as_str().unwrap().contains("masked"));
}

#[test]
fn trajectory_header_can_be_left_out() {
    let dir = rich_session::record();
    let with = export(dir.path(), &["trajectory", SESSION]);
    let without = export(dir.path(), &["trajectory", SESSION, "--no-header"]);
    assert_eq!(with.lines()[1..], without.lines());
}

#[test]
fn acp_asks_only_what_a_person_was_asked() {
    let dir = rich_session::record();
    let messages = export(dir.path(), &["acp", SESSION]).objects();
    let of = |method: &str| {
        messages
            .iter()
            .filter(|one| one["method"] == method)
            .collect::<Vec<_>>()
    };
    let asked = of("session/request_permission");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["params"]["toolCall"]["toolCallId"], "call_5");
    let answers: HashMap<_, _> = messages
        .iter()
        .filter(|one| one.get("method").is_none())
        .map(|one| (one["id"].to_string(), &one["result"]))
        .collect();
    let answer = answers[&asked[0]["id"].to_string()];
    assert_eq!(
        answer["outcome"],
        json!({"outcome": "selected", "optionId": "allow_once"})
    );
    let prompts = of("session/prompt");
    let stops: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            answers[&prompt["id"].to_string()]["stopReason"]
                .as_str()
                .unwrap()
        })
        .collect();
    assert_eq!(stops, ["end_turn", "end_turn", "cancelled"]);
    // The recorded message is as it was.
    assert_eq!(
        of("session/cancel")[0]["params"],
        json!({"sessionId": SESSION})
    );
    // A client knows calls by their ids.
    let calls = messages
        .iter()
        .filter(|one| one["params"]["update"]["sessionUpdate"] == "tool_call");
    let ids: Vec<_> = calls
        .map(|one| one["params"]["update"]["toolCallId"].to_string())
        .collect();
    assert_eq!(ids.len(), 7);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 7);
}

#[test]
fn acp_that_the_agent_recorded_is_not_made_again() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_acp", "agent").start().entered();
        let prompt = json!({"sessionId": "ses_acp", "prompt": [{"type": "text", "text": "Go"}]});
        events::rpc("in", "session/prompt")
            .id(7)
            .params(prompt)
            .emit();
        events::message_user("Go").emit();
        drop(spans::tool_call("bash", "c1").start());
        let result = json!({"stopReason": "end_turn"});
        events::rpc("out", "session/prompt")
            .id(7)
            .result(result)
            .emit();
    });
    let done = export(recording.dir.path(), &["acp", "ses_acp"]);
    let mut messages = done.objects();
    for message in &mut messages {
        message.as_object_mut().unwrap().remove("_meta");
    }
    assert_eq!(
        messages,
        [
            json!({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "ses_acp", "prompt": [{"type": "text", "text": "Go"}]}}),
            json!({"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "end_turn"}}),
        ]
    );
}

#[test]
fn messages_are_the_conversation_as_it_is_now() {
    let dir = rich_session::record();
    let anthropic = export(dir.path(), &["anthropic-messages", SESSION]).json();
    request_schema::anthropic(&anthropic).unwrap();
    let openai = export(dir.path(), &["openai-messages", SESSION]).json();
    let messages = openai["messages"].as_array().unwrap();
    assert_eq!(
        messages[0],
        json!({"role": "system", "content": "You are a careful engineer."})
    );
    request_schema::openai(&openai).unwrap();
    // The reader understands what the writers write.
    let parts = |body: &Value| -> Vec<Value> {
        let request = Request::read(body);
        let messages = request.after_prompt().iter();
        messages
            .flat_map(|message| message.parts.clone())
            .map(|mut part| {
                // Only Anthropic's API has it.
                part.as_object_mut().unwrap().remove("is_error");
                part
            })
            .collect()
    };
    assert_eq!(parts(&openai), parts(&anthropic));
    assert!(
        parts(&openai)
            .iter()
            .any(|part| part["type"] == "tool_call_response")
    );
    assert_eq!(
        Request::read(&openai).system,
        Request::read(&anthropic).system
    );
    // What was rewound is not sent again.
    for body in [&anthropic, &openai] {
        let text = body.to_string();
        assert!(
            text.contains("Edit it.") && text.contains("Done: see flow.png."),
            "{text}"
        );
        assert!(
            !text.contains("What is here?") && !text.contains("I list the files."),
            "{text}"
        );
    }
}

#[test]
fn compaction_replaces_what_it_summarizes() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_c", "agent").start().entered();
        events::message_user("One").message_id("m1").emit();
        events::message_assistant("Two").message_id("m2").emit();
        events::message_user("Three").message_id("m3").emit();
        let compaction = spans::compaction_run().set("tail_start_id", "m3").start();
        compaction.record_summary("One and two.");
        compaction.finish(Outcome::Ok);
        events::message_assistant("Four").emit();
    });
    let body = export(recording.dir.path(), &["openai-messages", "ses_c"]).json();
    let said = |(role, content)| json!({"role": role, "content": content});
    let expected = [
        ("user", "One and two."),
        ("user", "Three"),
        ("assistant", "Four"),
    ];
    assert_eq!(body["messages"], json!(expected.map(said)));
}

#[test]
fn atif_has_the_subagent_of_a_call_inside() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_p", "agent").start().entered();
        let call = spans::tool_call("task", "c1").start().entered();
        let child = spans::session_run("ses_p/../child", "helper")
            .start()
            .entered();
        events::message_user("Help").emit();
        drop((child, call));
    });
    let document = export(recording.dir.path(), &["atif", "ses_p"]).json();
    let result = &document["steps"][0]["observation"]["results"][0];
    assert_eq!(result["source_call_id"], "c1");
    assert_eq!(
        result["subagent_trajectory_ref"][0]["trajectory_id"],
        "ses_p/../child"
    );
    let inside = &document["subagent_trajectories"][0];
    assert_eq!(inside["trajectory_id"], "ses_p/../child");
    assert_eq!(inside["steps"][0]["message"], "Help");
}

#[test]
fn chrome_trace_nests_spans_on_each_track() {
    let dir = rich_session::record();
    let events = export(dir.path(), &["chrome-trace", SESSION]).json();
    let events = events.as_array().unwrap();
    let mut tracks: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
    let mut tools = 0;
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        assert!(["M", "X", "i"].contains(&phase), "{event}");
        assert!(
            event["name"].is_string() && event["pid"].is_u64(),
            "{event}"
        );
        if phase == "X" {
            let (start, length) = (
                event["ts"].as_f64().unwrap(),
                event["dur"].as_f64().unwrap(),
            );
            let track = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
            track.push((start, start + length));
            tools += u64::from(event["cat"] == "tool");
        }
    }
    assert_eq!(tools, 7);
    for spans in tracks
        .values()
        .flat_map(|spans| spans.iter().map(move |one| (one, spans)))
    {
        let ((start, end), others) = spans;
        // Times in microseconds are rounded.
        let crosses =
            |other: &&(f64, f64)| other.0 < *start && other.1 > start + 1.0 && other.1 + 1.0 < *end;
        // The last lines were written by hand: a run that ended before its tool.
        let other = others.iter().find(crosses).filter(|_| *start < 2e15);
        assert_eq!(other, None, "{start} to {end}");
    }
}

/// A record of schema 1: closed models.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct TrialRecord {
    trial_id: String,
    experiment_id: String,
    dataset_id: Option<String>,
    timestamp: String,
    task: Task,
    agent: Agent,
    environment: Environment,
    inputs: Inputs,
    outputs: Outputs,
    evaluation: Evaluation,
    timing: Timing,
    cost: Option<Cost>,
    adaptation: Option<Value>,
    completeness: String,
}

macro_rules! closed {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)]
        struct $name { $($field: $type),* }
    )* };
}

closed! {
    Task { task_id: String, task_revision: String }
    Agent { adapter: String, model: String, adapter_revision: Option<String>, configuration: Option<Map<String, Value>> }
    Environment { runtime_image: String, compute_backend: String, tool_versions: Option<HashMap<String, String>> }
    Inputs { instruction: String, system_prompt: Option<String>, input_files: Option<Vec<File>> }
    File { path: String, hash: String, source: Option<String> }
    Outputs { agent_result: Option<Map<String, Value>> }
    Evaluation { reward: f64, validity: Validity, breakdown: Option<Map<String, Value>>, error_taxonomy: Option<Vec<Value>>, confidence: Option<Value>, annotations: Option<Vec<Annotation>> }
    Validity { output_parseable: bool, schema_valid: bool, verifier_completed: bool, errors: Vec<String> }
    Annotation { reviewer_id: String, timestamp: String, judgment: String, notes: Option<String> }
    Timing { total_seconds: f64, agent_seconds: Option<f64>, setup_seconds: Option<f64>, verification_seconds: Option<f64> }
    Cost { model_calls: Option<u64>, tokens_in: Option<u64>, tokens_out: Option<u64>, cache_read_tokens: Option<u64>, cache_write_tokens: Option<u64>, estimated_cost_usd: Option<f64>, advisor_calls: Option<u64>, advisor_input_tokens: Option<u64>, advisor_output_tokens: Option<u64> }
    Record2 { schema_version: u8, trial_id: String, run_id: String, task_id: String, attempt: u32, execution_status: String, evaluation_status: String, evidence_status: String, started_at: String, completed_at: Option<String>, input: Input2, output: Outputs, evaluation: Option<Evaluation>, timing: Timing, cost: Option<Cost> }
    Input2 { instruction: String, task_revision: String, system_prompt: Option<String> }
    Manifest { schema_version: u8, run_id: String, experiment_id: String, source: Map<String, Value>, agent: Agent, execution_environment: Environment, provider_route: Route }
    Route { provider: String, route: String }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn trial_is_written_once() {
    let dir = rich_session::record();
    let out = dir.path().join("ledger");
    let to = out.to_str().unwrap();
    export(dir.path(), &["trial", SESSION, "-o", to, "--complete"]);
    let file = out.join("exp_1/trial_1.json");
    let record: TrialRecord = read(&file);
    assert_eq!(record.completeness, "complete");
    assert_eq!(record.evaluation.reward, 0.5);
    assert_eq!(record.cost.unwrap().tokens_in, Some(1624));
    let before = std::fs::read(&file).unwrap();
    let done = run(dir.path(), &["export", "trial", SESSION, "-o", to]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("written once"), "{done:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(std::fs::read_dir(out.join("exp_1")).unwrap().count(), 1);
}

#[test]
fn trial_that_lacks_its_provenance_is_partial() {
    let dir = rich_session::record();
    let out = dir.path().join("ledger");
    let to = out.to_str().unwrap();
    let done = run(
        dir.path(),
        &["export", "trial", SUBAGENT, "-o", to, "--complete"],
    );
    assert_eq!(done.code, 2);
    for missing in [
        "agent.adapter_revision",
        "environment.tool_versions",
        "inputs.input_files",
    ] {
        assert!(done.err.contains(missing), "{done:?}");
    }
    assert!(!out.exists());
    export(dir.path(), &["trial", SUBAGENT, "-o", to]);
    let record: TrialRecord = read(&out.join(format!("default/{SUBAGENT}.json")));
    assert_eq!(record.completeness, "partial");
    assert_eq!(record.evaluation.validity.errors, ["not evaluated"]);
}

#[test]
fn trial_of_schema_2_has_a_manifest() {
    let dir = rich_session::record();
    let out = dir.path().join("ledger");
    export(
        dir.path(),
        &[
            "trial",
            SESSION,
            "-o",
            out.to_str().unwrap(),
            "--schema",
            "2",
        ],
    );
    let record: Record2 = read(&out.join("exp_1/trial_1.json"));
    assert_eq!(record.schema_version, 2);
    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let length = time(&record.completed_at.unwrap()).duration_since(time(&record.started_at));
    assert!((length.as_secs_f64() - record.timing.total_seconds).abs() < 0.001);
    let run = std::fs::read_dir(out.join("exp_1/_runs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let manifest: Manifest = read(&run.path());
    assert_eq!(manifest.run_id, record.run_id);
}

#[test]
fn trial_never_leaves_its_directory() {
    for (trial, experiment) in [
        ("../../t", "e"),
        ("t", ".."),
        ("t", "a/b"),
        ("t\0", "e"),
        ("_t", "e"),
    ] {
        let recording = Recording::new();
        recording.run(|| {
            let _run = spans::session_run("ses_t", "agent").start().entered();
            events::trial(trial).experiment_id(experiment).emit();
        });
        let out = recording.dir.path().join("ledger");
        let args = ["export", "trial", "ses_t", "-o", out.to_str().unwrap()];
        let done = run(recording.dir.path(), &args);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains("can't name a file"), "{done:?}");
        assert!(!out.exists());
    }
}

#[test]
fn format_that_is_not_live_is_not_followed() {
    let dir = rich_session::record();
    let done = run(
        dir.path(),
        &["export", "atif", SESSION, "--follow", "-o", "x"],
    );
    assert_eq!(done.code, 2);
    assert!(done.err.contains("not kept current"), "{done:?}");
}
