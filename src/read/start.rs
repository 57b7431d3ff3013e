//! Where in a segment to start.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::trace::Address;
use crate::trace::{self, ReadItem, SegmentReader};
use crate::trace::{TailReader, kind_of, whole_lines};

/// How far back the last lines are looked for.
const MAX_REACH: u64 = 256 << 20;

/// Where the line begins that `offset` lies in: a writer may have been half-way through it.
pub(super) fn line_start(path: &Path, offset: u64) -> io::Result<u64> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    trace::line_start(&file, offset.min(size))
}

/// When a line was written, and where it begins.
pub(super) fn moment_of(
    found: &[(u32, PathBuf)],
    address: Address,
) -> io::Result<Option<(String, u64)>> {
    let Some((_, path)) = found.iter().find(|(number, _)| *number == address.seg) else {
        return Ok(None);
    };
    let mut reader = SegmentReader::open(path)?;
    reader.halve(|line| Some(line.seq <= address.seq))?;
    loop {
        let ts = match reader.next()? {
            Some(ReadItem::Line(line)) if line.seq >= address.seq => line.ts.to_owned(),
            Some(_) => continue,
            None => return Ok(None),
        };
        return Ok(Some((ts, reader.line_offset())));
    }
}

/// Where the first line begins that was written no earlier than `ts`.
pub(super) fn since(path: &Path, ts: &str) -> io::Result<u64> {
    let mut reader = SegmentReader::open(path)?;
    reader.halve(|line| Some(line.ts < ts))?;
    loop {
        match reader.next()? {
            Some(ReadItem::Line(line)) if line.ts >= ts => return Ok(reader.line_offset()),
            Some(_) => {}
            None => return Ok(reader.offset()),
        }
    }
}

/// Where the last `count` lines begin that count.
pub(super) fn last(path: &Path, count: usize, kinds: &[String]) -> io::Result<u64> {
    let counts = |line: &[u8]| match kind_of(line) {
        Some(b"message_delta" | b"tool_input_delta") => false,
        Some(kind) => kinds.is_empty() || kinds.iter().any(|wanted| wanted.as_bytes() == kind),
        None => false,
    };
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    if count == 0 {
        return Ok(size);
    }
    let mut reader = TailReader::new(&file, size, 0, 64 << 10);
    loop {
        let tail = reader.longer()?;
        let mut at = tail.offset;
        let mut begins = VecDeque::new();
        for line in whole_lines(&tail.bytes) {
            if counts(line) {
                begins.push_back(at);
                if begins.len() > count {
                    begins.pop_front();
                }
            }
            at += line.len() as u64;
        }
        if begins.len() == count || tail.whole || tail.reach >= MAX_REACH {
            return Ok(begins.front().copied().unwrap_or(at));
        }
    }
}
