//! What is kept apart from the trace, and what is kept beside it.

use std::time::Duration;

use spanledger::mirror::{Otlp, Pass, owed_with_state};
use spanledger::session::Store;
use spanledger::spans;
use tracing_subscriber::layer::SubscriberExt;

use crate::cli::{self, Victim};
use crate::otlp_server::{OtlpServer, Reply};
use crate::scene::{each_once, everything, mirror, record, recorded, send, spans_of, status};
use crate::support::Recording;

#[test]
fn the_status_tells_what_is_owed_by_the_state() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("not there yet");
    let before = status(root.path(), Some(&dir));
    assert!(before["owed_bytes"].as_u64().unwrap() > 0);
    assert!(!dir.exists(), "to look is not to write");

    send(root.path(), &dir, &OtlpServer::start());
    let after = status(root.path(), Some(&dir));
    assert_eq!(
        (&after["owed_bytes"], &after["sent_spans"]),
        (&0.into(), &2.into())
    );
    let beside = status(root.path(), None);
    assert_eq!(beside["owed_bytes"], before["owed_bytes"]);
}

#[test]
fn what_a_server_refuses_is_noted_in_the_state_and_resolved_there() {
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
fn what_is_refused_beside_the_trace_can_be_resolved_in_the_state() {
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
    // Who looks beside the trace only can't know that.
    assert_eq!(status(root.path(), None)["dead_letters"], 2);
    assert_eq!(everything(root.path()), before);
}

#[test]
fn the_state_of_another_root_passes_nothing_by() {
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
fn a_root_that_is_found_elsewhere_goes_on_where_it_was() {
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
fn what_others_have_sent_from_beside_the_trace_is_not_sent_again() {
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
fn what_was_recorded_for_somebody_stays_marked_in_the_root() {
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
fn where_the_root_can_be_written_what_a_killed_agent_left_open_is_closed() {
    if let Some(root) = cli::is_victim() {
        let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let _run = spans::session_run("ses_killed", "planner").start();
        cli::wait_to_be_killed();
    }
    let root = tempfile::tempdir().unwrap();
    let name = "state::where_the_root_can_be_written_what_a_killed_agent_left_open_is_closed";
    Victim::start(name, root.path()).kill();
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let sent = send(root.path(), state.path(), &server);
    assert_eq!((&sent["spans"], &sent["left_open"]), (&1.into(), &0.into()));
    assert_eq!(spans_of(&server)[0].0, "invoke_agent planner");
    assert!(!root.path().join("mirror.lock").exists());
}

#[test]
fn two_that_keep_it_in_one_place_take_turns() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let lock = std::fs::File::create(state.path().join("mirror.lock")).unwrap();
    lock.lock().unwrap();
    let otlp = Otlp::new().endpoint("http://127.0.0.1:1");
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = Pass::new(root.path(), to).state(state.path());
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
fn the_library_sends_and_tells_by_a_state_as_the_command_does() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = Otlp::new().endpoint(server.url());
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = Pass::new(root.path(), to).state(state.path());
    assert_eq!(pass.run(&mut |_, _| {}).unwrap().spans, 2);
    let store = Store::new(root.path());
    let owed = owed_with_state(&store, &store.dir("ses_1"), state.path()).unwrap();
    assert_eq!((owed.bytes, owed.sent), (0, 2));
    assert_eq!(send(root.path(), state.path(), &server)["requests"], 0);
}
