//! The builder's settings of the metrics.

use super::Builder;
use super::sending::{Sending, env};
use crate::error::Error;
use crate::mirror::{MetricsConfig, Otlp};

#[derive(Clone, Default)]
pub(super) struct MetricsSettings {
    on: Option<bool>,
    otlp: Option<Otlp>,
}

impl Builder {
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
    pub fn metrics(mut self, sends: bool) -> Self {
        self.sending.metrics.on = Some(sends);
        self
    }

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
    pub fn metrics_otlp(mut self, otlp: Otlp) -> Self {
        self.sending.metrics.otlp = Some(otlp);
        self
    }
}

impl MetricsSettings {
    pub fn resolve(&self, sending: &Sending) -> Result<Option<MetricsConfig>, Error> {
        let otlp = self.otlp.as_ref().or(sending.otlp.as_ref()).cloned();
        let on = self.on.or(sending.off.then_some(false));
        Otlp::resolve_metrics(otlp, on, env)
    }
}
