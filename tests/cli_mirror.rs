//! `spanledger mirror`.
#![cfg(feature = "cli")]

#[path = "support/cli.rs"]
mod cli;
#[path = "support/otlp_server.rs"]
mod otlp_server;
mod support;

use cli::{Victim, run};
use otlp_server::OtlpServer;
use spanledger::{Outcome, SpanExt, spans};
use support::Recording;
use tracing_subscriber::layer::SubscriberExt;

fn recorded() -> tempfile::TempDir {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok)
    });
    recording.end()
}

#[test]
fn what_is_owed_is_sent_and_told() {
    let root = recorded();
    let server = OtlpServer::start();
    let done = run(
        root.path(),
        &["mirror", "--endpoint", &server.url(), "--json"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let sent = done.objects();
    assert_eq!(
        (&sent[0]["spans"], &sent[0]["dead"]),
        (&1.into(), &0.into())
    );
    assert_eq!(server.received().len(), 1);

    let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
    assert_eq!(status[0]["session_id"], "ses_1");
    assert_eq!(
        (&status[0]["owed_bytes"], &status[0]["sent_spans"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_span_that_was_open_when_its_process_was_killed_is_sent_as_interrupted() {
    if let Some(root) = cli::is_victim() {
        let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let run = spans::session_run("ses_killed", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("bash", "call_1").start().entered();
        cli::wait_to_be_killed();
    }
    let root = tempfile::tempdir().unwrap();
    let name = "a_span_that_was_open_when_its_process_was_killed_is_sent_as_interrupted";
    Victim::start(name, root.path()).kill();
    let server = OtlpServer::start();
    let done = run(root.path(), &["mirror", "--endpoint", &server.url()]);
    assert_eq!(done.code, 0, "{done:?}");
    let received = server.received();
    let requests = received
        .iter()
        .filter_map(|received| received.request.as_ref());
    let spans: Vec<_> = requests
        .flat_map(|request| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| &scope.spans)
        .collect();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["execute_tool bash", "invoke_agent planner"]);
    assert_eq!(spans[0].parent_span_id, spans[1].span_id);
    for span in spans {
        assert!(
            span.status
                .as_ref()
                .unwrap()
                .message
                .contains("interrupted")
        );
    }
}

#[test]
fn without_an_endpoint_it_says_how_to_give_one() {
    let root = recorded();
    let done = run(root.path(), &["mirror"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{done:?}");
}

#[test]
fn a_server_that_is_not_there_is_a_finding_and_nothing_is_lost() {
    let root = recorded();
    // A port that was free a moment ago, and that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let done = run(
        root.path(),
        &["mirror", "--endpoint", &url, "--patience", "0s"],
    );
    assert_eq!(done.code, 1, "{done:?}");
    let server = OtlpServer::start();
    let done = run(root.path(), &["mirror", "--endpoint", &server.url()]);
    assert!(done.out.starts_with("1 spans sent"), "{done:?}");
}
