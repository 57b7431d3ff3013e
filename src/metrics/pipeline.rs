//! From instruments to the exporter: the SDK's provider, its reader's thread, and their end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

use super::exporter::Exporter;
use super::instruments::{Instruments, observe};
use crate::ledger::{Closed, Meter, MetricsHealth, Source};
use crate::mirror::{Metered, muted, sdk_resource};

/// Measures and sends.
pub(crate) struct Pipeline {
    provider: SdkMeterProvider,
    instruments: Instruments,
    state: Arc<State>,
}

/// What the agent's threads and the reader's share.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) sent: AtomicU64,
    pub(super) failed: AtomicU64,
    last_error: Mutex<Option<String>>,
    stopping: AtomicBool,
    end: Mutex<End>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct End {
    deadline: Option<Instant>,
    done: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Whether a shutdown has no time left.
    pub(super) fn is_late(&self) -> bool {
        let deadline = lock(&self.end).deadline;
        deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    pub(super) fn note(&self, error: Option<String>) {
        *lock(&self.last_error) = error;
    }

    fn done(&self) {
        lock(&self.end).done = true;
        self.ended.notify_all();
    }
}

impl Pipeline {
    /// Starts the reader's thread. Nothing is connected to before that has something to send.
    pub(crate) fn start(metered: Metered, source: Source) -> Self {
        muted(|| {
            let state = Arc::new(State::default());
            let interval = metered.interval;
            let exporter = Exporter::new(metered, Arc::clone(&state));
            let reader = PeriodicReader::builder(exporter)
                .with_interval(interval)
                .build();
            let provider = SdkMeterProvider::builder()
                .with_resource(sdk_resource(&source.resource))
                .with_reader(reader)
                .build();
            let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
                .with_version(env!("CARGO_PKG_VERSION"))
                .build();
            let meter = provider.meter_with_scope(scope);
            observe(&meter, source.health);
            Self {
                instruments: Instruments::new(&meter),
                provider,
                state,
            }
        })
    }
}

impl Meter for Pipeline {
    fn closed(&self, closed: Closed<'_>) {
        if !self.state.stopping.load(Ordering::Relaxed) {
            self.instruments.record(&closed);
        }
    }

    fn stop(&self, deadline: Instant) {
        lock(&self.state.end).deadline = Some(deadline);
        if self.state.stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        // The SDK waits for the last time by itself, for longer than the agent may.
        let (provider, state) = (self.provider.clone(), Arc::clone(&self.state));
        let ending = std::thread::Builder::new().name("spanledger-metrics".into());
        let spawned = ending.spawn(move || {
            let _ = muted(|| provider.shutdown());
            state.done();
        });
        if spawned.is_err() {
            // Its last holder would wait for it as it drops it.
            std::mem::forget(self.provider.clone());
            self.state.done();
        }
    }

    fn wait(&self, deadline: Instant) {
        let mut end = lock(&self.state.end);
        while !end.done {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.state.ended.wait_timeout(end, left);
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn health(&self) -> MetricsHealth {
        MetricsHealth {
            sent: self.state.sent.load(Ordering::Relaxed),
            failed: self.state.failed.load(Ordering::Relaxed),
            last_error: lock(&self.state.last_error).clone(),
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.stop(Instant::now());
    }
}
