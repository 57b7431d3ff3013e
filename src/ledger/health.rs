//! What the ledger has to say about itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// says so as soon as writing works again.
    pub failed: u64,
    /// Secrets that were masked.
    pub masked: u64,
    /// Values of which a part was cut, and said to be.
    pub cut: u64,
    /// Events that had no session above them and went to an implicit one.
    pub orphaned: u64,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    /// How sending is going; `None` where nothing is sent.
    #[cfg(feature = "mirror")]
    pub mirror: Option<MirrorHealth>,
    /// How the metrics are going; `None` where none are sent.
    #[cfg(feature = "metrics")]
    pub metrics: Option<MetricsHealth>,
}

/// How the mirror of this process is doing.
#[cfg(feature = "mirror")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorHealth {
    /// Spans that a server accepted.
    pub sent: u64,
    /// Bytes of the trace that were not sent yet: this process's, and what it found of dead ones.
    pub owed_bytes: u64,
    /// Spans that a server refused for good.
    pub dead_letters: u64,
    /// What it said to the last of them, secrets masked.
    pub last_dead: Option<String>,
    /// Why nothing is sent at the moment, although something is owed.
    pub waiting_for: Option<String>,
}

/// How the metrics of this process are doing.
#[cfg(feature = "metrics")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsHealth {
    /// How often a server took them.
    pub sent: u64,
    /// How often none did. The next time tells all of it again, unless deltas were asked for.
    pub failed: u64,
    /// Why, the last time; `None` once they are taken again.
    pub last_error: Option<String>,
}

/// The counters behind [`Health`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub written: AtomicU64,
    pub failed: AtomicU64,
    pub masked: AtomicU64,
    pub cut: AtomicU64,
    pub orphaned: AtomicU64,
    told: AtomicBool,
}

impl Counters {
    /// Whether anything was ever masked or cut here.
    pub fn has_marked(&self) -> bool {
        self.masked.load(Ordering::Relaxed) > 0 || self.cut.load(Ordering::Relaxed) > 0
    }

    pub fn add(counter: &AtomicU64, n: u64) {
        if n > 0 {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub fn snapshot(&self, last_error: Option<String>) -> Health {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Health {
            written: get(&self.written),
            failed: get(&self.failed),
            masked: get(&self.masked),
            cut: get(&self.cut),
            orphaned: get(&self.orphaned),
            last_error,
            #[cfg(feature = "mirror")]
            mirror: None,
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }

    /// Says once for the process's life that the trace can't be written. Nobody is left to hear of a
    /// failure here. Where it would have to wait for somebody to read, it is left to the next failure.
    pub fn tell_once(&self, message: &str) {
        if self.told.load(Ordering::Relaxed) || stderr_is_full() {
            return;
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            let line =
                format!("spanledger: {message}; the agent goes on, health() has the count\n");
            // It may be a file, and the limit on files' sizes what the message is about.
            super::file_size::survive(|| write_to_stderr(line.as_bytes()));
        }
    }
}

/// `eprintln!` would panic where stderr is closed, and wait where a thread keeps it locked: one of the
/// agent's, or, in a forked child, one that is gone.
fn write_to_stderr(line: &[u8]) {
    // SAFETY: the pointer and length describe `line`; that the descriptor may be closed is an error
    // like any other.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Whether a write to stderr would block: a pipe that nobody reads, a terminal that was stopped.
fn stderr_is_full() -> bool {
    let mut stderr = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: `stderr` is one valid entry, and nothing is waited for.
    unsafe { libc::poll(&mut stderr, 1, 0) == 0 }
}
