//! The segments that are being sent: how far each was read, and how far it was acknowledged.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::cursor::Cursor;
use super::ownership::if_exists;
use super::queue::QueuedSegment;
use super::state::{self, SegmentFiles};
use crate::ledger::unmark;
use crate::trace::Address;

/// The process that wrote a segment.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// This process.
    Own(Arc<QueuedSegment>),
    /// Another process; with the marker to remove when all of the segment was sent.
    Other(Option<PathBuf>),
}

/// Where a span in a batch came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanRef {
    /// The number of its segment in [`SegmentsInFlight`]; `None` for a dead letter that is sent again.
    pub segment: Option<u64>,
    pub address: Address,
    /// The offset at which its line ends.
    pub end: u64,
}

/// A segment that is being sent.
pub(super) struct SegmentProgress {
    /// Where its cursor and its dead letters are.
    pub files: SegmentFiles,
    seg: u32,
    source: Source,
    /// The session of another process and the identity of the segment that was read: while a request is
    /// in flight, the session may be removed and started again under the same name.
    identity: Option<(PathBuf, String)>,
    cursor: Cursor,
    /// Spans that were read and not answered for.
    pending: u64,
    /// The offset at which reading ended, once it has.
    end: Option<u64>,
}

impl SegmentProgress {
    pub fn new(
        files: SegmentFiles,
        seg: u32,
        source: Source,
        identity: Option<(PathBuf, String)>,
        cursor: Cursor,
    ) -> Self {
        Self {
            files,
            seg,
            source,
            identity,
            cursor,
            pending: 0,
            end: None,
        }
    }

    /// Whether the file under its name is still the segment that was read.
    pub fn exists(&self) -> bool {
        if let Source::Own(queued) = &self.source {
            return queued.segment.is_there();
        }
        let Some((session, identity)) = &self.identity else {
            return true;
        };
        // A segment that can't be read now may be readable later.
        match if_exists(state::identity(session, self.seg)) {
            Ok(now) => now.as_ref() == Some(identity),
            Err(_) => true,
        }
    }

    fn save(&self) -> io::Result<()> {
        match &self.source {
            // In memory; the mirror thread writes it to disk from time to time.
            Source::Own(queued) => {
                queued.ack(self.cursor.offset, self.cursor.sent);
                Ok(())
            }
            Source::Other(_) if !self.exists() => Ok(()),
            // A session that was removed needs no cursor.
            Source::Other(_) => if_exists(self.cursor.write(&self.files, self.seg)).map(drop),
        }
    }

    /// Where reading ended, if everything before that was answered for.
    fn is_done(&self) -> Option<u64> {
        self.end.filter(|_| self.pending == 0)
    }

    fn remove_marker(&self) -> io::Result<()> {
        match &self.source {
            Source::Own(queued) => queued.release(),
            Source::Other(Some(marker)) if self.exists() => unmark(marker),
            Source::Other(_) => Ok(()),
        }
    }
}

/// All segments that are being sent. The last one may still be being read.
#[derive(Default)]
pub(super) struct SegmentsInFlight {
    segments: BTreeMap<u64, SegmentProgress>,
    next: u64,
}

impl SegmentsInFlight {
    /// Adds a segment and returns its number.
    pub fn add(&mut self, segment: SegmentProgress) -> u64 {
        let number = self.next;
        self.next += 1;
        self.segments.insert(number, segment);
        number
    }

    /// The segment of a span, if its file still exists.
    pub fn existing(&self, span: SpanRef) -> Option<&SegmentProgress> {
        let segment = self.segments.get(&span.segment?)?;
        segment.exists().then_some(segment)
    }

    /// Counts a span that was read.
    pub fn add_span(&mut self, number: u64) {
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.pending += 1;
        }
    }

    /// Ends the reading of a segment at an offset.
    pub fn end(&mut self, number: u64, offset: u64) -> io::Result<()> {
        let Some(segment) = self.segments.get_mut(&number) else {
            return Ok(());
        };
        segment.end = Some(offset);
        if segment.is_done().is_none() {
            return Ok(());
        }
        if offset > segment.cursor.offset {
            segment.cursor.offset = offset;
            segment.save()?;
        }
        segment.remove_marker()?;
        self.segments.remove(&number);
        Ok(())
    }

    /// Moves the cursor behind so many spans, the last of which is `last`; `accepted` of them were
    /// accepted by the server.
    pub fn acknowledge(&mut self, last: SpanRef, spans: u64, accepted: u64) -> io::Result<()> {
        let Some(number) = last.segment else {
            return Ok(());
        };
        let Some(segment) = self.segments.get_mut(&number) else {
            return Ok(());
        };
        segment.pending = segment.pending.saturating_sub(spans);
        segment.cursor.sent += accepted;
        // The lines after the last span of a segment are not sent: they are done with it.
        let done = segment.is_done();
        segment.cursor.offset = done.map_or(last.end, |end| end.max(last.end));
        segment.save()?;
        if done.is_some() {
            segment.remove_marker()?;
            self.segments.remove(&number);
        }
        Ok(())
    }

    /// Removes all segments and returns where they came from.
    pub fn clear(&mut self) -> Vec<Source> {
        let segments = std::mem::take(&mut self.segments);
        segments.into_values().map(|it| it.source).collect()
    }
}
