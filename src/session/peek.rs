//! A session by its first and last lines, and what of these is damaged.

use std::fs::File;
use std::io;
use std::path::Path;

use super::store::push_damage;
use super::summary::Summary;
use crate::trace::typed::Run;
use crate::trace::{Damage, Kind, RawLine, ReadItem, SegmentReader};
use crate::trace::{TailReader, last_checkpoint, whole_lines};

/// A segment up to this size is read whole.
const WHOLE: u64 = 64 * 1024;
/// Of a longer one, the lines are read that begin before this: the header and the start of the first run, however
/// long they are.
const HEAD: u64 = 8 * 1024;
const TAIL: u64 = 16 * 1024;
/// A longer tail is not held in memory at once.
const LONGEST_TAIL: u64 = 16 * 1024 * 1024;

/// A session by the first and last lines of its segments.
#[derive(Default)]
pub(super) struct Peek {
    pub summary: Summary,
    pub damages: Vec<Damage>,
    pub bytes: u64,
    /// Lines in the middle were skipped.
    pub skipped: bool,
}

impl Peek {
    /// Takes a segment's first lines, and its last ones from a checkpoint or the end of the session on,
    /// which have totals. Returns the torn tail behind the last newline.
    pub fn at(&mut self, path: &Path) -> io::Result<Option<Damage>> {
        let mut reader = SegmentReader::open(path)?;
        let size = reader.metadata()?.len();
        self.bytes += size;
        if size > WHOLE {
            self.take(&mut reader, HEAD)?;
            if let Some(tail) = tail_with_totals(path, reader.offset(), size)? {
                self.summary.skip();
                self.skipped = true;
                reader.seek(tail)?;
            }
        }
        self.take(&mut reader, u64::MAX)?;
        reader.torn_tail()
    }

    /// Takes the lines that begin before `until`.
    fn take(&mut self, reader: &mut SegmentReader, until: u64) -> io::Result<()> {
        while reader.offset() < until
            && let Some(found) = reader.next()?
        {
            match found {
                ReadItem::Line(line) => self.summary.take(&line),
                ReadItem::Damaged(damage) => push_damage(damage, &mut self.damages),
            }
        }
        Ok(())
    }
}

/// Where the last lines of a segment begin, with a checkpoint or the end of a run among them. `None`: all lines
/// behind the head have to be read.
fn tail_with_totals(path: &Path, head: u64, size: u64) -> io::Result<Option<u64>> {
    let file = File::open(path)?;
    // It may have grown since.
    let mut reader = TailReader::new(&file, size.max(head), head, TAIL);
    loop {
        let tail = reader.longer()?;
        if tail.whole {
            return Ok(None);
        }
        if ends_session(&tail.bytes) || last_checkpoint(&tail.bytes).is_some() {
            return Ok(Some(tail.offset));
        }
        if tail.reach >= LONGEST_TAIL {
            return Ok(None);
        }
    }
}

/// Whether the last line ends a run and has its totals.
fn ends_session(bytes: &[u8]) -> bool {
    let last = whole_lines(bytes).last();
    let line = last.and_then(|line| RawLine::parse(line).ok());
    line.is_some_and(|line| {
        line.kind() == Kind::SessionEnd && Run::from(line.payload()).totals().is_some()
    })
}
