//! The root is read-only.

use std::os::unix::fs::PermissionsExt;

use spanledger::spans;

use crate::separate_process::setup::{
    View, each_once, everything, mirror, record, recorded, send, until_sent,
};
use crate::support::Recording;
use crate::support::cli::{self, Running, Victim};
use crate::support::otlp_server::OtlpServer;

#[test]
fn spans_are_sent_once_and_nothing_is_written() {
    let root = recorded(&["ses_1", "ses_2"]);
    let Some(view) = View::of(root.path()) else {
        return;
    };
    let before = everything(root.path());
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("a/b");
    let server = OtlpServer::start();
    assert_eq!(send(view.path(), &dir, &server)["spans"], 4);
    assert_eq!(send(view.path(), &dir, &server)["requests"], 0);
    assert_eq!(each_once(&server).len(), 4);
    assert_eq!(everything(root.path()), before);

    let kept = everything(&dir);
    assert!(kept.contains_key(&dir.join("mirror.lock")));
    assert!(kept.contains_key(&dir.join("sessions/ses_1/trace.0001.cursor")));
    for path in kept.into_keys().chain([dir]) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} is for others, too", path.display());
    }
}

#[test]
fn missing_state_explains_how_to_set_one() {
    let root = recorded(&["ses_1"]);
    let Some(view) = View::of(root.path()) else {
        return;
    };
    let done = mirror(view.path(), &["--once", "--endpoint", "http://127.0.0.1:1"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("mirror.lock"), "{done:?}");
    assert!(done.err.contains("--state DIR"), "{done:?}");
}

#[test]
fn named_session_is_sent() {
    let root = recorded(&["ses_1", "ses_2"]);
    let Some(view) = View::of(root.path()) else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let url = server.url();
    let mut args = vec!["--once", "--endpoint", &url, "--session", "ses_2"];
    args.extend(["--state", state.path().to_str().unwrap()]);
    let done = mirror(view.path(), &args);
    assert_eq!(done.objects()[0]["spans"], 2, "{done:?}");
    assert_eq!(send(view.path(), state.path(), &server)["spans"], 2);
    assert_eq!(each_once(&server).len(), 4);
}

#[test]
fn open_spans_of_a_killed_agent_wait_for_recovery() {
    cli::in_victim(|| {
        let run = spans::session_run("ses_killed", "planner").start();
        drop(spans::tool_call("ls", "call_1").child_of(&run).start());
        let _tool = spans::tool_call("bash", "call_2").child_of(&run).start();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let Some(view) = View::of(root.path()) else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let sent = send(view.path(), state.path(), &server);
    assert_eq!((&sent["spans"], &sent["left_open"]), (&1.into(), &2.into()));
    // Nothing more can be sent, and as much is pending as before.
    let sent = send(view.path(), state.path(), &server);
    assert_eq!((&sent["spans"], &sent["left_open"]), (&0.into(), &2.into()));
    let (url, dir) = (server.url(), state.path().to_str().unwrap());
    let args = ["mirror", "--once", "--endpoint", &url, "--state", dir];
    let done = cli::run(view.path(), &args);
    assert!(
        done.out.contains("Left open by dead processes: 2 spans"),
        "{done:?}"
    );

    view.allow(true);
    assert_eq!(cli::run(root.path(), &["recover"]).code, 0);
    let sent = send(view.path(), state.path(), &server);
    assert_eq!((&sent["spans"], &sent["left_open"]), (&2.into(), &0.into()));
    let mut names = each_once(&server);
    names.sort();
    assert_eq!(
        names,
        [
            "execute_tool bash",
            "execute_tool ls",
            "invoke_agent planner"
        ]
    );
}

#[test]
fn follow_sends_what_an_agent_writes_elsewhere() {
    let recording = Recording::new();
    record(&recording, "ses_1");
    let Some(view @ View::Mounted(_)) = View::of(recording.dir.path()) else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let (url, dir) = (server.url(), state.path().to_str().unwrap());
    let args = ["mirror", "--endpoint", &url, "--state", dir, "--json"];
    let mut mirror = Running::start(view.path(), &args);
    until_sent(&mut mirror, 2);
    record(&recording, "ses_1");
    until_sent(&mut mirror, 2);
    let _root = recording.end();
    drop(mirror);
    assert_eq!(send(view.path(), state.path(), &server)["spans"], 0);
    assert_eq!(each_once(&server).len(), 4);
}
