//! The send loop: from a segment's cursor to the server's acknowledgment.
//!
//! One request is in flight at a time, with spans of as many segments as fit, while the next one is
//! read. A cursor moves only when everything before it was accepted or became a dead letter. Whatever
//! interrupts the sender, the next one continues from the cursor with the same ids and the same bytes.

pub(super) mod batch;
pub mod classify;
pub(super) mod in_flight;
pub(super) mod other_writers;
pub(super) mod queue;
pub(super) mod resend;
mod retry;
pub(super) mod shutdown;
pub(super) mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;

use self::batch::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS, Pushed};
use self::classify::Verdict;
use self::in_flight::{SegmentProgress, Source, SpanRef};
use self::queue::Queue;
use self::retry::Attempt;
use crate::mirror::map::content::without_content;
use crate::mirror::map::origin::{OriginCache, opened_seg};
use crate::mirror::progress::cursor::ProgressDir;
use crate::mirror::progress::dead_letters::{self, Rejected};
use crate::mirror::progress::ownership::Owner;
use crate::mirror::transport::{Answer, Transport};
use crate::redact::Redactor;
use crate::session::Unreadable;
use crate::trace::{Kind, RawLine, ReadItem, if_exists, segment_name};

/// How many spans are read before the request in flight gets CPU time.
const SPANS_PER_TURN: usize = 64;

/// The result of sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Spans that the server accepted.
    pub spans: u64,
    /// Requests, including retries.
    pub requests: u64,
    /// Spans that the server refused for good.
    pub dead: u64,
    /// The server's reason for the last of them.
    pub last_dead: Option<String>,
    /// Close lines that make no span: not sampled, or of an unknown kind.
    pub left_out: u64,
    /// The other endpoints that something was recorded for and therefore skipped, with the number of
    /// sessions.
    pub other_endpoints: BTreeMap<String, u64>,
    /// Sessions that can't be read, or not completely, or whose spans another version has to make.
    pub unreadable: Vec<Unreadable>,
    /// Why sending stopped before everything was sent.
    pub stopped: Option<String>,
}

impl Sent {
    /// Counts what was skipped of a session, by its owners.
    pub(super) fn add_skipped(&mut self, dir: &Path, owners: Vec<Owner>) {
        let (mut endpoints, mut version) = (BTreeSet::new(), None);
        for owner in owners {
            match owner {
                Owner::OtherEndpoint(endpoint) => drop(endpoints.insert(endpoint)),
                Owner::OtherVersion(why) => version = Some(why.to_string()),
                _ => {}
            }
        }
        for endpoint in endpoints {
            *self.other_endpoints.entry(endpoint).or_default() += 1;
        }
        let dir = dir.to_owned();
        self.unreadable
            .extend(version.map(|why| Unreadable { dir, why }));
    }
}

/// A request without an answer.
struct InFlight {
    batch: Batch<SpanRef>,
    request: Bytes,
    attempt: Attempt,
    answer: JoinHandle<Answer>,
}

/// Sends segments to one endpoint.
pub(crate) struct Sender<'a> {
    transport: Arc<Transport>,
    redactor: &'a Redactor,
    /// How long to retry while the server accepts nothing; for ever if `None`.
    pub(crate) patience: Option<Duration>,
    /// The queue of the agent, which may ask to stop.
    queue: Option<&'a Queue>,
    /// Where the progress of other processes' segments is stored.
    pub(crate) state: ProgressDir,
    pub(crate) origins: OriginCache,
    batch: Batch<SpanRef>,
    in_flight: Option<InFlight>,
    /// The outcome of a request could not be stored: nothing that was read after it may be
    /// acknowledged.
    broken: bool,
    pub(crate) sent: Sent,
    progress: &'a mut dyn FnMut(&Sent, Option<&str>),
}

fn empty_batch() -> Batch<SpanRef> {
    Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS)
}

impl<'a> Sender<'a> {
    /// A sender that reports its progress and what it waits for.
    pub fn new(
        transport: Transport,
        redactor: &'a Redactor,
        progress: &'a mut dyn FnMut(&Sent, Option<&str>),
    ) -> Self {
        Self {
            transport: Arc::new(transport),
            redactor,
            patience: None,
            queue: None,
            state: ProgressDir::default(),
            origins: OriginCache::default(),
            batch: empty_batch(),
            in_flight: None,
            broken: false,
            sent: Sent::default(),
            progress,
        }
    }

    /// Reads the unsent part of a segment and sends full batches. The rest waits for other segments or
    /// for [`flush`](Self::flush).
    pub async fn segment(&mut self, session: &Path, seg: u32, source: Source) -> io::Result<()> {
        if self.sent.stopped.is_some() {
            return Ok(());
        }
        let path = session.join(segment_name(seg));
        if matches!(source, Source::Other(_)) {
            self.origins.forget(session);
        }
        let (segment, from, until) = SegmentProgress::begin(&self.state, session, seg, source)?;
        let end = match from < until {
            true => self.read(&segment, &path, from, until).await?,
            false => from,
        };
        if self.sent.stopped.is_some() {
            return Ok(());
        }
        segment.end(end)
    }

    /// Adds the spans of a segment to the batch and returns how far it was read.
    async fn read(
        &mut self,
        segment: &Rc<SegmentProgress>,
        path: &Path,
        from: u64,
        until: u64,
    ) -> io::Result<u64> {
        let mut reader = segment.open(path)?;
        let mut lines = 0;
        reader.seek(from)?;
        while let Some((found, end)) = reader.next_before(until, is_close_line)? {
            let ReadItem::Line(line) = found else {
                continue;
            };
            match self.push(path, &line, Some(segment), end).await? {
                Pushed::Taken => segment.add_span(),
                Pushed::NoSpan => self.sent.left_out += 1,
                Pushed::Full => return Ok(from),
            }
            lines += 1;
            if lines % SPANS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(reader.offset())
    }

    /// Adds the span of a close line to the batch, which is sent first if it is full. `Full`: sending has
    /// stopped.
    pub(crate) async fn push(
        &mut self,
        path: &Path,
        line: &RawLine<'_>,
        segment: Option<&Rc<SegmentProgress>>,
        end: u64,
    ) -> io::Result<Pushed> {
        let Some(origin) = self.origins.get(path, opened_seg(line))? else {
            return Ok(Pushed::NoSpan);
        };
        let span = SpanRef {
            segment: segment.cloned(),
            address: line.address(),
            end,
        };
        let pushed = self.batch.push_line(&origin, line, span.clone());
        if pushed != Pushed::Full {
            return Ok(pushed);
        }
        self.dispatch().await?;
        Ok(match self.sent.stopped {
            Some(_) => Pushed::Full,
            // An empty batch accepts any span.
            None => self.batch.push_line(&origin, line, span),
        })
    }

    /// Sends the batch and waits for the answer.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.dispatch().await?;
        self.finish().await
    }

    /// Sends the batch once the request before it is answered.
    async fn dispatch(&mut self) -> io::Result<()> {
        self.finish().await?;
        if self.batch.is_empty() || self.sent.stopped.is_some() {
            self.batch = empty_batch();
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, empty_batch());
        let request = Bytes::from(batch.encode_as(self.transport.encoding()));
        let attempt = self.attempt();
        let (transport, body) = (Arc::clone(&self.transport), request.clone());
        self.in_flight = Some(InFlight {
            answer: tokio::spawn(async move { transport.send(body).await }),
            batch,
            request,
            attempt,
        });
        Ok(())
    }

    /// Waits for the answer to the request in flight and acts on it.
    async fn finish(&mut self) -> io::Result<()> {
        let Some(in_flight) = self.in_flight.take() else {
            return Ok(());
        };
        let answer = in_flight
            .answer
            .await
            .unwrap_or_else(|error| Answer::Failed {
                why: error.to_string(),
            });
        let (request, attempt) = (in_flight.request, in_flight.attempt);
        let verdict = self.retry(request, attempt, answer).await;
        let settled = self.settle(in_flight.batch, verdict).await;
        self.broken |= settled.is_err();
        settled
    }

    /// Whether everything that was read must be dropped and read again.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Drops everything that was read and not sent.
    pub fn abandon(&mut self) {
        self.batch = empty_batch();
        if let Some(in_flight) = self.in_flight.take() {
            in_flight.answer.abort();
        }
        self.broken = false;
    }

    /// Acts on the verdict about a batch; splits it where one span may be the reason.
    async fn settle(&mut self, batch: Batch<SpanRef>, verdict: Verdict) -> io::Result<()> {
        let mut verdict = Some(verdict);
        let mut stack = vec![batch];
        while let Some(batch) = stack.pop() {
            let verdict = match verdict.take() {
                Some(verdict) => verdict,
                None => self.request(&batch).await,
            };
            match verdict {
                Verdict::Accepted { rejected, message } => {
                    self.accepted(&batch, rejected, &message)?;
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
                    self.sent.stopped = Some(why.clone());
                    self.report_waiting(&why);
                    return Ok(());
                }
            }
            (self.progress)(&self.sent, None);
        }
        Ok(())
    }

    fn report_waiting(&mut self, why: &str) {
        let waiting = format!("{}: {why}", self.transport.shown);
        (self.progress)(&self.sent, Some(&waiting));
    }

    /// Moves the cursors behind an accepted batch.
    fn accepted(&mut self, batch: &Batch<SpanRef>, rejected: u64, why: &str) -> io::Result<()> {
        let of = batch.len() as u64;
        self.sent.spans += of.saturating_sub(rejected);
        self.sent.dead += rejected.min(of);
        if rejected > 0 {
            self.sent.last_dead = Some(why.to_owned());
        }
        let mut remaining = rejected;
        let spans: Vec<&SpanRef> = batch.tags().collect();
        let segment = |span: &SpanRef| span.segment.as_ref().map(Rc::as_ptr);
        // The spans of one segment are adjacent.
        for spans in spans.chunk_by(|a, b| segment(a) == segment(b)) {
            let (first, last) = (spans[0], spans[spans.len() - 1]);
            let count = spans.len() as u64;
            // The server doesn't say which spans it rejected; only the sum is known.
            let not_counted = remaining.min(count);
            remaining -= not_counted;
            if rejected > 0
                && let Some(segment) = first.existing_segment()
            {
                let note = Rejected {
                    rejected,
                    of,
                    not_counted,
                };
                let range = (first.address, last.address);
                let noted = dead_letters::rejected(&segment.files, range, note, why);
                if_exists(noted)?;
            }
            if let Some(segment) = &last.segment {
                segment.acknowledge(last.end, count, count - not_counted)?;
            }
        }
        Ok(())
    }

    /// Writes a dead letter for a span that the server refused, and moves the cursor behind it.
    fn refused(&mut self, batch: &Batch<SpanRef>, why: &str) -> io::Result<()> {
        for (span, at) in batch.spans() {
            if let Some(segment) = at.existing_segment() {
                let noted = dead_letters::refused(&segment.files, at.address, &span.span_id, why);
                if_exists(noted)?;
            }
            if let Some(segment) = &at.segment {
                segment.acknowledge(at.end, 1, 0)?;
            }
            self.sent.dead += 1;
            self.sent.last_dead = Some(why.to_owned());
        }
        Ok(())
    }
}

/// The same span without its content, or the batch itself if that is not smaller.
fn smaller(batch: Batch<SpanRef>) -> Result<Batch<SpanRef>, Batch<SpanRef>> {
    let mut less = empty_batch();
    for (origin, span, at) in batch.clone().into_spans() {
        let _ = less.push(&origin, &without_content(span), at);
    }
    match less.encoded_len() < batch.encoded_len() {
        true => Ok(less),
        false => Err(batch),
    }
}

/// Whether a line closes a span. Other lines aren't parsed.
fn is_close_line(line: &[u8]) -> bool {
    Kind::of_line(line).is_close()
}
