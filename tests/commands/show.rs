//! `spanledger show` with each of its options.

use serde_json::json;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};

use crate::support::Recording;
use crate::support::cli::{self, Done, run};

/// Two runs, three turns, an error, a permission, a subagent, a blob.
fn recorded() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            events::system_prompt("You mend pumps.").emit();
            events::tool_catalog(json!([{"name": "bash"}, {"name": "read"}])).emit();
            events::permission_rules(json!([{"permission": "bash", "pattern": "rm *", "action": "deny", "source": "project"}])).emit();
            first_turn();
            second_turn();
        });
        run.finish(Outcome::Ok);
        let again = spans::session_run("ses_1", "planner").start();
        again.in_scope(|| {
            events::system_prompt("You mend valves.").emit();
            let turn = spans::session_turn().start();
            turn.in_scope(|| events::message_user("once more").emit());
        });
        again.finish(Outcome::Ok);
    });
    recording
}

fn first_turn() {
    let turn = spans::session_turn().start();
    turn.in_scope(|| {
        events::message_user("look").emit();
        let model = spans::model_call("anthropic", "m-1")
            .variant("high")
            .temperature(0.5)
            .start();
        model.record_usage(&Usage {
            input_tokens: Some(11),
            output_tokens: Some(22),
            reasoning_tokens: Some(3),
            cache_read_tokens: Some(4),
            cache_write_tokens: Some(5),
            cost_usd: Some(0.25),
            ..Usage::default()
        });
        model.finish(Outcome::Ok);
        let tool = spans::tool_call("bash", "call_1")
            .args(json!({"command": "rm x"}))
            .start();
        tool.in_scope(|| {
            let permission = spans::permission_evaluate("bash").pattern("rm *").start();
            permission.set("action", "deny");
            permission.set("source", "project");
        });
        tool.finish(Outcome::Denied);
    });
}

fn second_turn() {
    let turn = spans::session_turn().start();
    turn.in_scope(|| {
        let tool = spans::tool_call("read", "call_2").start();
        tool.record_failure(&Failure::new("NotFound", "no such valve"));
        tool.finish(Outcome::Error);
        let tool = spans::tool_call("read", "call_3").start();
        tool.record_result(&"drip ".repeat(10_000));
        tool.finish(Outcome::Ok);
        let child = spans::session_run("ses_child", "helper").start();
        child.in_scope(|| events::message_assistant("I am the helper.").emit());
        child.finish(Outcome::Ok);
    });
}

fn show(recording: &Recording, args: &[&str]) -> Done {
    let mut all = vec!["show", "ses_1"];
    all.extend(args);
    let done = run(recording.dir.path(), &all);
    assert_eq!(done.code, 0, "{done:?}");
    done
}

#[test]
fn turn_shows_all_seven_parts() {
    let done = show(&recorded(), &["--turn", "1"]);
    for expected in [
        "look",
        "input 11   output 22   reasoning 3   cache read 4   cache write 5",
        "cost $0.2500",
        "You mend pumps.",
        "anthropic/m-1   variant high   temperature 0.5",
        "bash             called once",
        "read             not called",
        "rule      deny   bash rm * (project)",
        "decision  deny   bash rm * by project",
    ] {
        assert!(done.out.contains(expected), "{expected}: {done:?}");
    }
    // Nothing of the other turns.
    assert!(!done.out.contains("drip"), "{done:?}");
}

#[test]
fn turn_as_json() {
    let objects = show(&recorded(), &["--turn", "1", "--json"]).objects();
    let facts = objects.iter().find(|o| o["type"] == "turn_facts").unwrap();
    assert_eq!(facts["usage"]["reasoning_tokens"], 3);
    assert_eq!(facts["models"][0]["variant"], "high");
    assert_eq!(facts["system_prompt"]["body"], "You mend pumps.");
    assert_eq!(facts["tools_called"]["bash"], 1);
    assert_eq!(facts["decisions"][0]["action"], "deny");
}

#[test]
fn missing_turn_is_reported() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["show", "ses_1", "--turn", "9"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("no turn 9"), "{done:?}");
}

#[test]
fn prompt_tools_and_permissions_separately() {
    let recording = recorded();
    assert!(
        show(&recording, &["--prompt"])
            .out
            .contains("You mend valves.")
    );
    assert!(
        show(&recording, &["--prompt", "--turn", "2"])
            .out
            .contains("You mend pumps.")
    );
    let tools = show(&recording, &["--tools", "--json"]).json();
    assert_eq!(tools["tools_called"], json!({"bash": 1, "read": 2}));
    assert_eq!(tools["tool_catalog"]["body"][1]["name"], "read");
    let permissions = show(&recording, &["--permissions"]);
    assert!(
        permissions.out.contains("rule      deny"),
        "{permissions:?}"
    );
    assert!(!permissions.out.contains("You mend"), "{permissions:?}");
}

#[test]
fn errors_only() {
    let done = show(&recorded(), &["--errors"]);
    assert!(done.out.contains("no such valve"), "{done:?}");
    assert!(
        !done.out.contains("once more") && !done.out.contains("drip"),
        "{done:?}"
    );
}

#[test]
fn one_run_only() {
    let recording = recorded();
    let second = show(&recording, &["--run", "2"]);
    assert!(second.out.contains("once more"), "{second:?}");
    assert!(!second.out.contains("drip"), "{second:?}");
    let first = show(&recording, &["--run", "1"]);
    assert!(
        first.out.contains("drip") && !first.out.contains("once more"),
        "{first:?}"
    );
}

#[test]
fn lines_around_an_address() {
    let recording = recorded();
    let trace = recording.trace();
    let last = trace.session("ses_1").last().unwrap().address();
    let done = show(&recording, &["--around", &last]);
    assert!(done.out.contains("once more"), "{done:?}");
    assert!(!done.out.contains("rm x"), "{done:?}");
    assert!(show(&recording, &["--since", "1h"]).out.contains("rm x"));
}

#[test]
fn one_line_with_its_blob() {
    let recording = recorded();
    let trace = recording.trace();
    let line = trace.find("tool_result", "tool_call_id", "call_3");
    let done = show(&recording, &["--event", &line.address(), "--json"]);
    let event = done.json();
    let blob = event["payload"]["result"]["$blob"].as_str().unwrap();
    assert_eq!(event["blobs"][blob], "drip ".repeat(10_000));
    let missing = run(recording.dir.path(), &["show", "ses_1", "--event", "9:9"]);
    assert_eq!(missing.code, 2, "{missing:?}");
}

#[test]
fn subagent_is_named_and_nested_on_request() {
    let recording = recorded();
    let done = show(&recording, &[]);
    assert!(done.out.contains("helper ses_child"), "{done:?}");
    assert!(!done.out.contains("I am the helper."), "{done:?}");
    let nested = show(&recording, &["--recursive"]);
    assert!(nested.out.contains("I am the helper."), "{nested:?}");
}

#[test]
fn json_nests_subagents_on_request() {
    let recording = recorded();
    let sessions = |args: &[&str]| {
        let objects = show(&recording, args).objects();
        let nodes = objects.iter().filter(|object| object["type"] == "node");
        let mut ids: Vec<_> = nodes.map(|node| node["session_id"].clone()).collect();
        ids.dedup();
        ids
    };
    assert_eq!(sessions(&["--json"]), ["ses_1"]);
    let nested = sessions(&["--json", "--recursive"]);
    assert_eq!(nested, ["ses_1", "ses_child", "ses_1"]);
}

#[test]
fn short_result_is_shown_whole() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("ls", "call_1").start();
        tool.record_result("Cargo.toml\nsrc\n");
        tool.finish(Outcome::Ok);
    });
    let done = run(recording.dir.path(), &["show"]);
    assert!(done.out.contains("→ Cargo.toml⏎src\n"), "{done:?}");
}

#[test]
fn full_truncates_nothing() {
    let recording = recorded();
    assert!(show(&recording, &[]).out.contains("KiB in all, in a blob"));
    let trace = recording.trace();
    let turns = trace.all("turn_start").len();
    let full = show(&recording, &["--full"]);
    assert_eq!(full.out.matches("\nTurn ").count(), turns, "{full:?}");
    assert!(
        full.out.contains("permission deny  rm *  by project"),
        "{full:?}"
    );
    assert!(full.out.matches("drip").count() >= 10_000);
    assert!(!full.out.contains("in a blob"));
}

#[test]
fn ambiguous_prefix_lists_candidates() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["show", "ses_"]);
    assert_eq!(done.code, 2);
    assert!(
        done.err.contains("ses_1") && done.err.contains("ses_child"),
        "{done:?}"
    );
}

/// A session of three turns, long enough that its ends are far from its middle.
fn long() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        for text in ["first", "second", "third"] {
            let turn = spans::session_turn().start();
            turn.in_scope(|| {
                events::message_user(text).emit();
                let long = "drip ".repeat(1_000);
                (0..100).for_each(|_| events::message_assistant(&long).emit());
            });
            turn.finish(Outcome::Ok);
        }
        run.finish(Outcome::Ok);
    });
    recording
}

/// Breaks the line that has this text.
fn break_line(recording: &Recording, text: &str) {
    let dir = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    let path = dir.join("trace.0001.jsonl");
    let trace = std::fs::read_to_string(&path).unwrap();
    assert_eq!(trace.matches(text).count(), 1, "{text}");
    let broken = |line: &str| match line.contains(text) {
        true => line.replacen("\"kind\":", "\"kind\"!", 1),
        false => line.to_owned(),
    };
    let lines: Vec<String> = trace.split_inclusive('\n').map(broken).collect();
    std::fs::write(path, lines.concat()).unwrap();
}

#[test]
fn one_turn_of_a_long_session_skips_the_rest() {
    let recording = long();
    let done = show(&recording, &["--turn", "2"]);
    assert!(done.out.contains("second"), "{done:?}");
    let said = "Only this turn and the session's first and last lines were checked";
    assert!(done.out.contains(said), "{done:?}");
    let objects = show(&recording, &["--turn", "2", "--json"]).objects();
    assert_eq!(objects[0]["whole"], false);
    // A short one was read whole, so there is no notice.
    let short = show(&recorded(), &["--turn", "2"]);
    assert!(!short.out.contains("were checked"), "{short:?}");
    // The middle is damaged and the third turn is not: nothing is claimed of it.
    break_line(&recording, "\"content\":\"second\"");
    assert_eq!(show(&recording, &["--turn", "3"]).err, "");
}

#[test]
fn turn_reports_damage_inside_it() {
    let recording = long();
    break_line(&recording, "\"content\":\"second\"");
    for args in [&["--turn", "2"][..], &["--turn", "2", "--prompt"]] {
        let all = [&["show", "ses_1"], args].concat();
        let done = run(recording.dir.path(), &all);
        assert_eq!(done.code, 3, "{done:?}");
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
        assert!(done.err.contains("not a line of a trace"), "{done:?}");
    }
}

#[test]
fn turn_reports_damage_at_the_ends() {
    let recording = long();
    break_line(&recording, "\"seq\":2,");
    let done = run(recording.dir.path(), &["show", "ses_1", "--turn", "3"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("third"), "{done:?}");
    assert!(done.err.contains("trace.0001.jsonl"), "{done:?}");
    let missing = run(recording.dir.path(), &["show", "ses_1", "--turn", "9"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(missing.err.contains("no turn 9"), "{missing:?}");
}

#[test]
fn unreadable_line_is_reported_as_damaged() {
    let recording = long();
    break_line(&recording, "\"content\":\"first\"");
    let done = run(recording.dir.path(), &["show", "ses_1", "--event", "1:4"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("there is no line 1:4"), "{done:?}");
    assert!(done.err.contains("not a line of a trace"), "{done:?}");
}

#[test]
fn missing_item_is_reported() {
    let recording = recorded();
    let ask = |args: &[&str]| run(recording.dir.path(), &[&["show", "ses_1"], args].concat());
    for (args, notice) in [
        (["--run", "3"], "has 2 runs, and no run 3"),
        (["--around", "7:1"], "nothing around 7:1"),
    ] {
        let done = ask(&args);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(notice), "{done:?}");
    }
    let child = run(recording.dir.path(), &["show", "ses_child", "--errors"]);
    assert!(child.out.ends_with("Nothing went wrong.\n"), "{child:?}");
    let then = ask(&["--since", "0s"]);
    assert!(
        then.out.ends_with("Nothing happened in that time.\n"),
        "{then:?}"
    );
}

#[test]
fn human_decision_is_on_the_tools_row() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let _turn = spans::session_turn().start().entered();
        let tool = spans::tool_call("edit", "call_1").start();
        let ask = spans::permission_evaluate("edit").child_of(&tool).start();
        ask.set("action", "ask");
        events::hitl_request("int_1").on(&ask).emit();
        let waiting = cli::run(recording.dir.path(), &["show", "ses_1"]);
        assert!(
            waiting.out.contains("permission not decided"),
            "{waiting:?}"
        );
        assert!(waiting.out.contains("asks       int_1"), "{waiting:?}");
        ask.session().unwrap().hitl_response("int_1", "allow_once");
        ask.set("decided_by", "ada");
        ask.set("decision", "allow_once");
        ask.finish(Outcome::Ok);
        tool.finish(Outcome::Ok);
    });
    let decisions = show(&recording, &["--permissions"]).out;
    let row = "decision  ask    edit – by –, ada: allow_once, ";
    assert!(decisions.contains(row), "{decisions}");
    let done = show(&recording, &[]);
    assert!(done.out.contains("asked ada: allow_once, "), "{done:?}");
    assert!(!done.out.contains("int_1"), "{done:?}");
    let full = show(&recording, &["--full"]);
    assert!(full.out.contains("answer     allow_once"), "{full:?}");
}

#[test]
fn turn_title_does_not_depend_on_filters() {
    let recording = recorded();
    let title = |args: &[&str]| {
        let done = show(&recording, args);
        let title = done.out.lines().find(|line| line.starts_with("Turn 2"));
        title.map(str::to_owned).unwrap()
    };
    let whole = title(&[]);
    assert!(whole.contains("tool "), "{whole}");
    assert_eq!(title(&["--errors"]), whole);
    assert_eq!(title(&["--turn", "2"]), whole);
    let one = show(&recording, &["--turn", "2", "--errors"]);
    assert!(one.out.contains("no such valve"), "{one:?}");
    assert!(!one.out.contains("drip"), "{one:?}");
}

#[test]
fn full_shows_below_what_does_not_fit() {
    let recording = recorded();
    let at_60 = |args: &[&str]| {
        let mut command = cli::spanledger(recording.dir.path());
        command
            .env("COLUMNS", "60")
            .args(["show", "ses_1"])
            .args(args);
        Done::from(command.output().unwrap()).out
    };
    assert!(!at_60(&[]).contains("high"), "{}", at_60(&[]));
    let full = at_60(&["--full"]);
    assert!(full.contains("high"), "{full}");
    assert!(
        full.lines().all(|line| line.chars().count() <= 60),
        "{full}"
    );
}

#[test]
fn line_with_missing_blob_is_shown() {
    let recording = recorded();
    let trace = recording.trace();
    let line = trace.find("tool_result", "tool_call_id", "call_3");
    let blobs = recording.dir.path().join("sessions/ses_1/blobs");
    std::fs::remove_dir_all(&blobs).unwrap();
    let args = ["show", "ses_1", "--event", &line.address()];
    let done = run(recording.dir.path(), &args);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("\"head\": \"drip "), "{done:?}");
    assert!(done.err.contains(blobs.to_str().unwrap()), "{done:?}");
    let done = run(recording.dir.path(), &["show", "ses_1", "--full"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("→ drip drip "), "{done:?}");
    assert!(done.err.contains(blobs.to_str().unwrap()), "{done:?}");
}

#[test]
fn error_has_its_causes() {
    use anyhow::Context;
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            let tool = spans::tool_call("read", "call_1").start();
            let port = "eighty".parse::<u16>().context("the port is no number");
            tool.record_error(&port.unwrap_err());
        });
        run.finish(Outcome::Ok);
    });
    let done = show(&recording, &[]);
    let whole = "the port is no number: invalid digit found in string";
    // In the header, and where it happened.
    assert_eq!(done.out.matches(whole).count(), 2, "{done:?}");
}

#[test]
fn warning_has_its_fields() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| tracing::warn!(tries = 3, host = "db-1", "no answer"));
        run.finish(Outcome::Ok);
    });
    let done = show(&recording, &[]);
    let row = "warn       no answer  tries=3  host=db-1";
    assert!(done.out.contains(row), "{done:?}");
}

#[test]
fn arriving_answer_is_not_stopped() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let turn = spans::session_turn().start();
        let mut answer = turn.stream("msg_1");
        answer.push("It is nearly done. And ");
        answer.push("so on. ");
        let done = show(&recording, &[]);
        assert!(done.out.contains("(so far) It is"), "{done:?}");
        drop(answer);
        turn.finish(Outcome::Cancelled);
        let done = show(&recording, &[]);
        assert!(done.out.contains("(stopped here) It is"), "{done:?}");
    });
}

#[test]
fn recovered_run_ended_when_its_process_died() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("sessions/ses_1");
    std::fs::create_dir_all(&dir).unwrap();
    let line = |seg: u32, at: &str, kind: &str, payload: serde_json::Value| {
        let line = json!({
            "v": 1, "seg": seg, "seq": 1, "ts": format!("2026-11-16T{at}.000000Z"), "kind": kind,
            "session_id": "ses_1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "span_id": "00f067aa0ba902b7", "payload": payload,
        });
        std::fs::write(
            dir.join(format!("trace.{seg:04}.jsonl")),
            format!("{line}\n"),
        )
        .unwrap();
    };
    let start = "2026-11-16T09:00:00.000000000Z";
    line(
        1,
        "09:00:00",
        "session_start",
        json!({"start": start, "agent": "planner"}),
    );
    let payload = json!({
        "start": start, "closes": "session_end", "outcome": "interrupted", "duration_ns": 5_000_000_000_u64,
    });
    line(2, "14:00:00", "interrupted", payload);
    let done = run(root.path(), &["show", "ses_1"]);
    let end = done.lines().last().unwrap().to_string();
    assert!(end.starts_with("09:00:05.000 "), "{done:?}");
    assert!(end.contains("run ended  INTERRUPTED  ≥5.0s"), "{done:?}");
}

#[test]
fn final_error_is_shown_once() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.finish(Outcome::Error);
    });
    let done = show(&recording, &[]);
    assert!(
        done.lines()[1].starts_with("  status   error   time"),
        "{done:?}"
    );
}

#[test]
fn session_is_found_by_its_directory() {
    let recording = Recording::new();
    // An id that is no file name: its directory has another one.
    recording.handle().session("Ses/One").title("Found");
    let root = recording.dir.path();
    let dir = spanledger::read::session_dir(root, "Ses/One");
    let name = dir.file_name().unwrap().to_str().unwrap();
    assert_ne!(name, "Ses/One");
    let found = |root: &std::path::Path, session: &str| {
        let done = run(root, &["show", session]);
        assert!(done.out.contains("Found"), "{session}: {done:?}");
    };
    let path = dir.to_str().unwrap();
    let slash = format!("{path}/");
    for session in ["Ses/One", name, path, &slash] {
        found(root, session);
    }
    // A path selects its own root.
    let elsewhere = tempfile::tempdir().unwrap();
    found(elsewhere.path(), path);

    // The first line, which names the session, is damaged.
    let segment = dir.join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("{\"v\":1", "{\"v\"!1", 1)).unwrap();
    for session in ["Ses/One", "Ses", name, path] {
        found(root, session);
        let done = run(root, &["tail", session, "--no-follow"]);
        assert!(done.out.contains("Found"), "{session}: {done:?}");
        let done = run(root, &["grep", "Found", session]);
        assert!(done.out.contains("Found"), "{session}: {done:?}");
    }
}
