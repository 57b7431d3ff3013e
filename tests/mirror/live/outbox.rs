//! A marker exists exactly while its segment has something to send.

use spanledger::ledger::{Removal, can_remove_session, remove_session};
use spanledger::mirror::backlog;
use spanledger::session::Store;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::live::setup::{Sending, by_id, markers, until, until_all_gone, wait_for_spans};
use crate::support::otlp_server::OtlpServer;

/// Waits until the thread has recorded what the server accepted.
fn settled(agent: &Sending) {
    until(|| agent.guard.health().mirror.unwrap().owed_bytes == 0);
}

#[test]
fn marker_stays_until_the_last_span_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let agent = Sending::to(root.path(), &server.url());
    let run = agent.run(|| spans::session_run("ses_1", "planner").start());
    agent.run(|| {
        let tool = spans::tool_call("bash", "call_1").child_of(&run).start();
        tool.finish(Outcome::Ok);
    });
    wait_for_spans(&server, 1);
    settled(&agent);
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    agent.run(|| run.finish(Outcome::Ok));
    agent.end();
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn new_line_restores_the_marker() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let agent = Sending::to(root.path(), &server.url());
    agent.session("ses_1", 1);
    wait_for_spans(&server, 2);
    until(|| markers(root.path()).is_empty());
    // As if the machine went down right after it: nothing is sent any more.
    let Sending { guard, dispatch } = agent;
    let session = guard.handle().session("ses_1");
    guard.shutdown().unwrap();
    session.record(events::annotation("1:2", "late"));
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    drop((session, dispatch));
    until_all_gone(root.path());

    let before = server.received().len();
    Sending::to(root.path(), &server.url()).end();
    assert_eq!(markers(root.path()), [""; 0]);
    assert_eq!(server.received().len(), before, "nothing is sent again");
    let store = Store::new(root.path());
    assert_eq!(backlog(&store, &store.dir("ses_1"), None).unwrap().bytes, 0);
}

#[test]
fn unsent_session_stays_unless_forced() {
    let root = tempfile::tempdir().unwrap();
    let agent = Sending::to(root.path(), "http://127.0.0.1:1");
    agent.session("ses_1", 1);
    agent.end();
    let owed = Removal::Owed { segments: 1 };
    assert_eq!(
        can_remove_session(root.path(), "ses_1", false).unwrap(),
        owed
    );
    assert_eq!(remove_session(root.path(), "ses_1", false).unwrap(), owed);
    let removed = remove_session(root.path(), "ses_1", true).unwrap();
    assert!(matches!(removed, Removal::Removed { .. }));
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn sent_session_may_be_removed() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let agent = Sending::to(root.path(), &server.url());
    agent.session("ses_1", 1);
    agent.end();
    let removed = remove_session(root.path(), "ses_1", false).unwrap();
    assert!(matches!(removed, Removal::Removed { .. }));
}

#[test]
fn removed_segment_is_forgotten() {
    let root = tempfile::tempdir().unwrap();
    let agent = Sending::to(root.path(), "http://127.0.0.1:1");
    agent.session("ses_1", 1);
    agent.end();
    until_all_gone(root.path());
    std::fs::remove_dir_all(root.path().join("sessions/ses_1")).unwrap();
    let server = OtlpServer::start();
    let other = Sending::to(root.path(), &server.url());
    other.session("ses_2", 1);
    other.end();
    assert_eq!(markers(root.path()), [""; 0]);
    assert_eq!(by_id(&server.received()).len(), 2);
}
