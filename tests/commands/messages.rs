//! What the commands say where something is wrong, missing or not given right: the cause, and what to do.

use std::fs::File;

use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{self, Victim, run};

fn recorded() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let turn = spans::session_turn().child_of(&run).start();
        turn.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    recording
}

#[test]
fn invalid_values_are_named_with_valid_ones() {
    let recording = recorded();
    let cases: [(&[&str], &str); 10] = [
        (
            &["list", "--status", "foo"],
            "invalid value 'foo' for '--status <STATUS>': use one of busy, idle, ",
        ),
        (
            &["list", "--since", "3"],
            "invalid value '3' for '--since <AGE>': write 30s, 10m, 2h or 7d",
        ),
        (
            &["show", "--event", "foo"],
            "invalid address \"foo\"; write SEGMENT:LINE, such as 1:17",
        ),
        (
            &["show", "--around", "foo"],
            "invalid address \"foo\"; write SEGMENT:LINE, such as 1:17",
        ),
        (
            &["show", "nosuch"],
            "no session \"nosuch\" in ROOT; `spanledger list` shows them",
        ),
        (&["show", ""], "no session \"\" in ROOT; `spanledger list`"),
        (
            &["show", "--turn", "x"],
            "invalid value 'x' for '--turn <N>': write a whole number",
        ),
        (
            &["show", "--prompt", "--errors"],
            "the argument '--prompt' cannot be used with '--errors'",
        ),
        (&["transcript", "--turn", "7"], "ses_1 has no turn 7"),
        (
            &["import", "auto", "/nosuch"],
            "can't import /nosuch: No such file or directory",
        ),
    ];
    let root = recording.dir.path();
    for (args, expected) in cases {
        let done = run(root, args);
        assert_eq!(done.code, 2, "{done:?}");
        let expected = expected.replace("ROOT", &root.display().to_string());
        assert!(done.err.contains(&expected), "{done:?}");
    }
}

#[test]
fn root_without_sessions_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for args in [&["show"][..], &["stats"], &["replay"], &["grep", "x"]] {
        let empty = run(dir.path(), args);
        assert!(empty.err.contains("no sessions in "), "{empty:?}");
        assert!(empty.err.contains("set SPANLEDGER_DIR"), "{empty:?}");
        let wrong = run(&file, args);
        assert_eq!(wrong.code, 2, "{wrong:?}");
        let advice = "the root must be a directory: set SPANLEDGER_DIR or give --root";
        assert!(wrong.err.contains(advice), "{wrong:?}");
    }
}

#[test]
fn facts_that_were_not_recorded_are_named() {
    let recording = recorded();
    let root = recording.dir.path();
    for (option, title) in [
        ("--prompt", "System prompt  not recorded"),
        ("--tools", "Tools  not recorded"),
        ("--permissions", "Permissions  not recorded"),
    ] {
        let done = run(root, &["show", "ses_1", option]);
        assert!(done.out.contains(title), "{done:?}");
    }
    let header = run(root, &["show", "ses_1"]);
    assert!(header.out.contains("  model    –"), "{header:?}");
}

#[test]
fn unsent_bytes_without_endpoint_have_a_column() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["mirror", "--status"]);
    assert!(done.lines()[0].contains("LAG NO ENDPOINT "), "{done:?}");
}

#[test]
fn torn_end_says_that_its_process_was_killed() {
    let root = recorded().end();
    let path = spanledger::read::session_dir(root.path(), "ses_1").join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "{\"torn").unwrap();
    let done = run(root.path(), &["status"]);
    let row = "  torn     1 file ends mid-line (its process was killed)";
    assert!(done.lines().contains(&row), "{done:?}");
    assert!(!done.out.contains("damage"), "{done:?}");
}

#[test]
fn session_that_another_process_recovers_is_skipped() {
    cli::in_victim(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let lock = root.path().join("sessions/ses_1/lock");
    let lock = File::create(lock).unwrap();
    lock.lock().unwrap();
    let done = run(root.path(), &["recover"]);
    let row = "  skipped: another process is recovering this session, or already has";
    assert!(done.lines().contains(&row), "{done:?}");
}

#[test]
fn help_names_what_the_mirror_options_do() {
    let help = run(recorded().dir.path(), &["mirror", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "Give up after this long, such as 30s, if the server accepts nothing or another exporter holds the lock \
         [default: never]",
        "Store export progress in DIR instead of the trace directory (for read-only roots)",
    ] {
        assert!(help.contains(text), "{text}: {help}");
    }
}

/// A row that is too wide continues at the left edge.
#[test]
fn explained_examples_fit_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["show", "transcript"] {
        let mut help = cli::spanledger(dir.path());
        let help = help.args([command, "--help"]).env("COLUMNS", "80").output();
        let help = cli::Done::from(help.unwrap());
        let (_, examples) = help.out.split_once("Examples:\n").unwrap();
        let rows: Vec<_> = examples.lines().filter(|row| !row.is_empty()).collect();
        assert!(rows.len() > 3, "{help:?}");
        for row in rows {
            assert!(row.starts_with("  spanledger "), "{row}");
        }
    }
}

#[test]
fn one_turn_of_a_long_session_says_what_was_checked() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        for _ in 0..100 {
            let turn = spans::session_turn().child_of(&run).start();
            turn.in_scope(|| events::message_user("word ".repeat(300)).emit());
            turn.finish(Outcome::Ok);
        }
    });
    let done = run(recording.dir.path(), &["show", "ses_1", "--turn", "50"]);
    let note = "Only this turn and the session's first and last lines were checked for damage; \
                `status --deep` checks everything.";
    assert_eq!(done.lines().last(), Some(&note), "{done:?}");
}
