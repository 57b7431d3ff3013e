//! A session by its first and last lines, and what of these is damaged.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::store::push_damage;
use super::summary::Summary;
use crate::trace::typed::Run;
use crate::trace::{Damage, Kind, LineError, RawLine, ReadItem, SegmentReader, SpanKind};
use crate::trace::{TailReader, kind_of, last_checkpoint, whole_lines};

/// A segment up to this size is read whole.
const WHOLE: u64 = 64 * 1024;
pub(super) const HEAD: u64 = 16 * 1024;
const TAIL: u64 = 16 * 1024;
/// Within so many bytes, a line has its kind.
const KIND_WITHIN: usize = 200;
/// No head is longer.
const LONGEST_HEAD: u64 = 1024 * 1024;

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

/// A position in a segment.
struct Place<'a> {
    path: &'a Path,
    offset: u64,
    /// The sequence number that the next line should have, if known.
    due: Option<u64>,
}

impl Peek {
    /// Takes a segment's first lines, and its last ones from a checkpoint or the end of the session on,
    /// which have totals. Returns the torn tail behind the last newline.
    pub fn at(&mut self, path: &Path) -> io::Result<Option<Damage>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        self.bytes += size;
        let mut place = Place {
            path,
            offset: 0,
            due: Some(1),
        };
        let mut bytes = Vec::new();
        if size <= WHOLE {
            file.read_to_end(&mut bytes)?;
            return Ok(self.take(&bytes, place));
        }
        read_head(&mut file, &mut bytes)?;
        let head = bytes.len() as u64;
        // It may have grown since.
        let size = size.max(head);
        let mut reader = TailReader::new(&file, size, head, TAIL);
        loop {
            let tail = reader.longer()?;
            if tail.whole {
                // It reaches back to the head.
                bytes.extend_from_slice(&tail.bytes);
                return Ok(self.take(&bytes, place));
            }
            if ends_session(&tail.bytes) || last_checkpoint(&tail.bytes).is_some() {
                // The head's last line continues in the skipped part: that is no damage.
                let _ = self.take(&bytes, Place { path, ..place });
                self.summary.skip();
                self.skipped = true;
                (place.offset, place.due) = (tail.offset, None);
                return Ok(self.take(&tail.bytes, place));
            }
            if tail.reach >= LONGEST_TAIL {
                return self.read_through(path);
            }
        }
    }

    /// Takes a long segment without totals line by line, so that it is not in memory as a whole.
    fn read_through(&mut self, path: &Path) -> io::Result<Option<Damage>> {
        let mut reader = SegmentReader::open(path)?;
        while let Some(found) = reader.next()? {
            match found {
                ReadItem::Line(line) => self.summary.take(&line),
                ReadItem::Damaged(damage) => push_damage(damage, &mut self.damages),
            }
        }
        reader.torn_tail()
    }

    /// Takes the whole lines of a part of a segment. Returns the torn tail behind the last newline.
    fn take(&mut self, bytes: &[u8], mut place: Place<'_>) -> Option<Damage> {
        // Each damaged line in a row may be one of the missing numbers.
        let mut broken = 0;
        for line in whole_lines(bytes) {
            let wrong = match RawLine::parse(line) {
                Ok(line) => {
                    let due = place.due.unwrap_or(line.seq);
                    let hole = line.seq.saturating_sub(due) > std::mem::take(&mut broken);
                    place.due = Some(line.seq.saturating_add(1));
                    self.summary.take(&line);
                    let to = line.seq.saturating_sub(1);
                    hole.then_some((0, LineError::Missing { from: due, to }))
                }
                Err(why) => {
                    broken += 1;
                    Some((line.len() as u64, why))
                }
            };
            if let Some((bytes, why)) = wrong {
                push_damage(place.damage(bytes, why), &mut self.damages);
            }
            place.offset += line.len() as u64;
        }
        let rest = bytes.len() - memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        (rest > 0).then(|| place.damage(rest as u64, LineError::Torn))
    }
}

impl Place<'_> {
    fn damage(&self, bytes: u64, why: LineError) -> Damage {
        Damage {
            path: self.path.to_owned(),
            offset: self.offset,
            bytes,
            why,
        }
    }
}

/// Reads a segment's first lines. A header or the start of a run is read to its end, however long it
/// is: without it, the parent of a subagent would be unknown.
fn read_head(file: &mut File, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let read = file.by_ref().take(HEAD).read_to_end(bytes)?;
        let cut = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let matters = match kind_of(&bytes[cut..]) {
            Some(_) => {
                let kind = Kind::of_line(&bytes[cut..]);
                kind == Kind::Segment || kind.opens() == Some(SpanKind::Run)
            }
            // Too short to contain the kind.
            None => (1..KIND_WITHIN).contains(&(bytes.len() - cut)),
        };
        if !matters || read == 0 || bytes.len() as u64 >= LONGEST_HEAD {
            return Ok(());
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
