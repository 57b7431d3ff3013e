//! The segments that this process writes and sends.

use std::fs::Metadata;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Instant;

use super::super::health::MirrorHealth;
use super::super::log::SessionLog;
use super::super::segment::Segment;

/// A segment of this process, as its sender sees it.
#[derive(Debug)]
pub(crate) struct Live {
    /// The session's directory.
    pub session: PathBuf,
    pub seg: u32,
    path: PathBuf,
    inode: (u64, u64),
    /// It was removed, and its inode may be another's.
    removed: AtomicBool,
    marker: PathBuf,
    log: Weak<SessionLog>,
    outbox: Arc<Outbox>,
    /// How much of it may be sent: what the kernel has, or the disk.
    ready: AtomicU64,
    /// How much of it was sent, and how many spans that were.
    passed: AtomicU64,
    spans: AtomicU64,
    queued: AtomicBool,
    /// How far it was sent stands nowhere but here.
    unsaved: AtomicBool,
}

impl Live {
    pub fn new(
        outbox: &Arc<Outbox>,
        log: &Arc<SessionLog>,
        segment: &Segment,
        marker: PathBuf,
    ) -> Self {
        Self {
            session: log.dir.clone(),
            seg: segment.number,
            path: segment.path.clone(),
            inode: segment.inode,
            removed: AtomicBool::new(false),
            marker,
            log: Arc::downgrade(log),
            outbox: Arc::clone(outbox),
            ready: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            spans: AtomicU64::new(0),
            queued: AtomicBool::new(false),
            unsaved: AtomicBool::new(false),
        }
    }

    /// Says that so many bytes of it may be sent.
    ///
    /// The order of these operations and of those in [`begin`](Self::begin) sees to it that
    /// either the sender reads the new size or the segment is queued again.
    pub fn tell(self: &Arc<Self>, size: u64) {
        let before = self.ready.swap(size, Ordering::SeqCst);
        let outbox = &self.outbox;
        let more = size.saturating_sub(before);
        outbox.written.fetch_add(more, Ordering::Relaxed);
        if !self.queued.load(Ordering::SeqCst) && !self.queued.swap(true, Ordering::SeqCst) {
            outbox.push(Arc::clone(self));
        }
    }

    /// Where the sender is to begin and end, and how many spans lie before.
    pub fn begin(&self) -> (u64, u64, u64) {
        self.queued.store(false, Ordering::SeqCst);
        let ready = self.ready.load(Ordering::SeqCst);
        let passed = self.passed.load(Ordering::Relaxed);
        (passed, ready, self.spans.load(Ordering::Relaxed))
    }

    /// Everything before `offset` was sent.
    pub fn pass(self: &Arc<Self>, offset: u64, spans: u64) {
        let before = self.passed.swap(offset, Ordering::Relaxed);
        self.spans.store(spans, Ordering::Relaxed);
        let more = offset.saturating_sub(before);
        self.outbox.passed.fetch_add(more, Ordering::Relaxed);
        if !self.unsaved.swap(true, Ordering::Relaxed) {
            lock(&self.outbox.unsaved).push(Arc::clone(self));
        }
    }

    /// How far it was sent, and how many spans that were, for one who writes it down.
    pub fn place(&self) -> (u64, u64) {
        self.unsaved.store(false, Ordering::Relaxed);
        let passed = self.passed.load(Ordering::Relaxed);
        (passed, self.spans.load(Ordering::Relaxed))
    }

    /// Reads it again later, since it could not be read now.
    pub fn again(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.outbox.push(Arc::clone(self));
        }
    }

    /// Whether this is its file: a session can be removed underneath, and another one begun
    /// under its name.
    pub fn is(&self, file: &Metadata) -> bool {
        !self.removed.load(Ordering::SeqCst) && (file.dev(), file.ino()) == self.inode
    }

    /// Says that its file was removed, before another one can be made.
    pub fn remove(&self) {
        self.removed.store(true, Ordering::SeqCst);
    }

    /// Whether its name is still its own; one that can't be looked at may well be.
    pub fn is_there(&self) -> bool {
        match self.path.metadata() {
            Ok(file) => self.is(&file),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Takes its marker away if nothing of it is owed any more.
    pub fn settle(&self) -> io::Result<()> {
        let passed = self.passed.load(Ordering::Relaxed);
        match self.log.upgrade() {
            Some(log) => log.settle(self, passed),
            None => self.unmark(passed).map(drop),
        }
    }

    /// Takes its marker away where it was sent up to `passed`, unless it goes on behind that or the
    /// marker is another's by now. Whether it is gone.
    pub fn unmark(&self, passed: u64) -> io::Result<bool> {
        match self.path.metadata() {
            Ok(file) if !self.is(&file) || file.len() > passed => return Ok(false),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        super::unmark(&self.marker).map(|()| true)
    }
}

/// What this process has to send.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Vec<Arc<Live>>>,
    unsaved: Mutex<Vec<Arc<Live>>>,
    /// The sender has looked, found nothing, and sleeps.
    idle: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Bytes that may be sent, and bytes that were, of this process's segments.
    written: AtomicU64,
    passed: AtomicU64,
    /// Bytes that the segments of dead writers owe, as far as anybody has looked.
    pub others: AtomicU64,
    pub sent: AtomicU64,
    dead: AtomicU64,
    /// What the server said to the last of them.
    last_dead: Mutex<Option<String>>,
    pub waiting_for: Mutex<Option<String>>,
    end: Mutex<End>,
    ended: Condvar,
    stopping: AtomicBool,
    /// The sender has ended.
    over: AtomicBool,
}

#[derive(Debug, Default)]
struct End {
    running: bool,
    deadline: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    fn push(&self, live: Arc<Live>) {
        let mut queue = lock(&self.queue);
        // Nobody takes anything out any more.
        if self.over.load(Ordering::Relaxed) {
            return;
        }
        queue.push(live);
        drop(queue);
        if self.idle.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What has something to send.
    pub fn take(&self) -> Vec<Arc<Live>> {
        std::mem::take(&mut *lock(&self.queue))
    }

    /// Puts back what was taken and not looked at.
    pub fn give_back(&self, lives: impl Iterator<Item = Arc<Live>>) {
        let mut queue = lock(&self.queue);
        if !self.over.load(Ordering::Relaxed) {
            queue.extend(lives);
        }
    }

    /// Whose cursors are to be written.
    pub fn take_unsaved(&self) -> Vec<Arc<Live>> {
        std::mem::take(&mut *lock(&self.unsaved))
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// How many segments have something to send.
    pub fn queued(&self) -> u64 {
        lock(&self.queue).len() as u64
    }

    /// How many bytes wait to be read and sent.
    pub fn waiting(&self) -> u64 {
        let passed = self.passed.load(Ordering::Relaxed);
        self.written.load(Ordering::Relaxed).saturating_sub(passed)
    }

    /// Until there is something to send, or it is time to stop.
    pub async fn wanted(&self) {
        poll_fn(|context| {
            *lock(&self.waker) = Some(context.waker().clone());
            self.idle.store(true, Ordering::SeqCst);
            if self.is_empty() && !self.stopping() {
                return Poll::Pending;
            }
            self.idle.store(false, Ordering::SeqCst);
            Poll::Ready(())
        })
        .await;
    }

    /// Until it is time to stop.
    pub async fn stopped(&self) {
        poll_fn(|context| {
            *lock(&self.waker) = Some(context.waker().clone());
            match self.stopping() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn deadline(&self) -> Option<Instant> {
        lock(&self.end).deadline
    }

    /// The sender runs until this is dropped.
    pub fn running(self: &Arc<Self>) -> Running {
        lock(&self.end).running = true;
        Running(Arc::clone(self))
    }

    /// Asks the sender to send what is there and to end, until `deadline`.
    pub fn stop(&self, deadline: Instant) {
        {
            let mut end = lock(&self.end);
            end.deadline = Some(deadline);
            self.stopping.store(true, Ordering::SeqCst);
        }
        self.wake();
    }

    /// Waits for the sender's end, until `deadline`.
    pub fn wait(&self, deadline: Instant) {
        let mut end = lock(&self.end);
        while end.running {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.ended.wait_timeout(end, left);
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// So many spans were refused for good, the last for this reason.
    pub fn dead(&self, spans: u64, why: Option<&str>) {
        if self.dead.swap(spans, Ordering::Relaxed) != spans {
            *lock(&self.last_dead) = why.map(str::to_owned);
        }
    }

    pub fn health(&self) -> MirrorHealth {
        MirrorHealth {
            sent: self.sent.load(Ordering::Relaxed),
            owed_bytes: self.waiting() + self.others.load(Ordering::Relaxed),
            dead_letters: self.dead.load(Ordering::Relaxed),
            last_dead: lock(&self.last_dead).clone(),
            waiting_for: lock(&self.waiting_for).clone(),
        }
    }
}

/// Says when the sender has ended, however it ended.
pub(crate) struct Running(Arc<Outbox>);

impl Drop for Running {
    fn drop(&mut self) {
        // What waits knows its outbox, too: both would keep each other for ever.
        let mut queue = lock(&self.0.queue);
        self.0.over.store(true, Ordering::Relaxed);
        queue.clear();
        drop(queue);
        lock(&self.0.unsaved).clear();
        lock(&self.0.end).running = false;
        self.0.ended.notify_all();
    }
}
