//! How recording, sending and measuring are going.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::redact::Tally;

/// How recording is going. Counters only rise.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (layer, guard) = spanledger::builder().root(dir.path()).build::<tracing_subscriber::Registry>()?;
/// let health = guard.health();
/// assert_eq!((health.written, health.failed), (0, 0));
/// # drop(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Events whose line the kernel has.
    pub written: u64,
    /// Events whose line could not be written when they happened. A `gap` line in the trace
    /// counts them as soon as writing works again. Also large values that could not be stored: their lines
    /// have the beginning. In a forked child, which does not record: all of its events.
    pub failed: u64,
    /// Secrets that were masked.
    pub masked: u64,
    /// Values of which a part was cut.
    pub cut: u64,
    /// Events that had no session above them and went to an implicit one.
    pub orphaned: u64,
    /// The implicit session of the process, if something was recorded outside every other one: a task may
    /// have been spawned without a span.
    pub implicit_session: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// Why an export is behind; `None` where all are current.
    pub export_error: Option<String>,
    /// How sending is going; `None` where nothing is sent.
    #[cfg(feature = "mirror")]
    pub mirror: Option<crate::mirror::MirrorHealth>,
    /// How the metrics are going; `None` where none are sent.
    #[cfg(feature = "metrics")]
    pub metrics: Option<crate::metrics::MetricsHealth>,
}

/// The counts of recording, beside those of the ledger.
#[derive(Debug, Default)]
pub(crate) struct RecordCounters {
    masked: AtomicU64,
    cut: AtomicU64,
    orphaned: AtomicU64,
}

impl RecordCounters {
    pub fn add(&self, tally: Tally) {
        if tally != Tally::default() {
            self.masked.fetch_add(tally.masked, Ordering::Relaxed);
            self.cut.fetch_add(tally.cut, Ordering::Relaxed);
        }
    }

    pub fn add_orphaned(&self) {
        self.orphaned.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anything was ever masked or cut.
    pub fn has_marked(&self) -> bool {
        self.masked.load(Ordering::Relaxed) > 0 || self.cut.load(Ordering::Relaxed) > 0
    }

    pub fn add_to(&self, health: &mut Health) {
        health.masked = self.masked.load(Ordering::Relaxed);
        health.cut = self.cut.load(Ordering::Relaxed);
        health.orphaned = self.orphaned.load(Ordering::Relaxed);
    }
}
