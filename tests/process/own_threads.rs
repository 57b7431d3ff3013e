//! The library's threads do not affect tracing in the rest of the process.
//! costs depends on every subscriber there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spanledger::mirror::{Otlp, Protocol};
use spanledger::{Builder, SyncPolicy};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::support;
use crate::support::child;
use crate::support::otlp_server::{OtlpServer, Reply};

/// Counts calls of `enabled`.
struct Asked(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Asked {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

fn tool_call() {
    drop(info_span!("tool.call", tool_id = "bash", tool_call_id = "c1").entered());
}

#[test]
fn sending_does_not_disable_interest_caching() {
    child::alone(|| {
        let dir = tempfile::tempdir().unwrap();
        let server = OtlpServer::scripted([Reply::Hang]);
        let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
        let builder: Builder = spanledger::builder().root(dir.path()).otlp(otlp);
        let builder = builder
            .sync(SyncPolicy::Interval(Duration::from_millis(10)))
            .shutdown_timeout(Duration::ZERO);
        let (layer, _guard) = builder.build().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let subscriber = tracing_subscriber::registry()
            .with(layer)
            .with(Asked(Arc::clone(&asked)));
        tracing::dispatcher::with_default(&Dispatch::new(subscriber), || {
            tool_call();
            server.wait_for(1);
            let before = asked.load(Ordering::Relaxed);
            for _ in 0..10 {
                tool_call();
            }
            assert_eq!(asked.load(Ordering::Relaxed), before);
        });
        let trace = support::Trace::read(dir.path());
        assert_eq!(trace.all("tool_result").len(), 11);
    });
}

/// Counts spans and events on the mirror's thread, and those on other threads.
#[derive(Clone, Default)]
struct Counter(Arc<[AtomicUsize; 2]>);

impl Counter {
    fn count(&self) {
        let mirror = std::thread::current().name() == Some("spanledger-mirror");
        self.0[usize::from(mirror)].fetch_add(1, Ordering::Relaxed);
    }
}

impl<S: Subscriber> Layer<S> for Counter {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.count();
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.count();
    }
}

#[test]
fn mirror_threads_are_untraced() {
    // The subscriber is global.
    child::alone(mirror_work_is_untraced);
}

fn mirror_work_is_untraced() {
    let server = OtlpServer::start();
    let dir = tempfile::tempdir().unwrap();
    // Over gRPC, whose libraries trace a lot.
    let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
    let builder: Builder = spanledger::builder().root(dir.path()).otlp(otlp);
    let builder = builder.shutdown_timeout(Duration::from_secs(60));
    let (layer, guard) = builder.build().unwrap();
    let counter = Counter::default();
    let registry = tracing_subscriber::registry().with(layer);
    registry.with(counter.clone()).init();
    tool_call();
    guard.shutdown().unwrap();
    assert_eq!(server.received().len(), 1);
    let [elsewhere, mirror] = [0, 1].map(|at| counter.0[at].load(Ordering::Relaxed));
    assert!(elsewhere > 0);
    assert_eq!(mirror, 0);
}
