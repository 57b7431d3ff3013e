//! What is sent while an agent runs, and at its end.

use std::time::Duration;

use spanledger::mirror::backlog;
use spanledger::session::Store;
use spanledger::{Outcome, SpanExt, SyncPolicy, spans};
use tracing_subscriber::layer::SubscriberExt;

use crate::live::setup::{
    Sending, assert_mirrored, by_id, markers, to, until_all_gone, wait_for_spans,
};
use crate::support::otlp_server::{OtlpServer, Reply};

#[test]
fn closed_span_is_sent_while_running() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let agent = Sending::to(root.path(), &server.url());
    let run = agent.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let tool = spans::tool_call("bash", "call_1").child_of(&run).start();
        tool.finish(Outcome::Ok);
        run
    });
    let received = wait_for_spans(&server, 1);
    let names: Vec<_> = by_id(&received).into_values().map(|s| s.name).collect();
    assert_eq!(names, ["execute_tool bash"]);
    agent.run(|| run.finish(Outcome::Ok));
    wait_for_spans(&server, 2);
    agent.end();
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn shutdown_sends_everything() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url()).linger(Duration::from_secs(3600));
    let agent = Sending::with(root.path(), |builder| builder.otlp(otlp));
    agent.session("ses_1", 5);
    let health = agent.end();
    assert_mirrored(root.path(), &server.received());
    let mirror = health.mirror.unwrap();
    assert_eq!((mirror.sent, mirror.owed_bytes), (6, 0));
    assert_eq!((mirror.dead_letters, mirror.waiting_for), (0, None));
    let store = Store::new(root.path());
    let left = backlog(&store, &store.dir("ses_1"), None).unwrap();
    assert_eq!((left.bytes, left.sent), (0, 6));
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn agent_continues_while_server_hangs() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([Reply::Hang]);
    let agent = Sending::with(root.path(), |builder| {
        let builder = builder.otlp(to(&server.url()).timeout(Duration::from_secs(3600)));
        builder.shutdown_timeout(Duration::ZERO)
    });
    agent.session("ses_1", 1);
    // The server has the request and never answers; everything below happens meanwhile.
    server.wait_for(1);
    for n in 0..50 {
        agent.session(&format!("ses_more_{n}"), 20);
    }
    let health = agent.end();
    assert_eq!(health.failed, 0);
    assert_eq!(server.received().len(), 1);
    assert!(health.mirror.unwrap().owed_bytes > 0);
    until_all_gone(root.path());

    let next = Sending::to(root.path(), &server.url());
    next.end();
    assert_mirrored(root.path(), &server.received());
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn shutdown_during_backoff_tries_once_more() {
    let root = tempfile::tempdir().unwrap();
    let mut busy = Reply::http(503);
    if let Reply::Http { headers, .. } = &mut busy {
        headers.push(("retry-after", "300".to_owned()));
    }
    let server = OtlpServer::scripted([busy]);
    let agent = Sending::to(root.path(), &server.url());
    agent.session("ses_1", 0);
    server.wait_for(1);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.owed_bytes), (1, 0));
    assert_mirrored(root.path(), &server.received()[1..]);
}

#[test]
fn next_start_sends_what_shutdown_could_not() {
    let root = tempfile::tempdir().unwrap();
    // An address that no other test can take meanwhile.
    let server = OtlpServer::at("127.0.0.3:0".parse().unwrap(), []);
    let address = server.address();
    let url = server.url();
    drop(server);
    let agent = Sending::to(root.path(), &url);
    agent.session("ses_1", 3);
    let health = agent.end();
    let mirror = health.mirror.unwrap();
    assert_eq!(mirror.sent, 0);
    assert!(mirror.owed_bytes > 0);
    assert!(mirror.waiting_for.is_some());
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
    until_all_gone(root.path());

    let server = OtlpServer::at(address, []);
    Sending::to(root.path(), &url).end();
    assert_mirrored(root.path(), &server.received());
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn recording_after_shutdown_is_sent_next_start() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let agent = Sending::to(root.path(), &server.url());
    let run = agent.run(|| spans::session_run("ses_1", "planner").start());
    let Sending { guard, dispatch } = agent;
    guard.shutdown().unwrap();
    tracing::dispatcher::with_default(&dispatch, || run.finish(Outcome::Ok));
    assert_eq!(server.received().len(), 0);
    drop((run, dispatch));
    until_all_gone(root.path());

    Sending::to(root.path(), &server.url()).end();
    assert_mirrored(root.path(), &server.received());
    assert_eq!(by_id(&server.received()).len(), 1);
}

#[test]
fn sessions_share_a_request() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url()).linger(Duration::from_secs(3600));
    let agent = Sending::with(root.path(), |builder| builder.otlp(otlp));
    for n in 0..100 {
        agent.session(&format!("ses_{n}"), 1);
    }
    agent.end();
    assert_eq!(server.received().len(), 1);
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn interval_sync_precedes_sending() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url());
    let agent = Sending::with(root.path(), |builder| {
        let never = Duration::from_secs(3600);
        builder.otlp(otlp).sync(SyncPolicy::Interval(never))
    });
    agent.session("ses_1", 3);
    // As far as the mirror knows, nothing is there.
    let mirror = agent.guard.health().mirror.unwrap();
    assert_eq!((mirror.owed_bytes, mirror.sent), (0, 0));
    assert_eq!(server.received().len(), 0);
    agent.guard.handle().flush();
    wait_for_spans(&server, 4);
    agent.end();
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn sync_always_sends_everything() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let otlp = to(&server.url());
    let agent = Sending::with(root.path(), |b| b.otlp(otlp).sync(SyncPolicy::Always));
    agent.session("ses_1", 3);
    agent.end();
    assert_mirrored(root.path(), &server.received());
}

#[test]
fn default_shutdown_makes_no_second_attempt() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([Reply::Hang]);
    // An attempt has ten seconds, the end of an agent less.
    let builder = spanledger::builder().root(root.path());
    let (layer, guard) = builder.otlp(to(&server.url())).build().unwrap();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let agent = Sending { dispatch, guard };
    agent.session("ses_1", 0);
    server.wait_for(1);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!(mirror.sent, 0);
    assert!(mirror.owed_bytes > 0);
    assert_eq!(server.received().len(), 1);
}
