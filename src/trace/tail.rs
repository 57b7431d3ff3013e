//! The end of a segment, read backwards.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use memchr::memmem;

use super::raw_line::RawLine;
use super::{Kind, whole_lines};

/// Reads longer and longer ends of a segment.
pub(crate) struct TailReader<'a> {
    file: &'a File,
    size: u64,
    floor: u64,
    reach: u64,
}

/// The end of a segment, from the beginning of a line.
pub(crate) struct Tail {
    /// Where it begins.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// How far back was read; the end of a line that begins before is left out of `bytes`.
    pub reach: u64,
    /// It begins at the floor: there is no longer one.
    pub whole: bool,
}

impl<'a> TailReader<'a> {
    /// For the first `size` bytes of a file but those before `floor`. The first tail is at most `reach` long.
    pub fn new(file: &'a File, size: u64, floor: u64, reach: u64) -> Self {
        Self {
            file,
            size,
            floor,
            reach,
        }
    }

    /// A tail that is up to four times as long as the one before.
    pub fn longer(&mut self) -> io::Result<Tail> {
        let from = self.size.saturating_sub(self.reach).max(self.floor);
        let reach = self.reach;
        self.reach = reach.saturating_mul(4);
        let mut bytes = Vec::new();
        let mut file = self.file;
        file.seek(SeekFrom::Start(from))?;
        file.take(self.size.saturating_sub(from))
            .read_to_end(&mut bytes)?;
        let whole = from == self.floor;
        // The first piece is the end of a line that begins before.
        let cut = match whole {
            true => 0,
            false => memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1),
        };
        bytes.drain(..cut);
        Ok(Tail {
            offset: from + cut as u64,
            bytes,
            reach,
            whole,
        })
    }
}

/// Where the last checkpoint line begins.
pub(crate) fn last_checkpoint(bytes: &[u8]) -> Option<usize> {
    let whole = memchr::memrchr(b'\n', bytes)? + 1;
    for at in memmem::rfind_iter(&bytes[..whole], b",\"kind\":\"checkpoint\",") {
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
        // A payload can hold these bytes too.
        let line = whole_lines(&bytes[start..]).next()?;
        if Kind::of_line(line) == Kind::Checkpoint && RawLine::parse(line).is_ok() {
            return Some(start);
        }
    }
    None
}
