//! Configures a ledger. Code wins over the environment, the environment over defaults.

#[cfg_attr(not(feature = "mirror"), path = "builder/sending_off.rs")]
pub(super) mod sending;

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
use crate::export::{Export, ExportError};
use crate::ledger::SyncPolicy;
use crate::record::guard::Guard;
use crate::record::layer::{Choose, LedgerFilter, LedgerLayer, Recorder, RecordingLayer};
use crate::record::panics::install_hook;
use crate::record::process_state::{ProcessState, Settings};
use crate::record::recognize::{Recognizer, Rule};
use crate::record::session::TraceLimits;
use crate::record::watching::{BeforeTool, Decision, Hook, Watching};
use crate::redact::{Limits, Redaction};
use crate::trace::{Root, setters};
use crate::watch;
use sending::{Endpoints, Senders, Sending};

/// Values longer than this go to a blob of their own, unless the builder or
/// `SPANLEDGER_INLINE_LIMIT` sets another limit.
pub const DEFAULT_INLINE_LIMIT: usize = 16 * 1024;

/// A segment that is longer than this is continued by another one, unless the builder sets another size.
pub const DEFAULT_SEGMENT_SIZE: u64 = 1 << 30;

/// A trace whose spans' lines are longer than this together is continued by another one, unless the builder
/// sets another limit. Tempo truncates traces at 5 MB silently.
pub const DEFAULT_TRACE_BYTES: u64 = 3 << 20;

/// A trace older than this is continued by another one, unless the builder sets another limit.
pub const DEFAULT_TRACE_TIME: Duration = Duration::from_secs(3600);

/// How long a shutdown waits for the mirror and for exports by default.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Sets up a ledger. Made by [`builder`](crate::builder()).
///
/// | setter | environment | by default |
/// |---|---|---|
/// | [`root`](Self::root) | `SPANLEDGER_DIR` | `$XDG_STATE_HOME/spanledger`, else `~/.local/state/spanledger` |
/// | [`disabled`](Self::disabled) | `SPANLEDGER_DISABLED` (`1`, `true`) | recording |
/// | [`sync`](Self::sync) | `SPANLEDGER_SYNC` (`os`, `always`, or milliseconds) | [`SyncPolicy::Os`] |
/// | [`inline_limit`](Self::inline_limit) | `SPANLEDGER_INLINE_LIMIT` (bytes) | 16 KiB |
/// | [`segment_size`](Self::segment_size) | | 1 GiB |
/// | [`trace_limits`](Self::trace_limits) | | 3 MiB, an hour |
/// | [`export`](Self::export) | `SPANLEDGER_EXPORT` (`FORMAT=PATH` or `trace-sqlite`, several with commas) | none |
/// | [`limits`](Self::limits) | `SPANLEDGER_MAX_TOOL_CALLS`, … (see there), `SPANLEDGER_CONFIG` (a file) | none |
/// | `sampler` (feature `mirror`) | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | what the caller decided, else all |
/// | `context` (feature `mirror`) | | where the trace is sent |
/// | `metrics` (feature `metrics`) | `OTEL_METRICS_EXPORTER` (`otlp`, `none`) | none |
#[derive(Clone, Default)]
#[must_use = "nothing happens until `.build()`"]
pub struct Builder {
    root: Option<PathBuf>,
    disabled: Option<bool>,
    sync: Option<SyncPolicy>,
    inline_limit: Option<usize>,
    segment_size: Option<u64>,
    redaction: Redaction,
    carry: Option<LevelFilter>,
    spans: Option<Choose>,
    events: Option<Choose>,
    recognizer: Recognizer,
    resource: Map<String, Value>,
    trace_limits: TraceLimits,
    exports: Vec<Export>,
    watching: Watching,
    shutdown_timeout: Option<Duration>,
    sending: Sending,
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
    setters! {
        /// The directory that holds everything. By default see the table above.
        pub fn root(self, path: impl Into<PathBuf>) { self.root = Some(path.into()) }

        /// Records nothing at all. By default it does.
        pub fn disabled(self, disabled: bool) { self.disabled = Some(disabled) }

        /// How much a power cut may cost. By default [`SyncPolicy::Os`].
        pub fn sync(self, sync: SyncPolicy) { self.sync = Some(sync) }

        /// Values longer than this many bytes go to a blob of their own. By default
        /// [`DEFAULT_INLINE_LIMIT`].
        pub fn inline_limit(self, bytes: usize) { self.inline_limit = Some(bytes) }

        /// A file of the trace that is longer than this many bytes is continued by another one. By default
        /// [`DEFAULT_SEGMENT_SIZE`].
        ///
        /// A process whose files may not be that long (`RLIMIT_FSIZE`) has to set a lower size: a write beyond
        /// its limit is a signal that ends it, unless it ignores `SIGXFSZ`.
        pub fn segment_size(self, bytes: u64) { self.segment_size = Some(bytes) }

        /// What is masked. By default all built-in rules.
        pub fn redact(self, redaction: Redaction) { self.redaction = redaction }

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
        pub fn record_spans(self, choose: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) {
            self.spans = Some(Arc::new(choose));
        }

        /// Which log events become lines, inside a session. By default those of WARN and above.
        pub fn record_events(self, choose: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) {
            self.events = Some(Arc::new(choose));
        }

        /// Takes spans of a library for agent spans, by a rule of yours: see [`Rule`]. Of several that
        /// match the first counts. By default none.
        pub fn recognize(self, rule: Rule) { self.recognizer.rules.push(Arc::new(rule)) }

        /// Whether spans that declare `gen_ai.operation.name`, as the GenAI conventions of
        /// OpenTelemetry ask for, are taken for agent spans. By default they are; our own spans and
        /// [`recognize`](Self::recognize) come first.
        ///
        /// ```
        /// # let dir = tempfile::tempdir()?;
        /// let (layer, guard) = spanledger::builder()
        ///     .root(dir.path())
        ///     .recognize_gen_ai(false)
        ///     .build::<tracing_subscriber::Registry>()?;
        /// # drop((layer, guard));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn recognize_gen_ai(self, recognize: bool) { self.recognizer.gen_ai = recognize }

        /// Up to which level spans of other libraries carry a session on to what happens inside them. By
        /// default TRACE, so that no filter of another layer changes the session of anything. A lower level
        /// saves the cost of verbose libraries' spans.
        pub fn carry_level(self, level: LevelFilter) { self.carry = Some(level) }

        /// An attribute of what runs here, such as `service.name`; logged with every segment.
        pub fn resource(self, key: impl Into<String>, value: impl Into<Value>) {
            self.resource.insert(key.into(), value.into());
        }

        /// When another trace continues a trace: once the lines of its spans are longer than this
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
        pub fn trace_limits(self, bytes: u64, time: Duration) {
            self.trace_limits = TraceLimits { bytes, time };
        }

        /// Keeps an export of what this process records current, from a thread of its own that reads the trace. A target
        /// that can't be written never holds up the agent: [`Health::export_error`](crate::Health::export_error) and one
        /// line on stderr report it, and the export catches up. Exports end with [`Guard::shutdown`](crate::Guard::shutdown):
        /// what is recorded in a session after it is exported when a later process with the same exports records in that
        /// session. By default the exports of `SPANLEDGER_EXPORT`.
        ///
        /// ```
        /// # let dir = tempfile::tempdir()?;
        /// use spanledger::export::{Export, Format};
        /// let (layer, guard) = spanledger::builder()
        ///     .root(dir.path())
        ///     .export(Export::new(Format::AgentDbg, dir.path().join("agentdbg")))
        ///     .build::<tracing_subscriber::Registry>()?;
        /// # drop((layer, guard));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn export(self, export: Export) { self.exports.push(export) }

        /// What the agent may do in a session, its subagents included. Nothing stops by itself: the agent asks with
        /// [`SpanExt::allowed`](crate::SpanExt::allowed) before each call. By default nothing is limited.
        ///
        /// A limit that is not set here comes from the environment (`SPANLEDGER_MAX_TOOL_CALLS`,
        /// `SPANLEDGER_MAX_MODEL_CALLS`, `SPANLEDGER_MAX_TURNS`, `SPANLEDGER_MAX_DURATION`, `SPANLEDGER_MAX_TOKENS`,
        /// `SPANLEDGER_MAX_COST_USD`, `SPANLEDGER_ON_LOOP`, `SPANLEDGER_VOLATILE`), else from the file that
        /// `SPANLEDGER_CONFIG` names.
        ///
        /// ```
        /// # let dir = tempfile::tempdir()?;
        /// # use tracing_subscriber::layer::SubscriberExt;
        /// use spanledger::{Limits, Refused, SpanExt, spans};
        /// let (layer, guard) = spanledger::builder()
        ///     .root(dir.path())
        ///     .limits(Limits::new().tool_calls(1))
        ///     .build()?;
        /// # let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        /// let run = spans::session_run("ses_1", "planner").start().entered();
        /// assert!(spans::tool_call("bash", "call_1").start().allowed().is_ok());
        /// let refused = spans::tool_call("bash", "call_2").start().allowed().unwrap_err();
        /// assert!(matches!(refused, Refused::Stopped { limit: "max_tool_calls", .. }));
        /// # drop((run, guard));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn limits(self, limits: watch::Limits) { self.watching.limits = Some(limits) }
    }

    /// Decides about each tool call that asks with [`SpanExt::allowed`](crate::SpanExt::allowed). Several hooks run
    /// in the order in which they were added, until one denies the call. No lock is held, so a hook may take its
    /// time and record; each decision is a `hook` line. By default there is none.
    ///
    /// ```
    /// use spanledger::Decision;
    /// let builder = spanledger::builder().before_tool(|call| match call.tool_id() {
    ///     "rm" => Decision::deny("nothing is removed here"),
    ///     "deploy" => Decision::ask("it reaches production"),
    ///     _ => Decision::Allow,
    /// });
    /// ```
    pub fn before_tool<F>(mut self, hook: F) -> Self
    where
        F: Fn(&BeforeTool) -> Decision + Send + Sync + 'static,
    {
        self.watching.hooks.push(Hook {
            name: std::any::type_name::<F>(),
            run: Arc::new(hook),
        });
        self
    }

    setters! {
        /// What the panic of a hook counts as, beside the error that is recorded. By default [`Decision::Allow`].
        pub fn on_hook_panic(self, decision: Decision) { self.watching.on_panic = decision }

        /// How long [`Guard::shutdown`](crate::Guard::shutdown) and the guard's drop wait for a server to accept
        /// what is left, and for exports. The next process that starts with this root goes on. By default 2 s.
        pub fn shutdown_timeout(self, timeout: Duration) { self.shutdown_timeout = Some(timeout) }
    }

    /// The bare layer, for a registry of your own, and its guard.
    ///
    /// The root need not be writable: nothing is recorded until it is, [`Guard::health`] reports that, and the
    /// agent continues.
    pub fn build<S>(self) -> Result<(LedgerLayer<S>, Guard), Error>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if STATIC_MAX_LEVEL < LevelFilter::INFO {
            return Err(Error::LevelCompiledOut);
        }
        let disabled = self.disabled.map_or_else(disabled_by_env, Ok)?;
        if !disabled {
            install_hook();
        }
        let root = match self.root.or_else(Root::from_env) {
            Some(root) => root,
            // A disabled ledger needs no root.
            None if disabled => PathBuf::new(),
            None => return Err(Error::NoRoot),
        };
        let mut settings = Settings {
            disabled,
            root: std::path::absolute(&root).unwrap_or(root),
            sync: self.sync.map_or_else(sync_by_env, Ok)?,
            segment_size: self.segment_size.unwrap_or(DEFAULT_SEGMENT_SIZE),
            limits: Limits {
                inline: self.inline_limit.map_or_else(inline_by_env, Ok)?,
                ..Limits::default()
            },
            redaction: self.redaction,
            resource: self.resource,
            policy: None,
            sends_content: false,
            sends_log_messages: false,
            exports: match disabled {
                true => Vec::new(),
                false => exports(self.exports)?,
            },
            watching: match disabled {
                true => None,
                false => watching(self.watching)?,
            },
        };
        let endpoints = match disabled {
            true => Endpoints::default(),
            false => self.sending.resolve(&mut settings)?,
        };
        let filter = LedgerFilter {
            disabled,
            carry: self.carry.unwrap_or(LevelFilter::TRACE),
            spans: self.spans,
            events: self.events,
            recognizer: self.recognizer,
        };
        let timeout = self.shutdown_timeout.unwrap_or(SHUTDOWN_TIMEOUT);
        let otel = self.sending.bridge(settings.policy.is_some());
        let process = ProcessState::new(settings, |config| Senders::start(endpoints, config))?;
        let recorder = Arc::new(Recorder::new(process, self.trace_limits, otel));
        let guard = Guard::new(Arc::clone(&recorder), filter.carry, timeout);
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

fn env(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().trim().to_owned()).filter(|value| !value.is_empty())
}

/// A setting from the environment, read by `parse` in lower case; `default` where the variable is not set.
fn from_env<T>(
    name: &'static str,
    default: T,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Error> {
    let Some(value) = env(name) else {
        return Ok(default);
    };
    parse(&value.to_ascii_lowercase()).ok_or(Error::Environment {
        name,
        value,
        expected,
    })
}

/// The exports given in code, else those of the environment.
fn exports(given: Vec<Export>) -> Result<Vec<Export>, Error> {
    let refused = |place: &str, error: ExportError| Error::Config {
        place: place.to_owned(),
        why: error.to_string(),
    };
    let name = "SPANLEDGER_EXPORT";
    let Some(value) = env(name).filter(|_| given.is_empty()) else {
        let checked = given.iter().try_for_each(Export::check);
        return checked
            .map(|()| given)
            .map_err(|error| refused("Builder::export", error));
    };
    let each = value.split(',').map(str::trim);
    let each = each.filter(|one| !one.is_empty()).map(str::parse);
    let parsed: Result<_, _> = each.collect();
    parsed.map_err(|error| refused(name, error))
}

/// The limits given in code, and where it has none those of the environment, then those of the file.
fn watching(given: Watching) -> Result<Option<Watching>, Error> {
    let config = |error: watch::ConfigError| Error::Config {
        place: error.place,
        why: error.why,
    };
    if let Some((setter, why)) = given.limits.as_ref().and_then(watch::Limits::mistake) {
        let place = format!("Limits: {setter}");
        return Err(Error::Config { place, why });
    }
    let variables = watch::Limits::from_env(env).map_err(config)?;
    let file = env("SPANLEDGER_CONFIG");
    let file = file.map(watch::Limits::from_file).transpose();
    let set = [given.limits, variables, file.map_err(config)?];
    Ok(Watching {
        limits: set.into_iter().flatten().reduce(watch::Limits::or),
        ..given
    }
    .or_nothing())
}

fn disabled_by_env() -> Result<bool, Error> {
    let expected = "true or false";
    from_env("SPANLEDGER_DISABLED", false, expected, |text| match text {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    })
}

fn sync_by_env() -> Result<SyncPolicy, Error> {
    let expected = "os, always or a number of milliseconds";
    let interval = |ms: u64| (ms > 0).then_some(SyncPolicy::Interval(Duration::from_millis(ms)));
    from_env(
        "SPANLEDGER_SYNC",
        SyncPolicy::Os,
        expected,
        |text| match text {
            "os" => Some(SyncPolicy::Os),
            "always" => Some(SyncPolicy::Always),
            text => interval(text.parse().ok()?),
        },
    )
}

fn inline_by_env() -> Result<usize, Error> {
    let (name, expected) = ("SPANLEDGER_INLINE_LIMIT", "a number of bytes");
    from_env(name, DEFAULT_INLINE_LIMIT, expected, |text| {
        text.parse().ok()
    })
}
