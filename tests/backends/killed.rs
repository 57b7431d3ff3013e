//! The collector and the agents are killed again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use spanledger::{Outcome, SpanExt, new_session_id, spans};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::Trace;
use crate::support::backends::{Collector, Held, Jaeger, Tempo, until};
use crate::support::cli::{self, Victim};

const ROUNDS: usize = 5;

/// Works for ever: sessions of five turns with ten tool calls each.
fn agent(root: &Path) -> ! {
    let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    cli::report_ready();
    loop {
        let run = spans::session_run(new_session_id(), "planner").start();
        let _in_run = run.enter();
        for _ in 0..5 {
            let turn = spans::session_turn().start();
            let _in_turn = turn.enter();
            for n in 0..10 {
                let tool = spans::tool_call("bash", format!("call_{n}")).start();
                let work = Command::new("true").status();
                assert!(work.unwrap().success());
                tool.finish(Outcome::Ok);
            }
            turn.finish(Outcome::Ok);
        }
        run.finish(Outcome::Ok);
    }
}

/// Waits until so many more spans have ended than there are now: the agents are at work.
fn work(root: &Path, more: usize) {
    let ended = || {
        closed(&Trace::read(root))
            .values()
            .map(BTreeSet::len)
            .sum::<usize>()
    };
    let before = ended();
    until("agents that work", || {
        (ended() >= before + more).then_some(())
    });
}

/// How many spans a server has accepted.
fn sent(root: &Path) -> u64 {
    let sessions = cli::run(root, &["mirror", "--status", "--json"]).objects();
    let sent = sessions
        .iter()
        .map(|session| session["sent_spans"].as_u64().unwrap());
    sent.sum()
}

/// The spans that were closed, by their traces.
fn closed(trace: &Trace) -> BTreeMap<String, BTreeSet<String>> {
    let mut closed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for line in trace
        .lines()
        .filter(|line| line.payload.contains_key("duration_ns"))
    {
        let (trace, span) = (
            line.trace_id.clone().unwrap(),
            line.span_id.clone().unwrap(),
        );
        closed.entry(trace).or_default().insert(span);
    }
    closed
}

#[test]
fn killed_collector_and_agents_lose_nothing() {
    if let Some(root) = cli::victim_root() {
        agent(&root);
    }
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    let Some(mut collector) = Collector::start(jaeger, tempo) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (root, endpoint) = (dir.path(), collector.grpc.clone());
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Meanwhile the spans of dead agents are sent, whether or not the collector runs.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                cli::mirror(root, &endpoint, "grpc");
            }
        });
        for _ in 0..ROUNDS {
            let agents = [0; 2].map(|_| Victim::with(root, &environment));
            work(root, 30);
            collector.kill();
            work(root, 30);
            agents.into_iter().for_each(Victim::kill);
            let before = sent(root);
            collector.again();
            // It has accepted the spans and has hardly begun to forward them.
            until("spans that were acknowledged", || {
                (sent(root) > before).then_some(())
            });
            collector.kill();
            collector.again();
        }
        over.store(true, Ordering::Relaxed);
    });
    cli::mirror(root, &endpoint, "grpc");

    let trace = Trace::read(root);
    let interrupted = trace.all("interrupted").len();
    assert!(
        interrupted >= 2 * ROUNDS,
        "{interrupted} spans were open when an agent was killed"
    );
    for (backend, url) in [("--jaeger", &jaeger.url), ("--tempo", &tempo.url)] {
        let done = cli::run(root, &["verify", backend, url, "--all", "--wait", "60s"]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    for (id, spans) in closed(&trace) {
        let ids = |held: &[Held]| -> BTreeSet<String> {
            held.iter().map(|held| held.span_id.clone()).collect()
        };
        let held = jaeger.spans(&id);
        assert_eq!(held.len(), spans.len(), "each once");
        assert_eq!(ids(&held), spans);
        // A sender without an answer sends again, and Tempo keeps duplicates for a while.
        let held = tempo.whole(&id, spans.len());
        assert_eq!(ids(&held), spans);
        for copy in &held {
            let first = held.iter().find(|held| held.span_id == copy.span_id);
            assert_eq!(first, Some(copy), "a copy is a copy");
        }
    }
}
