//! Documents of other programs: results without ids, copied steps, steps without a model, no times.

use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use spanledger::import::{Import, ImportedSession, Source};
use spanledger::read::{lines, session_dir};
use spanledger::trace::{Line, parse_time};

/// When a file was last changed, in nanoseconds since 1970.
fn file_time(path: &Path) -> u64 {
    let modified = path.metadata().unwrap().modified().unwrap();
    modified.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The lines of the sessions that a document becomes, and the time of its file.
fn imported(document: &Value) -> (Vec<Vec<Line>>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trajectory.json");
    std::fs::write(&path, document.to_string()).unwrap();
    assert_eq!(Source::detect(&path).unwrap(), Source::Atif);
    let root = dir.path().join("root");
    let sessions = Import::new(&root).unwrap().read(Source::Atif, &path);
    let lines = |session: &ImportedSession| lines(session_dir(&root, &session.id)).unwrap();
    let sessions = sessions.unwrap().iter().map(lines).collect();
    (sessions, file_time(&path))
}

fn document(steps: Value) -> Value {
    json!({"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "terminus-2", "version": "2.0.0", "model_name": "m"}, "steps": steps})
}

fn session(steps: Value) -> Vec<Line> {
    imported(&document(steps)).0.remove(0)
}

fn of_kind<'a>(lines: &'a [Line], kind: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.kind == kind).collect()
}

/// What the calls of a session gave back, and how they ended.
fn ends(lines: &[Line]) -> Vec<Value> {
    let end = |line: &&Line| json!([line.payload.get("result"), line.payload["outcome"]]);
    of_kind(lines, "tool_result").iter().map(end).collect()
}

#[test]
fn results_without_an_id_are_those_of_the_last_call() {
    let call =
        |id: &str| json!({"tool_call_id": id, "function_name": "bash_command", "arguments": {}});
    let of = |id: &str, content: &str| json!({"source_call_id": id, "content": content});
    let free = |content: &str| json!({"content": content});
    let flagged = |error: bool, extra: Value| {
        let mut extra = extra;
        extra["is_error"] = error.into();
        json!({"source_call_id": "a", "content": "x", "extra": extra})
    };
    for (calls, results, expected) in [
        (vec![call("a")], vec![free("x")], json!([["x", "unset"]])),
        (
            vec![call("a"), call("b"), call("c")],
            vec![free("x")],
            json!([[null, "unset"], [null, "unset"], ["x", "unset"]]),
        ),
        (
            vec![call("a"), call("b")],
            vec![free("x"), of("b", "y"), free("z")],
            json!([[null, "unset"], ["y\n\nx\n\nz", "unset"]]),
        ),
        (vec![call("a")], vec![of("a", "x")], json!([["x", "unset"]])),
        (vec![call("a")], vec![], json!([[null, "unset"]])),
        (
            vec![call("a")],
            vec![flagged(true, json!({}))],
            json!([["x", "error"]]),
        ),
        (
            vec![call("a")],
            vec![flagged(false, json!({}))],
            json!([["x", "ok"]]),
        ),
        (
            vec![call("a")],
            vec![flagged(true, json!({"outcome": "denied"}))],
            json!([["x", "denied"]]),
        ),
    ] {
        let step = json!({"source": "agent", "message": "", "tool_calls": calls, "observation": {"results": results}});
        let lines = session(json!([step]));
        assert_eq!(json!(ends(&lines)), expected, "{step}");
        assert!(of_kind(&lines, "message_tool").is_empty(), "{step}");
    }
}

/// The terminal's answer to a step without calls, and what a step of the system observed.
#[test]
fn results_of_no_call_are_messages() {
    let lines = session(json!([
        {"source": "agent", "message": "<raw>", "observation": {"results": [{"content": "$ ls"}]}},
        {"source": "system", "message": "Summarized.", "observation": {"results": [
            {"content": "Three files.", "subagent_trajectory_ref": [{"session_id": "sub", "trajectory_path": "sub.json"}]},
        ]}},
    ]));
    let texts: Vec<_> = of_kind(&lines, "message_tool")
        .iter()
        .map(|line| line.payload["content"].clone())
        .collect();
    assert_eq!(json!(texts), json!(["$ ls", "Three files."]));
    assert_eq!(
        of_kind(&lines, "subagent")[0].payload["child_session_id"],
        "sub"
    );
}

#[test]
fn only_calls_of_a_model_are_counted() {
    let call =
        json!([{"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}}]);
    let observation = json!({"results": [{"source_call_id": "a", "content": "x"}]});
    let agent = |more: Value| {
        let mut step = json!({"source": "agent", "message": "I look.", "tool_calls": call, "observation": observation});
        step.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        step
    };
    let metrics = json!({"prompt_tokens": 10, "completion_tokens": 1});
    let lines = session(json!([
        {"source": "user", "message": "Look.", "is_copied_context": true},
        agent(json!({"is_copied_context": true, "reasoning_content": "Hm.", "metrics": metrics})),
        {"source": "user", "message": "Go on."},
        agent(json!({"llm_call_count": 0})),
        agent(json!({"llm_call_count": 1, "metrics": metrics})),
        agent(json!({"metrics": metrics})),
    ]));
    let totals = &of_kind(&lines, "session_end")[0].payload["totals"];
    for (name, count) in [("turns", 1), ("model_calls", 2), ("tool_calls", 3)] {
        assert_eq!(totals[name], count, "{name} of {totals}");
    }
    assert_eq!(totals["usage"]["input_tokens"], 20, "{totals}");
    assert_eq!(of_kind(&lines, "message_user").len(), 2);
    assert_eq!(of_kind(&lines, "message_assistant").len(), 4);
    // What was copied is there as the model was sent it.
    let copied = of_kind(&lines, "message_assistant")[0];
    assert_eq!(
        copied.payload["parts"],
        json!([{"type": "tool_call", "id": "a", "name": "bash", "arguments": {"command": "ls"}}])
    );
    assert_eq!(
        copied.payload["metadata"],
        json!({"is_copied_context": true})
    );
    let result = of_kind(&lines, "message_tool")[0];
    assert_eq!(
        result.payload["parts"],
        json!([{"type": "tool_call_response", "id": "a", "response": "x"}])
    );
    let asked = |line: &&Line| line.payload.contains_key("model_span_id");
    assert_eq!(
        of_kind(&lines, "tool_call")
            .iter()
            .filter(|line| asked(line))
            .count(),
        2
    );
}

#[test]
fn steps_without_times_have_the_time_of_the_file() {
    let step = json!([{"source": "user", "message": "Hi."}]);
    let start = |lines: &[Line]| {
        let start = lines
            .iter()
            .find(|line| line.kind == "session_start")
            .unwrap();
        parse_time(start.payload["start"].as_str().unwrap()).unwrap()
    };
    let mut whole = document(step.clone());
    whole["subagent_trajectories"] =
        json!([{"trajectory_id": "inner", "agent": {"name": "a"}, "steps": step}]);
    let (sessions, file) = imported(&whole);
    assert_eq!([start(&sessions[0]), start(&sessions[1])], [file, file]);
    // A subagent has the time of the trajectory around it.
    whole["steps"][0]["timestamp"] = "2026-11-10T09:00:00Z".into();
    let (sessions, _) = imported(&whole);
    let given = parse_time("2026-11-10T09:00:00Z").unwrap();
    assert_eq!([start(&sessions[0]), start(&sessions[1])], [given, given]);
}

#[test]
fn document_without_a_version_is_read() {
    let mut whole = document(json!([{"source": "user", "message": "Hi."}]));
    whole.as_object_mut().unwrap().remove("schema_version");
    assert_eq!(of_kind(&imported(&whole).0[0], "message_user").len(), 1);
}

/// What has no field of ours is kept under its name.
#[test]
fn extra_members_are_kept() {
    let mut whole = document(json!([
        {"source": "user", "message": "Hi.", "extra": {"turn_id": 7}},
        {"source": "agent", "message": "", "reasoning_effort": "high", "llm_call_count": 3, "extra": {"finish_reason": "stop", "mood": "calm"},
            "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {}, "extra": {"pane": 1}}],
            "observation": {"results": [{"source_call_id": "a", "content": "x", "extra": {"exit_code": 2, "shell": "zsh"}}]},
            "metrics": {"prompt_tokens": 9, "extra": {"cache_creation_input_tokens": 4, "reasoning_output_tokens": 2, "tier": "standard"}}},
    ]));
    whole["continued_trajectory_ref"] = "trajectory.cont-1.json".into();
    whole["notes"] = "A trial".into();
    whole["extra"] = json!({"job": 5});
    let lines = &imported(&whole).0[0];
    let only = |kind: &str| of_kind(lines, kind)[0].payload.clone();
    let metadata = json!({"notes": "A trial", "extra": {"job": 5}, "continued_trajectory_ref": "trajectory.cont-1.json"});
    assert_eq!(only("session_start")["metadata"], metadata);
    assert_eq!(only("message_user")["metadata"], json!({"turn_id": 7}));
    let call = only("model_result");
    assert_eq!(call["variant"], "high");
    assert_eq!(call["finish_reason"], "stop");
    assert_eq!(
        call["metadata"],
        json!({"mood": "calm", "llm_call_count": 3})
    );
    let details =
        json!({"cache_creation_input_tokens": 4, "reasoning_output_tokens": 2, "tier": "standard"});
    let usage = json!({"input_tokens": 9, "cache_write_tokens": 4, "reasoning_tokens": 2, "usage_details": details});
    assert_eq!(call["usage"], usage);
    let tool = only("tool_result");
    assert_eq!(tool["metadata"], json!({"pane": 1, "shell": "zsh"}));
    assert_eq!(
        (&tool["exit_code"], &tool["outcome"]),
        (&json!(2), &json!("error"))
    );
}
