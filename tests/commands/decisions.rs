//! A person's decision, wherever and however it was recorded.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};
use tracing::Span;

use crate::support::Recording;
use crate::support::cli::{Done, run};
use crate::support::written::{self, line, span};

/// A tool call whose permission `ask` records.
fn recorded(ask: impl FnOnce(&Span, &Span)) -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let turn = spans::session_turn().start();
        let _turn = turn.clone().entered();
        let tool = spans::tool_call("send_mail", "call_1").start();
        let permission = spans::permission_evaluate("send_mail")
            .pattern("*")
            .child_of(&tool)
            .start();
        permission.set("source", "manifest");
        ask(&tool, &permission);
        permission.finish(Outcome::Denied);
        tool.finish(Outcome::Denied);
        turn.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    recording
}

fn answer(decided_by: &str) -> spanledger::events::HitlResponse {
    events::hitl_response("int_1")
        .decision("deny")
        .decided_by(decided_by)
}

/// Wherever it is shown, ada denied it.
#[track_caller]
fn assert_ada_denied(recording: &Recording) {
    let show = |args: &[&str]| -> Done {
        let mut all = vec!["show", "ses_1"];
        all.extend(args);
        run(recording.dir.path(), &all)
    };
    let done = show(&[]);
    assert!(done.out.contains("asked ada: deny, "), "{done:?}");
    assert!(done.out.contains("person "), "{done:?}");
    assert!(!done.out.contains("DENIED by manifest"), "{done:?}");
    let full = show(&["--full"]);
    assert!(
        full.out.contains("permission asked ada: deny, "),
        "{full:?}"
    );
    let listed = show(&["--permissions"]);
    let row = "decision  ask    send_mail * by manifest, ada: deny, ";
    assert!(listed.out.contains(row), "{listed:?}");
    let json: Value = show(&["--permissions", "--json"]).json();
    let decision = &json["decisions"][0];
    assert_eq!(decision["decided_by"], "ada");
    assert_eq!(decision["decision"], "deny");
    assert_eq!(decision["asked"], true);
    assert!(decision["waited_ns"].is_u64());
}

#[test]
fn response_inside_the_permission() {
    assert_ada_denied(&recorded(|_, permission| {
        permission.set("action", "ask");
        events::hitl_request("int_1").on(permission).emit();
        answer("ada").on(permission).emit();
    }));
}

#[test]
fn response_alone_inside_the_permission() {
    assert_ada_denied(&recorded(|_, permission| {
        answer("ada").on(permission).emit();
    }));
}

#[test]
fn response_by_interrupt_id_anywhere() {
    assert_ada_denied(&recorded(|_, permission| {
        permission.set("interrupt_id", "int_1");
        answer("ada").emit();
    }));
}

#[test]
fn response_inside_the_tool_call() {
    assert_ada_denied(&recorded(|tool, _| {
        events::hitl_request("int_1").on(tool).emit();
        answer("ada").on(tool).emit();
    }));
}

#[test]
fn response_while_the_permission_is_open() {
    assert_ada_denied(&recorded(|_, _| answer("ada").emit()));
}

/// From another request, which knows the session by its id.
#[test]
fn response_through_the_session() {
    assert_ada_denied(&recorded(|_, permission| {
        permission.record_action("ask", "manifest");
        let handle = permission.session().unwrap();
        let answer = answer("ada");
        std::thread::spawn(move || answer.emit_in(&handle))
            .join()
            .unwrap();
    }));
}

#[test]
fn response_while_two_permissions_are_open_is_not_guessed() {
    let recording = recorded(|_, permission| {
        let bash = spans::tool_call("bash", "call_2").start();
        let other = spans::permission_evaluate("bash").child_of(&bash).start();
        answer("ada").emit();
        drop(other);
        permission.set("action", "deny");
    });
    let done = run(recording.dir.path(), &["show", "ses_1", "--permissions"]);
    assert!(!done.out.contains("ada"), "{done:?}");
}

/// Another tool call whose permission is open meanwhile.
fn beside_another_question(work: impl FnOnce()) {
    let bash = spans::tool_call("bash", "call_2").start();
    let other = spans::permission_evaluate("bash").child_of(&bash).start();
    other.record_action("ask", "project");
    work();
    drop(other);
}

#[test]
fn response_inside_one_of_two_permissions() {
    assert_ada_denied(&recorded(|_, permission| {
        beside_another_question(|| answer("ada").on(permission).emit());
    }));
}

#[test]
fn response_inside_one_of_two_tool_calls() {
    assert_ada_denied(&recorded(|tool, _| {
        beside_another_question(|| answer("ada").on(tool).emit());
    }));
}

#[test]
fn action_set_to_the_answer() {
    assert_ada_denied(&recorded(|_, permission| {
        events::hitl_request("int_1").on(permission).emit();
        answer("ada").on(permission).emit();
        permission.set("action", "deny");
    }));
}

#[test]
fn answer_of_another_question_is_not_taken() {
    let recording = recorded(|_, permission| {
        permission.set("interrupt_id", "int_2");
        answer("bob").emit();
    });
    let done = run(recording.dir.path(), &["show", "ses_1", "--permissions"]);
    assert!(!done.out.contains("bob"), "{done:?}");
}

#[test]
fn rule_names_its_tool() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::permission_rules(json!([
            {"tool": "sql", "pattern": "SELECT *", "action": "allow", "source": "project"},
        ]))
        .emit();
    });
    let done = run(recording.dir.path(), &["show", "ses_1", "--permissions"]);
    let row = "rule      allow  sql SELECT * (project)";
    assert!(done.out.contains(row), "{done:?}");
}

/// A tool waits for a person from second 2 to 8, and another one works from second 4 to 6.
#[test]
fn tool_works_while_another_one_waits() {
    let root = tempfile::tempdir().unwrap();
    let at = |second: u32| format!("2026-11-16T00:31:{second:02}.000000Z");
    let spans = [
        ("turn_start", 2, 1, 0),
        ("tool_call", 3, 2, 0),
        ("permission_request", 4, 3, 2),
        ("tool_call", 5, 2, 4),
        ("tool_result", 5, 2, 6),
        ("permission_evaluate", 4, 3, 8),
        ("tool_result", 3, 2, 10),
        ("turn_end", 2, 1, 10),
    ];
    let starts = [(2, 0), (3, 0), (4, 2), (5, 4)];
    let mut lines = vec![line("ses_1", "session_start", json!({"agent": "planner"}))];
    lines[0]["ts"] = at(0).into();
    for (kind, id, parent, second) in spans {
        let (_, start) = starts.iter().find(|(span, _)| *span == id).unwrap();
        let payload = json!({
            "tool_id": "bash", "action": "ask", "outcome": "ok", "start": at(*start),
            "duration_ns": u64::from(second - start) * 1_000_000_000,
        });
        let mut line = span("ses_1", kind, id, parent, payload);
        line["ts"] = at(second).into();
        lines.push(line);
    }
    written::write(root.path(), "ses_1", 1, &lines);
    let done = run(root.path(), &["show", "ses_1"]);
    assert!(done.out.contains("tool 6.0s, person 6.0s"), "{done:?}");
}
