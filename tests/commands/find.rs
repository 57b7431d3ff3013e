//! `spanledger find`.

use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::cli::{self, Victim, run};
use crate::support::{LineExt, Recording};

fn recorded() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        events::message_user("Call call_1 now")
            .message_id("msg_1")
            .emit();
        let tool = spans::tool_call("task", "call_1").start();
        let child = spans::session_run("ses_2", "worker")
            .child_of(&tool)
            .start();
        child.finish(Outcome::Ok);
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    recording
}

#[test]
fn tool_call_by_id_not_by_mention() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["find", "call_1", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let objects = done.objects();
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["type"], "tool_call");
    assert_eq!(objects[0]["session_id"], "ses_1");
    assert_eq!(objects[0]["lines"], 2);
    assert_eq!(objects[0]["first"]["kind"], "tool_call");
    assert_eq!(objects[0]["addresses"][1], objects[0]["last"]);
}

#[test]
fn trace_id_in_upper_case_with_dashes() {
    let recording = recorded();
    let trace = recording.trace();
    let id = trace.session("ses_1")[1].trace_id.clone().unwrap();
    let id = id.to_uppercase();
    let id = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
    let done = run(recording.dir.path(), &["find", &id]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("trace in session ses_1: "), "{done:?}");
    assert!(done.out.contains("trace in session ses_2: "), "{done:?}");
}

#[test]
fn lines_that_are_left_out_are_counted() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        for text in ["1", "2", "3", "4", "5", "6", "7"] {
            events::message_user(text).on(&run).emit();
        }
        run.finish(Outcome::Ok);
    });
    let id = recording.trace().one("session_start").trace_id.clone();
    let done = run(recording.dir.path(), &["find", &id.unwrap()]);
    assert!(done.out.contains("… 1 more line (--all)"), "{done:?}");
}

#[test]
fn span_id_at_open_and_close_line() {
    let recording = recorded();
    let trace = recording.trace();
    let span = trace.one("tool_call").span_id.clone().unwrap();
    let done = run(recording.dir.path(), &["find", &span.to_uppercase()]);
    let lines = done.lines();
    assert!(
        lines[0].starts_with("span in session ses_1: 3 lines"),
        "{done:?}"
    );
    // In between is the line about its subagent.
    assert!(lines[1].contains("tool_call") && lines[3].contains("tool_result"));
    assert!(lines[2].contains("subagent"), "{done:?}");
}

#[test]
fn message_by_id() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["find", "msg_1"]);
    let first = done.lines()[0].to_owned();
    assert!(
        first.starts_with("message in session ses_1: at 1:"),
        "{first}"
    );
}

#[test]
fn unknown_id_exits_2_and_lists_what_was_tried() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["find", "call_9"]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    for part in ["\"call_9\"", "tool call", "2 sessions", "under "] {
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
}

#[test]
fn missing_root_has_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(&dir.path().join("none"), &["find", "call_1"]);
    assert_eq!(done.code, 2, "{done:?}");
}

#[test]
fn unique_prefix_is_enough() {
    let recording = recorded();
    let trace = recording.trace();
    let id = trace.session("ses_1")[1].trace_id.clone().unwrap();
    let done = run(recording.dir.path(), &["find", &id[..10].to_uppercase()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("trace in session ses_1: "), "{done:?}");
    let message = run(recording.dir.path(), &["find", "msg_", "--json"]);
    assert_eq!(message.objects()[0]["type"], "message", "{message:?}");
    let many = run(recording.dir.path(), &["find", "ses_"]);
    assert_eq!(many.code, 2, "{many:?}");
    assert!(
        many.err.contains("could be any of ses_1, ses_2"),
        "{many:?}"
    );
    // Too short to be meant as one.
    assert_eq!(run(recording.dir.path(), &["find", &id[..3]]).code, 2);
}

#[test]
fn unreadable_session_is_named_others_are_searched() {
    let recording = recorded();
    // A segment that is no file.
    let segment = recording.dir.path().join("sessions/a/trace.0001.jsonl");
    std::fs::create_dir_all(&segment).unwrap();
    let done = run(recording.dir.path(), &["find", "call_1"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(
        done.out.starts_with("tool call in session ses_1"),
        "{done:?}"
    );
    assert!(done.err.contains(segment.to_str().unwrap()), "{done:?}");
}

#[test]
fn suggested_command_works() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ada's first", "planner").start();
        run.in_scope(|| drop(spans::tool_call("bash", "call_9").start()));
        run.finish(Outcome::Ok);
    });
    let done = run(recording.dir.path(), &["find", "call_9"]);
    let next = done.out.lines().last().unwrap().trim();
    let (command, arguments) = next.split_once(' ').unwrap();
    assert_eq!(command, "spanledger");
    let shell = format!("{} {arguments}", env!("CARGO_BIN_EXE_spanledger"));
    let typed = std::process::Command::new("sh")
        .arg("-c")
        .arg(shell)
        .output();
    let typed = cli::Done::from(typed.unwrap());
    assert_eq!(typed.code, 0, "{next}: {typed:?}");
    assert!(typed.out.starts_with("ada's first  planner"), "{typed:?}");
}

/// A message in two parts, each streamed; the second is never completed.
fn cut_by_a_crash() -> tempfile::TempDir {
    cli::in_victim(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        let pieces = ["The gasket ", "is worn ", "and the valve is not. ", "So "];
        let mut first = call.stream("msg_1").part(1);
        pieces.iter().for_each(|piece| first.push(piece));
        first.end();
        let mut second = call.stream("msg_1").part(2);
        pieces.iter().for_each(|piece| second.push(piece));
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    root
}

#[test]
fn streamed_message_is_found_whole_or_by_deltas() {
    let root = cut_by_a_crash();
    let found = run(root.path(), &["find", "msg_1", "--json"]).objects();
    assert_eq!(found[0]["first"]["kind"], "message_assistant", "{found:?}");
    assert!(found[0]["pieces"].as_u64().unwrap() > 1, "{found:?}");
    assert!(found[0]["lines"].as_u64().unwrap() > 1, "{found:?}");
    let shown = run(root.path(), &["find", "msg_1"]);
    assert!(shown.lines()[1].contains("message_assistant"), "{shown:?}");
    assert!(shown.lines()[2].contains("message_delta"), "{shown:?}");
    let all = run(root.path(), &["find", "msg_1", "--all", "--json"]).objects();
    assert_eq!(all[0]["first"]["kind"], "message_delta", "{all:?}");
    let lines = |found: &serde_json::Value| found["lines"].as_u64().unwrap();
    assert_eq!(
        lines(&all[0]),
        lines(&found[0]) + found[0]["pieces"].as_u64().unwrap()
    );
}

/// `agent.trace.address`, as copied from Jaeger.
#[test]
fn address_of_a_backend_is_found_and_shown() {
    let recording = recorded();
    let root = recording.dir.path();
    let trace = recording.trace();
    let line = trace.one("message_user");
    let address = format!("ses_1/{}:{}", line.seg, line.seq);
    let found = run(root, &["find", &address]);
    assert_eq!(found.code, 0, "{found:?}");
    assert!(found.out.starts_with("line in session ses_1: at 1:"));
    assert!(found.out.contains("Call call_1 now"), "{found:?}");
    let found = run(root, &["find", &address, "--json"]).objects();
    assert_eq!(found[0]["type"], "line");
    for args in [
        &["show", &address][..],
        &["show", "--event", &address],
        &["show", "ses_1", "--event", &address],
    ] {
        let done = run(root, args);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(
            done.out.contains("\"content\": \"Call call_1 now\""),
            "{done:?}"
        );
    }
    let other = run(root, &["show", "ses_2", "--event", &address]);
    assert_eq!(other.code, 2, "{other:?}");
    assert!(other.err.contains("another session"), "{other:?}");
    let none = run(root, &["find", "ses_1/1:999"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("there is no line 1:999"), "{none:?}");
}

#[test]
fn answer_explains_prefixes() {
    let recording = recorded();
    let root = recording.dir.path();
    let short = run(root, &["find", "zzz"]);
    assert!(
        short.err.contains("a prefix needs at least 4 characters"),
        "{short:?}"
    );
    let long = run(root, &["find", "zzzz"]);
    assert!(long.err.contains("no id starts with it"), "{long:?}");
}

#[test]
fn prompt_by_its_digest() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::system_prompt("Be brief.").emit();
        spans::model_call("acme", "m-1").start().finish(Outcome::Ok);
    });
    let trace = recording.trace();
    let digest = trace.one("system_prompt").text("digest").to_owned();
    for id in [&digest[..], &digest[..12]] {
        let found = run(recording.dir.path(), &["find", id, "--json"]).objects();
        assert_eq!(found[0]["type"], "digest");
        // The prompt, and the call that used it.
        assert_eq!(found[0]["lines"], 3);
    }
}
