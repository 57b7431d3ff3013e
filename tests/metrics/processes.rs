//! Measured is what this very process closes.

use std::time::Duration;

use spanledger::mirror::{Otlp, Protocol};

use super::agent::Agent;
use super::otlp_server::{OtlpServer, Reply};
use super::scene::*;

#[test]
fn what_a_dead_process_left_is_sent_and_not_measured() {
    let root = tempfile::tempdir().unwrap();
    // The one that is killed gets no answer; whoever comes next, does.
    let spans = OtlpServer::scripted([Reply::Hang]);
    let mut victim = Agent::with(root.path(), &[&format!("otlp={}", spans.url())]);
    victim.tell(&["run r ses_1", "tool x r 10", "finish x", "tool y r 10"]);
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
fn a_forked_child_measures_what_is_its_own() {
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let mut parent = Agent::with(root.path(), &[&format!("metrics={}", server.url())]);
    parent.tell(&["run r ses_1", "tool a r 10", "finish a"]);
    let mut child = parent.fork();
    child.tell(&[
        "run s ses_2",
        "tool b s 10",
        "finish b",
        "tool c s 10",
        "finish c",
    ]);
    assert_eq!(child.ask("shutdown"), "ok 0");
    assert_eq!(parent.ask("shutdown"), "ok 0");
    let tools = |at: usize| -> u64 {
        let request = &server.received()[at];
        histogram(request, TOOL)
            .iter()
            .map(|point| point.count)
            .sum()
    };
    assert_eq!(server.received().len(), 2);
    assert_eq!((tools(0), tools(1)), (2, 1), "the child's, the parent's");
}
