//! Whatever a server answers, nothing is lost, and a resend is byte-identical.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use spanledger::mirror::{Otlp, Protocol};
use tonic::Code;

use crate::live::setup::{
    Sending, assert_mirrored, by_id, closed, markers, to, until, wait_for_spans,
};
use crate::support::otlp_server::{Authority, OtlpServer, Reply};

/// Records a session of one span, which can't be split, while the server answers the first request
/// so, and ends when all has come. How many dead letters that made, and how many requests.
fn answered(reply: Reply, otlp: impl Fn(&str) -> Otlp) -> (u64, usize) {
    let reply_text = format!("{reply:?}");
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([reply]);
    let agent = Sending::with(root.path(), |b| b.otlp(otlp(&server.url())));
    agent.session("ses_1", 0);
    server.wait_for(1);
    let health = agent.end();
    assert_mirrored(root.path(), &server.received());
    let mirror = health.mirror.unwrap();
    assert_eq!(mirror.owed_bytes, 0, "{reply_text}");
    assert_eq!(mirror.waiting_for, None, "{reply_text}");
    assert_eq!(markers(root.path()), [""; 0], "{reply_text}");
    (mirror.dead_letters, server.received().len())
}

fn http(url: &str) -> Otlp {
    to(url).protocol(Protocol::HttpProtobuf)
}

/// As [`to`], for a server that never answers.
fn hasty(url: &str) -> Otlp {
    to(url).timeout(Duration::from_millis(300))
}

fn page(status: u16) -> Reply {
    Reply::Http {
        status,
        headers: vec![("content-type", "text/html".into())],
        body: Bytes::from_static(b"<html>sign in first</html>"),
    }
}

#[test]
fn temporary_grpc_errors_are_retried() {
    for code in [
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unavailable,
        Code::DataLoss,
        Code::ResourceExhausted,
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::Unimplemented,
        Code::NotFound,
        Code::FailedPrecondition,
    ] {
        let (dead, requests) = answered(Reply::grpc(code, "not now"), to);
        assert_eq!(dead, 0, "{code:?}");
        assert!(requests >= 2, "{code:?}");
    }
}

#[test]
fn temporary_http_errors_are_retried() {
    let statuses = [301, 401, 403, 404, 405, 408, 425, 429, 500, 502, 503, 504];
    for status in statuses {
        let (dead, requests) = answered(Reply::http(status), http);
        assert_eq!(dead, 0, "{status}");
        assert!(requests >= 2, "{status}");
    }
}

#[test]
fn ok_without_otlp_is_not_success() {
    for reply in [Reply::Garbage, page(200)] {
        assert_eq!(answered(reply.clone(), http), (0, 2), "{reply:?}");
        assert_eq!(answered(reply.clone(), to), (0, 2), "{reply:?}");
    }
}

#[test]
fn retries_do_not_end() {
    let root = tempfile::tempdir().unwrap();
    let busy = Reply::Http {
        status: 503,
        headers: vec![("retry-after", "0".to_owned())],
        body: Bytes::new(),
    };
    let server = OtlpServer::scripted(std::iter::repeat_n(busy, 20));
    let agent = Sending::with(root.path(), |b| b.otlp(http(&server.url())));
    agent.session("ses_1", 0);
    let received = server.wait_for(21);
    assert!(received.iter().all(|one| one.raw == received[0].raw));
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.dead_letters), (1, 0));
    assert_eq!(server.received().len(), 21);
}

#[test]
fn broken_connection_loses_nothing() {
    for reply in [
        Reply::Hang,
        Reply::SlowRead,
        Reply::ResetAfter(1),
        Reply::ResetAfter(500),
        Reply::BreakOff(200),
    ] {
        assert_eq!(answered(reply.clone(), hasty).0, 0, "{reply:?}");
        let over_http = |url: &str| hasty(url).protocol(Protocol::HttpProtobuf);
        assert_eq!(answered(reply.clone(), over_http).0, 0, "{reply:?}");
    }
}

/// The dead letters of the only session.
fn letters(root: &Path) -> Vec<Value> {
    let path = root.join("sessions/ses_1/dead.0001.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A session of two tools and a run of which the server calls the first span invalid.
fn with_one_refused(reply: Reply, otlp: impl Fn(&str) -> Otlp) {
    let reply_text = format!("{reply:?}");
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([reply]);
    let agent = Sending::with(root.path(), |b| b.otlp(otlp(&server.url())));
    // The first is alone in its request, since the server has it before there is another.
    agent.session("ses_1", 0);
    server.wait_for(1);
    agent.session("ses_2", 2);
    wait_for_spans(&server, 4);
    let health = agent.end();
    let mirror = health.mirror.unwrap();
    assert_eq!(mirror.dead_letters, 1, "{reply_text}");
    let letters = letters(root.path());
    assert_eq!(letters.len(), 1, "{reply_text}");
    assert_eq!(mirror.last_dead.as_deref(), letters[0]["reason"].as_str());
    let id = letters[0]["span_id"].as_str().unwrap();
    assert!(closed(root.path()).contains(id), "{reply_text}");
    // Refused once, and never offered again.
    let received = server.received();
    let times = received
        .iter()
        .filter(|one| by_id(&[(*one).clone()]).contains_key(id));
    assert_eq!(times.count(), 1, "{reply_text}");
    assert_mirrored(root.path(), &received);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn invalid_grpc_request_is_a_dead_letter() {
    for code in [
        Code::InvalidArgument,
        Code::AlreadyExists,
        Code::Internal,
        Code::Unknown,
    ] {
        with_one_refused(Reply::grpc(code, "bad span"), to);
    }
}

#[test]
fn invalid_http_request_is_a_dead_letter() {
    for status in [400, 422] {
        with_one_refused(Reply::http(status), http);
    }
}

#[test]
fn unrecorded_refusal_is_sent_again() {
    let root = tempfile::tempdir().unwrap();
    let in_the_way = root.path().join("sessions/ses_1/dead.0001.jsonl");
    std::fs::create_dir_all(&in_the_way).unwrap();
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(400), 100));
    let agent = Sending::with(root.path(), |b| b.otlp(http(&server.url())));
    agent.session("ses_1", 0);
    let mirror = || agent.guard.health().mirror.unwrap();
    until(|| mirror().waiting_for.is_some());
    assert_eq!(mirror().dead_letters, 0);
    std::fs::remove_dir(in_the_way).unwrap();
    until(|| mirror().dead_letters == 1);
    agent.end();
    assert_eq!(letters(root.path()).len(), 1);
    assert_eq!(markers(root.path()), [""; 0]);
}

#[test]
fn partial_success_is_recorded_and_not_resent() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([Reply::Partial {
        rejected: 1,
        message: "one was odd".into(),
    }]);
    let otlp = to(&server.url()).linger(Duration::from_secs(3600));
    let agent = Sending::with(root.path(), |b| b.otlp(otlp));
    agent.session("ses_1", 2);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.dead_letters), (2, 1));
    assert_eq!(server.received().len(), 1);
    let letters = letters(root.path());
    assert_eq!(
        (&letters[0]["rejected"], &letters[0]["of"]),
        (&1.into(), &3.into())
    );
}

#[test]
fn wrong_certificate_waits_and_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = OtlpServer::secure(authority.server("elsewhere.example"));
    let ca = spanledger::mirror::Pem::Bytes(authority.pem.clone().into());
    let otlp = to(&server.url_as("localhost")).ca_certificate(ca);
    let agent = Sending::with(root.path(), |b| b.otlp(otlp));
    agent.session("ses_1", 1);
    let mirror = agent.end().mirror.unwrap();
    assert_eq!((mirror.sent, mirror.dead_letters), (0, 0));
    assert!(mirror.waiting_for.unwrap().contains("certificate"));
    assert_eq!(server.received().len(), 0);
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
}

#[test]
fn unknown_host_waits_and_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let agent = Sending::to(root.path(), "http://collector.invalid:4317");
    agent.session("ses_1", 1);
    let health = agent.end();
    assert_eq!(health.failed, 0);
    let mirror = health.mirror.unwrap();
    assert_eq!((mirror.sent, mirror.dead_letters), (0, 0));
    assert!(mirror.owed_bytes > 0);
    assert_eq!(markers(root.path()), ["ses_1.0001"]);
}
