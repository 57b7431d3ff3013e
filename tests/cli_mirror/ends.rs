//! How `spanledger mirror` ends.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use spanledger::spans;
use tracing_subscriber::layer::SubscriberExt;

use super::cli::{self, Victim, run};
use super::otlp_server::{OtlpServer, Reply};
use super::recorded;

fn following(root: &Path, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = cli::spanledger(root);
    let command = command.arg("mirror").args(args).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// The exit code, and what it still says.
fn end(
    (mut child, mut out): (Child, BufReader<ChildStdout>),
    signal: i32,
) -> (Option<i32>, String) {
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn ctrl_c_ends_it_well_and_it_says_how_much_was_sent_in_all() {
    let server = OtlpServer::start();
    let url = server.url();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let root = recorded();
        let mut mirror = following(root.path(), &["--endpoint", &url]);
        let mut first = String::new();
        mirror.1.read_line(&mut first).unwrap();
        assert_eq!(first, format!("1 span sent to {url}/v1/traces\n"));
        let (code, said) = end(mirror, signal);
        assert_eq!(code, Some(0), "{said:?}");
        assert_eq!(said, format!("In all: {first}"));
    }
}

#[test]
fn in_json_the_whole_has_a_name_of_its_own() {
    let root = recorded();
    let server = OtlpServer::start();
    let mut mirror = following(root.path(), &["--json", "--endpoint", &server.url()]);
    mirror.1.read_line(&mut String::new()).unwrap();
    let (code, said) = end(mirror, libc::SIGINT);
    assert_eq!(code, Some(0), "{said:?}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said.get("spans"), None, "{said}");
    assert_eq!(said["total"]["spans"], 1, "{said}");
    assert_eq!(said["total"]["dead"], 0, "{said}");
}

#[test]
fn a_request_that_is_under_way_at_ctrl_c_is_sent_again_the_next_time() {
    let root = recorded();
    let server = OtlpServer::scripted([Reply::Hang]);
    let mirror = following(root.path(), &["--endpoint", &server.url()]);
    server.wait_for(1);
    let (code, said) = end(mirror, libc::SIGINT);
    assert_eq!(code, Some(0), "{said:?}");
    assert!(said.contains("In all: 0 spans sent"), "{said:?}");
    let once = ["mirror", "--once", "--endpoint", &server.url()];
    let done = run(root.path(), &once);
    assert!(done.out.starts_with("1 span sent"), "{done:?}");
    let received = server.received();
    assert_eq!(received[0].raw, received[1].raw);
}

#[test]
fn ctrl_c_ends_it_well_while_another_process_sends_from_here() {
    let root = recorded();
    let other = std::fs::File::create(root.path().join("mirror.lock")).unwrap();
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
    let (code, said) = end((child, out), libc::SIGTERM);
    assert_eq!(code, Some(0), "{said:?}");
    assert!(said.starts_with("In all: 0 spans sent"), "{said:?}");
}

/// Two sessions whose process was killed, the first of which can't be closed.
fn killed(name: &str) -> tempfile::TempDir {
    if let Some(root) = cli::is_victim() {
        let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let _first = spans::session_run("ses_1", "planner").start();
        let _second = spans::session_run("ses_2", "planner").start();
        cli::wait_to_be_killed();
    }
    let root = tempfile::tempdir().unwrap();
    Victim::start(&format!("ends::{name}"), root.path()).kill();
    let first = spanledger::reader::session_dir(root.path(), "ses_1");
    let _ = std::fs::remove_file(first.join("lock"));
    std::fs::create_dir(first.join("lock")).unwrap();
    root
}

#[test]
fn one_whose_spans_can_not_be_closed_is_named_and_the_others_are_sent() {
    let root = killed("one_whose_spans_can_not_be_closed_is_named_and_the_others_are_sent");
    let server = OtlpServer::start();
    let once = ["mirror", "--once", "--json", "--endpoint", &server.url()];
    let done = run(root.path(), &once);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("session \"ses_1\": "), "{done:?}");
    let told = &done.objects()[0];
    assert_eq!((&told["spans"], &told["left_open"]), (&1.into(), &1.into()));
}

#[test]
fn one_that_goes_on_is_not_ended_by_spans_that_can_not_be_closed() {
    let root = killed("one_that_goes_on_is_not_ended_by_spans_that_can_not_be_closed");
    let server = OtlpServer::start();
    let mut mirror = following(root.path(), &["--endpoint", &server.url()]);
    let mut first = String::new();
    mirror.1.read_line(&mut first).unwrap();
    assert!(first.starts_with("1 span sent"), "{first:?}");
    let (code, said) = end(mirror, libc::SIGINT);
    assert_eq!(code, Some(0), "{said:?}");
}
