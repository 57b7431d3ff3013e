//! How a ledger is set up: code beats environment beats default.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Error;
use crate::guard::Guard;
use crate::layer::{Choose, LedgerFilter, LedgerLayer, Recorder, RecordingLayer, Registrar, Roots};
#[cfg(feature = "metrics")]
use crate::ledger::Metering;
#[cfg(feature = "mirror")]
use crate::ledger::Mirroring;
use crate::ledger::{Ledger, Root, Settings, Sync, TraceLimits};
#[cfg(feature = "metrics")]
use crate::metrics::Pipeline;
#[cfg(feature = "mirror")]
use crate::mirror::{Otlp, Resolved};
#[cfg(feature = "mirror")]
use crate::otel::Sampling;
use crate::recognise::{Recognise, Rule};
use crate::redact::{Limits, Redaction};

/// Values longer than this go to a blob of their own, unless the builder or
/// `SPANLEDGER_INLINE_LIMIT` says otherwise.
pub const DEFAULT_INLINE_LIMIT: usize = 16 * 1024;

/// How long a shutdown waits for the mirror, unless the builder says otherwise.
#[cfg(feature = "mirror")]
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A trace whose spans' lines are longer than this together goes on in another one, unless the
/// builder says otherwise. Tempo cuts traces at 5 MB without a word.
pub const DEFAULT_TRACE_BYTES: u64 = 3 << 20;

/// A trace older than this goes on in another one, unless the builder says otherwise.
pub const DEFAULT_TRACE_TIME: Duration = Duration::from_secs(3600);

/// Sets up a ledger. Made by [`builder`](crate::builder).
///
/// | setter | environment | by default |
/// |---|---|---|
/// | [`root`](Self::root) | `SPANLEDGER_DIR` | `$XDG_STATE_HOME/spanledger`, else `~/.local/state/spanledger` |
/// | [`disabled`](Self::disabled) | `SPANLEDGER_DISABLED` (`1`, `true`) | recording |
/// | [`sync`](Self::sync) | `SPANLEDGER_SYNC` (`os`, `always`, or milliseconds) | [`Sync::Os`] |
/// | [`inline_limit`](Self::inline_limit) | `SPANLEDGER_INLINE_LIMIT` (bytes) | 16 KiB |
/// | [`trace_limits`](Self::trace_limits) | | 3 MiB, an hour |
/// | `sampler` (feature `mirror`) | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | what the caller decided, else all |
/// | `context` (feature `mirror`) | | where the trace is sent |
/// | `metrics` (feature `metrics`) | `OTEL_METRICS_EXPORTER` (`otlp`, `none`) | none |
#[derive(Clone, Default)]
#[must_use = "nothing happens until `.build()`"]
pub struct Builder {
    root: Option<PathBuf>,
    disabled: Option<bool>,
    sync: Option<Sync>,
    inline_limit: Option<usize>,
    redaction: Redaction,
    carry: Option<LevelFilter>,
    spans: Option<Choose>,
    events: Option<Choose>,
    recognise: Recognise,
    resource: Map<String, Value>,
    trace_limits: TraceLimits,
    context: Option<bool>,
    #[cfg(feature = "mirror")]
    sampler: Option<Box<dyn opentelemetry_sdk::trace::ShouldSample>>,
    #[cfg(feature = "mirror")]
    sending: Sending,
}

/// What is said of the mirror.
#[cfg(feature = "mirror")]
#[derive(Clone, Default)]
struct Sending {
    otlp: Option<Otlp>,
    off: bool,
    shutdown_timeout: Option<Duration>,
    #[cfg(feature = "metrics")]
    metrics: Option<bool>,
    #[cfg(feature = "metrics")]
    metrics_otlp: Option<Otlp>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("root", &self.root)
            .field("sync", &self.sync)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The directory that holds everything. By default see the table above.
    pub fn root(mut self, path: impl Into<PathBuf>) -> Self {
        self.root = Some(path.into());
        self
    }

    /// Records nothing at all. By default it does.
    pub fn disabled(mut self, disabled: bool) -> Self {
        self.disabled = Some(disabled);
        self
    }

    /// How much a power cut may cost. By default [`Sync::Os`].
    pub fn sync(mut self, sync: Sync) -> Self {
        self.sync = Some(sync);
        self
    }

    /// Values longer than this many bytes go to a blob of their own. By default
    /// [`DEFAULT_INLINE_LIMIT`].
    pub fn inline_limit(mut self, bytes: usize) -> Self {
        self.inline_limit = Some(bytes);
        self
    }

    /// What is masked. By default all built-in rules.
    pub fn redact(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Which spans of others get lines of their own, inside a session. By default none.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let (layer, guard) = spanledger::builder()
    ///     .root(dir.path())
    ///     .record_spans(|meta| meta.target().starts_with("my_agent"))
    ///     .build::<tracing_subscriber::Registry>()?;
    /// # drop((layer, guard));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_spans(
        mut self,
        choose: impl Fn(&Metadata<'_>) -> bool + Send + std::marker::Sync + 'static,
    ) -> Self {
        self.spans = Some(Arc::new(choose));
        self
    }

    /// Which log events become lines, inside a session. By default those of WARN and above.
    pub fn record_events(
        mut self,
        choose: impl Fn(&Metadata<'_>) -> bool + Send + std::marker::Sync + 'static,
    ) -> Self {
        self.events = Some(Arc::new(choose));
        self
    }

    /// Takes spans of a library for agent spans, by a rule of yours: see [`Rule`]. Of several that
    /// match the first counts. By default none.
    pub fn recognise(mut self, rule: Rule) -> Self {
        self.recognise.rules.push(Arc::new(rule));
        self
    }

    /// Whether spans that declare `gen_ai.operation.name`, as the GenAI conventions of
    /// OpenTelemetry ask for, are taken for agent spans. By default they are; our own spans and
    /// [`recognise`](Self::recognise) come first.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let (layer, guard) = spanledger::builder()
    ///     .root(dir.path())
    ///     .recognise_gen_ai(false)
    ///     .build::<tracing_subscriber::Registry>()?;
    /// # drop((layer, guard));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recognise_gen_ai(mut self, recognise: bool) -> Self {
        self.recognise.gen_ai = recognise;
        self
    }

    /// Up to which level spans of others carry a session on to what happens inside them. By
    /// default INFO.
    pub fn carry_level(mut self, level: LevelFilter) -> Self {
        self.carry = Some(level);
        self
    }

    /// An attribute of what runs here, such as `service.name`; logged with every segment.
    pub fn resource(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.resource.insert(key.into(), value.into());
        self
    }

    /// Sends what is recorded over OTLP, from a thread of its own that reads the trace. What this
    /// leaves open the standard environment says; see [`Otlp`] for both. By default there is no
    /// mirror, and no thread, unless the environment names an endpoint.
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
    #[cfg(feature = "mirror")]
    pub fn otlp(mut self, otlp: Otlp) -> Self {
        self.sending.otlp = Some(otlp);
        self
    }

    /// Sends what is recorded to this address, such as `http://127.0.0.1:4317`. Short for
    /// [`otlp`](Self::otlp) with nothing but an endpoint; what was set there stays.
    #[cfg(feature = "mirror")]
    pub fn otlp_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        let otlp = self.sending.otlp.unwrap_or_default();
        self.sending.otlp = Some(otlp.endpoint(endpoint));
        self
    }

    /// Whether anything is sent at all. With `false` nothing is, whatever the environment says, unless
    /// code asks for metrics.
    #[cfg(feature = "mirror")]
    pub fn mirror(mut self, sends: bool) -> Self {
        self.sending.off = !sends;
        self
    }

    /// Whether metrics are sent: what model calls, tools and runs took and used, and how recording and
    /// sending go. [`metrics`](crate::metrics) has them all. By default only if
    /// `OTEL_METRICS_EXPORTER` is `otlp`.
    ///
    /// They go where [`metrics_otlp`](Self::metrics_otlp) says, else where [`otlp`](Self::otlp) does, else
    /// where `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` says, else to this
    /// machine; every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds (60,000) and at shutdown.
    /// `OTEL_SDK_DISABLED=true` switches them off. They need no mirror.
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
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, sends: bool) -> Self {
        self.sending.metrics = Some(sends);
        self
    }

    /// Sends metrics elsewhere than spans, or otherwise: nothing of [`otlp`](Self::otlp) holds for them
    /// then. By default the same holds for both. `http/json` is `http/protobuf` for metrics.
    ///
    /// ```
    /// use spanledger::mirror::Otlp;
    /// let builder = spanledger::builder()
    ///     .otlp_endpoint("http://jaeger:4317")
    ///     .metrics(true)
    ///     .metrics_otlp(Otlp::new().endpoint("http://collector:4318"));
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metrics_otlp(mut self, otlp: Otlp) -> Self {
        self.sending.metrics_otlp = Some(otlp);
        self
    }

    /// How long [`Guard::shutdown`] and the guard's drop wait for a server to take what was
    /// recorded. What it doesn't take is sent by whoever starts next. By default 2 s.
    #[cfg(feature = "mirror")]
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.sending.shutdown_timeout = Some(timeout);
        self
    }

    /// When a trace goes on in another one: once the lines of its spans are longer than this
    /// together (in all sessions that share it), or once it is older. By default
    /// [`DEFAULT_TRACE_BYTES`] and [`DEFAULT_TRACE_TIME`].
    ///
    /// Backends cut long traces silently. From then on each `session.turn` is the root of a trace of
    /// its own, with a link to its `session.run`; and what opens in a turn that is that long itself, or
    /// in a run without turns, shares another trace, linked to the span it lies in. The session stays the
    /// same. With limits of nothing each call is a trace of its own. This holds without a mirror too:
    /// whether a trace will be sent some day is not known when it is recorded.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = spanledger::builder().trace_limits(1 << 20, Duration::from_secs(600));
    /// ```
    pub fn trace_limits(mut self, bytes: u64, time: Duration) -> Self {
        self.trace_limits = TraceLimits { bytes, time };
        self
    }

    /// Whether agent spans are current for the OpenTelemetry API too: inside one,
    /// `opentelemetry::Context::current()` is that span, so that spans of the API and of a
    /// `tracing-opentelemetry` layer (filtered by [`otel::not_agent_spans`](crate::otel::not_agent_spans))
    /// become its children. By default only where the trace is sent: elsewhere their parents would be
    /// spans that no backend has.
    #[cfg(feature = "mirror")]
    pub fn context(mut self, on: bool) -> Self {
        self.context = Some(on);
        self
    }

    /// Which traces are sent: asked once for each, when its root opens. The local trace is
    /// complete whatever it says. By default what `OTEL_TRACES_SAMPLER` and
    /// `OTEL_TRACES_SAMPLER_ARG` say, else all whose caller didn't decide otherwise.
    ///
    /// ```
    /// use opentelemetry_sdk::trace::Sampler;
    /// let builder = spanledger::builder().sampler(Sampler::TraceIdRatioBased(0.1));
    /// ```
    #[cfg(feature = "mirror")]
    pub fn sampler(
        mut self,
        sampler: impl opentelemetry_sdk::trace::ShouldSample + 'static,
    ) -> Self {
        self.sampler = Some(Box::new(sampler));
        self
    }

    /// The bare layer, for a registry of your own, and its guard.
    ///
    /// The root need not be writable: then nothing is recorded until it is,
    /// [`Guard::health`] says so, and the agent goes on.
    pub fn build<S>(self) -> Result<(LedgerLayer<S>, Guard), Error>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if STATIC_MAX_LEVEL < LevelFilter::INFO {
            return Err(Error::LevelCompiledOut);
        }
        let disabled = self.disabled.map_or_else(disabled_by_env, Ok)?;
        let root = match self.root.or_else(Root::from_env) {
            Some(root) => root,
            // Where nothing is recorded, nothing has to be found.
            None if disabled => PathBuf::new(),
            None => return Err(Error::NoRoot),
        };
        #[allow(unused_mut)]
        let mut settings = Settings {
            disabled,
            root: std::path::absolute(&root).unwrap_or(root),
            sync: self.sync.map_or_else(sync_by_env, Ok)?,
            limits: Limits {
                inline: self.inline_limit.map_or_else(inline_by_env, Ok)?,
                ..Limits::default()
            },
            redaction: self.redaction,
            resource: self.resource,
            mirroring: None,
            #[cfg(feature = "metrics")]
            metering: None,
        };
        #[cfg(feature = "mirror")]
        let within = self.sending.shutdown_timeout.unwrap_or(SHUTDOWN_TIMEOUT);
        #[cfg(feature = "mirror")]
        if !disabled {
            self.sending.set_up(&mut settings)?;
        }
        let context = self.context.unwrap_or(settings.mirroring.is_some());
        let filter = LedgerFilter {
            disabled,
            carry: self.carry.unwrap_or(LevelFilter::INFO),
            spans: self.spans,
            events: self.events,
            recognise: self.recognise,
        };
        let recorder = Arc::new(Recorder {
            registrar: Registrar::new(),
            held_back: 0.into(),
            context,
            #[cfg(feature = "neighbour")]
            sent_twice: false.into(),
            ledger: Ledger::new(settings)?,
            roots: Roots::new(
                self.trace_limits,
                #[cfg(feature = "mirror")]
                self.sampler.map(Sampling::new).unwrap_or_default(),
            ),
        });
        #[cfg(feature = "mirror")]
        recorder.ledger.start_sending();
        let guard = Guard::new(
            Arc::clone(&recorder),
            disabled,
            #[cfg(feature = "mirror")]
            within,
        );
        let layer = RecordingLayer::new(recorder, filter.clone());
        Ok((layer.with_filter(filter), guard))
    }

    /// Builds it and makes it the process's subscriber, alone.
    pub fn try_init(self) -> Result<Guard, Error> {
        let (layer, guard) = self.build()?;
        tracing_subscriber::registry()
            .with(layer)
            .try_init()
            .map_err(|_| Error::AlreadyInitialized)?;
        Ok(guard)
    }
}

#[cfg(feature = "mirror")]
impl Sending {
    /// Says in the settings what runs here, and, where there is a mirror, what is sent and how.
    fn set_up(self, settings: &mut Settings) -> Result<(), Error> {
        settings.resource = crate::mirror::detected(std::mem::take(&mut settings.resource));
        let env = |name: &str| std::env::var(name).ok();
        #[cfg(feature = "metrics")]
        let metered = {
            let code = self.metrics_otlp.or_else(|| self.otlp.clone());
            let asked = self.metrics.or(self.off.then_some(false));
            Otlp::resolve_metrics(code, asked, env)?
        };
        let to = match self.off {
            true => None,
            false => Otlp::resolve(self.otlp, env)?,
        };
        if let Some(to) = to {
            mirror_to(to, settings);
        }
        // After the copy that recovery goes by: what it closes is not measured.
        #[cfg(feature = "metrics")]
        if let Some(metered) = metered {
            settings.metering = Some(Metering(Arc::new(move |source| {
                Arc::new(Pipeline::start(metered.clone(), source))
            })));
        }
        Ok(())
    }
}

#[cfg(feature = "mirror")]
fn mirror_to(to: Resolved, settings: &mut Settings) {
    settings.mirroring = Some(Mirroring {
        policy: to.policy().to_string().into(),
        start: None,
    });
    // What it closes for the dead it hands over to itself: no second thread.
    let recovery = settings.clone();
    if let Some(mirroring) = &mut settings.mirroring {
        mirroring.start = Some(Arc::new(move |outbox| {
            crate::mirror::start(to.clone(), recovery.clone(), outbox)
        }));
    }
}

fn env(name: &'static str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().trim().to_owned()).filter(|value| !value.is_empty())
}

fn disabled_by_env() -> Result<bool, Error> {
    let name = "SPANLEDGER_DISABLED";
    let Some(value) = env(name) else {
        return Ok(false);
    };
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(Error::Environment {
            name,
            value,
            expected: "true or false",
        }),
    }
}

fn sync_by_env() -> Result<Sync, Error> {
    let name = "SPANLEDGER_SYNC";
    let Some(value) = env(name) else {
        return Ok(Sync::Os);
    };
    match (value.to_ascii_lowercase().as_str(), value.parse::<u64>()) {
        ("os", _) => Ok(Sync::Os),
        ("always", _) => Ok(Sync::Always),
        (_, Ok(ms)) if ms > 0 => Ok(Sync::Interval(Duration::from_millis(ms))),
        _ => Err(Error::Environment {
            name,
            value,
            expected: "os, always or a number of milliseconds",
        }),
    }
}

fn inline_by_env() -> Result<usize, Error> {
    let name = "SPANLEDGER_INLINE_LIMIT";
    let Some(value) = env(name) else {
        return Ok(DEFAULT_INLINE_LIMIT);
    };
    value.parse().map_err(|_| Error::Environment {
        name,
        value,
        expected: "a number of bytes",
    })
}
