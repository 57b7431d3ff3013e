//! The sender: from a segment's cursor to a server's OK.
//!
//! One request is under way at a time. A cursor moves only when everything before it was accepted
//! or noted among the dead letters, so whatever stops the sender, the next one goes on from there
//! with the same ids and the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::batch::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS};
use super::classify::{self, Verdict};
use super::content::without_content;
use super::cursor::Cursor;
use super::origin::Origin;
use super::transport::{Answer, Transport};
use super::{dead, map};
use crate::event::SpanKind;
use crate::ledger::segments;
use crate::reader::{Address, Found, SegmentReader};
use crate::redact::Redactor;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(30);

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
    /// Close lines that make no span: not sampled, or of a mapping that isn't known here.
    pub left_out: u64,
    /// Why it stopped before everything was sent.
    pub stopped: Option<String>,
}

/// Where a span in a request came from.
#[derive(Clone, Copy, Debug)]
struct Tag {
    work: usize,
    at: Address,
    /// Where its line ends.
    end: u64,
}

/// A segment that is being sent.
struct Work {
    session: PathBuf,
    seg: u32,
    cursor: Cursor,
}

/// Sends segments to one endpoint.
pub struct Sender<'a> {
    transport: &'a Transport,
    redactor: &'a Redactor,
    /// How long a server that doesn't take anything is waited for; for ever where `None`.
    patience: Option<Duration>,
    works: Vec<Work>,
    batch: Batch<Tag>,
    sent: Sent,
    tell: &'a mut dyn FnMut(&Sent, Option<&str>),
}

impl std::fmt::Debug for Sender<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl<'a> Sender<'a> {
    /// A sender that tells of its progress, and of what it waits for.
    pub fn new(
        transport: &'a Transport,
        redactor: &'a Redactor,
        patience: Option<Duration>,
        tell: &'a mut dyn FnMut(&Sent, Option<&str>),
    ) -> Self {
        Self {
            transport,
            redactor,
            patience,
            works: Vec::new(),
            batch: Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS),
            sent: Sent::default(),
            tell,
        }
    }

    /// Sends what the segments of a session owe, those that `wanted` picks.
    pub async fn session(
        &mut self,
        session: &Path,
        mut wanted: impl FnMut(u32, &Path) -> bool,
    ) -> io::Result<()> {
        let found = segments(session)?;
        let mut origins = HashMap::new();
        for (seg, path) in &found {
            if self.sent.stopped.is_some() {
                return Ok(());
            }
            if wanted(*seg, path) {
                self.segment(session, *seg, path, &found, &mut origins)
                    .await?;
            }
        }
        Ok(())
    }

    async fn segment(
        &mut self,
        session: &Path,
        seg: u32,
        path: &Path,
        all: &[(u32, PathBuf)],
        origins: &mut HashMap<u32, Option<Arc<Origin>>>,
    ) -> io::Result<()> {
        let cursor = Cursor::read(session, seg);
        let size = std::fs::metadata(path)?.len();
        // A cursor beyond the end is of another file of that name.
        let cursor = if cursor.offset > size {
            Cursor::default()
        } else {
            cursor
        };
        if cursor.offset == size {
            return Ok(());
        }
        let mut reader = SegmentReader::open(path)?;
        reader.seek(cursor.offset)?;
        self.works.push(Work {
            session: session.to_owned(),
            seg,
            cursor,
        });
        let work = self.works.len() - 1;
        loop {
            let (at, opened, mapped) = match reader.next()? {
                None => break,
                Some(Found::Line(line)) if SpanKind::is_close_kind(&line.kind) => {
                    let opened = line.payload().get("opened_seg").and_then(|v| v.u64());
                    let opened = opened.and_then(|n| u32::try_from(n).ok()).unwrap_or(seg);
                    let origin = origins
                        .entry(opened)
                        .or_insert_with(|| read_origin(all, opened));
                    let span = origin.as_ref().and_then(|origin| map::span(origin, &line));
                    (line.address(), origin.clone(), span)
                }
                Some(_) => continue,
            };
            let (Some(origin), Some(span)) = (opened, mapped) else {
                self.sent.left_out += 1;
                continue;
            };
            let end = reader.offset();
            let tag = Tag { work, at, end };
            if let Err((span, tag)) = self.batch.push(&origin, span, tag) {
                self.flush().await?;
                if self.sent.stopped.is_some() {
                    return Ok(());
                }
                // An empty batch takes any span.
                let _ = self.batch.push(&origin, span, tag);
            }
        }
        // What follows the last span is nothing that is sent: passed when that one is.
        let read_to = reader.offset();
        self.flush().await?;
        if self.sent.stopped.is_none() {
            let work = &mut self.works[work];
            work.cursor.offset = work.cursor.offset.max(read_to);
            work.cursor.write(&work.session, work.seg)?;
        }
        Ok(())
    }

    /// Sends what is waiting, and reports.
    pub async fn finish(mut self) -> io::Result<Sent> {
        self.flush().await?;
        Ok(self.sent)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let fresh = Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS);
        let batch = std::mem::replace(&mut self.batch, fresh);
        if batch.is_empty() || self.sent.stopped.is_some() {
            return Ok(());
        }
        // Halves of what was refused wait here, the first ones on top.
        let mut stack = vec![batch];
        while let Some(batch) = stack.pop() {
            match self.deliver(&batch).await {
                Verdict::Accepted { rejected, message } => {
                    self.accepted(&batch, rejected, &message)?;
                }
                Verdict::Split { why } | Verdict::Dead { why } if batch.len() > 1 => {
                    let _ = why;
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
                    self.sent.stopped = Some(why);
                    return Ok(());
                }
            }
            (self.tell)(&self.sent, None);
        }
        Ok(())
    }

    /// Sends one request until a server has something to say about it, or patience is at an end.
    async fn deliver(&mut self, batch: &Batch<Tag>) -> Verdict {
        let started = Instant::now();
        let mut wait = FIRST_WAIT;
        loop {
            self.sent.requests += 1;
            let answer = self.transport.send(batch.request()).await;
            let verdict = self.judge(&answer);
            let (after, why) = match &verdict {
                Verdict::Retry { after, why } => (*after, why),
                Verdict::Wait { why } => (None, why),
                _ => return verdict,
            };
            // Half of it is chance, so that those who failed together don't come back together.
            let jittered = wait / 2 + wait.mul_f64(fastrand::f64() / 2.0);
            let pause = after.unwrap_or(jittered).min(Duration::from_secs(300));
            if self
                .patience
                .is_some_and(|most| started.elapsed() + pause > most)
            {
                return verdict;
            }
            (self.tell)(&self.sent, Some(why));
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(LAST_WAIT);
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
        let mut last: BTreeMap<usize, (Tag, Tag, u64)> = BTreeMap::new();
        for tag in batch.tags() {
            let entry = last.entry(tag.work).or_insert((*tag, *tag, 0));
            entry.1 = *tag;
            entry.2 += 1;
        }
        self.sent.spans += (batch.len() as u64).saturating_sub(rejected);
        self.sent.dead += rejected.min(batch.len() as u64);
        for (index, (first, until, count)) in last {
            let work = &mut self.works[index];
            if rejected > 0 {
                let part = (rejected, batch.len() as u64);
                dead::rejected(&work.session, first.at, until.at, part, why)?;
            }
            work.cursor.offset = until.end;
            work.cursor.sent += count;
            work.cursor.write(&work.session, work.seg)?;
        }
        Ok(())
    }

    /// Notes a span that no server will take, and passes it by.
    fn refused(&mut self, batch: &Batch<Tag>, why: &str) -> io::Result<()> {
        for (span, tag) in batch.spans() {
            let work = &mut self.works[tag.work];
            dead::refused(&work.session, tag.at, &span.span_id, why)?;
            work.cursor.offset = tag.end;
            work.cursor.write(&work.session, work.seg)?;
            self.sent.dead += 1;
        }
        Ok(())
    }
}

/// The same span without its content, unless it has none.
fn smaller(batch: Batch<Tag>) -> Result<Batch<Tag>, Batch<Tag>> {
    let before = batch.encoded_len();
    let kept = batch.clone();
    let mut less = Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS);
    for (origin, span, tag) in batch.into_spans() {
        let _ = less.push(&origin, without_content(span), tag);
    }
    if less.encoded_len() < before {
        Ok(less)
    } else {
        Err(kept)
    }
}

fn read_origin(all: &[(u32, PathBuf)], seg: u32) -> Option<Arc<Origin>> {
    let (_, path) = all.iter().find(|(number, _)| *number == seg)?;
    Origin::of_segment(path).map(Arc::new)
}
