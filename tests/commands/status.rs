//! `spanledger status`.

use serde_json::json;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{self, run};

#[test]
fn live_session_shows_activity_and_process() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let tool = spans::tool_call("bash", "call_1")
            .args(json!({"command": "cargo build"}))
            .start();
        let done = cli::run(recording.dir.path(), &["status"]);
        assert_eq!(done.code, 0, "{done:?}");
        let lines = done.lines();
        let pid = std::process::id();
        assert!(
            lines[0].starts_with(&format!("ses_1  busy  planner, pid {pid}, last event ")),
            "{done:?}"
        );
        assert!(lines[1].starts_with("  tool bash for "), "{done:?}");
        assert!(
            lines[1].ends_with("at 1:3  ← {\"command\":\"cargo build\"}"),
            "{done:?}"
        );
        tool.finish(Outcome::Ok);
    });
}

#[test]
fn json_document_has_stable_names() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("edit", "call_1").start().entered();
        events::hitl_request("int_1").tool_id("edit").emit();
        spans::session_run("over", "other")
            .detached()
            .start()
            .finish(Outcome::Ok);
        let document = run_json(&recording, &["status", "--json"]);
        assert_eq!(document["sessions"], 2);
        assert_eq!(document["by_status"]["waiting"], 1);
        assert_eq!(document["by_status"]["ended"], 1);
        assert_eq!(document["checks"]["whole"], true);
        assert_eq!(document["checks"]["at_least"], false);
        assert_eq!(document["checks"]["unreadable"], json!([]));
        assert_eq!(document["live"].as_array().unwrap().len(), 1);
        let live = &document["live"][0];
        assert_eq!(live["session_id"], "ses_1");
        assert_eq!(live["status"], "waiting");
        assert_eq!(live["pid"], std::process::id());
        assert_eq!(live["waiting_for"], json!(["int_1"]));
        assert_eq!(live["doing"]["kind"], "tool_call");
        assert_eq!(live["doing"]["name"], "edit");
        assert_eq!(live["doing"]["address"], "1:3");
        assert_eq!(live["stalled"], false);
        assert!(live["last_event_seconds"].is_number() && live["last_event"].is_string());
    });
}

fn run_json(recording: &Recording, args: &[&str]) -> serde_json::Value {
    run(recording.dir.path(), args).json()
}

#[test]
fn stalled_session_exits_1() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let root = recording.dir.path();
        let done = run(root, &["status", "--stalled-after", "0s"]);
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.out.contains("STALLED") && done.err.contains("1 of 1 live sessions"));
        assert_eq!(run(root, &["status", "--stalled-after", "1d"]).code, 0);
    });
}

#[test]
fn ended_session_never_stalls() {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok)
    });
    let done = run(recording.dir.path(), &["status", "--stalled-after", "0s"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("Nothing is running."));
}

#[test]
fn masks_torn_ends_and_damage_are_reported() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    session.title("password=hunter2hunter2 is not to be seen");
    session.title("whole");
    let root = recording.dir.path();
    let path = spanledger::read::session_dir(root, "ses_1").join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let masked = text.matches("[masked rule=").count();
    assert!(masked > 0, "{text}");
    let before = run(root, &["status"]);
    assert_eq!(before.code, 0, "{before:?}");
    assert!(before.out.contains("health   ok"), "{before:?}");
    let damaged = text.replacen("\"seq\":3", "\"seq\"!3", 1);
    std::fs::write(&path, damaged + "{\"torn").unwrap();
    for args in [&["status", "--json"][..], &["status", "--deep", "--json"]] {
        let done = run(root, args);
        assert_eq!(done.code, 3, "{done:?}");
        assert!(done.err.contains("trace.0001.jsonl"), "{done:?}");
        let checks = &done.json()["checks"];
        assert_eq!(checks["masked"], masked);
        assert_eq!(checks["damaged"], 1);
        // Its writer lives: what has no newline yet may become a line.
        assert_eq!(checks["torn"], 0);
        assert_eq!((&checks["cut"], &checks["gaps"]), (&json!(0), &json!(0)));
    }
}

#[test]
fn masks_in_the_middle_are_counted_from_the_ends() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            let say = |text: &str| events::message_user(text).emit();
            let long = "a word or two, and ".repeat(100);
            (0..50).for_each(|_| say(&long));
            say("password=hunter2hunter2 is not to be seen");
            (0..50).for_each(|_| say(&long));
        });
        run.finish(Outcome::Ok);
    });
    let root = recording.dir.path();
    let checks = run_json(&recording, &["status", "--json"])["checks"].clone();
    assert_eq!(checks["whole"], false, "{checks}");
    assert_eq!(
        (&checks["masked"], &checks["at_least"]),
        (&json!(1), &json!(false))
    );
    let text = run(root, &["status"]).out;
    assert!(text.contains("masked   1 value; 0 truncated"), "{text}");
    assert!(text.contains("--deep reads everything"), "{text}");
    let deep = run_json(&recording, &["status", "--deep", "--json"])["checks"].clone();
    assert_eq!((&deep["whole"], &deep["masked"]), (&json!(true), &json!(1)));

    // As an older version wrote it: there may be more than the ends count.
    let path = spanledger::read::session_dir(root, "ses_1").join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.rfind(",\"marks\":{").unwrap();
    let end = at + text[at..].find('}').unwrap() + 1;
    std::fs::write(&path, [&text[..at], &text[end..]].concat()).unwrap();
    let old = run_json(&recording, &["status", "--json"])["checks"].clone();
    assert_eq!(
        (&old["masked"], &old["at_least"]),
        (&json!(0), &json!(true))
    );
    assert!(run(root, &["status"]).out.contains("masked   at least 0"));
}

#[test]
fn gaps_are_counted_from_the_ends() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let done = run(&root, &["status", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let checks = &done.json()["checks"];
    assert_eq!(checks["gaps"], 1, "{checks}");
    assert!(checks["missing_events"].as_u64().unwrap() > 0, "{checks}");
    assert!(checks["masked"].as_u64().unwrap() > 0, "{checks}");
}

#[test]
fn stall_exits_1_despite_other_damage() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let root = recording.dir.path();
        let dir = root.join("sessions/broken");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("trace.0001.jsonl"), "no line\n").unwrap();
        let calm = run(root, &["status", "--stalled-after", "1d"]);
        assert_eq!(calm.code, 3, "{calm:?}");
        assert!(calm.out.contains("damage   1 session can't be read"));
        let done = run(root, &["status", "--stalled-after", "0s"]);
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains("sessions/broken"), "{done:?}");
    });
}

#[test]
fn missing_root_has_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("none");
    let done = run(&root, &["status"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("Nothing is running.") && done.out.contains("0 sessions"));
    assert!(!root.exists());
}

#[test]
fn latest_dead_letter_across_segments() {
    for session in ["ses_1", "ses_2"] {
        for seg in 1..=2 {
            let mut root = tempfile::tempdir().unwrap();
            for _ in 0..2 {
                let recording = Recording::again(root);
                recording.run(|| {
                    for session in ["ses_1", "ses_2"] {
                        let run = spans::session_run(session, "planner").start();
                        run.finish(Outcome::Ok);
                    }
                });
                root = recording.end();
            }
            for (other, number) in [("ses_1", 1), ("ses_1", 2), ("ses_2", 1), ("ses_2", 2)] {
                let (day, reason) = match (other, number) == (session, seg) {
                    true => (2, "too late"),
                    false => (1, "too early"),
                };
                let letter = json!({
                    "v": 1,
                    "ts": format!("2026-01-0{day}T00:00:00.000000Z"),
                    "address": format!("{number}:2"),
                    "reason": reason,
                });
                let dead = format!("sessions/{other}/dead.{number:04}.jsonl");
                std::fs::write(root.path().join(dead), format!("{letter}\n")).unwrap();
            }
            let printed = run(root.path(), &["status"]).out;
            assert!(
                printed.contains("4 dead letters, the last: too late"),
                "{printed}"
            );
            let printed = run(
                root.path(),
                &["mirror", "--status", "--json", "--session", session],
            );
            assert_eq!(printed.json()["last_dead"]["address"], format!("{seg}:2"));
        }
    }
}

#[test]
fn unreadable_session_is_counted_and_named() {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok)
    });
    // A segment that is no file, and a note of something refused in it.
    let sessions = recording.dir.path().join("sessions");
    let segment = sessions.join("a/trace.0001.jsonl");
    std::fs::create_dir_all(&segment).unwrap();
    std::fs::write(sessions.join("a/dead.0001.jsonl"), "").unwrap();
    let done = run(recording.dir.path(), &["status"]);
    assert_eq!(done.code, 3, "{done:?}");
    let counted = "damage   1 session can't be read";
    assert!(done.out.contains(counted), "{done:?}");
    assert!(!done.out.contains("torn"), "{done:?}");
    assert!(done.err.contains(segment.to_str().unwrap()), "{done:?}");
}

#[test]
fn waiting_for_a_person_is_not_stalled() {
    let recording = Recording::new();
    recording.run(|| {
        let run_span = spans::session_run("ses_1", "planner").start();
        let child = spans::session_run("ses_2", "worker")
            .child_of(&run_span)
            .start();
        let root = recording.dir.path();
        let stalled = || run(root, &["status", "--stalled-after", "0s"]);
        assert!(stalled().err.contains("2 of 2 live sessions"));
        let tool = spans::tool_call("edit", "call_1").child_of(&child).start();
        events::hitl_request("int_1").on(&tool).emit();
        let done = stalled();
        assert_eq!(done.code, 0, "{done:?}");
        assert!(!done.out.contains("STALLED"), "{done:?}");
        events::hitl_response("int_1").on(&tool).emit();
        assert_eq!(stalled().code, 1);
    });
}

#[test]
fn one_session_has_its_status_and_the_reason() {
    let recording = Recording::new();
    let status =
        |args: &[&str]| run_json(&recording, &[&["status", "ses_1", "--json"], args].concat());
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let session = run.session().unwrap();
        assert_eq!(status(&[])["status"], "idle");
        session.record(
            events::session_status("retrying")
                .attempt(3)
                .next_at("2026-11-18T09:00:05Z")
                .message("rate limited"),
        );
        let retrying = status(&[]);
        assert_eq!(retrying["status"], "retrying");
        assert_eq!(retrying["attempt"], 3);
        assert_eq!(retrying["next_at"], "2026-11-18T09:00:05Z");
        assert_eq!(retrying["message"], "rate limited");
        let done = cli::run(recording.dir.path(), &["status", "ses_1"]);
        let first = "ses_1  retrying, attempt 3, next at 2026-11-18T09:00:05Z: rate limited";
        assert_eq!(done.lines()[0], first, "{done:?}");
        session.record(events::session_status("waiting").waiting_for("user_input"));
        assert_eq!(status(&[])["waits_for"], "user_input");
        let done = cli::run(recording.dir.path(), &["status"]);
        assert!(
            done.lines()[0].starts_with("ses_1  waiting for user input  planner"),
            "{done:?}"
        );
        events::hitl_request("int_1").emit();
        assert_eq!(status(&[])["waits_for"], "approval");
        assert_eq!(session.status().unwrap().to_json()["waits_for"], "approval");
        events::hitl_response("int_1").emit();
        session.report_status("busy");
        let tool = spans::tool_call("bash", "c").start();
        assert_eq!(status(&[])["status"], "busy");
        tool.finish(Outcome::Ok);
        run.record_error("out of memory");
        run.finish(Outcome::Error);
    });
    let ended = status(&[]);
    assert_eq!(ended["status"], "error");
    assert_eq!(ended["message"], "out of memory");
    let done = cli::run(recording.dir.path(), &["status", "nobody"]);
    assert_eq!(done.code, 2, "{done:?}");
}

#[test]
fn watch_prints_each_change() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let mut watch = cli::Running::start(recording.dir.path(), &["status", "--watch", "--json"]);
        let mut next = || -> serde_json::Value { serde_json::from_str(&watch.line()).unwrap() };
        let idle = next();
        assert_eq!(
            (&idle["session_id"], &idle["status"]),
            (&json!("ses_1"), &json!("idle"))
        );
        let tool = spans::tool_call("bash", "c").start();
        assert_eq!(next()["status"], "busy");
        let session = run.session().unwrap();
        session.record(events::session_status("retrying").attempt(2));
        let retrying = next();
        assert_eq!(
            (&retrying["status"], &retrying["attempt"]),
            (&json!("retrying"), &json!(2))
        );
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
        assert_eq!(next()["status"], "ended");
    });
}
