//! The sender: from a segment's cursor to a server's OK.
//!
//! One request is under way at a time, with spans of as many segments as fit. A cursor moves only
//! when everything before it was accepted or noted among the dead letters, so whatever stops the
//! sender, the next one goes on from there with the same ids and the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use super::batch::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS, Pushed};
use super::classify::{self, Verdict};
use super::content::without_content;
use super::cursor::Cursor;
use super::dead;
use super::origin::Origin;
use super::race::first;
use super::transport::{Answer, Transport};
use crate::event::SpanKind;
use crate::ledger::{Live, Outbox, kind_of, segment_name, unmark};
use crate::reader::{Address, Found, RawLine, SegmentReader};
use crate::redact::Redactor;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(30);
/// Longest time that a server's own word is taken for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// How many first lines are remembered.
const ORIGINS: usize = 1024;

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
    /// Close lines that make no span: not sampled, or of a kind that isn't known here.
    pub left_out: u64,
    /// Segments that were left alone, since they were recorded for another endpoint or by a
    /// version whose spans this one can't make.
    pub elsewhere: u64,
    /// Why it stopped before everything was sent.
    pub stopped: Option<String>,
}

/// Whose segment it is.
#[derive(Clone, Debug)]
pub(super) enum Of {
    /// This process's own.
    Live(Arc<Live>),
    /// A dead writer's, with the marker that goes when all of it was sent.
    Dead(Option<PathBuf>),
}

/// Where a span in a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub work: usize,
    pub at: Address,
    /// Where its line ends.
    pub end: u64,
}

/// A segment that is being sent.
struct Work {
    session: PathBuf,
    seg: u32,
    of: Of,
    cursor: Cursor,
    /// Spans of it that wait in the batch.
    pending: usize,
    /// How far it was read, once that is as far as it can be.
    read_to: Option<u64>,
}

impl Work {
    /// Keeps how far it got.
    fn save(&self) -> io::Result<()> {
        match &self.of {
            // In memory, and on disk now and then: a thousand sessions are a thousand files.
            Of::Live(live) => {
                live.pass(self.cursor.offset, self.cursor.sent);
                Ok(())
            }
            Of::Dead(_) => unless_gone(self.cursor.write(&self.session, self.seg)),
        }
    }

    /// All of it that is there was sent.
    fn end(&mut self, read_to: u64) -> io::Result<()> {
        if read_to > self.cursor.offset {
            self.cursor.offset = read_to;
            self.save()?;
        }
        match &self.of {
            Of::Live(live) => live.settle(),
            Of::Dead(Some(marker)) => unmark(marker),
            Of::Dead(None) => Ok(()),
        }
    }
}

/// Sends segments to one endpoint.
pub(super) struct Sender<'a> {
    transport: &'a Transport,
    redactor: &'a Redactor,
    /// How long a server that doesn't take anything is waited for; for ever where `None`.
    patience: Option<Duration>,
    /// Who may ask it to stop.
    outbox: Option<&'a Outbox>,
    origins: HashMap<(PathBuf, u32), Option<Arc<Origin>>>,
    works: Vec<Work>,
    batch: Batch<Tag>,
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
            origins: HashMap::new(),
            works: Vec::new(),
            batch: empty(),
            sent: Sent::default(),
            tell,
        }
    }

    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
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
        let (cursor, until) = match &of {
            Of::Live(live) => {
                let (offset, ready, sent) = live.begin();
                (Cursor { offset, sent }, ready)
            }
            Of::Dead(_) => {
                let file = File::open(&path)?;
                let size = file.metadata()?.len();
                let cursor = Cursor::read(session, seg);
                // A cursor beyond the end is of another file of that name.
                let cursor = match cursor.offset > size {
                    true => Cursor::default(),
                    false => cursor,
                };
                if cursor.offset < size {
                    // Nobody knows whether the disk has what its writer wrote last.
                    file.sync_data()?;
                }
                (cursor, size)
            }
        };
        let reader = match cursor.offset < until {
            true => Some(SegmentReader::open(&path)?),
            false => None,
        };
        self.works.push(Work {
            session: session.to_owned(),
            seg,
            of,
            cursor,
            pending: 0,
            read_to: None,
        });
        let read_to = match reader {
            Some(reader) => self.read(reader, cursor.offset, until).await?,
            None => cursor.offset,
        };
        if self.sent.stopped.is_some() {
            return Ok(());
        }
        let Some(work) = self.works.last_mut() else {
            return Ok(());
        };
        work.read_to = Some(read_to);
        if work.pending == 0 {
            let done = work.end(read_to);
            self.works.pop();
            return done;
        }
        Ok(())
    }

    /// Takes the spans of a segment into the batch. How far it was read.
    async fn read(&mut self, mut reader: SegmentReader, from: u64, until: u64) -> io::Result<u64> {
        let path = reader.path().to_owned();
        reader.seek(from)?;
        while let Some((found, end)) = reader.next_before(until, closes)? {
            let Found::Line(line) = found else { continue };
            let Some(origin) = self.origin_of(&path, &line) else {
                self.sent.left_out += 1;
                continue;
            };
            let tag = |work| Tag {
                work,
                at: line.address(),
                end,
            };
            let at = tag(self.works.len() - 1);
            let mut pushed = self.batch.push_line(&origin, &line, at);
            if pushed == Pushed::Full {
                self.flush().await?;
                if self.sent.stopped.is_some() {
                    return Ok(from);
                }
                // An empty batch takes any span.
                let at = tag(self.works.len() - 1);
                pushed = self.batch.push_line(&origin, &line, at);
            }
            match (pushed, self.works.last_mut()) {
                (Pushed::Taken, Some(work)) => work.pending += 1,
                _ => self.sent.left_out += 1,
            }
        }
        Ok(reader.offset())
    }

    /// Who recorded the span that a close line tells of.
    pub(super) fn origin_of(&mut self, path: &Path, line: &RawLine<'_>) -> Option<Arc<Origin>> {
        self.origin(path, opened_seg(line).unwrap_or(line.seg))
    }

    /// What the first line of a segment beside `path` fixes.
    fn origin(&mut self, path: &Path, seg: u32) -> Option<Arc<Origin>> {
        let session = path.parent()?.to_owned();
        if self.origins.len() >= ORIGINS {
            self.origins.clear();
        }
        let known = self.origins.entry((session, seg));
        let read = known.or_insert_with_key(|(session, seg)| read_origin(session, *seg));
        read.clone()
    }

    /// Sends what waits.
    pub async fn flush(&mut self) -> io::Result<()> {
        let batch = std::mem::replace(&mut self.batch, empty());
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
        // What follows the last span of a segment is nothing that is sent: passed when that one is.
        // Only the last one can still be being read.
        let works = std::mem::take(&mut self.works);
        let mut done = Ok(());
        for mut work in works {
            match work.read_to {
                Some(read_to) => done = done.and(work.end(read_to)),
                None => {
                    work.pending = 0;
                    self.works.push(work);
                }
            }
        }
        done
    }

    /// Lets go of everything that was read and not sent; it is read again. Whose that was.
    pub fn abandon(&mut self) -> Vec<Of> {
        self.batch = empty();
        self.works.drain(..).map(|work| work.of).collect()
    }

    /// Sends one request until a server has something to say about it, or patience is at an end.
    pub(super) async fn deliver(&mut self, batch: &Batch<Tag>) -> Verdict {
        let started = Instant::now();
        let mut wait = FIRST_WAIT;
        let request = Bytes::from(batch.encode_as(self.transport.encoding()));
        loop {
            self.sent.requests += 1;
            let stopping = self.outbox.is_some_and(Outbox::stopping);
            let answer = self.transport.send(request.clone()).await;
            let verdict = self.judge(&answer);
            let (after, why) = match &verdict {
                Verdict::Retry { after, why } => (*after, why),
                Verdict::Wait { why } => (None, why),
                _ => return verdict,
            };
            // Half of it is chance, so that those who failed together don't come back together.
            let jittered = wait / 2 + wait.mul_f64(fastrand::f64() / 2.0);
            let pause = after.unwrap_or(jittered).min(LONGEST_WAIT);
            let late = |most| started.elapsed() + pause > most;
            if stopping || self.patience.is_some_and(late) {
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
                let noted = dead::rejected(&work.session, first.at, until.at, part, why);
                unless_gone(noted)?;
            }
            work.cursor.offset = until.end;
            work.cursor.sent += count;
            work.save()?;
        }
        Ok(())
    }

    /// Notes a span that no server will take, and passes it by.
    fn refused(&mut self, batch: &Batch<Tag>, why: &str) -> io::Result<()> {
        for (span, tag) in batch.spans() {
            let work = &mut self.works[tag.work];
            unless_gone(dead::refused(&work.session, tag.at, &span.span_id, why))?;
            work.cursor.offset = tag.end;
            work.save()?;
            self.sent.dead += 1;
        }
        Ok(())
    }
}

/// A session that was removed meanwhile needs neither cursor nor letters.
fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
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

/// Whether a line closes a span; the others aren't even parsed.
fn closes(line: &[u8]) -> bool {
    let kind = kind_of(line).and_then(|kind| std::str::from_utf8(kind).ok());
    kind.is_some_and(SpanKind::is_close_kind)
}

/// The segment that opened the span, where that is another one. Most lines don't say so, which is
/// seen faster than their members are gone through.
fn opened_seg(line: &RawLine<'_>) -> Option<u32> {
    let payload = line.payload();
    memchr::memmem::find(payload.as_str().as_bytes(), b"\"opened_seg\"")?;
    u32::try_from(payload.get("opened_seg")?.u64()?).ok()
}

fn read_origin(session: &Path, seg: u32) -> Option<Arc<Origin>> {
    Origin::of_segment(&session.join(segment_name(seg))).map(Arc::new)
}
