//! Connects the instruments to the exporter: the SDK's meter provider, its reader's thread, and shutdown.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use serde_json::Value;

use super::exporter::Exporter;
use super::instruments::{Instruments, observe};
use crate::ledger::{ClosedSpan, Counters, Listener};
use crate::mirror::{MetricsConfig, Queue, Shutdown, muted, sdk_resource};
use crate::trace::lock;

/// How the metrics of this process are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsHealth {
    /// How often a server accepted them.
    pub sent: u64,
    /// How often none did. The next export has the same and more, unless deltas were asked for.
    pub failed: u64,
    /// Why, the last time; `None` once they are accepted again.
    pub last_error: Option<String>,
}

/// Measures spans and sends metrics.
#[derive(Debug)]
pub(crate) struct Pipeline {
    provider: SdkMeterProvider,
    instruments: Instruments,
    state: Arc<State>,
}

/// Shared by the agent's threads and the reader's thread.
#[derive(Debug, Default)]
pub(super) struct State {
    health: Mutex<MetricsHealth>,
    shutdown: Shutdown,
}

impl State {
    /// Whether the shutdown deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        let deadline = self.shutdown.deadline();
        deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Counts an export.
    pub(super) fn count(&self, sent: Result<(), String>) {
        let mut health = lock(&self.health);
        match &sent {
            Ok(()) => health.sent += 1,
            Err(_) => health.failed += 1,
        }
        health.last_error = sent.err();
    }
}

impl Pipeline {
    /// Starts the reader's thread, which connects when it has something to send. `resource` is that of the
    /// segments' headers.
    pub(crate) fn start(
        metered: MetricsConfig,
        resource: &Value,
        counters: &Arc<Counters>,
        queue: Option<&Arc<Queue>>,
    ) -> Self {
        muted(|| {
            let state = Arc::new(State::default());
            let interval = metered.interval;
            let exporter = Exporter::new(metered, Arc::clone(&state));
            let reader = PeriodicReader::builder(exporter)
                .with_interval(interval)
                .build();
            let provider = SdkMeterProvider::builder()
                .with_resource(sdk_resource(resource))
                .with_reader(reader)
                .build();
            let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
                .with_version(env!("CARGO_PKG_VERSION"))
                .build();
            let meter = provider.meter_with_scope(scope);
            observe(&meter, counters, queue);
            Self {
                instruments: Instruments::new(&meter),
                provider,
                state,
            }
        })
    }
}

impl Listener for Pipeline {
    fn wants_spans(&self) -> bool {
        !self.state.shutdown.is_stopping()
    }

    fn span_closed(&self, span: &ClosedSpan<'_>) {
        if self.wants_spans() {
            self.instruments.record(span);
        }
    }
}

impl Pipeline {
    /// Exports once more what was measured, until `deadline`, without waiting for that.
    pub(crate) fn stop(&self, deadline: Instant) {
        let shutdown = &self.state.shutdown;
        if shutdown.stop(deadline) {
            return;
        }
        shutdown.start();
        // The SDK's shutdown may block longer than the agent waits.
        let (provider, state) = (self.provider.clone(), Arc::clone(&self.state));
        let ending = std::thread::Builder::new().name("spanledger-metrics".into());
        let spawned = ending.spawn(move || {
            let _ = muted(|| provider.shutdown());
            state.shutdown.end();
        });
        if spawned.is_err() {
            // Dropping the last handle would wait for the export.
            std::mem::forget(self.provider.clone());
            shutdown.end();
        }
    }

    /// Waits for the end of that, until `deadline`.
    pub(crate) fn wait(&self, deadline: Instant) {
        self.state.shutdown.wait(deadline);
    }

    pub(crate) fn health(&self) -> MetricsHealth {
        lock(&self.state.health).clone()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.stop(Instant::now());
    }
}
