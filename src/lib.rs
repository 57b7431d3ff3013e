// Of two definitions of a link the first counts: here the README's links lead to the pages in `guide`.
#![doc = "[docs/benchmarks.md]: guide::benchmarks"]
#![doc = "[docs/debugging.md]: guide::debugging"]
#![doc = "[docs/events.md]: guide::events"]
#![doc = "[docs/files.md]: guide::files"]
#![doc = "[docs/formats.md]: guide::formats"]
#![doc = "[docs/inspecting.md]: guide::inspecting"]
#![doc = "[docs/opentelemetry.md]: guide::opentelemetry"]
#![doc = "[docs/reading.md]: guide::reading"]
#![doc = "[docs/recording.md]: guide::recording"]
#![doc = "[docs/redaction.md]: guide::redaction"]
#![doc = "[docs/rig.md]: guide::rig"]
#![doc = "[docs/sending.md]: guide::sending"]
#![doc = "[docs/watching.md]: guide::watching"]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![warn(missing_docs, missing_debug_implementations)]
// Some helpers have callers only in the builds with more features. The build with all of them finds dead code.
#![cfg_attr(
    not(all(feature = "cli", feature = "metrics")),
    allow(dead_code, unused_imports)
)]

pub mod cost;
mod error;
pub mod export;
mod gen_ai;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod import;
pub mod inspect;
pub mod ledger;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "mirror")]
pub mod mirror;
pub mod read;
mod record;
pub mod redact;
pub mod request;
pub mod session;
pub mod trace;
#[cfg(feature = "cli")]
pub mod view;
pub mod watch;

pub use error::Error;
pub use ledger::SyncPolicy;
#[cfg(feature = "mirror")]
pub use record::otel;
pub use record::{
    BeforeTool, Builder, DEFAULT_INLINE_LIMIT, DEFAULT_SEGMENT_SIZE, DEFAULT_TRACE_BYTES,
    DEFAULT_TRACE_TIME, Decision, FutureExt, Guard, Handle, Health, LedgerFilter, LedgerLayer,
    RecordingLayer, Recovery, Rule, Session, SpanExt, Stream, events, spans,
};
pub use redact::Redaction;
pub use trace::{
    AsFailure, Failure, Marks, Outcome, Refused, RemoteContext, RemoteContextError, Totals, Usage,
    ViaDeref, ViaError, ViaType, new_session_id,
};
pub use watch::{Limits, LoopPolicy};

/// Configures recording. See [`Builder`] for the settings.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use tracing_subscriber::layer::SubscriberExt;
/// let (layer, guard) = spanledger::builder().root(dir.path()).build()?;
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # drop(subscriber);
/// guard.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn builder() -> Builder {
    Builder::default()
}

/// Starts recording with the settings of the environment, as the process's only subscriber.
///
/// ```no_run
/// let guard = spanledger::try_init()?;
/// // … the agent …
/// if let Err(lost) = guard.shutdown() {
///     eprintln!("{lost}");
/// }
/// # Ok::<(), spanledger::Error>(())
/// ```
pub fn try_init() -> Result<Guard, Error> {
    builder().try_init()
}
