//! What the ledger counts, and the one warning.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::trace::lock;

/// Lines written and lost, and the last error. One for each process.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    written: AtomicU64,
    failed: AtomicU64,
    last_error: Mutex<Option<String>>,
    warned: AtomicBool,
    warned_forked: AtomicBool,
    warned_no_session: AtomicBool,
}

/// Why a forked child does not record.
pub(crate) const FORKED: &str =
    "this process was forked from the one that records, without an exec, and does not record";

impl Counters {
    /// Lines that the kernel has.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Lines that could not be written when their time was.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn count_written(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, lines: u64) {
        self.failed.fetch_add(lines, Ordering::Relaxed);
    }

    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    pub fn note_error(&self, error: &str) {
        *lock(&self.last_error) = Some(error.to_owned());
    }

    /// Counts what a forked child would have recorded, and warns once that it does not.
    #[cold]
    pub(super) fn count_forked(&self) {
        self.count_failed(1);
        warn_of_loss(&self.warned_forked, FORKED);
    }

    /// Warns once that something is recorded outside every session.
    pub fn warn_no_session(&self, implicit_session: &str) {
        if self.warned_no_session.load(Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "something is recorded outside every session and goes to {implicit_session}: give spawned tasks \
             their span (.instrument(span) or .recorded(span); in spawn_blocking, span.in_scope(|| ..))"
        );
        warn_once(&self.warned_no_session, &message);
    }

    /// Writes one line to stderr for the process's life. Where that would block, it is left to the next failure.
    pub fn warn_once(&self, message: &str) {
        warn_of_loss(&self.warned, message);
    }
}

fn warn_of_loss(warned: &AtomicBool, message: &str) {
    let message = format!(
        "{message}. The agent continues; health() counts lost events, `spanledger doctor` checks the root"
    );
    warn_once(warned, &message);
}

/// Writes a line to stderr, unless `warned` is set. Where that would block, it is left to the next call.
pub(crate) fn warn_once(warned: &AtomicBool, message: &str) {
    if warned.load(Ordering::Relaxed) || stderr_is_full() {
        return;
    }
    if !warned.swap(true, Ordering::Relaxed) {
        let line = format!("spanledger: {message}\n");
        write_to_stderr(line.as_bytes());
    }
}

/// `eprintln!` would panic where stderr is closed, and wait where another thread has it locked.
fn write_to_stderr(line: &[u8]) {
    // There is nothing left to report a failure to.
    let _ = rustix::io::write(rustix::stdio::stderr(), line);
}

/// Whether a write to stderr would block: a full pipe, a stopped terminal.
fn stderr_is_full() -> bool {
    let stderr = rustix::stdio::stderr();
    let now = Timespec::default();
    let ready = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&now));
    ready == Ok(0)
}
