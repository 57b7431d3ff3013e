//! A failure of one session does not affect the spans of others.

use std::time::Duration;

use spanledger::{Outcome, SpanExt, spans};
use tonic::Code;

use crate::live::setup::{
    Sending, assert_mirrored, by_id, closed, markers, spans_in, to, until, until_all_gone,
};
use crate::support::otlp_server::{OtlpServer, Reply};

#[test]
fn unreadable_segment_does_not_block_others() {
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
fn unreadable_segment_of_others_does_not_block_own() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    std::fs::create_dir_all(root.path().join("mirror.lock")).unwrap();
    let agent = Sending::to(root.path(), &server.url());
    agent.session("ses_1", 1);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.owed_bytes), (2, 0));
}

#[test]
fn endless_shutdown_waits_until_all_is_sent() {
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
fn endless_linger_sends_at_the_end() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url()).linger(Duration::MAX);
    let agent = Sending::with(root.path(), |builder| builder.otlp(otlp));
    agent.session("ses_1", 1);
    agent.end();
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn evicted_sessions_last_lines_are_sent() {
    let root = tempfile::tempdir().unwrap();
    let busy = Reply::Http {
        status: 503,
        headers: vec![("retry-after", "300".to_owned())],
        body: "busy".into(),
    };
    // The first request is tried once more at the end, and the second never answered.
    let server = OtlpServer::scripted([busy, Reply::Ok, Reply::Hang]);
    let otlp = to(&server.url());
    let agent = Sending::with(root.path(), |b| {
        b.otlp(otlp).shutdown_timeout(Duration::from_secs(3))
    });
    agent.session("ses_1", 0);
    server.wait_for(1);
    agent.session("ses_1", 0);
    // So many that the first one is forgotten.
    agent.run(|| {
        for n in 0..4100 {
            let run = spans::session_run(format!("ses_more_{n}"), "planner").start();
            run.finish(Outcome::Ok);
        }
    });
    agent.end();
    // The next start uses it.
    assert!(markers(root.path()).contains(&"ses_1.0001".to_owned()));
}

#[test]
fn unrecordable_refusal_is_sent_again() {
    let root = tempfile::tempdir().unwrap();
    let bad = || Reply::grpc(Code::InvalidArgument, "bad span");
    // Refused together, and the first one alone.
    let server = OtlpServer::scripted([bad(), bad()]);
    let otlp = to(&server.url()).linger(Duration::from_secs(3600));
    let agent = Sending::with(root.path(), |builder| builder.otlp(otlp));
    agent.session("ses_1", 0);
    agent.session("ses_2", 0);
    let letters = root.path().join("sessions/ses_1/dead.0001.jsonl");
    std::fs::create_dir(&letters).unwrap();
    agent.end();
    assert_eq!(markers(root.path()), ["ses_1.0001", "ses_2.0001"]);
    until_all_gone(root.path());

    std::fs::remove_dir(&letters).unwrap();
    Sending::to(root.path(), &server.url()).end();
    assert_mirrored(root.path(), &server.received()[2..]);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn session_restarted_by_its_agent_is_sent_once() {
    let root = tempfile::tempdir().unwrap();
    // An address that no other test can take meanwhile.
    let server = OtlpServer::at("127.0.0.6:0".parse().unwrap(), []);
    let (address, url) = (server.address(), server.url());
    drop(server);
    let agent = Sending::to(root.path(), &url);
    agent.session("ses_1", 3);
    until(|| agent.guard.health().mirror.unwrap().waiting_for.is_some());
    agent.session("ses_1", 3);
    std::fs::remove_dir_all(root.path().join("sessions/ses_1")).unwrap();
    // So many that it notices.
    agent.session("ses_1", 100);
    let server = OtlpServer::at(address, []);
    agent.end();
    let received = server.received();
    assert_eq!(spans_in(&received).len(), by_id(&received).len());
    let sent = by_id(&received);
    for id in closed(root.path()) {
        assert!(sent.contains_key(&id), "{id}");
    }
    assert_eq!(markers(root.path()), [""; 0]);
}
