//! The segments that are being sent: how far each was read, and how far it was acknowledged.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::queue::QueuedSegment;
use crate::ledger::unmark;
use crate::mirror::progress::cursor::{Cursor, ProgressDir, SegmentFiles, identity};
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
#[derive(Clone)]
pub(crate) struct SpanRef {
    /// Its segment; `None` for a dead letter that is sent again.
    pub segment: Option<Rc<SegmentProgress>>,
    pub address: Address,
    /// The offset at which its line ends.
    pub end: u64,
}

impl SpanRef {
    /// Its segment, if the file still exists.
    pub fn existing_segment(&self) -> Option<&SegmentProgress> {
        self.segment.as_deref().filter(|segment| segment.exists())
    }
}

/// A segment that is being sent, shared by its spans in batches. One of this process's that is dropped before it is
/// done is queued again.
pub(crate) struct SegmentProgress {
    /// Where its cursor and its dead letters are.
    pub files: SegmentFiles,
    session: PathBuf,
    source: Source,
    /// The identity of another process's segment: while a request is in flight, the session may be removed and
    /// started again under the same name.
    identity: Option<String>,
    cursor: Cell<Cursor>,
    /// Spans that were read and not answered for.
    pending: Cell<u64>,
    /// The offset at which reading ended, once it has.
    end: Cell<Option<u64>>,
}

impl SegmentProgress {
    /// Continues a segment at its cursor. Returns also the offsets between which it is to be sent.
    pub fn begin(
        state: &ProgressDir,
        session: &Path,
        seg: u32,
        source: Source,
    ) -> io::Result<(Rc<Self>, u64, u64)> {
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
            cursor: Cell::new(cursor),
            pending: Cell::new(0),
            end: Cell::new(None),
        };
        Ok((Rc::new(segment), cursor.offset, until))
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

    fn save(&self, cursor: Cursor) -> io::Result<()> {
        self.cursor.set(cursor);
        match &self.source {
            // In memory; the mirror thread writes it to disk from time to time.
            Source::Own(queued) => {
                queued.ack(cursor);
                Ok(())
            }
            Source::Other(_) if !self.exists() => Ok(()),
            // A session that was removed needs no cursor.
            Source::Other(_) => if_exists(self.files.write_cursor(cursor)).map(drop),
        }
    }

    /// Counts a span that was read.
    pub fn add_span(&self) {
        self.pending.update(|pending| pending + 1);
    }

    /// Ends the reading at an offset.
    pub fn end(&self, offset: u64) -> io::Result<()> {
        self.end.set(Some(offset));
        let cursor = self.cursor.get();
        if self.is_done() && offset > cursor.offset {
            self.save(Cursor { offset, ..cursor })?;
        }
        self.remove_marker_if_done()
    }

    /// Moves the cursor behind so many spans, the last of which ends at `end`; `accepted` of them were
    /// accepted by the server.
    pub fn acknowledge(&self, end: u64, spans: u64, accepted: u64) -> io::Result<()> {
        self.pending.update(|pending| pending.saturating_sub(spans));
        // The lines after the last span of a segment are not sent: they are done with it.
        let whole = self.end.get().filter(|_| self.is_done()).unwrap_or(0);
        self.save(Cursor {
            offset: whole.max(end),
            sent: self.cursor.get().sent + accepted,
        })?;
        self.remove_marker_if_done()
    }

    /// Whether reading has ended and everything that was read was answered for.
    fn is_done(&self) -> bool {
        self.end.get().is_some() && self.pending.get() == 0
    }

    fn remove_marker_if_done(&self) -> io::Result<()> {
        match &self.source {
            _ if !self.is_done() => Ok(()),
            Source::Own(queued) => queued.release(),
            Source::Other(Some(marker)) if self.exists() => unmark(marker),
            Source::Other(_) => Ok(()),
        }
    }
}

impl Drop for SegmentProgress {
    fn drop(&mut self) {
        if let Source::Own(queued) = &self.source
            && !self.is_done()
        {
            queued.requeue();
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
