#![doc = include_str!("../README.md")]
#![warn(missing_docs, missing_debug_implementations)]

// In the order data moves.
#[cfg(feature = "cli")]
pub mod cli;
mod event;
pub mod events;
mod layer;
pub mod ledger;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "mirror")]
pub mod mirror;
#[cfg(feature = "mirror")]
pub mod otel;
pub mod reader;
mod recognise;
pub mod redact;
pub mod session;
pub mod spans;
#[cfg(feature = "view")]
pub mod view;

mod builder;
mod error;
mod guard;

pub use builder::{Builder, DEFAULT_INLINE_LIMIT, DEFAULT_TRACE_BYTES, DEFAULT_TRACE_TIME};
pub use error::Error;
pub use event::{
    AsFailure, Failure, Marks, Outcome, RemoteContext, RemoteContextError, Totals, Usage, ViaDeref,
    ViaError, ViaType, new_session_id,
};
pub use guard::{Guard, Handle};
pub use layer::{LedgerFilter, LedgerLayer, RecordingLayer};
pub use ledger::{Health, Sync};
pub use recognise::Rule;
pub use redact::Redaction;
pub use spans::{FutureExt, Session, SpanExt, Stream};

/// Sets up a ledger, step by step.
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

/// Records from here on: the environment's settings, and the process's only subscriber.
///
/// ```no_run
/// let guard = spanledger::try_init()?;
/// // … the agent …
/// guard.shutdown()?;
/// # Ok::<(), spanledger::Error>(())
/// ```
pub fn try_init() -> Result<Guard, Error> {
    builder().try_init()
}
