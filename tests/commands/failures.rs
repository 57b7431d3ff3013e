//! How the commands show what failed: turns and runs, errors that are passed on, spans without an outcome.

use std::io;
use std::time::Duration;

use spanledger::{Failure, FutureExt, Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{Done, run};

fn show(recording: &Recording, args: &[&str]) -> Done {
    let mut all = vec!["show", "ses_1"];
    all.extend(args);
    let done = run(recording.dir.path(), &all);
    assert_eq!(done.code, 0, "{done:?}");
    done
}

/// A turn that fails by itself, and a run that ends well.
fn failed_turn() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        for turn in ["first", "second"] {
            let span = spans::session_turn().child_of(&run).start();
            span.record_failure(&Failure::new("Refused", format!("no answer to the {turn}")));
            span.finish(Outcome::Error);
        }
        let fine = spans::session_turn().child_of(&run).start();
        fine.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    recording
}

#[test]
fn failed_turn_has_its_reason() {
    let recording = failed_turn();
    for args in [&[][..], &["--errors"]] {
        let done = show(&recording, args);
        let row = "        ✗ Refused: no answer to the first  1:5";
        assert!(done.lines().contains(&row), "{args:?}: {done:?}");
        assert!(done.out.contains("✗ Refused: no answer to the second"));
    }
    let errors = show(&recording, &["--errors"]);
    assert!(!errors.out.contains("Turn 3"), "{errors:?}");
    let json = show(&recording, &["--errors", "--json"]).objects();
    let turns = json.iter().filter(|node| node["kind"] == "turn_start");
    let reasons = turns.map(|turn| turn["payload"]["error"]["message"].as_str().unwrap());
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(
        reasons,
        ["no answer to the first", "no answer to the second"]
    );
}

/// A tool fails, and `?` passes its error to the turn and the run.
fn passed_on() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let run = spans::session_run("ses_1", "planner").start();
        let turn = spans::session_turn().child_of(&run).start();
        let tool = spans::tool_call("sql", "call_1").child_of(&turn).start();
        let work = async {
            async {
                let failed = async { Err::<(), _>(io::Error::other("no relation \"x\"")) };
                failed.recorded(tool).await
            }
            .recorded(turn)
            .await
        };
        let ended = runtime.block_on(work.recorded(run));
        assert!(ended.is_err());
    });
    recording
}

#[test]
fn passed_on_error_counts_once_with_its_path() {
    let recording = passed_on();
    let done = show(&recording, &[]);
    assert!(done.out.contains("1 tool call, 1 error"), "{done:?}");
    let header = r#"  error    1:5 sql: no relation "x" → turn 1 1:6 → run 1:7"#;
    assert!(done.lines().contains(&header), "{done:?}");
    assert!(!done.out.contains("\n  last "), "{done:?}");
    let title = r#"✗ Error: no relation "x"  from tool sql 1:5"#;
    assert!(done.out.contains(title), "{done:?}");
    let run_ended = done.out.split_once("run ended  ERROR").unwrap().1;
    assert!(run_ended.contains("no relation"), "{done:?}");
    let errors = show(&recording, &["--errors"]).out;
    assert!(
        errors
            .split_once("run ended  ERROR")
            .unwrap()
            .1
            .contains("no relation")
    );
    let json = show(&recording, &["--errors", "--json"]).objects();
    for kind in ["tool_call", "turn_start", "session_end"] {
        let node = json.iter().find(|node| node["kind"] == kind).unwrap();
        let message = &node["payload"]["error"]["message"];
        assert_eq!(message, "no relation \"x\"", "{kind}");
    }
    let listed = run(recording.dir.path(), &["list", "--json"]).objects();
    assert_eq!(listed[0]["errors"], 1);
    let path = &listed[0]["first_error"]["passed_to"];
    assert_eq!(path[0]["what"], "turn 1");
    // The close lines have the error, and nothing before them repeats it.
    assert!(recording.trace().all("span_update").is_empty());
    assert_eq!(path[1]["address"], "1:7");
}

type Passed = Result<(), anyhow::Error>;

/// A turn in which one call of a tool fails, and `?` passes its error on.
fn failed_by(call: impl AsyncFnOnce(tracing::Span) -> Passed) -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let run = spans::session_run("ses_1", "planner").start();
        let turn = spans::session_turn().child_of(&run).start();
        let limit = Duration::from_millis(1);
        let tool = spans::tool_call("sql", "call_1").timeout(limit);
        let work = call(tool.child_of(&turn).start()).recorded(turn);
        runtime.block_on(work.recorded(run)).unwrap_err();
    });
    recording
}

/// One failure in the command's totals, and in those that the agent wrote.
#[track_caller]
fn assert_one_failure(recording: &Recording, message: &str) {
    let done = show(recording, &[]);
    assert!(done.out.contains("1 tool call, 1 error"), "{done:?}");
    let header = format!("  error    1:5 sql: {message} → turn 1 1:6 → run 1:7");
    assert!(done.out.contains(&header), "{done:?}");
    assert!(done.out.contains("from tool sql 1:5"), "{done:?}");
    let end = recording.trace().one("session_end").clone();
    assert_eq!(end.payload["totals"]["errors"], 1);
}

async fn broken() -> io::Result<()> {
    Err(io::Error::other("disk on fire"))
}

/// The tool's span does not have the text of the error, that of the turn does.
#[test]
fn error_inside_ok_counts_once() {
    let recording = failed_by(async |tool| {
        let limit = Duration::from_secs(600);
        Ok(tokio::time::timeout(limit, broken())
            .recorded(tool)
            .await??)
    });
    assert_one_failure(&recording, "disk on fire");
}

#[test]
fn timeout_around_a_recorded_tool_counts_once() {
    let recording = failed_by(async |tool| {
        let forever = std::future::pending::<io::Result<()>>();
        let limit = Duration::from_millis(2);
        Ok(tokio::time::timeout(limit, forever.recorded(tool)).await??)
    });
    assert_one_failure(&recording, "it did not end within 1 ms");
}

#[test]
fn panic_of_a_task_counts_once() {
    let recording = failed_by(async |tool| {
        let panics = async {
            if true {
                panic!("index 7 is out of bounds");
            }
            broken().await
        };
        Ok(tokio::spawn(panics.recorded(tool)).await??)
    });
    assert_one_failure(&recording, "index 7 is out of bounds");
}

/// What ended after it, and well, shows that it was handled.
#[test]
fn handled_error_inside_ok_is_another_failure() {
    let recording = failed_by(async |tool| {
        let limit = Duration::from_secs(600);
        let _ = tokio::time::timeout(limit, broken()).recorded(tool).await;
        spans::model_call("acme", "m-1").start().finish(Outcome::Ok);
        anyhow::bail!("no turns left")
    });
    let done = show(&recording, &[]);
    assert!(done.out.contains("1 tool call, 2 errors"), "{done:?}");
    let end = recording.trace().one("session_end").clone();
    assert_eq!(end.payload["totals"]["errors"], 2);
}

#[test]
fn equal_errors_of_two_calls_count_twice() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let turn = spans::session_turn().child_of(&run).start();
        for call in ["call_1", "call_2"] {
            let tool = spans::tool_call("sql", call).child_of(&turn).start();
            tool.record_failure(&Failure::new("Timeout", "too slow"));
            tool.finish(Outcome::Error);
        }
        turn.record_failure(&Failure::new("Timeout", "too slow"));
        turn.finish(Outcome::Error);
        run.finish(Outcome::Ok);
    });
    let done = show(&recording, &[]);
    assert!(done.out.contains("2 tool calls, 2 errors"), "{done:?}");
    assert!(done.out.contains("from tool sql 1:7"), "{done:?}");
}

#[test]
fn unset_outcome_is_marked() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let turn = spans::session_turn().child_of(&run).start();
        drop(
            spans::tool_call("dropped", "call_1")
                .child_of(&turn)
                .start(),
        );
        let fine = spans::tool_call("fine", "call_2").child_of(&turn).start();
        fine.finish(Outcome::Ok);
        drop(turn);
        run.finish(Outcome::Ok);
    });
    let done = show(&recording, &[]);
    let row = |text: &str| {
        let row = done.out.lines().find(|line| line.contains(text));
        row.unwrap_or_else(|| panic!("{text}: {done:?}")).to_owned()
    };
    assert!(row("dropped").contains("s ?  1:"), "{done:?}");
    assert!(!row("fine").contains('?'), "{done:?}");
    assert!(row("Turn 1").contains("s ?"), "{done:?}");
}

/// A session whose turn succeeds although its subagent, and the subagent's own one, fail.
fn failed_subagents() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("parent", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        events::message_user("Delegate it").emit();
        let child = spans::session_run("child", "reviewer").start();
        child.in_scope(|| {
            let turn = spans::session_turn().start();
            turn.in_scope(|| {
                events::message_user("Review it").emit();
                let tool = spans::tool_call("read", "call_1").start();
                tool.record_error("permission denied by kernel");
                tool.finish(Outcome::Error);
                let inner = spans::session_run("grandchild", "checker").start();
                inner.in_scope(|| {
                    let tool = spans::tool_call("check", "call_2").start();
                    tool.record_error("no such checker");
                    tool.finish(Outcome::Error);
                });
                inner.finish(Outcome::Ok);
            });
            turn.finish(Outcome::Ok);
        });
        child.record_error("gave up");
        child.finish(Outcome::Error);
        events::message_assistant("Done anyway").emit();
    });
    recording
}

#[test]
fn the_row_of_a_subagent_shows_how_it_ended() {
    let recording = failed_subagents();
    let root = recording.dir.path();
    let out = run(root, &["show", "parent"]).out;
    let row = out.lines().find(|line| line.contains("reviewer child"));
    let row = row.unwrap_or_else(|| panic!("{out}"));
    assert!(row.contains("s  ERROR") && row.contains('█'), "{row}");
    assert!(out.contains("✗ run: gave up"), "{out}");
    let title = out.lines().find(|line| line.starts_with("Turn 1"));
    assert!(
        title.is_some_and(|title| title.contains(" subagent ")),
        "{out}"
    );
    let out = run(root, &["show", "child"]).out;
    let row = out.lines().find(|line| line.contains("checker grandchild"));
    assert!(
        row.is_some_and(|row| row.contains("1 error inside")),
        "{out}"
    );
    let nodes = run(root, &["show", "parent", "--json"]).objects();
    let child = nodes.iter().find(|node| node["kind"] == "subagent");
    let child = child.unwrap();
    assert_eq!(child["outcome"], "error");
    assert_eq!(child["errors"], 3);
    assert!(child["duration_ns"].as_u64().is_some(), "{child}");
}

#[test]
fn errors_of_subagents_are_errors_of_the_family() {
    let recording = failed_subagents();
    let root = recording.dir.path();
    let flat = run(root, &["show", "parent", "--errors"]).out;
    assert!(!flat.contains("Nothing went wrong"), "{flat}");
    assert!(
        flat.contains("reviewer child") && !flat.contains("Done anyway"),
        "{flat}"
    );
    assert!(!flat.contains("permission denied by kernel"), "{flat}");
    let deep = run(root, &["show", "parent", "--errors", "--recursive"]).out;
    for text in [
        "reviewer child",
        "permission denied by kernel",
        "no such checker",
    ] {
        assert!(deep.contains(text), "{text}: {deep}");
    }
    assert!(
        !deep.contains("Review it") && !deep.contains("Done anyway"),
        "{deep}"
    );
    let args = ["show", "parent", "--errors", "--recursive", "--json"];
    let nodes = run(root, &args).objects();
    let kinds: Vec<_> = nodes
        .iter()
        .filter_map(|node| node["kind"].as_str())
        .collect();
    assert!(!kinds.contains(&"message_user"), "{kinds:?}");
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "tool_call").count(),
        2,
        "{kinds:?}"
    );
}
