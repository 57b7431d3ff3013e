//! The builder's settings of the mirror, the metrics and the OpenTelemetry context. `sending_off.rs` replaces it
//! in builds without the feature `mirror`.

#[cfg_attr(not(feature = "metrics"), path = "sending/metrics_off.rs")]
mod metrics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_sdk::trace::ShouldSample;

use super::Builder;
use crate::error::Error;
use crate::ledger::{LedgerConfig, Listener};
use crate::mirror::{Otlp, Queue, QueueListener, Resolved};
use crate::record::health::Health;
use crate::record::otel::OtelBridge;
use crate::record::process_state::Settings;
use crate::trace::setters;
use metrics::{Metrics, MetricsConfig, MetricsSettings};

/// The longest wait that every clock can represent.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The settings so far.
#[derive(Clone, Default)]
pub(crate) struct Sending {
    otlp: Option<Otlp>,
    off: bool,
    context: Option<bool>,
    sampler: Option<Box<dyn ShouldSample>>,
    metrics: MetricsSettings,
}

impl Builder {
    setters! {
        /// Sends the trace over OTLP, from a thread of its own that reads it from disk. The standard environment
        /// variables apply where this sets nothing; see [`Otlp`] for both. By default there is no mirror, and no
        /// thread, unless the environment names an endpoint.
        ///
        /// ```
        /// # let dir = tempfile::tempdir()?;
        /// use spanledger::mirror::Otlp;
        /// let (layer, guard) = spanledger::builder()
        ///     .root(dir.path())
        ///     .otlp(Otlp::new().endpoint("http://127.0.0.1:4317").header("x-team", "agents"))
        ///     .build::<tracing_subscriber::Registry>()?;
        /// # drop((layer, guard));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn otlp(self, otlp: Otlp) { self.sending.otlp = Some(otlp) }

        /// Sends the trace to this address, such as `http://127.0.0.1:4317`. Short for [`otlp`](Self::otlp) with
        /// only an endpoint; other settings made there stay.
        pub fn otlp_endpoint(self, endpoint: impl Into<String>) {
            let otlp = self.sending.otlp.unwrap_or_default();
            self.sending.otlp = Some(otlp.endpoint(endpoint));
        }

        /// Whether anything is sent. With `false` nothing is, even if the environment names an endpoint, except
        /// metrics that code turns on. By default `true`.
        pub fn mirror(self, sends: bool) { self.sending.off = !sends }

        /// Whether agent spans are current for the OpenTelemetry API too: inside one,
        /// `opentelemetry::Context::current()` is that span, so spans of the API and of a
        /// `tracing-opentelemetry` layer (behind [`otel::not_agent_spans`](crate::otel::not_agent_spans)) become
        /// its children. By default only where the trace is sent, because otherwise no backend has their parents.
        pub fn context(self, on: bool) { self.sending.context = Some(on) }

        /// Decides which traces are sent, once for each, when its root opens. The local trace is always
        /// complete. By default the sampler of `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, else all
        /// traces whose caller did not decide otherwise.
        ///
        /// ```
        /// use opentelemetry_sdk::trace::Sampler;
        /// let builder = spanledger::builder().sampler(Sampler::TraceIdRatioBased(0.1));
        /// ```
        pub fn sampler(self, sampler: impl ShouldSample + 'static) {
            self.sending.sampler = Some(Box::new(sampler));
        }
    }
}

/// Where the trace and the metrics are sent.
#[derive(Default)]
pub(crate) struct Endpoints {
    mirror: Option<Resolved>,
    metrics: Option<MetricsConfig>,
}

impl Sending {
    /// Decides where to send, and writes into the settings what runs here and for whom it is recorded.
    pub fn resolve(&self, settings: &mut Settings) -> Result<Endpoints, Error> {
        settings.resource = crate::mirror::detected(std::mem::take(&mut settings.resource));
        let mirror = match self.off {
            true => None,
            false => Otlp::resolve(self.otlp.clone(), env)?,
        };
        settings.sends_content = mirror.as_ref().is_some_and(|to| to.content);
        settings.sends_log_messages = mirror.as_ref().is_some_and(|to| to.texts.log_messages);
        settings.policy = mirror.as_ref().map(|to| to.policy().to_string().into());
        Ok(Endpoints {
            mirror,
            metrics: self.metrics.resolve(self)?,
        })
    }

    /// `sends`: the trace is sent.
    pub fn bridge(self, sends: bool) -> OtelBridge {
        OtelBridge::new(self.context, sends, self.sampler)
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What sends this process's trace and metrics.
#[derive(Debug)]
pub(crate) struct Senders {
    mirror: Option<Arc<QueueListener>>,
    metrics: Metrics,
}

impl Senders {
    /// Starts the threads, for a ledger of this configuration.
    pub fn start(endpoints: Endpoints, config: &LedgerConfig) -> Self {
        let mirror = endpoints.mirror.map(|to| {
            let queue = Arc::default();
            start_mirror(to.clone(), config, &queue);
            Arc::new(QueueListener { queue, to })
        });
        let queue = mirror.as_ref().map(|mirror| &mirror.queue);
        let metrics = Metrics::start(endpoints.metrics, config, queue);
        Self { mirror, metrics }
    }

    fn queue(&self) -> Option<&Arc<Queue>> {
        self.mirror.as_ref().map(|mirror| &mirror.queue)
    }

    pub fn listeners(&self) -> Vec<Arc<dyn Listener>> {
        let mut listeners: Vec<Arc<dyn Listener>> = Vec::new();
        if let Some(mirror) = &self.mirror {
            listeners.push(Arc::<QueueListener>::clone(mirror));
        }
        listeners.extend(self.metrics.listener());
        listeners
    }

    pub fn add_to(&self, health: &mut Health) {
        health.mirror = self.queue().map(|queue| queue.health());
        self.metrics.add_to(health);
    }

    /// Sends what is left, for at most this long, and stops.
    pub fn stop(&self, timeout: Duration) {
        let now = Instant::now();
        let after = |time: Duration| now + time.min(FOREVER);
        let deadline = after(timeout);
        if let Some(queue) = self.queue() {
            queue.stop(deadline);
        }
        // The last export then has how the mirror ended, unless that takes long.
        self.metrics
            .stop(deadline, || self.wait(after(timeout / 2)));
        self.wait(deadline);
        if let Some(mirror) = self.mirror.as_ref().filter(|_| !timeout.is_zero()) {
            mirror.warn_unsent();
        }
    }

    fn wait(&self, deadline: Instant) {
        if let Some(queue) = self.queue() {
            queue.shutdown.wait(deadline);
        }
    }

    /// Stops without waiting.
    pub fn abandon(&self) {
        if let Some(queue) = self.queue() {
            queue.stop(Instant::now());
        }
    }
}

fn start_mirror(to: Resolved, config: &LedgerConfig, queue: &Arc<Queue>) {
    // The mirror closes what dead writers left open with a ledger of its own.
    if let Err(error) = crate::mirror::start(to, config.for_recovery(), Arc::clone(queue)) {
        let error = format!("start the mirror's thread: {error}");
        config.counters.note_error(&error);
    }
}
