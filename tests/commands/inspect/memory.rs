//! Long sessions are read in bounded memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

/// Writes a session of so many turns of so many calls, each with a result of 64 KiB.
fn write_session(root: &Path, id: &str, turns: u64, calls: u64) {
    let dir = root.join("sessions").join(id);
    fs::create_dir_all(&dir).unwrap();
    let file = File::create(dir.join("trace.0001.jsonl")).unwrap();
    let mut file = BufWriter::new(file);
    let mut seq = 0;
    let mut line = |kind: &str, turn: u64, span: u64, payload: &str| {
        seq += 1;
        let head = r#"{"v":1,"seg":1,"seq":"#;
        let kind =
            format!(r#""ts":"2026-11-16T00:31:05.123456Z","kind":"{kind}","session_id":"{id}""#);
        let span = format!(
            r#""turn":{turn},"trace_id":"{:032x}","span_id":"{span:016x}""#,
            1
        );
        writeln!(file, r#"{head}{seq},{kind},{span},"payload":{payload}}}"#).unwrap();
    };
    line("segment", 1, 1, r#"{"writer":"w1"}"#);
    let result = "x".repeat(64 << 10);
    let mut span = 1;
    for turn in 1..=turns {
        line("turn_start", turn, turn << 32, "{}");
        let asked = format!(r#"{{"content":"Look at case {turn}."}}"#);
        line("message_user", turn, turn << 32, &asked);
        for n in 0..calls {
            span += 2;
            line("model_call", turn, span, r#"{"model_id":"m"}"#);
            line(
                "model_result",
                turn,
                span,
                r#"{"model_id":"m","outcome":"ok"}"#,
            );
            let tool = format!(
                r#"{{"tool_id":"t{}","outcome":"ok","result":"{result}"}}"#,
                n % 7
            );
            line("tool_result", turn, span + 1, &tool);
        }
        line("turn_end", turn, turn << 32, r#"{"outcome":"ok"}"#);
    }
    file.flush().unwrap();
}

/// Runs a command that gets no more than 64 MiB of memory.
#[track_caller]
fn run_in_64_mib(root: &Path, args: &[&str]) {
    let limited = "ulimit -d 65536; exec \"$0\" \"$@\"";
    let done = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_spanledger"), "--root"])
        .arg(root)
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {errors}");
}

/// One turn with more results than the commands may hold.
#[test]
fn a_long_turn_is_folded_in_bounded_memory() {
    let root = tempfile::tempdir().unwrap();
    write_session(root.path(), "ses_1", 1, 1_600);
    for command in ["stats", "summary", "context"] {
        run_in_64_mib(root.path(), &[command, "ses_1"]);
    }
}

/// Two sessions of 100 MiB, in turns of 1 MiB.
#[test]
fn long_sessions_are_compared_and_shown_in_bounded_memory() {
    let root = tempfile::tempdir().unwrap();
    write_session(root.path(), "ses_1", 100, 16);
    write_session(root.path(), "ses_2", 100, 16);
    for args in [
        &["diff", "ses_1", "ses_2"][..],
        &["diff", "ses_1", "ses_2", "--json"],
        &["transcript", "ses_1", "--turn", "50"],
        &["stats", "ses_1", "--by", "tool"],
        &["summary", "ses_1"],
        &["context", "ses_1"],
    ] {
        run_in_64_mib(root.path(), args);
    }
}
