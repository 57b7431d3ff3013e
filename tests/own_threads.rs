//! What the threads of the ledger do to the rest of the process. Alone in its process: what a callsite
//! costs depends on every subscriber there is.

#[path = "support/otlp_server/mod.rs"]
mod otlp_server;
#[path = "support/mod.rs"]
mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use otlp_server::{OtlpServer, Reply};
use spanledger::mirror::{Otlp, Protocol};
use spanledger::{Builder, Sync};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Counts how often it is asked whether it wants a span.
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
fn while_a_mirror_sends_nobody_is_asked_for_each_agent_span_whether_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let server = OtlpServer::scripted([Reply::Hang]);
    let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
    let builder: Builder = spanledger::builder().root(dir.path()).otlp(otlp);
    let builder = builder
        .sync(Sync::Interval(Duration::from_millis(10)))
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
}

/// Counts what is said on the mirror's thread, and what is said elsewhere.
#[derive(Clone, Default)]
struct Heard(Arc<[AtomicUsize; 2]>);

impl Heard {
    fn hear(&self) {
        let mirror = std::thread::current().name() == Some("spanledger-mirror");
        self.0[usize::from(mirror)].fetch_add(1, Ordering::Relaxed);
    }
}

impl<S: Subscriber> Layer<S> for Heard {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.hear();
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.hear();
    }
}

#[test]
fn what_the_mirror_does_is_told_to_nobody() {
    const CHILD: &str = "SPANLEDGER_TEST_HEARD";
    if std::env::var_os(CHILD).is_none() {
        // A subscriber of the whole process, and so a process of its own.
        let name = "what_the_mirror_does_is_told_to_nobody";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([name, "--exact", "--quiet"]).env(CHILD, "1");
        assert!(child.status().unwrap().success());
        return;
    }
    let server = OtlpServer::start();
    let dir = tempfile::tempdir().unwrap();
    // Over gRPC, whose libraries have much to tell.
    let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
    let builder: Builder = spanledger::builder().root(dir.path()).otlp(otlp);
    let builder = builder.shutdown_timeout(Duration::from_secs(60));
    let (layer, guard) = builder.build().unwrap();
    let heard = Heard::default();
    let registry = tracing_subscriber::registry().with(layer);
    registry.with(heard.clone()).init();
    tool_call();
    guard.shutdown().unwrap();
    assert_eq!(server.received().len(), 1);
    let [elsewhere, mirror] = [0, 1].map(|at| heard.0[at].load(Ordering::Relaxed));
    assert!(elsewhere > 0);
    assert_eq!(mirror, 0);
}
