//! How other parts of the process learn what has been written.

use std::fmt::Debug;
use std::sync::Arc;

use super::segment::SharedSegment;
use crate::trace::{Outcome, RawValue, SpanKind, Usage};

/// Learns of new segments, of their lines, and of closed spans. Everything is called on the agent's threads
/// and must be quick.
pub(crate) trait Listener: Debug + Send + Sync {
    /// This process has created a segment. Returns a listener for its lines, if there is one.
    fn segment_opened(&self, _: &Arc<SharedSegment>) -> Option<Box<dyn SegmentListener>> {
        None
    }

    /// Whether [`span_closed`](Self::span_closed) does anything.
    fn wants_spans(&self) -> bool {
        false
    }

    /// The kernel has the close line of a span. No lock is held.
    fn span_closed(&self, _: &ClosedSpan<'_>) {}
}

/// Learns of the lines of one segment.
pub(crate) trait SegmentListener: Debug + Send + Sync {
    /// The first `size` bytes are whole lines, and as durable as [`SyncPolicy`](super::SyncPolicy) asks for. Called
    /// for each line, under its session's lock.
    fn appended(&self, size: u64);

    /// The session goes on in another segment: no line follows.
    fn sealed(&self) {}
}

/// A span whose close line has been written.
pub(crate) struct ClosedSpan<'a> {
    pub kind: SpanKind,
    /// In nanoseconds.
    pub duration: u64,
    pub outcome: Outcome,
    pub usage: Option<&'a Usage>,
    /// Finds a field of it, redacted.
    pub field: &'a dyn Fn(&str) -> Option<RawValue<'a>>,
}
