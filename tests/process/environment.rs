//! Settings from the environment. Each test runs in a child process that has its variables.

/// Where `sync_calls` hears of syncs.
#[cfg(target_os = "linux")]
mod sync;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use spanledger::{Error, Guard, SpanExt, SyncPolicy, events, spans};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::support::child;
use crate::support::{LineExt, Trace};

/// Runs `body` in a child process that has these variables and no others of ours.
fn with_env<V: AsRef<OsStr>>(variables: &[(&str, V)], body: impl FnOnce()) {
    let configure = |child: &mut Command| {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SPANLEDGER_") {
                child.env_remove(name);
            }
        }
        child.env_remove("XDG_STATE_HOME").env_remove("HOME");
        for (name, value) in variables {
            child.env(name, value);
        }
    };
    child::with(configure, body);
}

fn env_path(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap().into()
}

fn build(builder: spanledger::Builder) -> Result<Guard, Error> {
    builder.build::<Registry>().map(|(_, guard)| guard)
}

/// The variable and value that the error names.
fn refused(guard: Result<Guard, Error>) -> (&'static str, String) {
    match guard.unwrap_err() {
        Error::Environment { name, value, .. } => (name, value),
        other => panic!("{other}"),
    }
}

/// The place that the error names.
fn misconfigured(guard: Result<Guard, Error>) -> String {
    match guard.unwrap_err() {
        Error::Config { place, .. } => place,
        other => panic!("{other}"),
    }
}

/// How many of five tool calls are allowed.
fn allowed_calls(builder: spanledger::Builder) -> usize {
    let (layer, _guard) = builder.build().unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        let _run = spans::session_run("s", "planner").start().entered();
        let ask = |n: usize| spans::tool_call("bash", format!("c{n}")).start().allowed();
        (0..5).filter(|n| ask(*n).is_ok()).count()
    })
}

/// A file of limits in a directory.
fn limits_file(dir: &TempDir, text: &str) -> PathBuf {
    let file = dir.path().join("limits.toml");
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn limits_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = limits_file(&dir, "[limits]\ntool_calls = 3\n");
    let variables = [("SPANLEDGER_DIR", dir.path()), ("SPANLEDGER_CONFIG", &file)];
    with_env(&variables, || {
        assert_eq!(allowed_calls(spanledger::builder()), 3);
    });
}

#[test]
fn limits_of_code_win_over_variables_and_those_over_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = limits_file(&dir, "[limits]\ntool_calls = 3\n");
    let variables = [
        ("SPANLEDGER_DIR", dir.path().as_os_str()),
        ("SPANLEDGER_CONFIG", file.as_os_str()),
        ("SPANLEDGER_MAX_TOOL_CALLS", "2".as_ref()),
    ];
    with_env(&variables, || {
        let root = env_path("SPANLEDGER_DIR");
        assert_eq!(allowed_calls(spanledger::builder().root(root.join("b"))), 2);
        let limits = spanledger::Limits::new().tool_calls(1);
        let builder = spanledger::builder().root(root.join("c"));
        assert_eq!(allowed_calls(builder.limits(limits)), 1);
    });
}

#[test]
fn wrong_limit_is_named_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = limits_file(&dir, "[limits]\ntool_calls = 3\nturns = -1\n");
    with_env(&[("SPANLEDGER_CONFIG", &file)], || {
        let place = misconfigured(build(spanledger::builder().root("a")));
        let file = env_path("SPANLEDGER_CONFIG");
        assert_eq!(place, format!("{}:3", file.display()));
    });
}

#[test]
fn missing_file_of_limits_is_named() {
    with_env(&[("SPANLEDGER_CONFIG", "/nonexistent/limits.toml")], || {
        let place = misconfigured(build(spanledger::builder().root("a")));
        assert_eq!(place, "/nonexistent/limits.toml");
    });
}

#[test]
fn negative_limit_is_named_with_its_variable() {
    with_env(&[("SPANLEDGER_MAX_COST_USD", "-2")], || {
        let place = misconfigured(build(spanledger::builder().root("a")));
        assert_eq!(place, "SPANLEDGER_MAX_COST_USD=\"-2\"");
    });
}

#[test]
fn directory_variable_is_the_root() {
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
fn root_in_code_overrides_the_variable() {
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
fn default_root_is_the_state_directory() {
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
fn relative_state_directory_is_ignored() {
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
fn without_home_there_is_no_root() {
    with_env::<&str>(&[("SPANLEDGER_DIR", "")], || {
        let error = build(spanledger::builder()).unwrap_err();
        assert!(matches!(error, Error::NoRoot), "{error}");
    });
}

#[test]
fn disabled_ledger_needs_no_root() {
    with_env(&[("SPANLEDGER_DISABLED", "1")], || {
        let guard = build(spanledger::builder()).unwrap();
        guard.handle().session("s").title("nowhere");
        guard.shutdown().unwrap();
    });
}

#[test]
fn check_passes_when_disabled() {
    with_env(&[("SPANLEDGER_DISABLED", "1")], || {
        let guard = build(spanledger::builder()).unwrap();
        guard.check().unwrap();
    });
}

/// Whether a ledger with the environment's settings records.
fn records(configure: impl FnOnce(spanledger::Builder) -> spanledger::Builder) -> bool {
    let dir: TempDir = tempfile::tempdir().unwrap();
    let builder = configure(spanledger::builder().root(dir.path()));
    let (layer, _guard) = builder.build().unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || events::message_user("hello").emit());
    !Trace::read(dir.path()).sessions.is_empty()
}

#[test]
fn variable_disables_recording() {
    with_env(&[("SPANLEDGER_DISABLED", "True")], || {
        assert!(!records(|b| b))
    });
}

#[test]
fn variable_can_be_false() {
    with_env(&[("SPANLEDGER_DISABLED", "0")], || assert!(records(|b| b)));
}

#[test]
fn empty_variable_is_ignored() {
    let variables = [
        ("SPANLEDGER_DISABLED", ""),
        ("SPANLEDGER_SYNC", " "),
        ("SPANLEDGER_INLINE_LIMIT", ""),
    ];
    with_env(&variables, || assert!(records(|b| b)));
}

#[test]
fn enabled_in_code_overrides_the_variable() {
    with_env(&[("SPANLEDGER_DISABLED", "1")], || {
        assert!(records(|b| b.disabled(false)));
    });
}

#[test]
fn invalid_boolean_is_refused() {
    with_env(
        &[("SPANLEDGER_DISABLED", "maybe"), ("HOME", "/nowhere")],
        || {
            let (name, value) = refused(build(spanledger::builder()));
            assert_eq!((name, value.as_str()), ("SPANLEDGER_DISABLED", "maybe"));
        },
    );
}

#[test]
fn invalid_sync_is_refused_unless_set_in_code() {
    with_env(&[("SPANLEDGER_SYNC", "sometimes")], || {
        let dir = tempfile::tempdir().unwrap();
        let (name, value) = refused(build(spanledger::builder().root(dir.path())));
        assert_eq!((name, value.as_str()), ("SPANLEDGER_SYNC", "sometimes"));
        assert!(records(|b| b.sync(SyncPolicy::Os)));
    });
}

#[test]
fn zero_sync_interval_is_refused() {
    with_env(&[("SPANLEDGER_SYNC", "0")], || {
        let dir = tempfile::tempdir().unwrap();
        refused(build(spanledger::builder().root(dir.path())));
    });
}

#[test]
fn inline_limit_moves_values_to_blobs() {
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
fn invalid_inline_limit_is_refused() {
    with_env(&[("SPANLEDGER_INLINE_LIMIT", "10k")], || {
        let dir = tempfile::tempdir().unwrap();
        let (name, _) = refused(build(spanledger::builder().root(dir.path())));
        assert_eq!(name, "SPANLEDGER_INLINE_LIMIT");
    });
}

#[test]
fn second_try_init_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    with_env(&[("SPANLEDGER_DIR", dir.path())], || {
        let guard = spanledger::try_init().unwrap();
        let error = spanledger::try_init().unwrap_err();
        assert!(matches!(error, Error::AlreadyInitialized), "{error}");
        guard.check().unwrap();
    });
}

#[cfg(not(feature = "mirror"))]
#[test]
fn endpoint_without_the_mirror_feature_warns_once() {
    const ENDPOINTS: [&str; 2] = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    ];
    if child::is_child() {
        for _ in 0..2 {
            let dir = tempfile::tempdir().unwrap();
            let guard = build(spanledger::builder().root(dir.path())).unwrap();
            guard.shutdown().unwrap();
        }
        return;
    }
    let warnings = |variables: &[(&str, &str)]| {
        let mut child = child::calling_test();
        for name in ENDPOINTS {
            child.env_remove(name);
        }
        let output = child.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success());
        let stderr = String::from_utf8(output.stderr).unwrap();
        let warnings = stderr
            .lines()
            .filter(|line| line.starts_with("spanledger: "));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    for name in ENDPOINTS {
        let found = warnings(&[(name, "http://127.0.0.1:4317")]);
        let [warning] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(warning.contains(name) && warning.contains("`mirror`"));
    }
    assert!(warnings(&[]).is_empty());
    assert!(warnings(&[(ENDPOINTS[0], "")]).is_empty());
    let disabled = [
        (ENDPOINTS[0], "http://127.0.0.1:4317"),
        ("OTEL_SDK_DISABLED", "true"),
    ];
    assert!(warnings(&disabled).is_empty());
}
