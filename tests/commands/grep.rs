//! `spanledger grep`.

use serde_json::json;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{self, Victim, run};

fn recorded() -> Recording {
    let recording = Recording::with(|builder| builder.inline_limit(2_000));
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        events::message_user("What does\n\"E0308\" mean?").emit();
        let tool = spans::tool_call("bash", "call_1")
            .args(json!({"command": "rustc --explain E0308"}))
            .start();
        tool.record_result(&format!("{}a needle in the hay\n", "hay\n".repeat(1_000)));
        tool.set("exit_code", 17);
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    recording.run(|| {
        let run = spans::session_run("ses_2", "planner").start();
        let _run = run.clone().entered();
        events::message_user("Nothing of the kind \u{1b}[31mhere").emit();
    });
    recording
}

#[test]
fn match_has_session_address_kind_and_field() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["grep", "^\"E\\d+\" mean", "ses_1"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        done.lines(),
        ["ses_1 1:3 message_user content: \"E0308\" mean?"]
    );
}

#[test]
fn blob_match_is_shown_at_its_line() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["grep", "needle", "--json"]);
    let objects = done.objects();
    assert_eq!(objects.len(), 1, "{done:?}");
    assert_eq!(objects[0]["kind"], "tool_result");
    assert_eq!(objects[0]["field"], "result");
    assert_eq!(objects[0]["text"], "a needle in the hay");
    assert_eq!(
        (&objects[0]["start"], &objects[0]["end"]),
        (&json!(2), &json!(8))
    );
    assert_eq!(objects[0]["blob"].as_str().unwrap().len(), 64);
}

#[test]
fn numbers_match_and_field_names_do_not() {
    let recording = recorded();
    let root = recording.dir.path();
    let done = run(root, &["grep", "^17$"]);
    assert!(done.out.contains("tool_result exit_code: 17"), "{done:?}");
    assert_eq!(run(root, &["grep", "exit_code"]).code, 1);
}

#[test]
fn kind_filter() {
    let recording = recorded();
    let args = ["grep", "E0308", "--kind", "tool_call,message_system"];
    let done = run(recording.dir.path(), &args);
    assert_eq!(done.lines().len(), 1, "{done:?}");
    assert!(done.out.contains("args.command: rustc --explain E0308"));
}

#[test]
fn no_match_exits_1_silently() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["grep", "unheard-of"]);
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (1, "", "")
    );
}

#[test]
fn ignore_case_and_list_sessions() {
    let recording = recorded();
    let root = recording.dir.path();
    assert_eq!(run(root, &["grep", "NOTHING OF"]).code, 1);
    let done = run(root, &["grep", "-il", "NOTHING OF"]);
    assert_eq!((done.code, done.out.as_str()), (0, "ses_2\n"));
}

#[test]
fn invalid_pattern_exits_2() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["grep", "(unclosed"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("\"(unclosed\"") && done.err.contains("unclosed group"));
}

#[test]
fn escapes_in_matches_do_not_reach_the_terminal() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["grep", "here", "ses_2"]);
    assert!(done.out.contains("kind \\x1b[31mhere"), "{done:?}");
    assert!(!done.out.contains('\u{1b}'));
    let args = ["grep", "here", "ses_2", "--color", "always"];
    let done = run(recording.dir.path(), &args);
    assert!(
        done.out.contains("\\x1b[31m\u{1b}[31mhere\u{1b}[0m"),
        "{done:?}"
    );
}

#[test]
fn damaged_line_exits_3() {
    let recording = recorded();
    let path =
        spanledger::read::session_dir(recording.dir.path(), "ses_1").join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"seq\":3", "\"seq\"?3", 1)).unwrap();
    let done = run(recording.dir.path(), &["grep", "E0308", "ses_1"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("rustc --explain E0308"));
    assert!(done.err.contains("trace.0001.jsonl"));
}

/// A message that came in pieces.
fn streamed() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        let mut out = call.stream("msg_1");
        for piece in ["The gasket ", "is worn ", "and the valve is not. "] {
            out.push(piece);
        }
        out.end();
    });
    recording
}

#[test]
fn streamed_message_matches_once_as_a_whole() {
    let recording = streamed();
    let kinds = |pattern: &str| {
        let done = run(recording.dir.path(), &["grep", pattern, "--json"]);
        let kinds = done
            .objects()
            .into_iter()
            .map(|object| object["kind"].clone());
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(kinds("gasket"), ["message_assistant"]);
    assert_eq!(kinds("gasket is worn"), ["message_assistant"]);
}

#[test]
fn interrupted_message_matches_across_deltas() {
    cli::in_victim(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        let mut out = call.stream("msg_1");
        for n in 0..50 {
            out.push(&format!("word{n} "));
        }
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let done = run(root.path(), &["grep", "word0 .* word30 ", "--json"]);
    let objects = done.objects();
    assert_eq!(objects.len(), 1, "{done:?}");
    assert_eq!(objects[0]["kind"], "message_delta");
}

#[test]
fn deltas_match_separately_on_request() {
    let recording = streamed();
    let args = ["grep", "is", "--kind", "message_delta"];
    let done = run(recording.dir.path(), &args);
    assert!(done.lines().len() > 1, "{done:?}");
}

#[test]
fn missing_blob_is_named_and_exits_3() {
    let recording = recorded();
    let session = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    let blobs = std::fs::read_dir(session.join("blobs")).unwrap();
    let blob = blobs.map(|blob| blob.unwrap().path()).next().unwrap();
    std::fs::remove_file(&blob).unwrap();
    let done = run(recording.dir.path(), &["grep", "E0308"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("rustc --explain E0308"), "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(done.err.contains(blob.to_str().unwrap()), "{done:?}");
}

#[test]
fn streamed_message_without_blob_matches_its_deltas() {
    let recording = Recording::with(|builder| builder.inline_limit(2_000));
    recording.run(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        let mut out = call.stream("msg_1");
        for _ in 0..1_000 {
            out.push("hay ");
        }
        out.push("and a needle ");
        out.end();
    });
    let session = std::fs::read_dir(recording.dir.path().join("sessions")).unwrap();
    let session = session.map(|session| session.unwrap().path()).next();
    std::fs::remove_dir_all(session.unwrap().join("blobs")).unwrap();
    let done = run(recording.dir.path(), &["grep", "needle", "--json"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert_eq!(done.objects()[0]["kind"], "message_delta", "{done:?}");
}
