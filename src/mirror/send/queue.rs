//! The send queue: the segments that this process writes and has to send.
//!
//! A writer publishes a line with two atomic operations. Only a segment that the sender has read to its end
//! is queued again.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::Notify;

use super::shutdown::Shutdown;
use crate::ledger::{Listener, SegmentListener, SharedSegment, warn_once};
use crate::mirror::map::policy::Policy;
use crate::mirror::progress::cursor::{Cursor, SegmentFiles};
use crate::mirror::settings::resolve::Resolved;
use crate::trace::{RawValue, lock};

/// How the mirror of this process is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorHealth {
    /// Spans that a server accepted.
    pub sent: u64,
    /// Bytes of the trace that were not sent yet: this process's, and what it found of dead ones.
    pub owed_bytes: u64,
    /// Spans that a server refused for good.
    pub dead_letters: u64,
    /// The server's reason for the last of them, secrets masked.
    pub last_dead: Option<String>,
    /// Why nothing is sent at the moment, although something is left to send.
    pub waiting_for: Option<String>,
}

/// A segment of this process, as its sender sees it.
#[derive(Debug)]
pub(crate) struct QueuedSegment {
    pub segment: Arc<SharedSegment>,
    queue: Arc<Queue>,
    /// How much of it may be sent: what the kernel has, or the disk.
    ready: AtomicU64,
    /// How far it was sent.
    cursor: Mutex<Cursor>,
    queued: AtomicBool,
    /// How far it was sent is not on the disk yet.
    unsaved: AtomicBool,
}

impl QueuedSegment {
    fn cursor(&self) -> Cursor {
        *lock(&self.cursor)
    }

    /// Where the sender is to begin and to end. Lines that are published later queue the segment again.
    pub fn snapshot(&self) -> (Cursor, u64) {
        self.queued.store(false, Ordering::SeqCst);
        let ready = self.ready.load(Ordering::SeqCst);
        (self.cursor(), ready)
    }

    /// Moves the cursor, in memory.
    pub fn ack(self: &Arc<Self>, cursor: Cursor) {
        let before = std::mem::replace(&mut *lock(&self.cursor), cursor);
        let more = cursor.offset.saturating_sub(before.offset);
        self.queue.passed.fetch_add(more, Ordering::Relaxed);
        if !self.unsaved.swap(true, Ordering::Relaxed) {
            lock(&self.queue.unsaved).push(Arc::clone(self));
        }
    }

    /// Writes the cursor to disk, unless the segment was removed.
    fn save(&self) {
        self.unsaved.store(false, Ordering::Relaxed);
        if self.segment.is_there() {
            let files = SegmentFiles::beside(self.segment.session(), self.segment.number);
            let _ = files.write_cursor(self.cursor());
        }
    }

    /// Queues it, to be read again.
    pub fn requeue(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.queue.push(Arc::clone(self));
        }
    }

    /// Removes its marker if nothing of it is left to send.
    pub fn release(&self) -> io::Result<()> {
        self.segment.release(self.cursor().offset)
    }
}

impl SegmentListener for Arc<QueuedSegment> {
    /// Publishes that the first `size` bytes may be sent.
    ///
    /// The order of these operations and of those in [`QueuedSegment::snapshot`] ensures that
    /// either the sender reads the new size or the segment is queued again.
    fn appended(&self, size: u64) {
        let before = self.ready.swap(size, Ordering::SeqCst);
        let more = size.saturating_sub(before);
        self.queue.written.fetch_add(more, Ordering::Relaxed);
        if !self.queued.load(Ordering::SeqCst) {
            self.requeue();
        }
    }

    fn sealed(&self) {
        // Its marker may have stayed only for a span that was open.
        self.requeue();
    }
}

/// Queues the segments that this process begins, if they are recorded for its endpoint.
#[derive(Debug)]
pub(crate) struct QueueListener {
    pub queue: Arc<Queue>,
    pub to: Resolved,
}

impl QueueListener {
    /// Warns if something is left to send after the time that the shutdown allows for it.
    pub fn warn_unsent(&self) {
        if self.queue.waiting() > 0 {
            let waiting_for = self.queue.health().waiting_for;
            let no_answer = || format!("{}: no answer in time", self.to.shown());
            self.queue
                .warn_waiting(&waiting_for.unwrap_or_else(no_answer));
        }
    }

    /// Spans of a dead process are closed in segments with that process's policy, which may be for
    /// another endpoint.
    fn is_for_endpoint(&self, policy: &str) -> bool {
        let policy = Policy::parse(RawValue::new(policy));
        let recorded = policy.ok().and_then(|policy| policy.endpoint);
        recorded.is_some_and(|recorded| self.to.is_same_server(&recorded))
    }
}

impl Listener for QueueListener {
    fn segment_opened(&self, segment: &Arc<SharedSegment>) -> Option<Box<dyn SegmentListener>> {
        let policy = segment.policy.as_deref();
        policy.filter(|policy| self.is_for_endpoint(policy))?;
        Some(Box::new(Arc::new(QueuedSegment {
            segment: Arc::clone(segment),
            queue: Arc::clone(&self.queue),
            ready: AtomicU64::new(0),
            cursor: Mutex::default(),
            queued: AtomicBool::new(false),
            unsaved: AtomicBool::new(false),
        })))
    }
}

/// What this process has to send.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    segments: Mutex<VecDeque<Arc<QueuedSegment>>>,
    unsaved: Mutex<Vec<Arc<QueuedSegment>>>,
    /// Wakes the sender.
    changed: Notify,
    /// Bytes that may be sent, and bytes that were, of this process's segments.
    written: AtomicU64,
    passed: AtomicU64,
    /// As the sender reports it; `owed_bytes` is only what dead writers left, as of the last count.
    health: Mutex<MirrorHealth>,
    warned: AtomicBool,
    pub shutdown: Shutdown,
    /// The sender has ended.
    over: AtomicBool,
}

impl Queue {
    fn push(&self, segment: Arc<QueuedSegment>) {
        let mut segments = lock(&self.segments);
        // The sender takes nothing out any more.
        if self.over.load(Ordering::Relaxed) {
            return;
        }
        segments.push_back(segment);
        drop(segments);
        self.changed.notify_waiters();
    }

    /// Takes the segment that has waited longest.
    pub fn pop(&self) -> Option<Arc<QueuedSegment>> {
        lock(&self.segments).pop_front()
    }

    /// Writes the cursors of this process's segments. If it dies before that, what lies in between is sent
    /// again with the same bytes.
    pub fn save_cursors(&self) {
        let unsaved = std::mem::take(&mut *lock(&self.unsaved));
        unsaved.iter().for_each(|segment| segment.save());
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.segments).is_empty()
    }

    /// How many segments have something to send.
    pub fn queued(&self) -> u64 {
        lock(&self.segments).len() as u64
    }

    /// How many bytes wait to be read and sent.
    pub fn waiting(&self) -> u64 {
        let passed = self.passed.load(Ordering::Relaxed);
        self.written.load(Ordering::Relaxed).saturating_sub(passed)
    }

    /// Until there is something to send, or it is time to stop.
    pub async fn wanted(&self) {
        loop {
            // It is woken by every change from here on.
            let changed = self.changed.notified();
            if !self.is_empty() || self.stopping() {
                return;
            }
            changed.await;
        }
    }

    /// Until it is time to stop.
    pub async fn stopped(&self) {
        loop {
            let changed = self.changed.notified();
            if self.stopping() {
                return;
            }
            changed.await;
        }
    }

    pub fn stopping(&self) -> bool {
        self.shutdown.is_stopping()
    }

    /// The sender runs until this is dropped.
    pub fn running(self: &Arc<Self>) -> Running {
        self.shutdown.start();
        Running(Arc::clone(self))
    }

    /// Asks the sender to send what is there and to end, until `deadline`.
    pub fn stop(&self, deadline: Instant) {
        self.shutdown.stop(deadline);
        self.changed.notify_waiters();
    }

    /// To report how the sender is doing.
    pub fn reported(&self) -> MutexGuard<'_, MirrorHealth> {
        lock(&self.health)
    }

    /// Writes one line to stderr, in the life of the process, about spans that are not sent.
    pub fn warn(&self, message: &str) {
        warn_once(&self.warned, message);
    }

    /// The same about an endpoint and the reason why it accepts nothing.
    pub fn warn_waiting(&self, why: &str) {
        let later = "the trace is kept and sent later, by the next start or `spanledger mirror --endpoint URL`";
        self.warn(&format!("can't send to {why}; {later}"));
    }

    pub fn health(&self) -> MirrorHealth {
        let mut health = self.reported().clone();
        health.owed_bytes += self.waiting();
        health
    }
}

/// Reports the end of the sender when it is dropped.
pub(crate) struct Running(Arc<Queue>);

impl Drop for Running {
    fn drop(&mut self) {
        // Queued segments have references to the queue: both would keep each other.
        let mut segments = lock(&self.0.segments);
        self.0.over.store(true, Ordering::Relaxed);
        segments.clear();
        drop(segments);
        lock(&self.0.unsaved).clear();
        self.0.shutdown.end();
    }
}
