//! The state that the spans of one trace share: decided when its root opens, and written with each of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::record::process_state::ProcessState;
use crate::trace::{lock, steady_ns, write_string};

/// A trace, for as long as anything in it is recorded here.
#[derive(Debug)]
pub(crate) struct Trace {
    pub id: u128,
    /// Whether it is sent. The local trace is complete either way.
    pub sampled: bool,
    /// Sent with its context to other processes.
    pub tracestate: Option<Arc<str>>,
    /// The members about it in the lines of its spans; none in most traces.
    pub members: Vec<u8>,
    started: u64,
    bytes: AtomicU64,
    /// The trace that continues it once it is full.
    next: Mutex<Option<Arc<Trace>>>,
}

/// When a trace is too long for the backends, which truncate it silently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceLimits {
    pub bytes: u64,
    pub time: Duration,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self {
            bytes: crate::record::DEFAULT_TRACE_BYTES,
            time: crate::record::DEFAULT_TRACE_TIME,
        }
    }
}

impl Trace {
    pub fn new(
        process: &ProcessState,
        id: u128,
        sampled: bool,
        tracestate: Option<Arc<str>>,
    ) -> Arc<Self> {
        let mut members = Vec::new();
        if !sampled {
            members.extend_from_slice(b"\"sampled\":false,");
        }
        if let Some(tracestate) = &tracestate {
            members.extend_from_slice(b"\"tracestate\":");
            write_string(&process.sanitize_text(tracestate), &mut members);
            members.push(b',');
        }
        Arc::new(Self {
            id,
            sampled,
            tracestate,
            members,
            started: steady_ns(),
            bytes: AtomicU64::new(0),
            next: Mutex::new(None),
        })
    }

    /// Counts a line of one of its spans, in any session.
    pub fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The trace of a span that opens in this one at this time: itself, or, once it is full, the one that
    /// continues it. `begin` makes that one, and another when it is full too. All spans that open share it, so
    /// siblings stay in one trace.
    pub fn with_room(
        self: &Arc<Self>,
        limits: &TraceLimits,
        now: u64,
        begin: impl FnOnce(&Self) -> Arc<Self>,
    ) -> Arc<Self> {
        if !self.is_full(limits, now) {
            return Arc::clone(self);
        }
        let mut next = lock(&self.next);
        match &mut *next {
            Some(next) if !next.is_full(limits, now) => Arc::clone(next),
            other => Arc::clone(other.insert(begin(self))),
        }
    }

    /// Whether a span that opens at this time of the steady clock should be in another trace.
    pub fn is_full(&self, limits: &TraceLimits, now: u64) -> bool {
        self.bytes.load(Ordering::Relaxed) >= limits.bytes
            || u128::from(now.saturating_sub(self.started)) >= limits.time.as_nanos()
    }
}
