//! `spanledger diff`.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{run, spanledger};
use crate::support::scripted::{How, Script};

/// Three sessions: `a` and `b` are equal, `c` has another prompt from its second turn on.
pub fn three(how: How) -> Recording {
    let recording = Recording::new();
    let script = Script::new(4);
    let mut changed = script.clone();
    for turn in &mut changed.turns[1..] {
        turn.prompt = "You are careful.\nYou write C.".to_owned();
    }
    script.record(&recording, "a", how, 1);
    script.record(&recording, "b", how, 2);
    changed.record(&recording, "c", how, 3);
    recording
}

#[test]
fn exit_code_says_whether_sessions_are_equal() {
    let recording = three(How::OpenAi);
    let root = recording.dir.path();
    let equal = run(root, &["diff", "a", "b"]);
    assert_eq!(equal.code, 0, "{equal:?}");
    assert!(equal.out.contains("Equal: "), "{}", equal.out);
    let other = run(root, &["diff", "a", "c"]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(
        other.out.contains("First divergence in turn 2"),
        "{}",
        other.out
    );
    assert!(other.out.contains("Cause: system_prompt"), "{}", other.out);
    assert!(other.out.contains("- You write Rust.") && other.out.contains("+ You write C."));
    assert_eq!(run(root, &["diff", "a", "nothing"]).code, 2);
}

#[test]
fn expected_cause_decides_the_exit_code() {
    let recording = three(How::Events);
    let root = recording.dir.path();
    let code = |args: &[&str]| run(root, &[&["diff"], args].concat()).code;
    assert_eq!(code(&["a", "c", "--expect-cause", "system_prompt"]), 0);
    assert_eq!(code(&["a", "c", "--expect-cause", "model"]), 1);
    assert_eq!(code(&["a", "b", "--expect-cause", "model"]), 1);
    assert_eq!(code(&["a", "b", "--expect-cause", "weather"]), 2);
}

#[test]
fn json_has_the_stable_members() {
    for (how, inputs) in [(How::Anthropic, "recorded"), (How::Macros, "reconstructed")] {
        let recording = three(how);
        let root = recording.dir.path();
        let document = run(root, &["diff", "a", "c", "--json"]).json();
        assert_eq!(document["equal"], false);
        assert_eq!(document["inputs"], inputs);
        let first = &document["first_divergence"];
        assert_eq!(
            (&first["turn"], &first["cause"]),
            (&json!(2), &json!("system_prompt"))
        );
        assert!(first["detail"].is_string() && first["a"].is_string() && first["b"].is_string());
        let turns = document["turns"].as_array().unwrap();
        let equal: Vec<_> = turns
            .iter()
            .map(|turn| turn["equal"].as_bool().unwrap())
            .collect();
        assert!(equal[0] && !equal[1], "{equal:?}");
        let document = run(root, &["diff", "a", "c", "--json", "--only-differences"]).json();
        assert!(document["turns"].as_array().unwrap().len() < turns.len());
        let document = run(root, &["diff", "a", "b", "--json"]).json();
        assert_eq!(
            (&document["equal"], &document["first_divergence"]),
            (&json!(true), &Value::Null)
        );
    }
}

#[test]
fn wide_terminals_show_sessions_side_by_side() {
    let recording = three(How::OpenAi);
    let out = |columns: &str| {
        let mut command = spanledger(recording.dir.path());
        let output = command
            .env("COLUMNS", columns)
            .args(["diff", "a", "c"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (wide, narrow) = (out("160"), out("80"));
    let user = |text: &str| {
        text.lines()
            .filter(|line| line.contains("Please do task 0"))
            .count()
    };
    let twice = wide
        .lines()
        .any(|line| line.matches("Please do task 0").count() == 2);
    assert!(twice, "{wide}");
    assert_eq!(user(&narrow), 1, "{narrow}");
    for line in wide.lines().chain(narrow.lines()) {
        assert!(line.chars().count() <= 160, "{line}");
    }
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 80),
        "{narrow}"
    );
}

#[test]
fn retries_and_orders_are_shown_but_equal() {
    let recording = Recording::new();
    let record = |session: &str, fails: bool, names: [&str; 2]| {
        recording.run(|| {
            let _run = spans::session_run(session, "planner").start().entered();
            let _turn = spans::session_turn().start().entered();
            events::message_user("Go").emit();
            if fails {
                let call = spans::model_call("p", "m").start();
                call.record_error("overloaded");
                call.finish(Outcome::Error);
            }
            spans::model_call("p", "m").start().finish(Outcome::Ok);
            for name in names {
                let tool = spans::tool_call(name, name).args(json!({"x": 1})).start();
                tool.record_result("done");
                tool.finish(Outcome::Ok);
            }
            events::message_assistant("Done").emit();
        });
    };
    record("a", false, ["read", "grep"]);
    record("b", true, ["grep", "read"]);
    let done = run(recording.dir.path(), &["diff", "a", "b"]);
    assert_eq!(done.code, 0, "{}", done.out);
    assert!(done.out.contains("attempts: 1 → 2"), "{}", done.out);
    assert!(done.out.contains("in another order"), "{}", done.out);
}

#[test]
fn a_permission_belongs_to_the_tool_it_lies_in() {
    let recording = Recording::new();
    let record = |session: &str, index_first: bool| {
        recording.run(|| {
            let _run = spans::session_run(session, "planner").start().entered();
            let rules = json!([{"permission": "bash", "pattern": "rm *", "action": "ask"}]);
            events::permission_rules(rules).emit();
            let _turn = spans::session_turn().start().entered();
            events::message_user("Tidy up").emit();
            let index = || {
                let index = spans::tool_call("index", "call_2");
                index.args(json!({"path": "src"})).start()
            };
            let bash = spans::tool_call("bash", "call_1").command("rm -rf target");
            let bash = bash.start();
            let first = index_first.then(index);
            let permission = spans::permission_evaluate("bash").child_of(&bash).start();
            let second = first.unwrap_or_else(index);
            permission.record_action("deny", "manifest");
            permission.finish(Outcome::Denied);
            bash.finish(Outcome::Denied);
            second.finish(Outcome::Ok);
        });
    };
    record("a", false);
    record("b", true);
    let done = run(recording.dir.path(), &["diff", "a", "b"]);
    assert_eq!(done.code, 0, "{}", done.out);
    assert!(!done.out.contains("deny"), "{}", done.out);
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let recording = Recording::new();
    for (session, text) in [("a", "\x1b[2Jone\u{202e}"), ("b", "\x1b[2Jtwo\u{202e}")] {
        recording.run(|| {
            let _run = spans::session_run(session, "planner").start().entered();
            let _turn = spans::session_turn().start().entered();
            events::message_user(text).emit();
            let call = spans::model_call(text, text).start();
            call.request(&json!({"model": text, "messages": [{"role": "user", "content": text}]}));
        });
    }
    let root = recording.dir.path();
    for args in [
        &["diff", "a", "b"][..],
        &["diff", "a", "b", "--json"],
        &["replay", "a"],
        &["replay", "a", "--inputs"],
        &["replay", "a", "--inputs", "--as", "curl"],
    ] {
        let done = run(root, args);
        let text = format!("{}{}", done.out, done.err);
        assert!(
            !text.contains('\x1b') && !text.contains('\u{202e}'),
            "{args:?}: {text:?}"
        );
    }
}
