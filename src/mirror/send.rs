//! The sender: from a segment's cursor to a server's OK.
//!
//! One request is under way at a time, with spans of as many segments as fit, and the next one is
//! read meanwhile. A cursor moves only when everything before it was accepted or noted among the
//! dead letters, so whatever stops the sender, the next one goes on from there with the same ids and
//! the same bytes.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use super::batch::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS, MAX_BATCH_BYTES, Pushed};
use super::classify::{self, Verdict};
use super::content::without_content;
use super::cursor::Cursor;
use super::dead::{self, Part};
use super::origin::Origin;
use super::origins::{Origins, opened_seg};
use super::race::first;
use super::state::{self, Place, State};
use super::transport::{Answer, Transport};
use super::work::{Of, Tag, Work, Works, unless_gone};
use crate::event::SpanKind;
use crate::ledger::{Outbox, kind_of, segment_name};
use crate::reader::{Found, SegmentReader};
use crate::redact::Redactor;
use crate::session::Unreadable;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(30);
/// Longest and shortest time that a server's own word is taken for: one that says "at once" to
/// everybody would be asked without a pause.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// How many spans are read before the request that is under way has its turn.
const TURN: usize = 64;

/// What became of what was owed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Spans that a server accepted.
    pub spans: u64,
    /// Requests that took.
    pub requests: u64,
    /// Spans that a server refused for good.
    pub dead: u64,
    /// What it said to the last of them.
    pub last_dead: Option<String>,
    /// Close lines that make no span: not sampled, or of a kind that isn't known here.
    pub left_out: u64,
    /// Segments that were left alone, since they were recorded for another endpoint or by a
    /// version whose spans this one can't make.
    pub elsewhere: u64,
    /// Sessions that can't be read, or not whole: what they owe could not be sent.
    pub unreadable: Vec<Unreadable>,
    /// Why it stopped before everything was sent.
    pub stopped: Option<String>,
}

/// A request that is under way.
struct Flight<'a> {
    batch: Batch<Tag>,
    request: Bytes,
    began: Began,
    answer: Pin<Box<dyn Future<Output = Answer> + 'a>>,
    /// The answer, if it came while something else was done.
    came: Option<Answer>,
}

/// When a request was sent first, and whether it was time to stop already.
#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    stopping: bool,
}

/// Sends segments to one endpoint.
pub(super) struct Sender<'a> {
    transport: &'a Transport,
    redactor: &'a Redactor,
    /// How long a server that doesn't take anything is waited for; for ever where `None`.
    patience: Option<Duration>,
    /// Who may ask it to stop.
    outbox: Option<&'a Outbox>,
    pub(super) state: State,
    pub(super) origins: Origins,
    works: Works,
    batch: Batch<Tag>,
    under_way: Option<Flight<'a>>,
    /// What became of a request could not be kept: nothing that was read behind it may pass before
    /// it.
    broken: bool,
    /// What was sent last, emptied: to give back a request's memory and ask for it again costs more
    /// than to fill it.
    spare: Option<Batch<Tag>>,
    spare_request: Vec<u8>,
    /// What segments are read into, one after the other.
    buf: Vec<u8>,
    pub(super) sent: Sent,
    pub(super) tell: &'a mut dyn FnMut(&Sent, Option<&str>),
}

pub(super) fn empty() -> Batch<Tag> {
    Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS)
}

impl<'a> Sender<'a> {
    /// A sender that tells of its progress, and of what it waits for.
    pub fn new(
        transport: &'a Transport,
        redactor: &'a Redactor,
        tell: &'a mut dyn FnMut(&Sent, Option<&str>),
    ) -> Self {
        Self {
            transport,
            redactor,
            patience: None,
            outbox: None,
            state: State::default(),
            origins: Origins::default(),
            works: Works::default(),
            batch: empty(),
            under_way: None,
            broken: false,
            spare: None,
            spare_request: Vec::new(),
            buf: Vec::new(),
            sent: Sent::default(),
            tell,
        }
    }

    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Where it is kept how far other processes' segments were sent.
    pub fn state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    pub fn until_stopped(mut self, outbox: &'a Outbox) -> Self {
        self.outbox = Some(outbox);
        self
    }

    /// Reads what a segment owes, and sends where that fills a request. The rest waits for
    /// others', or for [`flush`](Self::flush).
    pub async fn segment(&mut self, session: &Path, seg: u32, of: Of) -> io::Result<()> {
        if self.sent.stopped.is_some() {
            return Ok(());
        }
        let path = session.join(segment_name(seg));
        let mut was = None;
        let (cursor, until) = match &of {
            Of::Live(live) => {
                let (offset, ready, sent) = live.begin();
                (Cursor { offset, sent }, ready)
            }
            Of::Other(_) => {
                was = Some(state::identity(session, seg)?);
                self.origins.forget(session);
                let (cursor, size) = self.state.cursor(session, seg)?;
                if cursor.offset < size {
                    // Nobody knows whether the disk has what its writer wrote last.
                    synced(File::open(&path)?.sync_data())?;
                }
                (cursor, size)
            }
        };
        let mut reader = match cursor.offset < until {
            true => Some(SegmentReader::open_into(
                &path,
                std::mem::take(&mut self.buf),
            )?),
            false => None,
        };
        if let (Of::Live(live), Some(reader)) = (&of, &mut reader)
            && !live.is(&reader.metadata()?)
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        let place = match &of {
            Of::Live(_) => Place::beside(session),
            Of::Other(_) => self.state.place(session, seg)?,
        };
        let was = was.map(|identity| (session.to_owned(), identity));
        let number = self.works.begin(Work::new(place, seg, of, was, cursor));
        let read_to = match reader {
            Some(mut reader) => {
                let read = self.read(&mut reader, number, cursor.offset, until).await;
                self.buf = reader.into_buf();
                self.buf.clear();
                self.buf.shrink_to(MAX_BATCH_BYTES);
                read?
            }
            None => cursor.offset,
        };
        if self.sent.stopped.is_some() {
            return Ok(());
        }
        self.works.read_to(number, read_to)
    }

    /// Takes the spans of a segment into the batch. How far it was read.
    async fn read(
        &mut self,
        reader: &mut SegmentReader,
        work: u64,
        from: u64,
        until: u64,
    ) -> io::Result<u64> {
        let path = reader.path().to_owned();
        let mut last: Option<(u32, Option<Arc<Origin>>)> = None;
        let mut taken = 0;
        reader.seek(from)?;
        while let Some((found, end)) = reader.next_before(until, closes)? {
            let Found::Line(line) = found else { continue };
            let opened = opened_seg(&line);
            let origin = match &last {
                // Nearly every line is of the same one as the line before.
                Some((seg, origin)) if *seg == opened => origin,
                _ => &last.insert((opened, self.origins.of(&path, opened)?)).1,
            };
            let Some(origin) = origin else {
                self.sent.left_out += 1;
                continue;
            };
            let at = line.address();
            let tag = Tag { work, at, end };
            let mut pushed = self.batch.push_line(origin, &line, tag);
            if pushed == Pushed::Full {
                self.depart().await?;
                if self.sent.stopped.is_some() {
                    return Ok(from);
                }
                // An empty batch takes any span.
                pushed = self.batch.push_line(origin, &line, tag);
            }
            match pushed {
                Pushed::Taken => self.works.took(work),
                _ => self.sent.left_out += 1,
            }
            taken += 1;
            if taken % TURN == 0 {
                self.give_way().await;
            }
        }
        Ok(reader.offset())
    }

    /// Sends what waits, and waits for the answer.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.depart().await?;
        self.land().await
    }

    /// Sends what waits, once there is an answer to what was sent before.
    async fn depart(&mut self) -> io::Result<()> {
        self.land().await?;
        if self.batch.is_empty() || self.sent.stopped.is_some() {
            self.batch.clear();
            return Ok(());
        }
        let next = self.spare.take().unwrap_or_else(empty);
        let batch = std::mem::replace(&mut self.batch, next);
        let room = std::mem::take(&mut self.spare_request);
        let request = Bytes::from(batch.encode_again(self.transport.encoding(), room));
        let began = self.begin();
        self.under_way = Some(Flight {
            answer: Box::pin(self.transport.send(request.clone())),
            came: None,
            batch,
            request,
            began,
        });
        self.give_way().await;
        Ok(())
    }

    fn begin(&mut self) -> Began {
        self.sent.requests += 1;
        Began {
            at: Instant::now(),
            stopping: self.outbox.is_some_and(Outbox::stopping),
        }
    }

    /// Lets the request that is under way go on, without waiting for it.
    async fn give_way(&mut self) {
        let Some(flight) = self
            .under_way
            .as_mut()
            .filter(|flight| flight.came.is_none())
        else {
            return;
        };
        flight.came = poll_fn(|context| {
            Poll::Ready(match flight.answer.as_mut().poll(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            })
        })
        .await;
        // The connection is a task of its own.
        tokio::task::yield_now().await;
    }

    /// Waits for the answer to what is under way, and does what it asks for.
    async fn land(&mut self) -> io::Result<()> {
        let landed = self.take_answer().await;
        self.broken |= landed.is_err();
        landed
    }

    /// Whether everything that was read has to be let go, and read again.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    async fn take_answer(&mut self) -> io::Result<()> {
        let Some(flight) = self.under_way.take() else {
            return Ok(());
        };
        let (batch, began) = (flight.batch, flight.began);
        let answer = match flight.came {
            Some(answer) => answer,
            None => flight.answer.await,
        };
        let mut request = flight.request;
        let verdict = self.insist(&request, began, answer).await;
        request.truncate(0);
        if request.is_unique() {
            self.spare_request = request.into();
            self.spare_request.shrink_to(MAX_BATCH_BYTES);
        }
        // Halves of what was refused wait here, the first ones on top.
        let mut stack = vec![batch];
        let mut verdict = Some(verdict);
        while let Some(mut batch) = stack.pop() {
            let verdict = match verdict.take() {
                Some(verdict) => verdict,
                None => self.deliver(&batch).await,
            };
            match verdict {
                Verdict::Accepted { rejected, message } => {
                    self.accepted(&batch, rejected, &message)?;
                    batch.clear();
                    self.spare = Some(batch);
                }
                Verdict::Split { .. } | Verdict::Dead { .. } if batch.len() > 1 => {
                    if let Ok((first, second)) = batch.split() {
                        stack.extend([second, first]);
                    }
                }
                Verdict::Split { why } => match smaller(batch) {
                    Ok(batch) => stack.push(batch),
                    Err(batch) => self.refused(&batch, &why)?,
                },
                Verdict::Dead { why } => self.refused(&batch, &why)?,
                Verdict::Retry { why, .. } | Verdict::Wait { why } => {
                    (self.tell)(&self.sent, Some(&why));
                    self.sent.stopped = Some(why);
                    return Ok(());
                }
            }
            (self.tell)(&self.sent, None);
        }
        Ok(())
    }

    /// Lets go of everything that was read and not sent; it is read again. Whose that was.
    pub fn abandon(&mut self) -> Vec<Of> {
        self.batch = empty();
        self.under_way = None;
        self.broken = false;
        self.works.abandon()
    }

    /// Sends one request until a server has something to say about it, or patience is at an end.
    pub(super) async fn deliver(&mut self, batch: &Batch<Tag>) -> Verdict {
        let request = Bytes::from(batch.encode_as(self.transport.encoding()));
        let began = self.begin();
        let answer = self.transport.send(request.clone()).await;
        self.insist(&request, began, answer).await
    }

    /// Sends a request again while its answers say so, and there is patience left.
    async fn insist(&mut self, request: &Bytes, mut began: Began, mut answer: Answer) -> Verdict {
        let started = began.at;
        let mut wait = FIRST_WAIT;
        loop {
            let verdict = self.judge(&answer);
            let (after, why) = match &verdict {
                Verdict::Retry { after, why } => (*after, why),
                Verdict::Wait { why } => (None, why),
                _ => return verdict,
            };
            // Half of it is chance, so that those who failed together don't come back together.
            let jittered = wait / 2 + wait.mul_f64(fastrand::f64() / 2.0);
            let pause = after.unwrap_or(jittered).clamp(SHORTEST_WAIT, LONGEST_WAIT);
            let late = |most| started.elapsed() + pause > most;
            if began.stopping || self.patience.is_some_and(late) {
                return verdict;
            }
            (self.tell)(&self.sent, Some(why));
            let pause = tokio::time::sleep(pause);
            match self.outbox {
                // Asked to stop, it tries once more: the server may be back.
                Some(outbox) => first(pause, outbox.stopped()).await,
                None => pause.await,
            }
            wait = (wait * 2).min(LAST_WAIT);
            began = self.begin();
            answer = self.transport.send(request.clone()).await;
        }
    }

    fn judge(&self, answer: &Answer) -> Verdict {
        match answer {
            Answer::Grpc(Ok(response)) => classify::accepted(response, self.redactor),
            Answer::Grpc(Err(status)) => classify::grpc(status, self.redactor),
            Answer::Http { status, .. } if status.is_success() && self.transport.is_grpc() => {
                Verdict::Wait {
                    why: format!("HTTP {status}, but nothing that speaks gRPC"),
                }
            }
            Answer::Http {
                status,
                headers,
                body,
            } => classify::http(
                status.as_u16(),
                headers,
                body,
                SystemTime::now(),
                self.redactor,
            ),
            Answer::Failed { why } => Verdict::Retry {
                after: None,
                why: why.clone(),
            },
        }
    }

    /// Moves the cursors of what a server has.
    fn accepted(&mut self, batch: &Batch<Tag>, rejected: u64, why: &str) -> io::Result<()> {
        self.sent.spans += (batch.len() as u64).saturating_sub(rejected);
        self.sent.dead += rejected.min(batch.len() as u64);
        if rejected > 0 {
            self.sent.last_dead = Some(why.to_owned());
        }
        let mut refused = rejected;
        let tags: Vec<Tag> = batch.tags().copied().collect();
        // The spans of one segment stand together.
        for tags in tags.chunk_by(|a, b| a.work == b.work) {
            let (first, until) = (tags[0], tags[tags.len() - 1]);
            let (count, of) = (tags.len() as u64, batch.len() as u64);
            // Of which segment they were nobody said; the sum is right.
            let here = refused.min(count);
            refused -= here;
            if rejected > 0
                && let Some(work) = self.works.get(first.work).filter(|work| work.is_there())
            {
                let part = Part { rejected, of, here };
                let noted = dead::rejected(&work.place, first.at, until.at, part, why);
                unless_gone(noted)?;
            }
            self.works
                .pass(first.work, count, count - here, until.end)?;
        }
        Ok(())
    }

    /// Notes a span that no server will take, and passes it by.
    fn refused(&mut self, batch: &Batch<Tag>, why: &str) -> io::Result<()> {
        for (span, tag) in batch.spans() {
            if let Some(work) = self.works.get(tag.work).filter(|work| work.is_there()) {
                unless_gone(dead::refused(&work.place, tag.at, &span.span_id, why))?;
            }
            self.works.pass(tag.work, 1, 0, tag.end)?;
            self.sent.dead += 1;
            self.sent.last_dead = Some(why.to_owned());
        }
        Ok(())
    }
}

/// The same span without its content, unless it has none.
pub(super) fn smaller(batch: Batch<Tag>) -> Result<Batch<Tag>, Batch<Tag>> {
    let before = batch.encoded_len();
    let kept = batch.clone();
    let mut less = empty();
    for (origin, span, tag) in batch.into_spans() {
        let _ = less.push(&origin, &without_content(span), tag);
    }
    if less.encoded_len() < before {
        Ok(less)
    } else {
        Err(kept)
    }
}

/// Where nothing is ever written there is nothing to sync, and some file systems say so.
fn synced(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => Ok(()),
        done => done,
    }
}

/// Whether a line closes a span; the others aren't even parsed.
fn closes(line: &[u8]) -> bool {
    let kind = kind_of(line).and_then(|kind| std::str::from_utf8(kind).ok());
    kind.is_some_and(SpanKind::is_close_kind)
}
