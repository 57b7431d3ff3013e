//! A process measures only the spans that it closes itself.

use std::time::Duration;

use spanledger::mirror::{Otlp, Protocol};

use crate::support::agent::Agent;
use crate::support::metrics::*;
use crate::support::otlp_server::{OtlpServer, Reply};

#[test]
fn dead_process_spans_are_sent_not_measured() {
    let root = tempfile::tempdir().unwrap();
    // The killed process gets no answer; the next one does.
    let spans = OtlpServer::scripted([Reply::Hang]);
    let mut victim = Agent::with(root.path(), &[&format!("otlp={}", spans.url())]);
    victim.send(&["run r ses_1", "tool x r 10", "finish x", "tool y r 10"]);
    spans.wait_for(1);
    victim.kill();

    let metrics = OtlpServer::start();
    let to_spans = Otlp::new().endpoint(spans.url()).linger(Duration::ZERO);
    let (layer, guard) = spanledger::builder()
        .root(root.path())
        .otlp(to_spans)
        .metrics(true)
        .metrics_otlp(to(&metrics, Protocol::HttpProtobuf))
        .shutdown_timeout(LONG)
        .build::<tracing_subscriber::Registry>()
        .unwrap();
    spans.wait_for(2);
    guard.shutdown().unwrap();
    drop(layer);
    let request = only(&metrics);
    assert_eq!(number(&request, "spanledger.mirror.spans.sent"), 3);
    for name in [OPERATION, TOKENS, TOOL, AGENT] {
        assert!(found(&request, name).is_none(), "{name}");
    }
}

#[test]
fn forked_child_measures_nothing() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut parent = Agent::with(root.path(), &[&format!("metrics={}", server.url())]);
    parent.send(&["run r ses_1", "tool a r 10", "finish a"]);
    let mut child = parent.fork();
    child.send(&["run s ses_2", "tool b s 10", "finish b"]);
    assert_eq!(child.ask("shutdown"), "ok 3");
    assert_eq!(parent.ask("shutdown"), "ok 0");
    let tools: u64 = histogram(&only(&server), TOOL)
        .iter()
        .map(|point| point.count)
        .sum();
    assert_eq!(tools, 1, "the parent's");
}
