//! An agent with a mirror, and what its server received.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use spanledger::mirror::{Otlp, Protocol};
use spanledger::{Builder, Guard, Outcome, SpanExt, spans};
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

use crate::support::Trace;
use crate::support::otlp_server::{OtlpServer, Received};

/// How a test's agent reaches a server: over gRPC, without waiting for more.
pub fn to(url: &str) -> Otlp {
    Otlp::new()
        .endpoint(url)
        .protocol(Protocol::Grpc)
        .linger(Duration::ZERO)
}

/// An agent with a mirror in a root that outlives it.
pub struct Sending {
    pub dispatch: Dispatch,
    pub guard: Guard,
}

impl Sending {
    pub fn to(root: &Path, url: &str) -> Self {
        Self::with(root, |builder| builder.otlp(to(url)))
    }

    pub fn with(root: &Path, configure: impl FnOnce(Builder) -> Builder) -> Self {
        // Far longer than anything takes that is not broken.
        let patient = Duration::from_secs(60);
        let builder = spanledger::builder().root(root).shutdown_timeout(patient);
        let builder = configure(builder);
        let (layer, guard) = builder.build().unwrap();
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        Self { dispatch, guard }
    }

    pub fn run<T>(&self, agent: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch, agent)
    }

    /// A session with so many tools, from its start to its end.
    pub fn session(&self, id: &str, tools: usize) {
        self.run(|| {
            let run = spans::session_run(id, "planner").start();
            let _run = run.enter();
            for n in 0..tools {
                let tool = spans::tool_call("bash", format!("call_{n}")).start();
                tool.record_result("a result");
                tool.finish(Outcome::Ok);
            }
            run.finish(Outcome::Ok);
        });
    }

    /// Ends as a process would.
    pub fn end(self) -> spanledger::Health {
        let health = self.guard.shutdown().unwrap();
        drop(self.dispatch);
        health
    }
}

/// The spans of requests, in the order in which they came.
pub fn spans_in(received: &[Received]) -> Vec<Span> {
    let requests = received.iter().filter_map(|one| one.request.as_ref());
    let resources = requests.flat_map(|request| &request.resource_spans);
    let scopes = resources.flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every span that came, by its id. One that came twice came with the same bytes.
pub fn by_id(received: &[Received]) -> BTreeMap<String, Span> {
    let mut found = BTreeMap::new();
    for span in spans_in(received) {
        let bytes = span.encode_to_vec();
        if let Some(before) = found.insert(hex(&span.span_id), span) {
            let before: Span = before;
            assert_eq!(before.encode_to_vec(), bytes, "sent again with other bytes");
        }
    }
    found
}

/// The ids of all spans that the trace closed.
pub fn closed(root: &Path) -> BTreeSet<String> {
    let kinds = [
        "tool_result",
        "turn_end",
        "session_end",
        "model_result",
        "permission_evaluate",
        "context_compaction",
        "span_end",
        "interrupted",
    ];
    let trace = Trace::read(root);
    let lines = trace.lines().filter(|line| kinds.contains(&&*line.kind));
    lines.filter_map(|line| line.span_id.clone()).collect()
}

/// The server has every span that the trace closed, and none besides.
pub fn assert_mirrored(root: &Path, received: &[Received]) {
    let have: BTreeSet<_> = by_id(received).into_keys().collect();
    assert_eq!(have, closed(root));
}

/// The names in the outbox.
pub fn markers(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("outbox")).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Requests until these many different spans have come.
pub fn wait_for_spans(server: &OtlpServer, count: usize) -> Vec<Received> {
    let mut requests = 1;
    loop {
        let received = server.wait_for(requests);
        if by_id(&received).len() >= count {
            return received;
        }
        requests = received.len() + 1;
    }
}

/// Until everything that wrote under this root has ended, threads that were not waited for
/// included: only then may another process send their segments.
pub fn until_all_gone(root: &Path) {
    until(|| {
        let store = spanledger::session::Store::new(root);
        let writers = std::fs::read_dir(root.join("writers")).unwrap();
        let mut names = writers.map(|entry| entry.unwrap().file_name());
        let sends = std::fs::File::open(root.join("mirror.lock"));
        let done = sends.map_or(true, |lock| lock.try_lock().is_ok());
        !names.any(|name| store.is_alive(&name.to_string_lossy())) && done
    });
}

/// Waits for something that another thread does.
pub fn until(happened: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !happened() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it never happened"
        );
        std::thread::yield_now();
    }
}
