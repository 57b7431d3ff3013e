//! The agent's background thread, which sends what the agent records and what dead writers left.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, sleep_until};

use super::classify::message_redactor;
use super::in_flight::Source;
use super::other_writers::send_segments;
use super::queue::{Queue, QueuedSegment};
use super::{Sender, Sent};
use crate::ledger::{
    self, FileLock, Ledger, LedgerConfig, NoopSubscriber, close_left_open, marked, marker, unmark,
};
use crate::mirror::progress::cursor::ProgressDir;
use crate::mirror::progress::ownership::{Owner, Ownership, lock_mirror, mirror_lock, unreadable};
use crate::mirror::settings::resolve::Resolved;
use crate::mirror::transport::Transport;
use crate::session::Store;
use crate::trace::{if_exists, segment_name};

/// A batch is sent at once when this many bytes wait.
const ENOUGH: u64 = 512 * 1024;
/// The same per segment if there are many: opening one and storing its cursor costs as much as many
/// spans.
const ENOUGH_PER_SEGMENT: u64 = 16 * 1024;
/// How often that is checked while something waits.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// How often segments of dead writers are looked for.
const DEAD_WRITERS_EVERY: Duration = Duration::from_secs(30);
/// How often cursors are written while the queue doesn't become empty.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// The pause after an I/O error.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Starts the thread. It runs until its queue is stopped.
pub(crate) fn start(to: Resolved, recovery: LedgerConfig, queue: Arc<Queue>) -> io::Result<()> {
    let running = queue.running();
    std::thread::Builder::new()
        .name("spanledger-mirror".into())
        .spawn(move || {
            let _running = running;
            muted(|| {
                let thread = Thread {
                    store: Store::new(recovery.root.clone()),
                    to,
                    recovery,
                    queue,
                };
                thread.run();
            });
        })?;
    Ok(())
}

/// A runtime for one thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Runs a function in which nothing is traced.
pub(crate) fn muted<T>(run: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(NoopSubscriber, || {
        let _suppressed = opentelemetry::Context::enter_telemetry_suppressed_scope();
        run()
    })
}

struct Thread {
    store: Store,
    to: Resolved,
    /// How spans that dead writers left open are closed.
    recovery: LedgerConfig,
    queue: Arc<Queue>,
}

impl Thread {
    fn run(self) {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("can't start a runtime: {error}");
                self.queue.reported().waiting_for = Some(why);
                return;
            }
        };
        runtime.block_on(async {
            tokio::select! {
                sent = self.send() => if let Err(error) = sent {
                    let why = format!("{}: {error}", self.to.shown());
                    self.queue.warn_waiting(&why);
                    self.queue.reported().waiting_for = Some(why);
                },
                () = self.shutdown_deadline() => {}
            }
        });
        self.queue.save_cursors();
        // Doesn't wait for a DNS lookup, which can't be cancelled.
        runtime.shutdown_background();
    }

    async fn shutdown_deadline(&self) {
        self.queue.stopped().await;
        if let Some(deadline) = self.queue.shutdown.deadline() {
            sleep_until(deadline.into()).await;
        }
    }

    async fn send(&self) -> Result<(), crate::Error> {
        let queue = &*self.queue;
        let redactor = message_redactor(&self.to)?;
        let transport = Transport::connect(&self.to)?;
        let mut failures = 0;
        let mut progress = |sent: &Sent, waiting: Option<&str>| {
            failures = waiting.map_or(0, |_| failures + 1);
            if let Some(why) = waiting {
                queue.save_cursors();
                // The first failure may be over in a moment.
                if failures > 1 || sent.stopped.is_some() {
                    queue.warn_waiting(why);
                }
            }
            if let Some(why) = &sent.last_dead {
                let (to, spans) = (self.to.shown(), sent.dead);
                queue.warn(&format!(
                    "{to} refused {spans} of the spans for good: {why}; they stay in the trace, and \
                     `spanledger mirror --resend` sends them again"
                ));
            }
            let mut health = queue.reported();
            (health.sent, health.dead_letters) = (sent.spans, sent.dead);
            health.last_dead.clone_from(&sent.last_dead);
            health.waiting_for = waiting.map(str::to_owned);
        };
        let mut sender = Sender::new(transport, &redactor, &mut progress);
        sender.queue = Some(queue);
        let (mut dead_writers_at, mut saved_at) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = queue.wanted() => {}
                () = sleep_until(dead_writers_at) => {}
            }
            if !queue.is_empty() {
                self.linger().await;
            }
            let stopping = queue.stopping();
            let done = self.round(&mut sender, &mut dead_writers_at).await;
            if queue.is_empty() || saved_at.elapsed() >= SAVE_EVERY {
                saved_at = Instant::now();
                queue.save_cursors();
            }
            if let Err(error) = &done {
                queue.reported().waiting_for = Some(error.to_string());
                sender.abandon();
            }
            if sender.sent.stopped.is_some() || stopping && (done.is_err() || queue.is_empty()) {
                return Ok(());
            }
            if done.is_err() {
                self.sleep_unless_stopped(AFTER_ERROR).await;
            }
        }
    }

    async fn sleep_unless_stopped(&self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            () = self.queue.stopped() => {}
        }
    }

    /// Waits for more spans, so that a batch is worth a request.
    async fn linger(&self) {
        let started = Instant::now();
        let left = || self.to.linger.saturating_sub(started.elapsed());
        let queue = &self.queue;
        let enough = || ENOUGH.max(queue.queued() * ENOUGH_PER_SEGMENT);
        while !queue.stopping() && queue.waiting() < enough() && !left().is_zero() {
            self.sleep_unless_stopped(CHECK_EVERY.min(left())).await;
        }
    }

    /// Sends everything that waits. A segment that can't be read doesn't stop the others.
    async fn round(
        &self,
        sender: &mut Sender<'_>,
        dead_writers_at: &mut Instant,
    ) -> io::Result<()> {
        let mut done = Ok(());
        // Those that are queued meanwhile are for the next round.
        for _ in 0..self.queue.queued() {
            let Some(queued) = self.queue.pop() else {
                break;
            };
            if let Err(error) = self.send_own(&queued, sender).await {
                queued.requeue();
                done = done.and(Err(error));
            }
            if sender.is_broken() {
                return done;
            }
        }
        // Held until the last of the dead writers' segments is sent.
        let mut lock = None;
        if Instant::now() >= *dead_writers_at {
            *dead_writers_at = Instant::now() + DEAD_WRITERS_EVERY;
            done = done.and(self.send_dead_writers(sender, &mut lock).await);
            if sender.is_broken() {
                return done;
            }
        }
        sender.flush().await?;
        if lock.is_some() && done.is_ok() && sender.sent.stopped.is_none() {
            self.queue.reported().owed_bytes = 0;
        }
        done
    }

    /// Reads a segment of this process and sends full batches.
    async fn send_own(
        &self,
        queued: &Arc<QueuedSegment>,
        sender: &mut Sender<'_>,
    ) -> io::Result<()> {
        let source = Source::Own(Arc::clone(queued));
        match sender
            .segment(queued.segment.session(), queued.segment.number, source)
            .await
        {
            // The session was removed: nothing of it is left to send.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !sender.is_broken() => {
                let (mut cursor, ready) = queued.snapshot();
                cursor.offset = cursor.offset.max(ready);
                queued.ack(cursor);
                queued.release()
            }
            sent => sent,
        }
    }

    /// Sends what dead writers left, unless another process does. The lock that it takes goes to
    /// `lock`.
    async fn send_dead_writers(
        &self,
        sender: &mut Sender<'_>,
        lock: &mut Option<FileLock>,
    ) -> io::Result<()> {
        let marked = marked(self.store.layout())?;
        if marked.is_empty() {
            return Ok(());
        }
        *lock = lock_mirror(&mirror_lock(self.store.root()))?;
        if lock.is_none() {
            return Ok(());
        }
        self.count_dead_writers(&marked);
        if self.send_marked(&marked, sender).await? {
            // Recovery closed spans in new segments. Everything read before must be acknowledged first,
            // or it would be read again.
            sender.flush().await?;
            let marked = ledger::marked(self.store.layout())?;
            self.send_marked(&marked, sender).await?;
        }
        Ok(())
    }

    /// Reports in health how much dead writers left.
    fn count_dead_writers(&self, marked: &[(String, u32)]) {
        let ownership = Ownership::new(&self.store, Some(&self.to));
        let mut unsent = 0;
        for (session, seg) in marked {
            let dir = self.store.layout().sessions().join(session);
            let path = dir.join(segment_name(*seg));
            // Errors are reported when the segment is to be sent.
            if let Ok((Owner::ThisEndpoint, _)) = ownership.owner_of(&path)
                && let Ok((cursor, size)) = ProgressDir::default().cursor(&dir, *seg)
            {
                unsent += size - cursor.offset;
            }
        }
        self.queue.reported().owed_bytes = unsent;
    }

    /// Sends those of the marked segments whose writers are dead. Returns whether open spans of theirs
    /// were closed, in new segments.
    async fn send_marked(
        &self,
        marked: &[(String, u32)],
        sender: &mut Sender<'_>,
    ) -> io::Result<bool> {
        let ownership = Ownership::new(&self.store, Some(&self.to));
        // A writer of its own, which ends with this function.
        let mut ledger = None;
        for segs in marked.chunk_by(|a, b| a.0 == b.0) {
            let dir = self.store.layout().sessions().join(&segs[0].0);
            let sent = self.send_marked_of(&dir, segs, &ownership, &mut ledger, sender);
            if let Err(error) = sent.await {
                match unreadable(&dir).filter(|_| !sender.is_broken()) {
                    Some(session) => {
                        self.queue.reported().waiting_for = Some(session.to_string());
                    }
                    None => return Err(error),
                }
            }
            if self.queue.stopping() && sender.sent.stopped.is_some() {
                return Ok(false);
            }
        }
        Ok(ledger.is_some())
    }

    /// The same for the segments of one session.
    async fn send_marked_of(
        &self,
        dir: &Path,
        segs: &[(String, u32)],
        ownership: &Ownership<'_>,
        ledger: &mut Option<Ledger>,
        sender: &mut Sender<'_>,
    ) -> io::Result<()> {
        let mut ours = Vec::new();
        for (_, seg) in segs {
            let path = dir.join(segment_name(*seg));
            match if_exists(ownership.owner_of(&path))? {
                Some((Owner::ThisEndpoint, _)) => ours.push((*seg, path)),
                // It was removed, or never had a line.
                Some((Owner::NoHeader, _)) | None => {
                    marker(ownership.root(), dir, *seg).map_or(Ok(()), |marker| unmark(&marker))?;
                }
                Some(_) => {}
            }
        }
        if ours.is_empty() {
            return Ok(());
        }
        close_left_open(dir, &self.recovery, ledger)?;
        let sent = send_segments(dir, &ours, ownership, sender, &mut Vec::new()).await;
        if_exists(sent).map(drop)
    }
}
