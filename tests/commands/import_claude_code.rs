//! `import claude-code`: what is counted, which lines belong together, and what a session is called.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::imports::files;
use crate::support::cli::{Done, run};

const MAIN: &str = "5b2e7a52-2b1c-4f0e-9d53-6f6b4c1a9e10";

/// A line of the session, with an id of its own. Lines are seconds apart, as their numbers are.
fn entry(kind: &str, n: u32) -> Value {
    json!({
        "type": kind, "uuid": format!("u{n}"), "parentUuid": format!("u{}", n.max(1) - 1), "sessionId": MAIN,
        "timestamp": format!("2026-11-10T08:{:02}:{:02}.000Z", n / 60, n % 60), "cwd": "/home/ada/app",
        "version": "2.0.1", "gitBranch": "main", "userType": "external", "isSidechain": false,
    })
}

fn with(mut entry: Value, members: Value) -> Value {
    let members = members.as_object().unwrap().clone();
    entry.as_object_mut().unwrap().extend(members);
    entry
}

fn said(n: u32, text: &str) -> Value {
    let message = json!({"role": "user", "content": text});
    with(entry("user", n), json!({"message": message}))
}

/// A line of an answer, whose output has so many tokens by now.
fn answer(n: u32, id: &str, output: u64, block: Value) -> Value {
    let message = json!({
        "id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block],
        "usage": {"input_tokens": 10, "output_tokens": output},
    });
    with(entry("assistant", n), json!({"message": message}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Task", "input": {"prompt": "Look into it."}})
}

fn result(n: u32, id: &str) -> Value {
    let content = json!([{"type": "tool_result", "tool_use_id": id, "content": "done"}]);
    with(
        entry("user", n),
        json!({"message": {"role": "user", "content": content}}),
    )
}

/// A line of a sidechain without the id of its agent.
fn side(line: Value, parent: Value) -> Value {
    with(line, json!({"isSidechain": true, "parentUuid": parent}))
}

/// A line of an agent.
fn of_agent(line: Value, agent: &str) -> Value {
    with(line, json!({"isSidechain": true, "agentId": agent}))
}

fn write(path: &Path, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A project directory whose first file was imported.
struct Imported {
    dir: TempDir,
    done: Done,
}

impl Imported {
    fn of(project: &[(&str, &[Value])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, lines) in project {
            write(&dir.path().join("project").join(name), lines);
        }
        let imported = Self {
            done: import(dir.path(), project[0].0),
            dir,
        };
        assert_eq!(imported.done.code, 0, "{:?}", imported.done);
        imported
    }

    fn session(lines: &[Value]) -> Self {
        Self::of(&[(&format!("{MAIN}.jsonl"), lines)])
    }

    fn ids(&self) -> Vec<String> {
        let objects = self.done.objects();
        let mut ids: Vec<String> = objects
            .iter()
            .map(|session| session["session_id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    }

    /// The lines of a session. Each span begins once.
    fn trace(&self, id: &str) -> Vec<Value> {
        let trace = self.dir.path().join("root/sessions").join(id);
        let text = fs::read_to_string(trace.join("trace.0001.jsonl")).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut begun = HashSet::new();
        for line in &lines {
            let opens = ["session_start", "turn_start", "model_call", "tool_call"];
            if opens.contains(&line["kind"].as_str().unwrap()) {
                assert!(begun.insert(line["span_id"].clone()), "{line}");
            }
        }
        lines
    }

    fn of_kind(&self, id: &str, kind: &str) -> Vec<Value> {
        let mut lines = self.trace(id);
        lines.retain(|line| line["kind"] == kind);
        lines
    }

    /// The output tokens of each model call.
    fn output(&self, id: &str) -> Vec<u64> {
        let calls = self.of_kind(id, "model_result");
        let output = |call: &Value| call["payload"]["usage"]["output_tokens"].as_u64();
        calls.iter().filter_map(output).collect()
    }

    fn texts(&self, id: &str, kind: &str) -> Vec<String> {
        let lines = self.of_kind(id, kind);
        let content = |line: &Value| line["payload"]["content"].as_str().unwrap().to_owned();
        lines.iter().map(content).collect()
    }
}

fn import(dir: &Path, name: &str) -> Done {
    let path = dir.join("project").join(name);
    let path = path.to_str().unwrap();
    run(
        &dir.join("root"),
        &["import", "claude-code", path, "--json"],
    )
}

#[test]
fn answer_is_counted_once() {
    let mut unnamed = [
        answer(2, "", 3, text("One.")),
        with(answer(3, "", 4, text("Two.")), json!({"uuid": "other"})),
    ];
    for line in &mut unnamed {
        line["message"]["id"].take();
    }
    let cases: [(&str, Vec<Value>, &[u64], usize); 5] = [
        (
            "a result of a tool comes before the last line",
            vec![
                said(1, "Go."),
                answer(2, "m1", 1, text("I look.")),
                answer(3, "m1", 1, call("t1")),
                result(4, "t1"),
                answer(5, "m1", 40, call("t2")),
                result(6, "t2"),
                answer(7, "m2", 7, text("Done.")),
            ],
            &[40, 7],
            2,
        ),
        (
            "lines come again",
            vec![
                said(1, "Go."),
                answer(2, "m1", 1, text("I look.")),
                answer(3, "m1", 40, call("t1")),
                result(4, "t1"),
                said(1, "Go."),
                answer(2, "m1", 1, text("I look.")),
                answer(3, "m1", 40, call("t1")),
                result(4, "t1"),
                said(5, "Thanks."),
            ],
            &[40],
            1,
        ),
        (
            "an answer goes on after a prompt",
            vec![
                said(1, "Go."),
                answer(2, "m1", 40, call("t1")),
                said(3, "Wait."),
                answer(4, "m1", 40, call("t1")),
                answer(5, "m1", 40, call("t2")),
                answer(6, "m2", 7, text("Done.")),
                answer(7, "m1", 40, text("Late.")),
            ],
            &[40, 7],
            3,
        ),
        (
            "answers without an id are as many",
            [&[said(1, "Go.")], &unnamed[..]].concat(),
            &[3, 4],
            0,
        ),
        (
            "a subagent works between the lines",
            vec![
                said(1, "Go."),
                answer(2, "m1", 1, call("t1")),
                side(said(3, "Look into it."), Value::Null),
                side(answer(4, "m9", 9, text("I do.")), "u3".into()),
                with(answer(5, "m1", 40, call("t2")), json!({"parentUuid": "u2"})),
                result(6, "t1"),
            ],
            &[40],
            2,
        ),
    ];
    for (name, lines, output, tools) in cases {
        let imported = Imported::session(&lines);
        assert_eq!(imported.output(MAIN), output, "{name}");
        let begun = imported.of_kind(MAIN, "tool_call").len();
        assert_eq!(begun, tools, "{name}");
        assert_eq!(imported.of_kind(MAIN, "tool_result").len(), tools, "{name}");
        let last = imported.of_kind(MAIN, "session_end").remove(0);
        let usage = &last["payload"]["totals"]["usage"];
        assert_eq!(usage["output_tokens"], output.iter().sum::<u64>(), "{name}");
    }
}

#[test]
fn sidechains_are_told_apart_by_their_first_lines() {
    let lines = [
        said(1, "Go."),
        answer(2, "m1", 1, call("t1")),
        answer(3, "m1", 1, call("t2")),
        side(said(4, "First."), Value::Null),
        side(said(5, "Second."), Value::Null),
        side(answer(6, "a", 10, text("First answer.")), "u4".into()),
        side(answer(7, "b", 20, text("Second answer.")), "u5".into()),
        side(answer(8, "a", 11, text("More.")), "u6".into()),
        side(answer(9, "b", 21, text("More.")), "u7".into()),
        result(10, "t1"),
        result(11, "t2"),
    ];
    let imported = Imported::session(&lines);
    let [first, second] = [format!("{MAIN}-u4"), format!("{MAIN}-u5")];
    assert_eq!(imported.ids(), [MAIN, &first, &second]);
    for (id, prompt, output) in [(&first, "First.", 11), (&second, "Second.", 21)] {
        assert_eq!(imported.texts(id, "message_user"), [prompt]);
        assert_eq!(imported.output(id), [output]);
        let start = imported.of_kind(id, "session_start").remove(0);
        assert_eq!(start["payload"]["parent_session_id"], MAIN);
    }
    assert_eq!(imported.of_kind(MAIN, "subagent").len(), 2);
}

#[test]
fn files_of_subagents_come_with_the_session() {
    let launched = |n: u32, id: &str, agent: &str| {
        with(
            result(n, id),
            json!({"toolUseResult": {"status": "completed", "agentId": agent}}),
        )
    };
    let main = [
        said(1, "Go."),
        answer(2, "m1", 5, call("t1")),
        answer(3, "m1", 5, call("t2")),
        launched(8, "t1", "a1"),
        launched(9, "t2", "b2"),
    ];
    let agent = |n: u32, id: &str, output: u64| {
        let message = format!("m{n}");
        [
            of_agent(said(n, &format!("Prompt of {id}.")), id),
            of_agent(answer(n + 1, &message, output, text("Found it.")), id),
        ]
    };
    // The first one has a subagent itself.
    let nested = [
        of_agent(answer(22, "m22", 1, call("t3")), "a1"),
        of_agent(launched(29, "t3", "n5"), "a1"),
    ];
    let nested_agent = agent(24, "n5", 6);
    let (inside, beside, lost) = (
        agent(20, "a1", 30),
        agent(30, "b2", 40),
        agent(40, "c3", 50),
    );
    let foreign = agent(50, "d4", 60).map(|line| with(line, json!({"sessionId": "other"})));
    let name = format!("{MAIN}.jsonl");
    let imported = Imported::of(&[
        (&name, &main),
        (
            &format!("{MAIN}/subagents/agent-a1.jsonl"),
            &[inside, nested].concat(),
        ),
        (&format!("{MAIN}/subagents/agent-n5.jsonl"), &nested_agent),
        ("agent-b2.jsonl", &beside),
        (&format!("{MAIN}/subagents/agent-c3.jsonl"), &lost),
        ("agent-d4.jsonl", &foreign),
    ]);
    let [a1, b2, c3, n5] = ["a1", "b2", "c3", "n5"].map(|agent| format!("{MAIN}-{agent}"));
    assert_eq!(imported.ids(), [MAIN, &a1, &b2, &c3, &n5]);
    for (id, output) in [(&a1, 30), (&b2, 40), (&c3, 50), (&n5, 6)] {
        assert_eq!(imported.output(id)[0], output);
        let start = imported.of_kind(id, "session_start").remove(0);
        assert_eq!(start["payload"]["parent_session_id"], MAIN);
    }

    // The parent names each of them where its tool call is, and the one without a call in the turn.
    let calls = imported.of_kind(MAIN, "tool_call");
    let within = |child: &str| -> Value {
        let lines = imported.of_kind(MAIN, "subagent");
        let mut of_child = lines
            .iter()
            .filter(|line| line["payload"]["child_session_id"] == child);
        let span = of_child.next().unwrap()["span_id"].clone();
        assert!(of_child.next().is_none(), "{child}");
        span
    };
    assert_eq!(within(&a1), calls[0]["span_id"]);
    assert_eq!(within(&b2), calls[1]["span_id"]);
    let turn = imported.of_kind(MAIN, "turn_start").remove(0);
    assert_eq!(within(&c3), turn["span_id"]);
    assert_eq!(imported.of_kind(MAIN, "subagent").len(), 3);
    let of_agent = imported.of_kind(&a1, "subagent");
    assert_eq!(of_agent.len(), 1);
    assert_eq!(of_agent[0]["payload"]["child_session_id"], *n5);
    let call = imported.of_kind(&a1, "tool_call").remove(0);
    assert_eq!(of_agent[0]["span_id"], call["span_id"]);

    // Each file is a blob.
    let root = imported.dir.path().join("root");
    let blobs: Vec<String> = files(&root)
        .into_iter()
        .filter(|file| file.to_string_lossy().contains("/blobs/"))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    for prompt in ["Go.", "Prompt of a1.", "Prompt of b2.", "Prompt of c3."] {
        assert!(blobs.iter().any(|blob| blob.contains(prompt)), "{prompt}");
    }

    // The file of a subagent alone is the same session.
    let alone = import(imported.dir.path(), "agent-b2.jsonl").objects();
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert!(alone[0]["session_id"] == *b2 && alone[0]["known"] == true);
}

#[test]
fn title_is_that_of_the_session() {
    let summary =
        |leaf: &str, text: &str| json!({"type": "summary", "summary": text, "leafUuid": leaf});
    let generated = json!({"type": "ai-title", "aiTitle": "Generated", "sessionId": MAIN});
    let custom =
        |text: &str| json!({"type": "custom-title", "customTitle": text, "sessionId": MAIN});
    let go = said(1, "Go.");
    let cases = [
        (vec![summary("foreign", "Foreign"), go.clone()], None),
        (
            vec![
                summary("u1", "Own"),
                summary("foreign", "Foreign"),
                go.clone(),
            ],
            Some("Own"),
        ),
        (
            vec![summary("u1", "First"), go.clone(), summary("u1", "Second")],
            Some("Second"),
        ),
        (
            vec![go.clone(), generated.clone(), summary("u1", "Own")],
            Some("Generated"),
        ),
        (
            vec![custom("First"), go.clone(), custom("Given"), generated],
            Some("Given"),
        ),
    ];
    for (lines, expected) in cases {
        let imported = Imported::session(&lines);
        let titles = imported.of_kind(MAIN, "session_title");
        let title = titles.first().map(|line| &line["payload"]["title"]);
        assert_eq!(title.and_then(Value::as_str), expected, "{lines:?}");
        assert!(titles.len() <= 1, "{titles:?}");
    }
}

#[test]
fn resumed_session_is_no_subagent() {
    let earlier = |line: Value| with(line, json!({"sessionId": "earlier"}));
    let lines = [
        earlier(said(1, "Before.")),
        earlier(answer(2, "m1", 5, text("Yes."))),
        said(3, "After."),
        answer(4, "m2", 6, text("Yes.")),
    ];
    let name = format!("{MAIN}.jsonl");
    let imported = Imported::of(&[(&name, &lines)]);
    assert_eq!(imported.ids(), [MAIN, "earlier"]);
    for id in [MAIN, "earlier"] {
        assert_eq!(imported.of_kind(id, "subagent").len(), 0);
        let start = imported.of_kind(id, "session_start").remove(0);
        assert_eq!(start["payload"]["parent_session_id"], Value::Null);
    }

    // The other session has a file of its own, which is longer.
    let whole = [&lines[..2], &[earlier(said(9, "Elsewhere."))]].concat();
    let imported = Imported::of(&[(&name, &lines), ("earlier.jsonl", &whole)]);
    assert_eq!(imported.ids(), [MAIN]);
    let other = import(imported.dir.path(), "earlier.jsonl").objects();
    assert_eq!(other.len(), 1);
    assert_eq!(other[0]["known"], false);
    assert_eq!(
        imported.texts("earlier", "message_user"),
        ["Before.", "Elsewhere."]
    );
}

#[test]
fn special_lines_are_what_they_mean() {
    let api_error =
        json!({"isApiErrorMessage": true, "error": "rate_limit", "apiErrorStatus": 429});
    let boundary = with(
        entry("system", 20),
        json!({"subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 900}}),
    );
    let lines = [
        // It has a time, and no directory.
        json!({"type": "queue-operation", "operation": "enqueue", "sessionId": MAIN, "timestamp": "2026-11-10T08:00:00.000Z"}),
        with(said(1, "Caveat."), json!({"isMeta": true})),
        said(2, "Go."),
        answer(3, "m1", 5, text("Yes.")),
        said(10, "More."),
        with(answer(11, "m2", 0, text("API Error: limit")), api_error),
        boundary,
        with(said(21, "We did much."), json!({"isCompactSummary": true})),
        said(30, "On."),
        answer(31, "m3", 6, text("Yes.")),
        with(
            entry("system", 33),
            json!({"subtype": "turn_duration", "durationMs": 3000}),
        ),
        said(40, "End."),
    ];
    let imported = Imported::session(&lines);
    let start = imported.of_kind(MAIN, "session_start").remove(0);
    assert_eq!(start["payload"]["workspace_root"], "/home/ada/app");
    let process = &start["payload"]["process"];
    assert_eq!(process["version"], "2.0.1");
    assert_eq!(process["git"]["branch"], "main");

    // What the program said for the user is no turn.
    let said = imported.texts(MAIN, "message_user");
    assert_eq!(said, ["Caveat.", "Go.", "More.", "On.", "End."]);
    let turns = imported.of_kind(MAIN, "turn_end");
    let turn = |at: usize| {
        let turn = &turns[at]["payload"];
        let seconds = turn["duration_ns"].as_u64().unwrap() / 1_000_000_000;
        (turn["outcome"].as_str().unwrap(), seconds)
    };
    assert_eq!(turns.len(), 4);
    assert_eq!(turn(0), ("ok", 1));
    assert_eq!(turn(1).0, "error");
    assert_eq!(turn(2), ("ok", 3));

    let failed = &imported.of_kind(MAIN, "model_result")[1]["payload"];
    assert_eq!(failed["outcome"], "error");
    assert_eq!(failed["http_status"], 429);
    let error = json!({"error_type": "rate_limit", "message": "API Error: limit"});
    assert_eq!(failed["error"], error);

    let compactions = imported.of_kind(MAIN, "context_compaction");
    assert_eq!(compactions.len(), 1);
    let compaction = &compactions[0]["payload"];
    assert_eq!(compaction["summary"], "We did much.");
    assert_eq!(compaction["input_tokens"], 900);
}
