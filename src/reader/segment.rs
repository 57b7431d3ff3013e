//! One segment, line by line, from any offset, also while it grows.

use std::fs::File;
#[cfg(feature = "mirror")]
use std::fs::Metadata;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::about;
use super::raw::RawLine;
use crate::ledger::{Line, NotALine};

/// A line longer than this is damage: no writer makes one, and a reader must not be made to hold
/// whatever a broken file says.
const MAX_LINE: usize = 256 << 20;
const CHUNK: usize = 1 << 18;
/// Below this much, looking for a place costs more than reading on.
const NEAR: u64 = 256 * 1024;

/// What stands at one place of a segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Found<'a> {
    /// A line.
    Line(RawLine<'a>),
    /// Bytes that are no line, or a hole in the lines' numbers.
    Damaged(Damage),
}

/// What stands at one place of a segment, for those who keep it.
// Nearly every item is a line: a box for it would cost more than the room it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A line.
    Line(Line),
    /// Bytes that are no line: the rest of a write that failed half-way, or damage. Or a hole in
    /// the lines' numbers.
    Damaged(Damage),
    /// What follows the last newline: not a line yet, or never if its writer is gone.
    Tail(Damage),
}

/// Bytes of a segment that are no line, or a place where lines are missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Damage {
    /// The segment's file.
    pub path: PathBuf,
    /// Where they begin.
    pub offset: u64,
    /// How many they are, newline included; none at all where lines are missing.
    pub bytes: u64,
    /// What is wrong with them.
    pub why: NotALine,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, offset, bytes) = (self.path.display(), self.offset, self.bytes);
        match bytes {
            0 => write!(f, "{path}: at {offset}: {}", self.why),
            _ => write!(f, "{path}: {bytes} bytes at {offset}: {}", self.why),
        }
    }
}

/// Reads a segment. At its end it can be asked again: a writer may have gone on.
///
/// ```no_run
/// use spanledger::reader::{Found, SegmentReader};
/// let mut reader = SegmentReader::open("sessions/ses_1/trace.0001.jsonl")?;
/// while let Some(found) = reader.next()? {
///     if let Found::Line(line) = found {
///         println!("{} {}", line.address(), line.kind);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SegmentReader {
    path: PathBuf,
    /// None while it is closed for the sake of others: it is opened again where it was.
    file: Option<File>,
    buf: Vec<u8>,
    /// What of `buf` has been handed out.
    taken: usize,
    /// What of `buf` has been searched for a newline.
    searched: usize,
    /// Where `buf` begins in the file.
    offset: u64,
    /// Bytes of a line too long to hold, passed over so far.
    skipping: u64,
    /// Where the line that was handed out last begins.
    line_offset: u64,
    /// The number that the next line should have, where that is known.
    next_seq: Option<u64>,
    /// How many times in a row something that is no line was handed out. Each may have been one.
    damaged: u64,
}

impl SegmentReader {
    /// Opens a segment at its beginning.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open_into(path, Vec::new())
    }

    /// The same with a buffer of the caller's, who may have it back.
    pub(crate) fn open_into(path: impl AsRef<Path>, mut buf: Vec<u8>) -> io::Result<Self> {
        buf.clear();
        Ok(Self {
            file: Some(File::open(path.as_ref()).map_err(about(path.as_ref()))?),
            path: path.as_ref().to_owned(),
            buf,
            taken: 0,
            searched: 0,
            offset: 0,
            skipping: 0,
            line_offset: 0,
            next_seq: Some(1),
            damaged: 0,
        })
    }

    #[cfg(feature = "mirror")]
    pub(crate) fn metadata(&mut self) -> io::Result<Metadata> {
        self.file()?.metadata()
    }

    #[cfg(feature = "mirror")]
    pub(crate) fn into_buf(self) -> Vec<u8> {
        self.buf
    }

    /// Goes to the first line that begins at or after `offset`.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.buf.clear();
        (self.taken, self.searched, self.skipping) = (0, 0, 0);
        self.next_seq = (offset == 0).then_some(1);
        self.damaged = 0;
        let from = offset.saturating_sub(1);
        self.offset = from;
        self.file()?.seek(SeekFrom::Start(from))?;
        if offset > 0 {
            // From the byte before: a newline there means that a line begins right here.
            self.line()?;
        }
        Ok(())
    }

    /// The file, at what has not been read yet.
    fn file(&mut self) -> io::Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut file = File::open(&self.path)?;
                file.seek(SeekFrom::Start(self.offset + self.buf.len() as u64))?;
                file
            }
        };
        Ok(self.file.insert(file))
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file and lets go of what was read of it, to go on at `start` of that. Not within a
    /// line that is passed over.
    pub(super) fn close(&mut self, start: Option<usize>) {
        if self.skipping == 0 {
            self.offset += start.unwrap_or(self.taken) as u64;
            self.buf = Vec::new();
            (self.taken, self.searched) = (0, 0);
            self.file = None;
        }
    }

    /// The segment's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the line that was handed out last begins.
    pub fn line_offset(&self) -> u64 {
        self.line_offset
    }

    /// Where the next line begins.
    pub fn offset(&self) -> u64 {
        self.offset + self.taken as u64
    }

    /// How many bytes follow the last newline that was read.
    pub fn tail(&self) -> u64 {
        (self.buf.len() - self.taken) as u64 + self.skipping
    }

    /// What follows the last newline of the file, as damage: for a segment whose writer is gone.
    pub fn torn_tail(&self) -> io::Result<Option<Damage>> {
        let opened;
        let mut file = match &self.file {
            Some(file) => file,
            None => {
                opened = File::open(&self.path).map_err(about(&self.path))?;
                &opened
            }
        };
        let size = file.metadata()?.len();
        let offset = line_start(file, size);
        // The reader's own place in the file.
        file.seek(SeekFrom::Start(self.offset + self.buf.len() as u64))?;
        let offset = offset?;
        Ok((offset < size).then(|| Damage {
            path: self.path.clone(),
            offset,
            bytes: size - offset,
            why: NotALine::Torn,
        }))
    }

    /// The next line. `None`: no whole line is there now.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<Found<'_>>> {
        match self.line()? {
            Some((start, end, skipped)) => Ok(Some(self.found(start, end, skipped))),
            None => Ok(None),
        }
    }

    /// The next line whose bytes are wanted; the others aren't even parsed.
    pub fn next_where(&mut self, want: impl Fn(&[u8]) -> bool) -> io::Result<Option<Found<'_>>> {
        // What is passed over unread may have any number.
        self.next_seq = None;
        while let Some((start, end, skipped)) = self.line()? {
            if want(&self.buf[start..end]) {
                return Ok(Some(self.found(start, end, skipped)));
            }
        }
        Ok(None)
    }

    /// The same among the lines that begin before `until`, and where the line ends in the file. All
    /// fields of these are wanted.
    #[cfg(feature = "mirror")]
    pub(crate) fn next_before(
        &mut self,
        until: u64,
        want: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<(Found<'_>, u64)>> {
        self.next_seq = None;
        while self.offset() < until {
            let Some((start, end, skipped)) = self.line()? else {
                break;
            };
            if want(&self.buf[start..end]) {
                let line_end = self.offset();
                let found = self.found_by(start, end, skipped, |bytes| RawLine::parse_all(bytes));
                return Ok(Some((found, line_end)));
            }
        }
        Ok(None)
    }

    /// Goes to a place at or before the first line that is not `before`, by halving. Lines that
    /// don't tell are passed over.
    pub(crate) fn halve(
        &mut self,
        before: impl Fn(&RawLine<'_>) -> Option<bool>,
    ) -> io::Result<()> {
        let (mut low, mut high) = (0, self.file()?.metadata()?.len());
        while high - low > NEAR {
            let middle = low + (high - low) / 2;
            self.seek(middle)?;
            let mut told = None;
            while told.is_none() && self.offset() < high {
                match self.next()? {
                    Some(Found::Line(line)) => told = before(&line),
                    Some(Found::Damaged(_)) => {}
                    None => break,
                }
            }
            match told {
                Some(true) => low = middle,
                _ => high = middle,
            }
        }
        self.seek(low)
    }

    pub(super) fn bytes(&self, start: usize, end: usize) -> &[u8] {
        &self.buf[start..end]
    }

    /// What stands in a range that [`line`](Self::line) found.
    pub(super) fn found(&mut self, start: usize, end: usize, skipped: u64) -> Found<'_> {
        self.found_by(start, end, skipped, |bytes| RawLine::parse(bytes))
    }

    fn found_by(
        &mut self,
        start: usize,
        end: usize,
        skipped: u64,
        parse: impl for<'b> Fn(&'b [u8]) -> Result<RawLine<'b>, NotALine>,
    ) -> Found<'_> {
        self.line_offset = self.offset + start as u64 - skipped;
        let bytes = &self.buf[start..end];
        let parsed = if skipped > 0 {
            Err(NotALine::Damaged(format!("longer than {MAX_LINE} bytes")))
        } else {
            parse(bytes)
        };
        let (bytes, why) = match parsed {
            Ok(line) => {
                let due = self.next_seq.unwrap_or(line.seq);
                let hole = line.seq.saturating_sub(due) > self.damaged;
                self.next_seq = Some(line.seq.saturating_add(u64::from(!hole)));
                self.damaged = 0;
                if !hole {
                    return Found::Line(line);
                }
                // First the hole; the line comes again when asked for the next.
                let to = line.seq - 1;
                (self.taken, self.searched) = (start, start);
                (0, NotALine::Missing { from: due, to })
            }
            Err(why) => {
                self.damaged += 1;
                (bytes.len() as u64 + skipped, why)
            }
        };
        Found::Damaged(Damage {
            path: self.path.clone(),
            offset: self.line_offset,
            bytes,
            why,
        })
    }

    /// The range in `buf` of the next line, newline included, and what was passed over before it.
    pub(super) fn line(&mut self) -> io::Result<Option<(usize, usize, u64)>> {
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buf[self.searched..]) {
                let (start, end) = (self.taken, self.searched + found + 1);
                (self.taken, self.searched) = (end, end);
                return Ok(Some((start, end, std::mem::take(&mut self.skipping))));
            }
            self.searched = self.buf.len();
            if self.buf.len() - self.taken > MAX_LINE {
                self.skipping += (self.buf.len() - self.taken) as u64;
                self.taken = self.buf.len();
            }
            self.buf.drain(..self.taken);
            self.offset += self.taken as u64;
            self.searched -= self.taken;
            self.taken = 0;
            let mut buf = std::mem::take(&mut self.buf);
            let read = self
                .file()
                .and_then(|file| file.take(CHUNK as u64).read_to_end(&mut buf));
            self.buf = buf;
            if read.map_err(about(&self.path))? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Where the line begins that `offset` lies in: a writer may have been half-way through it. However
/// long that is, a piece of it is held.
pub(super) fn line_start(mut file: &File, offset: u64) -> io::Result<u64> {
    let mut end = offset;
    let mut piece = Vec::new();
    while end > 0 {
        // One byte tells, as a rule.
        let len = if end == offset { 1 } else { end.min(1 << 16) };
        piece.clear();
        file.seek(SeekFrom::Start(end - len))?;
        file.take(len).read_to_end(&mut piece)?;
        if let Some(newline) = memchr::memrchr(b'\n', &piece) {
            return Ok(end - len + newline as u64 + 1);
        }
        end -= len;
    }
    Ok(0)
}

/// The lines of one segment, parsed. See [`SegmentReader`] for one that parses nothing in vain.
///
/// ```no_run
/// use spanledger::reader::{Item, Segment};
/// for item in Segment::open("sessions/ses_1/trace.0001.jsonl")? {
///     if let Item::Line(line) = item? {
///         println!("{} {}", line.address(), line.kind);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    reader: SegmentReader,
    done: bool,
}

impl Segment {
    /// Opens a segment's file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self {
            reader: SegmentReader::open(path)?,
            done: false,
        })
    }
}

impl Iterator for Segment {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let found = match self.reader.next() {
            Ok(Some(Found::Line(line))) => line.to_line(),
            Ok(Some(Found::Damaged(damage))) => return Some(Ok(Item::Damaged(damage))),
            Ok(None) => {
                self.done = true;
                let bytes = self.reader.tail();
                return (bytes > 0).then(|| {
                    Ok(Item::Tail(Damage {
                        path: self.reader.path.clone(),
                        offset: self.reader.offset() - self.reader.skipping,
                        bytes,
                        why: NotALine::Damaged("no newline at its end".into()),
                    }))
                });
            }
            Err(error) => {
                // The next try would fail alike: whoever passes over errors comes to an end.
                self.done = true;
                return Some(Err(error));
            }
        };
        let offset = self.reader.line_offset;
        Some(Ok(match found {
            Ok(line) => Item::Line(line),
            Err(why) => Item::Damaged(Damage {
                path: self.reader.path.clone(),
                offset,
                bytes: self.reader.offset() - offset,
                why,
            }),
        }))
    }
}
