//! The builder's settings of the metrics, and what sends them. `metrics_off.rs` replaces it in builds without the
//! feature `metrics`.

use std::sync::Arc;
use std::time::Instant;

use super::{Sending, env};
use crate::error::Error;
use crate::ledger::{LedgerConfig, Listener};
use crate::metrics::Pipeline;
use crate::mirror::{Otlp, Queue};
use crate::record::Builder;
use crate::record::health::Health;
use crate::trace::setters;

pub(super) use crate::mirror::MetricsConfig;

#[derive(Clone, Default)]
pub(super) struct MetricsSettings {
    on: Option<bool>,
    otlp: Option<Otlp>,
}

impl Builder {
    setters! {
        /// Whether metrics are sent: durations and usage of model calls, tools and runs, and the state of
        /// recording and sending. [`metrics`](crate::metrics) lists them. By default only if
        /// `OTEL_METRICS_EXPORTER` is `otlp`.
        ///
        /// The endpoint is that of [`metrics_otlp`](Self::metrics_otlp), else of [`otlp`](Self::otlp), else of
        /// `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`, else this machine. They are
        /// sent every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds (60,000) and at shutdown.
        /// `OTEL_SDK_DISABLED=true` turns them off. They need no mirror.
        ///
        /// ```
        /// # let dir = tempfile::tempdir()?;
        /// let (layer, guard) = spanledger::builder()
        ///     .root(dir.path())
        ///     .otlp_endpoint("http://127.0.0.1:4317")
        ///     .metrics(true)
        ///     # .metrics(false).mirror(false)
        ///     .build::<tracing_subscriber::Registry>()?;
        /// # drop((layer, guard));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn metrics(self, sends: bool) { self.sending.metrics.on = Some(sends) }

        /// Sends metrics with settings of their own; those of [`otlp`](Self::otlp) don't apply to them then. By
        /// default both are sent alike. `http/json` is `http/protobuf` for metrics.
        ///
        /// ```
        /// use spanledger::mirror::Otlp;
        /// let builder = spanledger::builder()
        ///     .otlp_endpoint("http://jaeger:4317")
        ///     .metrics(true)
        ///     .metrics_otlp(Otlp::new().endpoint("http://collector:4318"));
        /// ```
        pub fn metrics_otlp(self, otlp: Otlp) { self.sending.metrics.otlp = Some(otlp) }
    }
}

impl MetricsSettings {
    pub fn resolve(&self, sending: &Sending) -> Result<Option<MetricsConfig>, Error> {
        let otlp = self.otlp.as_ref().or(sending.otlp.as_ref()).cloned();
        let on = self.on.or(sending.off.then_some(false));
        Otlp::resolve_metrics(otlp, on, env)
    }
}

/// The metrics of this process, if they are sent.
#[derive(Debug)]
pub(super) struct Metrics(Option<Arc<Pipeline>>);

impl Metrics {
    /// `queue` is the mirror's, if there is one.
    pub fn start(
        metrics: Option<MetricsConfig>,
        config: &LedgerConfig,
        queue: Option<&Arc<Queue>>,
    ) -> Self {
        let (resource, counters) = (&config.resource, &config.counters);
        let start = |metrics| Pipeline::start(metrics, resource, counters, queue);
        Self(metrics.map(|metrics| Arc::new(start(metrics))))
    }

    pub fn listener(&self) -> Option<Arc<dyn Listener>> {
        let pipeline = self.0.as_ref()?;
        Some(Arc::<Pipeline>::clone(pipeline))
    }

    pub fn add_to(&self, health: &mut Health) {
        health.metrics = self.0.as_ref().map(|pipeline| pipeline.health());
    }

    /// Sends them once more, until `deadline`, after `before` has run.
    pub fn stop(&self, deadline: Instant, before: impl FnOnce()) {
        if let Some(pipeline) = &self.0 {
            before();
            pipeline.stop(deadline);
            pipeline.wait(deadline);
        }
    }
}
