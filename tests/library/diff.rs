//! `inspect::diff`: pairs of sessions in which one thing differs.

use serde_json::{Value, json};
use spanledger::inspect::diff::{Cause, Change, DiffVerdict, Inputs, RowKind, compare};
use spanledger::read::session_dir;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::scripted::{How, Random, Script};
use crate::support::skipped::skipped;
use crate::support::written::{line, write};

const SEEDS: u64 = 20;
const ALL: [How; 4] = [How::OpenAi, How::Anthropic, How::Events, How::Macros];

fn verdict(recording: &Recording, a: &str, b: &str) -> DiffVerdict {
    let dir = |id: &str| session_dir(recording.dir.path(), id);
    compare(dir(a), dir(b), |_| Ok::<(), std::io::Error>(())).unwrap()
}

/// Changes one thing in a script. Returns the turn, from 1.
fn change(script: &mut Script, cause: Cause, seed: u64) -> u32 {
    let mut random = Random::new(seed + 1000);
    let at = random.below(script.turns.len());
    let later = script.turns.len() - at;
    for turn in &mut script.turns[at..] {
        match cause {
            Cause::SystemPrompt => turn.prompt = format!("You are careful.\nRule {seed}."),
            Cause::ToolCatalog => turn.catalog[1]["description"] = json!(format!("Read {seed}.")),
            Cause::PermissionRules => turn.rules[0]["pattern"] = json!(format!("ls {seed} *")),
            Cause::Model => turn.model = format!("model-{}", seed + 2),
            Cause::Parameters => turn.temperature = 0.6 + seed as f64 / 100.0,
            _ => {}
        }
    }
    let turn = &mut script.turns[at];
    let tools = turn.tools.len();
    match cause {
        Cause::UserInput => turn.user.push_str(" please"),
        Cause::None => turn.answer.push_str(" and more"),
        Cause::ToolResult => {
            let tool = &mut turn.tools[random.below(tools)];
            match seed / 2 % 2 {
                0 => tool.output.push_str(" changed"),
                _ => tool.exit_code = 1 + seed as i32,
            }
        }
        _ => {}
    }
    // What follows may differ as a consequence.
    if random.below(2) == 0 && cause != Cause::None {
        script.turns[at].answer.push_str(" otherwise");
        if later > 1 {
            script.turns[at + 1].user.push_str(" again");
        }
    }
    at as u32 + 1
}

/// Checks that the verdict on every pair names the cause and the place: 20 pairs with recorded requests, and 20
/// without.
fn assert_named(cause: Cause, kind: &str) {
    for hows in [[How::OpenAi, How::Anthropic], [How::Events, How::Macros]] {
        let recording = Recording::new();
        for seed in 0..SEEDS {
            let how = hows[seed as usize % 2];
            assert_pair(&recording, how, seed, cause, kind);
        }
    }
}

fn assert_pair(recording: &Recording, how: How, seed: u64, cause: Cause, kind: &str) {
    let (a, b, turn) = record_pair(recording, how, seed, cause);
    let verdict = verdict(recording, &a, &b);
    let first = verdict.first;
    let first = first.unwrap_or_else(|| panic!("{how:?} {seed}: equal"));
    let is_recorded = matches!(how, How::OpenAi | How::Anthropic);
    let expected = match (cause, is_recorded) {
        (Cause::None, false) => Cause::Unknown,
        _ => cause,
    };
    assert_eq!(first.cause, expected, "{how:?} {seed}: {first:?}");
    assert_eq!(first.turn, Some(turn), "{how:?} {seed}: {first:?}");
    let inputs = match is_recorded {
        true => Inputs::Recorded,
        false => Inputs::Reconstructed,
    };
    assert_eq!(verdict.inputs, inputs, "{how:?} {seed}");
    for (session, address) in [(&a, first.a), (&b, first.b)] {
        let dir = session_dir(recording.dir.path(), session);
        let line = spanledger::session::line(dir, address.unwrap());
        let line = line.unwrap().unwrap();
        assert_eq!(line.kind, kind, "{how:?} {seed}: {first:?}");
        assert_eq!(line.turn, Some(turn), "{how:?} {seed}: {first:?}");
    }
}

/// Records two sessions that differ in one thing. Returns their ids and the turn where they do.
fn record_pair(recording: &Recording, how: How, seed: u64, cause: Cause) -> (String, String, u32) {
    let script = Script::new(seed);
    let mut changed = script.clone();
    let turn = change(&mut changed, cause, seed);
    let (a, b) = (format!("{cause}_a{seed}"), format!("{cause}_b{seed}"));
    script.record(recording, &a, how, seed * 2);
    changed.record(recording, &b, how, seed * 2 + 1);
    (a, b, turn)
}

#[test]
fn names_another_system_prompt() {
    assert_named(Cause::SystemPrompt, "model_result");
}

#[test]
fn names_another_tool_catalog() {
    assert_named(Cause::ToolCatalog, "model_result");
}

#[test]
fn names_other_permission_rules() {
    assert_named(Cause::PermissionRules, "model_result");
}

#[test]
fn names_another_user_input() {
    assert_named(Cause::UserInput, "message_user");
}

#[test]
fn names_another_tool_result() {
    assert_named(Cause::ToolResult, "tool_result");
}

#[test]
fn names_another_model() {
    assert_named(Cause::Model, "model_result");
}

#[test]
fn names_other_parameters() {
    assert_named(Cause::Parameters, "model_result");
}

#[test]
fn names_no_cause_for_another_answer() {
    assert_named(Cause::None, "model_result");
}

#[test]
fn equal_sessions_are_equal_despite_noise() {
    for hows in [[How::OpenAi, How::Anthropic], [How::Events, How::Macros]] {
        let recording = Recording::new();
        for seed in 0..SEEDS {
            let how = hows[seed as usize % 2];
            let script = Script::new(seed);
            script.record(&recording, &format!("a{seed}"), how, seed * 2);
            script.record(&recording, &format!("b{seed}"), how, seed * 3 + 7);
            let verdict = verdict(&recording, &format!("a{seed}"), &format!("b{seed}"));
            assert!(verdict.is_equal(), "{how:?} {seed}: {:?}", verdict.first);
            assert_eq!(verdict.turns, script.turns.len());
        }
    }
}

#[test]
fn names_the_arguments_that_a_tool_got() {
    let recording = Recording::new();
    let script = Script::new(3);
    let mut changed = script.clone();
    changed.turns[1].tools[0].args = json!({"target": "another"});
    script.record(&recording, "a", How::Macros, 1);
    changed.record(&recording, "b", How::Macros, 1);
    let first = verdict(&recording, "a", "b").first.unwrap();
    assert_eq!(first.cause, Cause::ToolResult);
    assert!(first.detail.contains("other arguments"), "{}", first.detail);
}

#[test]
fn turns_that_one_session_lacks_are_aligned() {
    let recording = Recording::new();
    let script = Script::new(2);
    let mut shorter = script.clone();
    shorter.turns.remove(0);
    script.record(&recording, "a", How::Events, 1);
    shorter.record(&recording, "b", How::Events, 1);
    let dir = |id: &str| session_dir(recording.dir.path(), id);
    let mut pairs = Vec::new();
    let verdict = compare(dir("a"), dir("b"), |turn| {
        pairs.push((turn.a, turn.b, turn.is_equal()));
        Ok::<(), std::io::Error>(())
    });
    assert_eq!(pairs[0], (Some(1), None, false));
    let rest = pairs[1..]
        .iter()
        .all(|(a, b, equal)| *equal && a.unwrap() == b.unwrap() + 1);
    assert!(rest, "{pairs:?}");
    assert_eq!(verdict.unwrap().first.unwrap().cause, Cause::UserInput);
}

#[test]
fn masked_secrets_are_compared() {
    let secrets = [
        "ghp_0123456789abcdefghijABCDEFGHIJ456789",
        "ghp_9876543210abcdefghijABCDEFGHIJ456789",
    ];
    for how in ALL {
        let recording = Recording::new();
        let mut script = Script::new(5);
        for (name, secret) in [("a", secrets[0]), ("b", secrets[0]), ("c", secrets[1])] {
            script.turns[0].user = format!("Use {secret} to log in");
            script.record(&recording, name, how, 4);
        }
        assert!(verdict(&recording, "a", "b").is_equal(), "{how:?}");
        let first = verdict(&recording, "a", "c").first.unwrap();
        assert_eq!(
            (first.cause, first.turn),
            (Cause::UserInput, Some(1)),
            "{how:?}"
        );
        assert!(!first.detail.contains(&secrets[0][4..14]), "{how:?}");
    }
}

#[test]
fn long_conversations_are_compared_through_blobs() {
    let recording = Recording::with(|builder| builder.inline_limit(512));
    let script = Script::new(7);
    let mut changed = script.clone();
    let last = changed.turns.len() - 1;
    changed.turns[last].tools[0].output.push('!');
    script.record(&recording, "a", How::OpenAi, 1);
    script.record(&recording, "b", How::OpenAi, 2);
    changed.record(&recording, "c", How::OpenAi, 3);
    assert!(verdict(&recording, "a", "b").is_equal());
    let first = verdict(&recording, "a", "c").first.unwrap();
    assert_eq!(
        (first.cause, first.turn),
        (Cause::ToolResult, Some(last as u32 + 1))
    );
}

/// A session as the steps that amberfork reads, and the turn of each: successful model calls with what they were
/// given, and tools, which may be parallel, sorted.
fn steps(recording: &Recording, session: &str) -> (Value, Vec<u32>) {
    let trace = recording.trace();
    let mut steps: Vec<(u32, Value)> = Vec::new();
    let mut tools: Vec<(u32, Value)> = Vec::new();
    let (mut rules, mut user, mut answer) = (Value::Null, Value::Null, Value::Null);
    for line in trace.session(session) {
        let payload = &line.payload;
        let get = |name: &str| payload.get(name).cloned().unwrap_or_default();
        match line.kind.as_str() {
            "permission_rules" => rules = get("digest"),
            "message_user" => user = get("content"),
            "message_assistant" => {
                let parts = payload.get("parts").and_then(Value::as_array);
                let parts = parts.into_iter().flatten();
                let calls: Vec<_> = parts
                    .map(|part| [&part["name"], &part["arguments"]])
                    .collect();
                answer = json!({"text": get("content"), "calls": calls});
            }
            "model_result" if payload["outcome"] == "ok" => {
                tools.sort_by_key(|(_, tool)| tool.to_string());
                steps.append(&mut tools);
                let inputs = json!({"user": user, "rules": rules, "model": get("model_id"),
                    "prompt": get("system_prompt_digest"), "tools": get("tool_catalog_digest"),
                    "temperature": get("temperature")});
                let step =
                    json!({"kind": "llm", "name": "model", "inputs": inputs, "outputs": answer});
                steps.push((line.turn.unwrap(), step));
            }
            "tool_result" => {
                let outputs = json!({"text": get("result"), "exit": get("exit_code")});
                let step = json!({"kind": "tool", "name": get("tool_id"), "inputs": get("args"),
                    "outputs": outputs});
                tools.push((line.turn.unwrap(), step));
            }
            _ => {}
        }
    }
    let turns = steps.iter().map(|(turn, _)| *turn).collect();
    let steps = steps.into_iter().enumerate().map(|(index, (_, mut step))| {
        step["idx"] = index.into();
        step
    });
    let steps: Vec<_> = steps.collect();
    let run = json!({"schema_version": "0.1", "id": session, "task": "t", "outcome": "pass", "steps": steps});
    (run, turns)
}

#[test]
fn amberfork_finds_the_first_difference_in_the_same_turn() {
    let Some(program) = std::env::var_os("SPANLEDGER_AMBERFORK") else {
        return skipped("SPANLEDGER_AMBERFORK does not name amberfork (.ci/install installs it)");
    };
    let recording = Recording::new();
    let compare = |a: &str, b: &str| -> Option<u32> {
        let ((old, turns), (new, _)) = (steps(&recording, a), steps(&recording, b));
        let paths = [("a.json", old), ("b.json", new)].map(|(name, run)| {
            let path = recording.dir.path().join(name);
            std::fs::write(&path, run.to_string()).unwrap();
            path
        });
        let mut command = std::process::Command::new(&program);
        command
            .arg("diff")
            .arg(&paths[1])
            .arg("--against")
            .arg(&paths[0]);
        let output = command.arg("--json").output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let differences = found["field_diffs"].as_array().unwrap().iter();
        let first = differences.map(|one| one["step"].as_u64().unwrap()).min();
        first.map(|step| turns[step as usize])
    };
    for cause in Cause::ALL
        .into_iter()
        .filter(|cause| *cause != Cause::Unknown)
    {
        for seed in 0..5 {
            let (a, b, _) = record_pair(&recording, How::OpenAi, seed, cause);
            let first = verdict(&recording, &a, &b).first.unwrap();
            assert_eq!(compare(&a, &b), first.turn, "{cause} {seed}: {first:?}");
        }
    }
    let script = Script::new(1);
    script.record(&recording, "same_a", How::OpenAi, 1);
    script.record(&recording, "same_b", How::OpenAi, 2);
    assert!(verdict(&recording, "same_a", "same_b").is_equal());
    assert_eq!(compare("same_a", "same_b"), None);
}

/// Records a session with a subagent of the same script in its second turn.
fn with_subagent(recording: &Recording, id: &str, answer: &str) {
    recording.run(|| {
        let _run = spans::session_run(id, "planner").start().entered();
        for turn in 1..=3 {
            let _turn = spans::session_turn().start().entered();
            events::message_user(format!("Step {turn}")).emit();
            spans::model_call("p", "m").start().finish(Outcome::Ok);
            let mut result = "ok";
            if turn == 2 {
                let tool = spans::tool_call("task", "c1")
                    .args(json!({"do": "it"}))
                    .start();
                tool.in_scope(|| {
                    let child = format!("{id}-child");
                    let _run = spans::session_run(child, "reviewer").start().entered();
                    let _turn = spans::session_turn().start().entered();
                    events::message_user("Review").emit();
                    let tool = spans::tool_call("read", "c2")
                        .args(json!({"path": "a"}))
                        .start();
                    tool.record_result(answer);
                    tool.finish(Outcome::Ok);
                });
                result = answer;
                tool.record_result(result);
                tool.finish(Outcome::Ok);
                spans::model_call("p", "m").start().finish(Outcome::Ok);
            }
            events::message_assistant(result).emit();
        }
    });
}

/// What differs in a subagent comes before its result in the session that started it.
#[test]
fn names_the_difference_in_a_subagent() {
    let recording = Recording::new();
    for (id, answer) in [("a", "fine"), ("b", "fine"), ("c", "broken")] {
        with_subagent(&recording, id, answer);
    }
    let equal = verdict(&recording, "a", "b");
    assert!(equal.is_equal(), "{:?}", equal.first);
    let other = verdict(&recording, "a", "c");
    let first = other.first.as_ref().unwrap();
    assert_eq!((first.cause, first.turn), (Cause::ToolResult, Some(2)));
    assert!(
        first
            .detail
            .starts_with("subagent reviewer in turn 1: read: other output"),
        "{}",
        first.detail
    );
    let [a, c] = first.addresses().map(Option::unwrap);
    assert!(a.starts_with("a-child/1:") && c.starts_with("c-child/1:"));
    assert_eq!(other.to_json()["first_divergence"]["a"], a);
    let dir = |id: &str| session_dir(recording.dir.path(), id);
    let mut rows = Vec::new();
    compare(dir("a"), dir("c"), |turn| {
        let subagents = turn.rows.iter().filter(|row| row.kind == RowKind::Subagent);
        rows.extend(subagents.map(|row| (turn.a, row.change)));
        Ok::<(), std::io::Error>(())
    })
    .unwrap();
    assert_eq!(rows, [(Some(2), Change::Changed)]);
}

/// Sessions that name each other as subagents are compared once.
#[test]
fn subagents_in_a_circle_are_compared_once() {
    let recording = Recording::new();
    for (id, other) in [("a", "b"), ("b", "a")] {
        let child = json!({"agent": "planner", "child_session_id": other});
        let mut lines = vec![line(id, "message_user", json!({"content": "Go"}))];
        lines.extend(vec![line(id, "subagent", child); 30]);
        write(recording.dir.path(), id, 1, &lines);
    }
    assert!(verdict(&recording, "a", "b").is_equal());
}
