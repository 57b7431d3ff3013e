//! What goes wrong with one session, or at one moment, costs no other its spans.

use std::time::Duration;

use super::otlp_server::OtlpServer;
use super::scene::{Sending, assert_mirrored, markers, to};

#[test]
fn a_segment_that_cannot_be_read_keeps_no_other_from_being_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url()).linger(Duration::from_secs(3600));
    let agent = Sending::with(root.path(), |builder| builder.otlp(otlp));
    agent.session("ses_1", 1);
    agent.session("ses_2", 1);
    // Neither there nor gone.
    let session = root.path().join("sessions/ses_1");
    std::fs::rename(&session, root.path().join("aside")).unwrap();
    std::os::unix::fs::symlink(&session, &session).unwrap();
    let mirror = agent.end().mirror.unwrap();
    assert_eq!(mirror.sent, 2);
    assert!(mirror.waiting_for.is_some());
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
}

#[test]
fn what_others_left_and_cannot_be_read_keeps_no_own_span_from_being_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    std::fs::create_dir_all(root.path().join("mirror.lock")).unwrap();
    let agent = Sending::to(root.path(), &server.url());
    agent.session("ses_1", 1);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.owed_bytes), (2, 0));
}

#[test]
fn a_shutdown_without_an_end_waits_until_all_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url());
    let agent = Sending::with(root.path(), |b| {
        b.otlp(otlp).shutdown_timeout(Duration::MAX)
    });
    agent.session("ses_1", 1);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.owed_bytes), (2, 0));
}

#[test]
fn who_waits_for_ever_for_more_sends_at_the_end() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url()).linger(Duration::MAX);
    let agent = Sending::with(root.path(), |builder| builder.otlp(otlp));
    agent.session("ses_1", 1);
    agent.end();
    assert_mirrored(root.path(), &server.received());
}
