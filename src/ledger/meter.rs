//! What is measured of spans, as they close.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::Core;
use super::health::{Health, MetricsHealth};
use super::open_span::OpenSpan;
use crate::event::Outcome;

/// A span whose close line was just written.
pub(crate) struct Closed<'a> {
    pub span: &'a OpenSpan,
    /// The name of the agent around it, as JSON.
    pub agent: Option<Vec<u8>>,
    pub outcome: Outcome,
    /// In nanoseconds.
    pub duration: u64,
}

/// Takes measurements and sends them. One for each process: a forked child gets its own.
pub(crate) trait Meter: Send + Sync {
    /// On the agent's thread, once for each span, and not while its session is locked.
    fn closed(&self, closed: Closed<'_>);

    /// Sends what was measured one last time, until `deadline`, without waiting for that.
    fn stop(&self, deadline: Instant);

    /// Waits for the end of that, until `deadline`.
    fn wait(&self, deadline: Instant);

    fn health(&self) -> MetricsHealth;
}

/// What a meter is made of.
pub(crate) struct Source {
    /// What runs here, as the first lines of segments say it.
    pub resource: Value,
    pub health: Box<dyn Fn() -> Health + Send + Sync>,
}

/// That this process sends metrics, and how its meter is made.
#[derive(Clone)]
pub(crate) struct Metering(pub Arc<dyn Fn(Source) -> Arc<dyn Meter> + Send + Sync>);

impl std::fmt::Debug for Metering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metering")
    }
}

impl Core {
    /// The meter, made the first time it is asked for: a forked child has none until it writes.
    pub(super) fn meter(&self) -> Option<&Arc<dyn Meter>> {
        let Metering(make) = self.metering.as_ref()?;
        let meter = self.meter.get_or_init(|| {
            let (counters, outbox) = (Arc::clone(&self.counters), Arc::clone(&self.outbox));
            let sends = self.mirroring.is_some();
            make(Source {
                resource: self.resource.clone(),
                health: Box::new(move || Health {
                    mirror: sends.then(|| outbox.health()),
                    ..counters.snapshot(None)
                }),
            })
        });
        Some(meter)
    }
}
