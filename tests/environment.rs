//! Settings from the environment. Each test runs once more in a process of its own, with the
//! variables it needs; what it asserts there decides.

mod support;
#[path = "support/synced.rs"]
mod synced;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use spanledger::{Error, Guard, Sync, events, spans};
use support::{LineExt, Trace};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

const CHILD: &str = "TEST_RUNS_IN_CHILD";

/// Runs `body` in a child process that has these variables, and no other that matters.
fn with_env<V: AsRef<OsStr>>(variables: &[(&str, V)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let this = std::thread::current();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", this.name().unwrap(), "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SPANLEDGER_") {
            child.env_remove(name);
        }
    }
    child.env_remove("XDG_STATE_HOME").env_remove("HOME");
    for (name, value) in variables {
        child.env(name, value);
    }
    let output = child.env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}

fn env_path(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap().into()
}

fn build(builder: spanledger::Builder) -> Result<Guard, Error> {
    builder.build::<Registry>().map(|(_, guard)| guard)
}

/// What a bad value of a variable is answered with.
fn refused(guard: Result<Guard, Error>) -> (&'static str, String) {
    match guard.unwrap_err() {
        Error::Environment { name, value, .. } => (name, value),
        other => panic!("{other}"),
    }
}

#[test]
fn the_directory_in_the_environment_is_the_root() {
    let dir = tempfile::tempdir().unwrap();
    with_env(
        &[
            ("SPANLEDGER_DIR", dir.path()),
            ("HOME", "/nowhere".as_ref()),
        ],
        || {
            let guard = spanledger::try_init().unwrap();
            guard.check().unwrap();
            drop(spans::session_run("s", "planner").start());
            guard.shutdown().unwrap();
            let trace = Trace::read(&env_path("SPANLEDGER_DIR"));
            assert_eq!(
                trace.kinds("s"),
                ["segment", "session_start", "session_end"]
            );
        },
    );
}

#[test]
fn a_root_in_code_beats_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    with_env(&[("SPANLEDGER_DIR", dir.path())], || {
        let own = tempfile::tempdir().unwrap();
        let guard = build(spanledger::builder().root(own.path())).unwrap();
        guard.handle().session("s").title("here");
        Trace::read(own.path()).one("session_title");
        let left = std::fs::read_dir(env_path("SPANLEDGER_DIR")).unwrap();
        assert_eq!(left.count(), 0);
    });
}

#[test]
fn without_a_directory_the_state_directory_of_the_user_is_the_root() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let variables = [("XDG_STATE_HOME", state.path()), ("HOME", home.path())];
    with_env(&variables, || {
        let guard = build(spanledger::builder()).unwrap();
        assert_eq!(
            guard.handle().root(),
            env_path("XDG_STATE_HOME").join("spanledger")
        );
    });
}

#[test]
fn a_state_directory_that_is_relative_is_passed_over() {
    let home = tempfile::tempdir().unwrap();
    let variables = [
        ("XDG_STATE_HOME", "relative".as_ref()),
        ("HOME", home.path()),
    ];
    with_env(&variables, || {
        let guard = build(spanledger::builder()).unwrap();
        let expected = env_path("HOME").join(".local/state/spanledger");
        assert_eq!(guard.handle().root(), expected);
    });
}

#[test]
fn with_nothing_to_go_by_there_is_no_root() {
    with_env::<&str>(&[("SPANLEDGER_DIR", "")], || {
        let error = build(spanledger::builder()).unwrap_err();
        assert!(matches!(error, Error::NoRoot), "{error}");
    });
}

#[test]
fn a_disabled_ledger_needs_no_root() {
    with_env(&[("SPANLEDGER_DISABLED", "1")], || {
        let guard = build(spanledger::builder()).unwrap();
        guard.handle().session("s").title("nowhere");
        guard.shutdown().unwrap();
    });
}

#[test]
fn that_recording_was_disabled_fails_no_check() {
    with_env(&[("SPANLEDGER_DISABLED", "1")], || {
        let guard = build(spanledger::builder()).unwrap();
        guard.check().unwrap();
    });
}

/// Whether a ledger built with the environment's settings records.
fn records(configure: impl FnOnce(spanledger::Builder) -> spanledger::Builder) -> bool {
    let dir: TempDir = tempfile::tempdir().unwrap();
    let builder = configure(spanledger::builder().root(dir.path()));
    let (layer, _guard) = builder.build().unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || events::message_user("hello").emit());
    !Trace::read(dir.path()).sessions.is_empty()
}

#[test]
fn the_environment_can_disable_recording() {
    with_env(&[("SPANLEDGER_DISABLED", "True")], || {
        assert!(!records(|b| b))
    });
}

#[test]
fn the_environment_can_say_that_recording_is_not_disabled() {
    with_env(&[("SPANLEDGER_DISABLED", "0")], || assert!(records(|b| b)));
}

#[test]
fn an_empty_variable_says_nothing() {
    let variables = [
        ("SPANLEDGER_DISABLED", ""),
        ("SPANLEDGER_SYNC", " "),
        ("SPANLEDGER_INLINE_LIMIT", ""),
    ];
    with_env(&variables, || assert!(records(|b| b)));
}

#[test]
fn code_that_enables_recording_beats_the_environment() {
    with_env(&[("SPANLEDGER_DISABLED", "1")], || {
        assert!(records(|b| b.disabled(false)));
    });
}

#[test]
fn a_word_that_is_neither_true_nor_false_is_refused() {
    with_env(
        &[("SPANLEDGER_DISABLED", "maybe"), ("HOME", "/nowhere")],
        || {
            let (name, value) = refused(build(spanledger::builder()));
            assert_eq!((name, value.as_str()), ("SPANLEDGER_DISABLED", "maybe"));
        },
    );
}

#[test]
fn a_sync_that_can_not_be_understood_is_refused_unless_code_says_it() {
    with_env(&[("SPANLEDGER_SYNC", "sometimes")], || {
        let dir = tempfile::tempdir().unwrap();
        let (name, value) = refused(build(spanledger::builder().root(dir.path())));
        assert_eq!((name, value.as_str()), ("SPANLEDGER_SYNC", "sometimes"));
        assert!(records(|b| b.sync(Sync::Os)));
    });
}

#[test]
fn a_sync_of_no_time_at_all_is_refused() {
    with_env(&[("SPANLEDGER_SYNC", "0")], || {
        let dir = tempfile::tempdir().unwrap();
        refused(build(spanledger::builder().root(dir.path())));
    });
}

/// When a segment of two lines was synced: before the call returned, or by the shutdown.
fn synced() -> Vec<&'static str> {
    let dir: TempDir = tempfile::tempdir().unwrap();
    let guard = build(spanledger::builder().root(dir.path())).unwrap();
    guard.handle().session("s").title("hello");
    let segment = dir.path().join("sessions/s/trace.0001.jsonl");
    let before = synced::below(&segment).len();
    guard.shutdown().unwrap();
    let all = synced::below(&segment).into_iter().enumerate();
    all.map(|(at, _)| if at < before { "at once" } else { "at the end" })
        .collect()
}

#[test]
fn the_environment_can_ask_for_a_sync_at_every_line() {
    with_env(&[("SPANLEDGER_SYNC", "ALWAYS")], || {
        assert_eq!(synced(), ["at once", "at once"]);
    });
}

#[test]
fn the_environment_can_ask_for_a_sync_every_so_many_milliseconds() {
    with_env(&[("SPANLEDGER_SYNC", "3600000")], || {
        assert_eq!(synced(), ["at the end"]);
    });
}

#[test]
fn the_environment_can_leave_syncing_to_the_system() {
    with_env(&[("SPANLEDGER_SYNC", "os")], || {
        assert_eq!(synced(), [] as [&str; 0]);
    });
}

#[test]
fn the_inline_limit_of_the_environment_moves_values_out() {
    with_env(&[("SPANLEDGER_INLINE_LIMIT", "10")], || {
        let dir = tempfile::tempdir().unwrap();
        let guard = build(spanledger::builder().root(dir.path())).unwrap();
        let session = guard.handle().session("s");
        session.record(events::message_user("more than ten bytes"));
        let trace = Trace::read(dir.path());
        assert!(trace.one("message_user").get("content.$blob").is_string());
    });
}

#[test]
fn an_inline_limit_that_is_no_number_is_refused() {
    with_env(&[("SPANLEDGER_INLINE_LIMIT", "10k")], || {
        let dir = tempfile::tempdir().unwrap();
        let (name, _) = refused(build(spanledger::builder().root(dir.path())));
        assert_eq!(name, "SPANLEDGER_INLINE_LIMIT");
    });
}

#[test]
fn a_second_try_init_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    with_env(&[("SPANLEDGER_DIR", dir.path())], || {
        let guard = spanledger::try_init().unwrap();
        let error = spanledger::try_init().unwrap_err();
        assert!(matches!(error, Error::AlreadyInitialized), "{error}");
        guard.check().unwrap();
    });
}
