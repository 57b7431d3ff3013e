//! Progress in a state directory, and progress beside the trace.

use std::time::Duration;

use spanledger::mirror::{CatchUp, Otlp, backlog};
use spanledger::session::Store;
use spanledger::spans;

use crate::separate_process::setup::{
    each_once, everything, mirror, record, recorded, send, spans_of, status,
};
use crate::support::Recording;
use crate::support::cli::{self, Victim};
use crate::support::otlp_server::{OtlpServer, Reply};

#[test]
fn status_uses_the_state() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("not there yet");
    let before = status(root.path(), Some(&dir));
    assert!(before["unsent_bytes"].as_u64().unwrap() > 0);
    assert!(!dir.exists(), "to look is not to write");

    send(root.path(), &dir, &OtlpServer::start());
    let after = status(root.path(), Some(&dir));
    assert_eq!(
        (&after["unsent_bytes"], &after["sent_spans"]),
        (&0.into(), &2.into())
    );
    let beside = status(root.path(), None);
    assert_eq!(beside["unsent_bytes"], before["unsent_bytes"]);
}

#[test]
fn refusal_is_recorded_and_resolved_in_the_state() {
    let root = recorded(&["ses_1"]);
    let before = everything(root.path());
    let state = tempfile::tempdir().unwrap();
    // Both together, then each alone.
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(400), 3));
    send(root.path(), state.path(), &server);
    let dead = || status(root.path(), Some(state.path()))["dead_letters"].clone();
    assert_eq!(dead(), 2);
    assert_eq!(status(root.path(), None)["dead_letters"], 0);

    let (url, dir) = (server.url(), state.path().to_str().unwrap());
    let done = mirror(
        root.path(),
        &["--resend", "--endpoint", &url, "--state", dir],
    );
    assert_eq!(done.objects()[0]["spans"], 2, "{done:?}");
    assert_eq!(dead(), 0);
    assert_eq!(everything(root.path()), before);
}

#[test]
fn refusal_beside_the_trace_is_resolved_in_the_state() {
    let root = recorded(&["ses_1"]);
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(400), 3));
    let url = server.url();
    mirror(root.path(), &["--once", "--endpoint", &url]);
    let before = everything(root.path());
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let dead = || status(root.path(), Some(state.path()))["dead_letters"].clone();
    assert_eq!(dead(), 2);
    let args = ["--resend", "--endpoint", &url, "--state", dir];
    assert_eq!(mirror(root.path(), &args).objects()[0]["spans"], 2);
    assert_eq!(dead(), 0);
    assert_eq!(mirror(root.path(), &args).objects()[0]["requests"], 0);
    // Without the state that is unknown.
    assert_eq!(status(root.path(), None)["dead_letters"], 2);
    assert_eq!(everything(root.path()), before);
}

#[test]
fn state_of_another_root_skips_nothing() {
    let (one, other) = (recorded(&["main"]), recorded(&["main"]));
    let state = tempfile::tempdir().unwrap();
    let refusing = OtlpServer::scripted(std::iter::repeat_n(Reply::http(400), 3));
    send(one.path(), state.path(), &refusing);

    let before = status(other.path(), Some(state.path()));
    assert_eq!(
        (&before["sent_spans"], &before["dead_letters"]),
        (&0.into(), &0.into())
    );
    let server = OtlpServer::start();
    assert_eq!(send(other.path(), state.path(), &server)["spans"], 2);
    assert_eq!(send(other.path(), state.path(), &server)["requests"], 0);
    // The letters are still the first one's.
    assert_eq!(status(one.path(), Some(state.path()))["dead_letters"], 2);
    assert_eq!(status(other.path(), Some(state.path()))["dead_letters"], 0);
}

#[test]
fn moved_root_continues_where_it_was() {
    let place = tempfile::tempdir().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    std::fs::rename(recorded(&["ses_1"]).keep(), &here).unwrap();
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    assert_eq!(send(&here, state.path(), &server)["spans"], 2);
    std::fs::rename(&here, &there).unwrap();
    assert_eq!(send(&there, state.path(), &server)["requests"], 0);
}

#[test]
fn spans_sent_from_beside_the_trace_are_not_resent() {
    let recording = Recording::new();
    let root = recording.dir.path();
    let state = tempfile::tempdir().unwrap();
    let (server, others) = (OtlpServer::start(), OtlpServer::start());
    record(&recording, "ses_1");
    assert_eq!(send(root, state.path(), &server)["spans"], 2);
    record(&recording, "ses_1");
    let done = mirror(root, &["--once", "--endpoint", &others.url()]);
    assert_eq!(done.objects()[0]["spans"], 4, "{done:?}");
    record(&recording, "ses_1");
    assert_eq!(send(root, state.path(), &server)["spans"], 2);
    assert_eq!(send(root, state.path(), &server)["requests"], 0);
    assert_eq!(status(root, Some(state.path()))["sent_spans"], 6);
    assert_eq!(each_once(&server).len(), 4);
}

#[test]
fn markers_stay_in_the_root() {
    let recording = Recording::with(|builder| builder.otlp_endpoint("http://127.0.0.1:1"));
    record(&recording, "ses_1");
    let root = recording.end();
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let (url, dir) = (server.url(), state.path().to_str().unwrap());
    let mut args = vec!["--once", "--any-endpoint", "--endpoint", &url];
    args.extend(["--state", dir]);
    assert_eq!(mirror(root.path(), &args).objects()[0]["spans"], 2);
    assert_eq!(mirror(root.path(), &args).objects()[0]["requests"], 0);
    assert!(root.path().join("outbox/ses_1.0001").exists());
}

#[test]
fn killed_agents_spans_are_closed_in_a_writable_root() {
    cli::in_victim(|| {
        let _run = spans::session_run("ses_killed", "planner").start();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let sent = send(root.path(), state.path(), &server);
    assert_eq!((&sent["spans"], &sent["left_open"]), (&1.into(), &0.into()));
    assert_eq!(spans_of(&server)[0].0, "invoke_agent planner");
    assert!(!root.path().join("mirror.lock").exists());
}

#[test]
fn two_mirrors_of_one_state_take_turns() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let lock = std::fs::File::create(state.path().join("mirror.lock")).unwrap();
    lock.lock().unwrap();
    let otlp = Otlp::new().endpoint("http://127.0.0.1:1");
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = CatchUp::new(root.path(), to).state(state.path());
    let error = pass
        .patience(Duration::ZERO)
        .run(&mut |_, _| {})
        .unwrap_err();
    let lock = state.path().join("mirror.lock");
    assert!(
        error.to_string().contains(lock.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn library_uses_a_state_like_the_command() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = Otlp::new().endpoint(server.url());
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = CatchUp::new(root.path(), to).state(state.path());
    assert_eq!(pass.run(&mut |_, _| {}).unwrap().spans, 2);
    let store = Store::new(root.path());
    let owed = backlog(&store, &store.dir("ses_1"), Some(state.path())).unwrap();
    assert_eq!((owed.bytes, owed.sent), (0, 2));
    assert_eq!(send(root.path(), state.path(), &server)["requests"], 0);
}
