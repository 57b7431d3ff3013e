//! `spanledger demo`: what it records and how that looks in `show`.

use std::path::Path;

use spanledger::view::text::columns;
use tempfile::TempDir;

use crate::support::cli::{Done, run, spanledger};

fn demo() -> TempDir {
    let root = TempDir::new().unwrap();
    let done = run(root.path(), &["demo", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    root
}

fn show_last(root: &TempDir, width: usize) -> Done {
    show_last_in(root.path(), width)
}

fn show_last_in(root: &Path, width: usize) -> Done {
    let mut command = spanledger(root);
    command.env("COLUMNS", width.to_string());
    let done = command.args(["show", "last"]).output().unwrap().into();
    let Done { code: 0, .. } = done else {
        panic!("{done:?}");
    };
    done
}

#[test]
fn fits_80_columns_and_wide_terminals() {
    let root = demo();
    for (width, rows) in [(80, 52), (160, 40)] {
        let done = show_last(&root, width);
        let lines = done.lines();
        assert!(
            lines.len() <= rows,
            "{} rows at {width}:\n{}",
            lines.len(),
            done.out
        );
        let wide = lines.iter().find(|line| columns(line) > width);
        assert_eq!(wide, None, "wider than {width}");
    }
}

#[test]
fn narrow_terminal_breaks_no_row() {
    let root = demo();
    for width in [40, 60] {
        let done = show_last(&root, width);
        let wide = done.lines().into_iter().find(|line| columns(line) > width);
        assert_eq!(wide, None, "wider than {width}");
    }
}

/// Everything that happened is visible at any width.
#[test]
fn shows_everything_that_happened() {
    let root = demo();
    for width in [80, 160] {
        let done = show_last(&root, width);
        for expected in [
            "status   ended  ok, end_turn",
            "git ",
            "error    1:44 bash: no output for 30 s",
            "builder  (prompt 1:4, tools 1:5, rules 1:6)",
            "\nTurn 3",
            "   model ",
            ", person ",
            "user       Plot the flow",
            "reasoning  First the error",
            "  $0.0069",
            "allowed",
            "asked ada: allow_once, ",
            "DENIED by manifest",
            "ERROR  exit 124",
            "Timeout: no output for 30 s",
            "compaction 4 messages summarized",
            "artifact   flow.png",
            "attempt    att_1",
            "subagent   reviewer",
            "The valve's flow is an `f32`",
            "KiB in all, in a blob",
            "REGISTRY_TOKEN=[masked",
        ] {
            let found = done.out.contains(expected);
            assert!(found, "{expected:?} at {width}:\n{}", done.out);
        }
        assert!(!done.out.contains("tk-9f2b"), "{done:?}");
    }
}

/// A root of its own, and no request, with any setting of the environment.
#[test]
fn keeps_apart_and_sends_nothing() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}", server.local_addr().unwrap());
    let root = TempDir::new().unwrap();
    let user = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_spanledger"));
        command.env("SPANLEDGER_DIR", root.path());
        command
    };
    let demo = user()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .env("OTEL_TRACES_EXPORTER", "otlp")
        .env("OTEL_METRICS_EXPORTER", "otlp")
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &endpoint)
        .arg("demo")
        .output();
    let demo = Done::from(demo.unwrap());
    assert_eq!(demo.code, 0, "{demo:?}");
    let apart = root.path().join("demo");
    let named = format!("spanledger --root {} show last", apart.display());
    assert!(demo.out.contains(&named), "{demo:?}");
    let last = Done::from(user().args(["show", "last"]).output().unwrap());
    assert_eq!(last.code, 2, "{last:?}");
    assert!(last.err.contains("no sessions in"), "{last:?}");
    assert_eq!(show_last_in(&apart, 80).code, 0);
    let asked = server.accept().map(drop).unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
    let unsent = run(&apart, &["mirror", "--status", "--json"]).objects();
    assert_eq!(unsent[0]["endpoints"], serde_json::json!([]));
}

#[test]
fn suggested_commands_work() {
    let root = TempDir::new().unwrap();
    let done = run(root.path(), &["demo"]);
    let (_, next) = done.out.split_once("Try next:\n").unwrap();
    let named = format!("  spanledger --root {} ", root.path().display());
    assert!(next.lines().count() >= 5, "{next}");
    for line in next.lines() {
        let command = line.strip_prefix(&named).unwrap();
        // Two blanks or more set apart what it is for.
        let (command, _) = command.split_once("  ").unwrap();
        let args: Vec<&str> = command.split(' ').collect();
        let done = run(root.path(), &args);
        assert_eq!(done.code, 0, "{line}: {done:?}");
        assert!(!done.out.is_empty(), "{line}");
    }
}
