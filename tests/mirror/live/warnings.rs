//! The one line on stderr about spans that are not sent.

use crate::support::agent::Agent;
use crate::support::otlp_server::{OtlpServer, Reply};

/// What an agent printed that recorded two runs for this endpoint and ended.
fn printed(url: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let mut agent = Agent::with(root.path(), &[&format!("otlp={url}")]);
    agent.send(&["run r ses_1", "finish r", "run r ses_2", "finish r"]);
    agent.send(&["drop-guard"]);
    agent.stderr()
}

#[test]
fn closed_port_is_reported_once() {
    let printed = printed("http://127.0.0.1:1");
    let start = "spanledger: can't send to http://127.0.0.1:1/v1/traces: ";
    assert!(printed.starts_with(start), "{printed}");
    for part in [
        "Connection refused",
        "; nothing listens there: start the server, or correct the port; ",
        "the trace is kept and sent later",
    ] {
        assert!(printed.contains(part), "{printed}");
    }
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn wrong_path_is_reported_with_advice() {
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(404), 10));
    let printed = printed(&server.url());
    let reason = "/v1/traces: HTTP 404; check the path: /v1/traces is appended to \
                  OTEL_EXPORTER_OTLP_ENDPOINT";
    assert!(printed.contains(reason), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn token_in_the_path_is_masked() {
    let printed = printed("http://127.0.0.1:1/api/Zm9yIG5vYm9keQ0815");
    let start = "spanledger: can't send to http://127.0.0.1:1/api/***/v1/traces: ";
    assert!(printed.starts_with(start), "{printed}");
    assert!(!printed.contains("Zm9y"), "{printed}");
}

#[test]
fn refused_spans_are_reported_once() {
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(400), 10));
    let printed = printed(&server.url());
    assert!(printed.contains("for good: HTTP 400; "), "{printed}");
    assert!(printed.contains("mirror --resend"), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn silent_server_is_reported_at_the_end() {
    let server = OtlpServer::scripted([Reply::Hang, Reply::Hang]);
    let printed = printed(&server.url());
    assert!(printed.contains("no answer in time; "), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn first_failure_alone_is_not_reported() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([Reply::http(503)]);
    let otlp = format!("otlp={}", server.url());
    let mut agent = Agent::with(root.path(), &[&otlp]);
    agent.send(&["run r ses_1", "finish r"]);
    server.wait_for(2);
    agent.send(&["drop-guard"]);
    assert_eq!(agent.stderr(), "");
}
