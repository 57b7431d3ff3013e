//! The segments that are being sent: how far each was read, and how far it was acknowledged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::queue::QueuedSegment;
use crate::ledger::unmark;
use crate::mirror::progress::cursor::{Cursor, SegmentFiles, State, identity};
use crate::trace::{Address, SegmentReader, if_exists};

/// The process that wrote a segment.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// This process.
    Own(Arc<QueuedSegment>),
    /// Another process; with the marker to remove when all of the segment was sent.
    Other(Option<PathBuf>),
}

/// Where a span in a batch came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanRef {
    /// The number of its segment in [`SegmentsInFlight`]; `None` for a dead letter that is sent again.
    pub segment: Option<u64>,
    pub address: Address,
    /// The offset at which its line ends.
    pub end: u64,
}

/// A segment that is being sent.
pub(crate) struct SegmentProgress {
    /// Where its cursor and its dead letters are.
    pub files: SegmentFiles,
    session: PathBuf,
    source: Source,
    /// The identity of another process's segment: while a request is in flight, the session may be removed and
    /// started again under the same name.
    identity: Option<String>,
    pub cursor: Cursor,
    /// Spans that were read and not answered for.
    pending: u64,
    /// The offset at which reading ended, once it has.
    end: Option<u64>,
}

impl SegmentProgress {
    /// Continues a segment at its cursor. Returns also the offset up to which it is to be sent.
    pub fn begin(
        state: &State,
        session: &Path,
        seg: u32,
        source: Source,
    ) -> io::Result<(Self, u64)> {
        let (files, identity, (cursor, until)) = match &source {
            Source::Own(queued) => (SegmentFiles::beside(session, seg), None, queued.snapshot()),
            Source::Other(_) => {
                let identity = identity(session, seg)?;
                let cursor = state.cursor(session, seg)?;
                (state.files(session, seg)?, Some(identity), cursor)
            }
        };
        let segment = Self {
            files,
            session: session.to_owned(),
            source,
            identity,
            cursor,
            pending: 0,
            end: None,
        };
        Ok((segment, until))
    }

    /// Opens the segment for reading.
    pub fn open(&self, path: &Path) -> io::Result<SegmentReader> {
        let mut reader = SegmentReader::open(path)?;
        match &self.source {
            Source::Own(queued) if !queued.segment.is(&reader.metadata()?) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            Source::Own(_) => {}
            // The writer may have died before its last lines reached the disk.
            Source::Other(_) => ignore_unsupported(File::open(path)?.sync_data())?,
        }
        Ok(reader)
    }

    /// Whether the file under its name is still the segment that was read.
    pub fn exists(&self) -> bool {
        match &self.source {
            Source::Own(queued) => queued.segment.is_there(),
            // A segment that can't be read now may be readable later.
            Source::Other(_) => match if_exists(identity(&self.session, self.files.seg)) {
                Ok(now) => now == self.identity,
                Err(_) => true,
            },
        }
    }

    fn save(&self) -> io::Result<()> {
        match &self.source {
            // In memory; the mirror thread writes it to disk from time to time.
            Source::Own(queued) => {
                queued.ack(self.cursor);
                Ok(())
            }
            Source::Other(_) if !self.exists() => Ok(()),
            // A session that was removed needs no cursor.
            Source::Other(_) => if_exists(self.files.write_cursor(self.cursor)).map(drop),
        }
    }

    /// Whether reading has ended and everything that was read was answered for.
    fn is_done(&self) -> bool {
        self.end.is_some() && self.pending == 0
    }

    fn remove_marker(&self) -> io::Result<()> {
        match &self.source {
            Source::Own(queued) => queued.release(),
            Source::Other(Some(marker)) if self.exists() => unmark(marker),
            Source::Other(_) => Ok(()),
        }
    }
}

/// Read-only file systems and some others don't support syncing.
fn ignore_unsupported(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => Ok(()),
        synced => synced,
    }
}

/// All segments that are being sent. The last one may still be being read.
#[derive(Default)]
pub(crate) struct SegmentsInFlight {
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
        if segment.is_done() && offset > segment.cursor.offset {
            segment.cursor.offset = offset;
            segment.save()?;
        }
        self.remove_done(number)
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
        let end = segment.end.filter(|_| segment.is_done()).unwrap_or(0);
        segment.cursor.offset = end.max(last.end);
        segment.save()?;
        self.remove_done(number)
    }

    fn remove_done(&mut self, number: u64) -> io::Result<()> {
        if let Some(segment) = self.segments.get(&number).filter(|it| it.is_done()) {
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
