//! How `spanledger mirror` exits.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use spanledger::spans;

use super::recorded;
use crate::support::cli::{self, Victim, run};
use crate::support::otlp_server::{OtlpServer, Reply};

fn following(root: &Path, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = cli::spanledger(root);
    let command = command.arg("mirror").args(args).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// The exit code and the remaining output.
fn end(
    (mut child, mut out): (Child, BufReader<ChildStdout>),
    signal: i32,
) -> (Option<i32>, String) {
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
    let mut printed = String::new();
    out.read_to_string(&mut printed).unwrap();
    (child.wait().unwrap().code(), printed)
}

#[test]
fn ctrl_c_exits_0_with_a_total() {
    let server = OtlpServer::start();
    let url = server.url();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let root = recorded();
        let mut mirror = following(root.path(), &["--endpoint", &url]);
        let mut first = String::new();
        mirror.1.read_line(&mut first).unwrap();
        assert_eq!(first, format!("1 span sent to {url}/v1/traces\n"));
        let (code, printed) = end(mirror, signal);
        assert_eq!(code, Some(0), "{printed:?}");
        assert_eq!(printed, format!("In all: {first}"));
    }
}

#[test]
fn json_total_has_its_own_name() {
    let root = recorded();
    let server = OtlpServer::start();
    let mut mirror = following(root.path(), &["--json", "--endpoint", &server.url()]);
    mirror.1.read_line(&mut String::new()).unwrap();
    let (code, printed) = end(mirror, libc::SIGINT);
    assert_eq!(code, Some(0), "{printed:?}");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed.get("spans"), None, "{printed}");
    assert_eq!(printed["total"]["spans"], 1, "{printed}");
    assert_eq!(printed["total"]["dead"], 0, "{printed}");
}

#[test]
fn request_cut_by_ctrl_c_is_sent_again() {
    let root = recorded();
    let server = OtlpServer::scripted([Reply::Hang]);
    let mirror = following(root.path(), &["--endpoint", &server.url()]);
    server.wait_for(1);
    let (code, printed) = end(mirror, libc::SIGINT);
    assert_eq!(code, Some(0), "{printed:?}");
    assert!(printed.contains("In all: 0 spans sent"), "{printed:?}");
    let once = ["mirror", "--once", "--endpoint", &server.url()];
    let done = run(root.path(), &once);
    assert!(done.out.starts_with("1 span sent"), "{done:?}");
    let received = server.received();
    assert_eq!(received[0].raw, received[1].raw);
}

#[test]
fn once_cut_by_ctrl_c_exits_130() {
    for (signal, expected) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let root = recorded();
        let server = OtlpServer::scripted([Reply::Hang]);
        let args = ["--once", "--json", "--endpoint", &server.url()];
        let mirror = following(root.path(), &args);
        server.wait_for(1);
        let (code, printed) = end(mirror, signal);
        assert_eq!(code, Some(expected), "{printed:?}");
        let printed: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed["spans"], 0, "{printed}");
        assert_eq!(printed["stopped"], "interrupted", "{printed}");
        // Nothing is lost.
        let done = run(
            root.path(),
            &["mirror", "--once", "--endpoint", &server.url()],
        );
        assert!(done.out.starts_with("1 span sent"), "{done:?}");
    }
}

#[test]
fn ctrl_c_exits_0_while_another_process_sends() {
    let root = recorded();
    let lock = root.path().join("mirror.lock");
    std::fs::write(&lock, "77\n").unwrap();
    let other = std::fs::File::open(&lock).unwrap();
    other.lock().unwrap();
    let mut command = cli::spanledger(root.path());
    let command = command.args(["mirror", "--endpoint", "http://127.0.0.1:1"]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut waits = String::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    err.read_line(&mut waits).unwrap();
    assert!(waits.contains("waiting: another process"), "{waits:?}");
    let out = BufReader::new(child.stdout.take().unwrap());
    let (code, printed) = end((child, out), libc::SIGTERM);
    assert_eq!(code, Some(0), "{printed:?}");
    assert!(printed.starts_with("In all: 0 spans sent"), "{printed:?}");
}

/// Two sessions whose process was killed, the first of which can't be closed.
fn killed() -> tempfile::TempDir {
    cli::in_victim(|| {
        let _first = spans::session_run("ses_1", "planner").start();
        let _second = spans::session_run("ses_2", "planner").start();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let first = spanledger::read::session_dir(root.path(), "ses_1");
    let _ = std::fs::remove_file(first.join("lock"));
    std::fs::create_dir(first.join("lock")).unwrap();
    root
}

#[test]
fn unclosable_spans_are_named_others_are_sent() {
    let root = killed();
    let server = OtlpServer::start();
    let once = ["mirror", "--once", "--json", "--endpoint", &server.url()];
    let done = run(root.path(), &once);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("session \"ses_1\": "), "{done:?}");
    let why = "spans left open in the sessions above could not be closed, so they were not sent\n";
    assert!(done.err.ends_with(why), "{done:?}");
    let report = &done.objects()[0];
    assert_eq!(
        (&report["spans"], &report["left_open"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn follow_continues_despite_unclosable_spans() {
    let root = killed();
    let server = OtlpServer::start();
    let mut mirror = following(root.path(), &["--endpoint", &server.url()]);
    let mut first = String::new();
    mirror.1.read_line(&mut first).unwrap();
    assert!(first.starts_with("1 span sent"), "{first:?}");
    let (code, printed) = end(mirror, libc::SIGINT);
    assert_eq!(code, Some(0), "{printed:?}");
}
