//! One segment, line by line, from any offset, also while it grows.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;

use super::LineError;
use super::raw_line::RawLine;

/// A line longer than this is damage: no writer makes one, and a broken file must not fill the memory.
const MAX_LINE: usize = 256 << 20;
const CHUNK: usize = 1 << 18;
/// How much is read first: often only the first line is wanted.
const FIRST_CHUNK: usize = 1 << 14;
/// Below this much, searching for a place costs more than reading on.
const NEAR: u64 = 256 * 1024;

/// A line in a reader's buffer, found and not parsed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundLine {
    pub start: usize,
    /// After the newline.
    end: usize,
    /// How many bytes before `start` were skipped because the line is too long to hold.
    pub skipped: u64,
}

/// What stands at one place of a segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReadItem<'a> {
    /// A line.
    Line(RawLine<'a>),
    /// Bytes that are no line, or a hole in the lines' numbers.
    Damaged(Damage),
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
    pub why: LineError,
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
/// use spanledger::trace::{ReadItem, SegmentReader};
/// let mut reader = SegmentReader::open("sessions/ses_1/trace.0001.jsonl")?;
/// while let Some(found) = reader.next()? {
///     if let ReadItem::Line(line) = found {
///         println!("{} {}", line.address(), line.kind);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SegmentReader {
    path: PathBuf,
    /// `None` while it is closed to save descriptors. It is opened again where it was.
    file: Option<File>,
    buf: Vec<u8>,
    /// How much of `buf` has been returned.
    taken: usize,
    /// How much of `buf` has been searched for a newline.
    searched: usize,
    /// Where `buf` begins in the file.
    offset: u64,
    /// Bytes of a line too long to hold, passed over so far.
    skipping: u64,
    /// Where the line that was returned last begins.
    line_offset: u64,
    /// The number that the next line should have, where that is known.
    next_seq: Option<u64>,
    /// How many damaged lines were returned in a row. Each may have had a number.
    damaged: u64,
    /// The file ended within a line. Its writer may truncate that and write another one there.
    at_end: bool,
    /// All fields of a line are found while its end is looked for.
    pub(crate) all_fields: bool,
}

impl SegmentReader {
    /// Opens a segment at its beginning.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        Ok(Self {
            file: Some(File::open(path).map_err(about(path))?),
            path: path.to_owned(),
            buf: Vec::new(),
            taken: 0,
            searched: 0,
            offset: 0,
            skipping: 0,
            line_offset: 0,
            next_seq: Some(1),
            damaged: 0,
            at_end: false,
            all_fields: false,
        })
    }

    pub(crate) fn metadata(&mut self) -> io::Result<Metadata> {
        self.file()?.metadata()
    }

    /// Goes to the first line that begins at or after `offset`.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.next_seq = (offset == 0).then_some(1);
        self.damaged = 0;
        self.restart(offset.saturating_sub(1))?;
        if offset > 0 {
            // From the byte before: a newline there means that a line begins right here.
            self.line()?;
        }
        Ok(())
    }

    /// Drops what was read, and continues at `offset`.
    fn restart(&mut self, offset: u64) -> io::Result<()> {
        self.buf.clear();
        (self.taken, self.searched, self.skipping) = (0, 0, 0);
        self.offset = offset;
        self.file()?.seek(SeekFrom::Start(offset)).map(drop)
    }

    /// The file, at the first byte that is not in `buf`.
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

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file and drops the buffer. Reading continues at `start` of the buffer, or at the next line.
    /// Does nothing while a line that is too long is skipped.
    pub(crate) fn close(&mut self, start: Option<usize>) {
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

    /// Where the line that was returned last begins.
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

    /// The bytes after the last newline of the file, as damage: for a segment with a dead writer.
    pub fn torn_tail(&self) -> io::Result<Option<Damage>> {
        let opened;
        let file = match &self.file {
            Some(file) => file,
            // Not for longer: a session may have more segments than a process may have open files.
            None => {
                opened = File::open(&self.path).map_err(about(&self.path))?;
                &opened
            }
        };
        let size = file.metadata()?.len();
        let offset = line_start(file, size)?;
        Ok((offset < size).then(|| Damage {
            path: self.path.clone(),
            offset,
            bytes: size - offset,
            why: LineError::Torn,
        }))
    }

    /// The next line. `None`: no whole line is there now.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<ReadItem<'_>>> {
        let found = self.line()?;
        Ok(found.map(|found| self.parse(found)))
    }

    /// The next line whose bytes are wanted. The others are not parsed.
    pub fn next_where(&mut self, want: impl Fn(&[u8]) -> bool) -> io::Result<Option<ReadItem<'_>>> {
        // A line that is passed over may have any number.
        self.next_seq = None;
        while let Some(found) = self.line()? {
            if want(self.bytes(found)) {
                return Ok(Some(self.parse(found)));
            }
        }
        Ok(None)
    }

    /// The same among the lines that begin before `until`, and where the line ends in the file. Finds
    /// all fields of the line at once.
    pub(crate) fn next_before(
        &mut self,
        until: u64,
        want: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<(ReadItem<'_>, u64)>> {
        self.next_seq = None;
        while self.offset() < until {
            let Some(found) = self.line()? else {
                break;
            };
            if want(self.bytes(found)) {
                let line_end = self.offset();
                return Ok(Some((self.parse_with(found, true), line_end)));
            }
        }
        Ok(None)
    }

    /// Goes to a place at or before the first line that is not `before`, by bisection. Lines for which
    /// `before` returns `None` are passed over.
    pub(crate) fn halve(
        &mut self,
        before: impl Fn(&RawLine<'_>) -> Option<bool>,
    ) -> io::Result<()> {
        let (mut low, mut high) = (0, self.file()?.metadata()?.len());
        while high - low > NEAR {
            let middle = low + (high - low) / 2;
            self.seek(middle)?;
            let mut known = None;
            while known.is_none() && self.offset() < high {
                match self.next()? {
                    Some(ReadItem::Line(line)) => known = before(&line),
                    Some(ReadItem::Damaged(_)) => {}
                    None => break,
                }
            }
            match known {
                Some(true) => low = middle,
                _ => high = middle,
            }
        }
        self.seek(low)
    }

    /// Goes to the first line that is not `before`, or to the end.
    pub(crate) fn seek_past(&mut self, before: impl Fn(&RawLine<'_>) -> bool) -> io::Result<()> {
        self.halve(|line| Some(before(line)))?;
        while let Some(item) = self.next()? {
            if matches!(item, ReadItem::Line(line) if !before(&line)) {
                return self.seek(self.line_offset);
            }
        }
        Ok(())
    }

    pub(crate) fn bytes(&self, found: FoundLine) -> &[u8] {
        &self.buf[found.start..found.end]
    }

    /// Parses what [`line`](Self::line) found.
    pub(crate) fn parse(&mut self, found: FoundLine) -> ReadItem<'_> {
        self.parse_with(found, self.all_fields)
    }

    fn parse_with(&mut self, found: FoundLine, all_fields: bool) -> ReadItem<'_> {
        let FoundLine {
            start,
            end,
            skipped,
        } = found;
        self.line_offset = self.offset + start as u64 - skipped;
        let bytes = &self.buf[start..end];
        let parsed = if skipped > 0 {
            Err(LineError::Damaged(format!("longer than {MAX_LINE} bytes")))
        } else {
            RawLine::read(bytes, all_fields)
        };
        let (bytes, why) = match parsed {
            Ok(line) => {
                let due = self.next_seq.unwrap_or(line.seq);
                let hole = line.seq.saturating_sub(due) > self.damaged;
                self.next_seq = Some(line.seq.saturating_add(u64::from(!hole)));
                self.damaged = 0;
                if !hole {
                    return ReadItem::Line(line);
                }
                // First the hole; the next call returns the line.
                let to = line.seq - 1;
                (self.taken, self.searched) = (start, start);
                (0, LineError::Missing { from: due, to })
            }
            Err(why) => {
                self.damaged += 1;
                (bytes.len() as u64 + skipped, why)
            }
        };
        ReadItem::Damaged(Damage {
            path: self.path.clone(),
            offset: self.line_offset,
            bytes,
            why,
        })
    }

    /// Finds the next line. `None`: no whole line is there now.
    pub(crate) fn line(&mut self) -> io::Result<Option<FoundLine>> {
        if std::mem::take(&mut self.at_end) {
            self.forget_tail()?;
        }
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buf[self.searched..]) {
                let (start, end) = (self.taken, self.searched + found + 1);
                (self.taken, self.searched) = (end, end);
                let skipped = std::mem::take(&mut self.skipping);
                return Ok(Some(FoundLine {
                    start,
                    end,
                    skipped,
                }));
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
            let chunk = match self.offset {
                0 if self.buf.is_empty() => FIRST_CHUNK,
                _ => CHUNK,
            };
            let mut buf = std::mem::take(&mut self.buf);
            buf.reserve(chunk);
            let read = self.file().and_then(|file| {
                let read = retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut buf)));
                Ok(read?)
            });
            self.buf = buf;
            if read.map_err(about(&self.path))? == 0 {
                self.at_end = self.tail() > 0;
                return Ok(None);
            }
        }
    }

    /// Drops the part of a line that was read last, so that it is read again; of a line that is too long to
    /// hold only if the file has become shorter.
    fn forget_tail(&mut self) -> io::Result<()> {
        let end = self.offset + self.buf.len() as u64;
        if self.skipping > 0 && self.file()?.metadata()?.len() >= end {
            return Ok(());
        }
        self.restart(self.offset() - self.skipping)
    }
}

/// Where the line begins that `offset` lies in. Holds only a piece of the line.
pub(crate) fn line_start(file: &File, offset: u64) -> io::Result<u64> {
    let mut end = offset;
    let mut piece = [0; 1 << 14];
    while end > 0 {
        // One byte is enough, as a rule.
        let len = if end == offset { 1 } else { end.min(1 << 14) };
        let read = file.read_at(&mut piece[..len as usize], end - len)?;
        if let Some(newline) = memchr::memrchr(b'\n', &piece[..read]) {
            return Ok(end - len + newline as u64 + 1);
        }
        end -= len;
    }
    Ok(0)
}

/// Adds the path to an error: the system's message has none.
pub(crate) fn about(path: &Path) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
