//! The thread of an agent that sends what the agent records, and what dead ones left.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::config::Resolved;
use super::cursor::Cursor;
use super::others::{MirrorLock, Sorter, Whose, found, unreadable};
use super::race::first;
use super::send::{Sender, Sent};
use super::state::{Place, State};
use super::transport::Transport;
use super::work::Of;
use crate::event::random_bytes;
use crate::ledger::{
    self, Ledger, Live, Nobody, Outbox, Root, Settings, left_open_in, marked, marker, segment_name,
    unmark,
};
use crate::redact::{MaskKey, Redaction, Redactor};

/// How much is not waited with.
const ENOUGH: u64 = 512 * 1024;
/// The same of each of many segments: to open one and to note how far it got costs as much as many
/// spans.
const ENOUGH_EACH: u64 = 16 * 1024;
/// How often it is looked whether that much is there, once something is.
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked what dead writers left.
const OTHERS_EVERY: Duration = Duration::from_secs(30);
/// How often cursors are written while there is no end of work.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long a file that can't be read is left alone.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// Starts it. It runs until its outbox is stopped.
pub(crate) fn start(to: Resolved, recovery: Settings, outbox: Arc<Outbox>) -> io::Result<()> {
    let running = outbox.running();
    std::thread::Builder::new()
        .name("spanledger-mirror".into())
        .spawn(move || {
            let _running = running;
            muted(|| {
                let thread = Thread {
                    root: Root::new(recovery.root.clone()),
                    to,
                    recovery,
                    outbox,
                };
                thread.run();
            });
        })?;
    Ok(())
}

/// Nothing that happens in here is ever traced.
pub(crate) fn muted<T>(what: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(Nobody, || {
        let _quiet = opentelemetry::Context::enter_telemetry_suppressed_scope();
        what()
    })
}

struct Thread {
    root: Root,
    to: Resolved,
    /// How what dead writers left open is closed.
    recovery: Settings,
    outbox: Arc<Outbox>,
}

impl Thread {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return wait_for(&self.outbox, Some(&format!("a runtime: {error}"))),
        };
        let outbox = Arc::clone(&self.outbox);
        runtime.block_on(first(self.send(), async {
            outbox.stopped().await;
            if let Some(deadline) = outbox.deadline() {
                sleep_until(deadline.into()).await;
            }
        }));
        save(&outbox);
        // A name that is being looked up can't be called back; it is not waited for.
        runtime.shutdown_background();
    }

    async fn send(&self) {
        let outbox = Arc::clone(&self.outbox);
        // Server texts are masked before they are kept; nobody compares those masks.
        let redactor = Redactor::new(&Redaction::new(), MaskKey::new(random_bytes()));
        let transport = Transport::connect(&self.to);
        let (redactor, transport) = match (redactor, transport) {
            (Ok(redactor), Ok(transport)) => (redactor, transport),
            (Err(error), _) => return wait_for(&outbox, Some(&error.to_string())),
            (_, Err(error)) => return wait_for(&outbox, Some(&error.to_string())),
        };
        let mut tell = |sent: &Sent, waiting: Option<&str>| {
            outbox.sent.store(sent.spans, Ordering::Relaxed);
            outbox.dead(sent.dead, sent.last_dead.as_deref());
            if waiting.is_some() {
                save(&outbox);
            }
            wait_for(&outbox, waiting);
        };
        let mut sender = Sender::new(&transport, &redactor, &mut tell).until_stopped(&outbox);
        let (mut others_at, mut saved_at) = (Instant::now(), Instant::now());
        loop {
            first(outbox.wanted(), sleep_until(others_at)).await;
            if !outbox.is_empty() {
                self.linger().await;
            }
            let stopping = outbox.stopping();
            let done = self.round(&mut sender, &mut others_at).await;
            if outbox.is_empty() || saved_at.elapsed() >= SAVE_EVERY {
                saved_at = Instant::now();
                save(&outbox);
            }
            if let Err(error) = &done {
                wait_for(&outbox, Some(&error.to_string()));
                for of in sender.abandon() {
                    if let Of::Live(live) = of {
                        live.again();
                    }
                }
            }
            if sender.sent.stopped.is_some() || stopping && (done.is_err() || outbox.is_empty()) {
                return;
            }
            if done.is_err() {
                first(sleep(AFTER_TROUBLE), outbox.stopped()).await;
            }
        }
    }

    /// Waits for more, so that a request is worth its while.
    async fn linger(&self) {
        let began = Instant::now();
        let left = || self.to.linger.saturating_sub(began.elapsed());
        let outbox = &self.outbox;
        let enough = || ENOUGH.max(outbox.queued() * ENOUGH_EACH);
        while !outbox.stopping() && outbox.waiting() < enough() && !left().is_zero() {
            first(sleep(TICK.min(left())), outbox.stopped()).await;
        }
    }

    /// Sends all that is there. A segment that can't be read keeps no other from being sent.
    async fn round(&self, sender: &mut Sender<'_>, others_at: &mut Instant) -> io::Result<()> {
        let mut done = Ok(());
        let mut lives = self.outbox.take().into_iter();
        while let Some(live) = lives.next() {
            if let Err(error) = self.own(&live, sender).await {
                live.again();
                done = done.and(Err(error));
            }
            if sender.is_broken() {
                self.outbox.give_back(lives);
                return done;
            }
        }
        // Held until the last of them is sent.
        let mut lock = None;
        if Instant::now() >= *others_at {
            *others_at = Instant::now() + OTHERS_EVERY;
            done = done.and(self.others(sender, &mut lock).await);
            if sender.is_broken() {
                return done;
            }
        }
        sender.flush().await?;
        if lock.is_some() && done.is_ok() && sender.sent.stopped.is_none() {
            self.outbox.others.store(0, Ordering::Relaxed);
        }
        done
    }

    /// Reads a segment of this process, and sends where that fills a request.
    async fn own(&self, live: &Arc<Live>, sender: &mut Sender<'_>) -> io::Result<()> {
        let of = Of::Live(Arc::clone(live));
        match sender.segment(&live.session, live.seg, of).await {
            // Removed, with all that it owed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !sender.is_broken() => {
                let (offset, ready, spans) = live.begin();
                live.pass(ready.max(offset), spans);
                live.settle()
            }
            sent => sent,
        }
    }

    /// Reads and sends what dead writers left, unless there is nothing or another process does.
    /// What is held meanwhile goes to `lock`.
    async fn others(
        &self,
        sender: &mut Sender<'_>,
        lock: &mut Option<MirrorLock>,
    ) -> io::Result<()> {
        let marked = marked(&self.root)?;
        if marked.is_empty() {
            return Ok(());
        }
        *lock = MirrorLock::take(&MirrorLock::path(self.root.path()))?;
        if lock.is_none() {
            return Ok(());
        }
        self.count(&marked);
        if self.dead(&marked, sender).await? {
            // What was open is closed in segments that have come since. What was read before has to
            // have passed, or it would be read again.
            sender.flush().await?;
            let marked = ledger::marked(&self.root)?;
            self.dead(&marked, sender).await?;
        }
        Ok(())
    }

    /// Says in health how much it is, before anything of it is waited for.
    fn count(&self, marked: &[(String, u32)]) {
        let endpoint = self.to.shown();
        let mut sorter = Sorter::new(&self.root, Some(&endpoint));
        let mut owed = 0;
        for (session, seg) in marked {
            let dir = self.root.sessions().join(session);
            let path = dir.join(segment_name(*seg));
            // What can't be read is told of when it is to be sent.
            if let Ok((Whose::Ours, _)) = sorter.whose(&path)
                && let Ok((cursor, size)) = State::default().cursor(&dir, *seg)
            {
                owed += size - cursor.offset;
            }
        }
        self.outbox.others.store(owed, Ordering::Relaxed);
    }

    /// Sends the segments of dead writers among these. Whether any of their spans had to be closed
    /// for them, in segments that are not among these.
    async fn dead(&self, marked: &[(String, u32)], sender: &mut Sender<'_>) -> io::Result<bool> {
        let endpoint = self.to.shown();
        let mut sorter = Sorter::new(&self.root, Some(&endpoint));
        // A writer of its own, which is gone when this is done.
        let mut ledger = None;
        for segs in marked.chunk_by(|a, b| a.0 == b.0) {
            let dir = self.root.sessions().join(&segs[0].0);
            let sent = self
                .dead_of(&dir, segs, &mut sorter, &mut ledger, sender)
                .await;
            if let Err(error) = sent {
                // The others are sent all the same.
                match unreadable(&dir).filter(|_| !sender.is_broken()) {
                    Some(session) => wait_for(&self.outbox, Some(&session.to_string())),
                    None => return Err(error),
                }
            }
            if self.outbox.stopping() && sender.sent.stopped.is_some() {
                return Ok(false);
            }
        }
        Ok(ledger.is_some())
    }

    /// The same of one session.
    async fn dead_of(
        &self,
        dir: &Path,
        segs: &[(String, u32)],
        sorter: &mut Sorter<'_>,
        ledger: &mut Option<Ledger>,
        sender: &mut Sender<'_>,
    ) -> io::Result<()> {
        let mut ours = Vec::new();
        let mut id = None;
        for (_, seg) in segs {
            let path = dir.join(segment_name(*seg));
            match found(sorter.whose(&path))? {
                Some((Whose::Ours, first)) => {
                    ours.push(*seg);
                    id = first.map(|first| first.session_id);
                }
                Some((Whose::Living | Whose::Untended | Whose::Elsewhere, _)) => {}
                // It was removed, or never had a line.
                Some((Whose::Nobodys, _)) | None => {
                    marker(&self.root, dir, *seg).map_or(Ok(()), |marker| unmark(&marker))?;
                }
            }
        }
        let Some(id) = id else { return Ok(()) };
        let mut open = left_open_in(&self.root, dir)?;
        // A copy under another name is not the session that it says it is.
        if !open.is_empty() && self.root.session(&id) == dir {
            let ledger = match ledger {
                Some(ledger) => ledger,
                None => {
                    let made = Ledger::new(self.recovery.clone()).map_err(io::Error::other)?;
                    ledger.insert(made)
                }
            };
            ledger.session(&id).recover(ledger.core());
            open = left_open_in(&self.root, dir)?;
        }
        for seg in ours {
            if self.outbox.stopping() && sender.sent.stopped.is_some() {
                return Ok(());
            }
            let marker = marker(&self.root, dir, seg).filter(|_| !open.contains(&seg));
            found(sender.segment(dir, seg, Of::Other(marker)).await)?;
        }
        Ok(())
    }
}

/// Writes down how far this process's segments were sent. Should it die before, or should that fail,
/// what lies in between is sent again, with the same bytes.
fn save(outbox: &Outbox) {
    for live in outbox.take_unsaved() {
        let (offset, sent) = live.place();
        if !live.is_there() {
            continue;
        }
        let _ = Cursor { offset, sent }.write(&Place::beside(&live.session), live.seg);
    }
}

fn wait_for(outbox: &Outbox, what: Option<&str>) {
    let slot = outbox.waiting_for.lock();
    let mut slot = slot.unwrap_or_else(PoisonError::into_inner);
    if slot.as_deref() != what {
        *slot = what.map(str::to_owned);
    }
}
