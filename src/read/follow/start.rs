//! Finds where in a segment a follower starts.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::trace::{
    self, Address, Kind, ReadItem, SegmentReader, TailReader, kind_of, whole_lines,
};

/// How far back the last lines are searched for.
const MAX_REACH: u64 = 256 << 20;

/// Where the line begins that `offset` lies in: the writer may not have completed it yet.
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
    reader.seek_past(|line| line.seq < address.seq)?;
    let offset = reader.offset();
    while let Some(item) = reader.next()? {
        if let ReadItem::Line(line) = item {
            return Ok(Some((line.ts.to_owned(), offset)));
        }
    }
    Ok(None)
}

/// Where the first line begins that was written no earlier than `ts`.
pub(super) fn since(path: &Path, ts: &str) -> io::Result<u64> {
    let mut reader = SegmentReader::open(path)?;
    reader.seek_past(|line| line.ts < ts)?;
    Ok(reader.offset())
}

/// Where the last `count` lines begin that are of these kinds, or of any kind if there are none. Deltas don't count.
pub(super) fn last(path: &Path, count: usize, kinds: &[String]) -> io::Result<u64> {
    let counts = |line: &[u8]| match (Kind::of_line(line), kind_of(line)) {
        (Kind::MessageDelta | Kind::ToolInputDelta, _) | (_, None) => false,
        (_, Some(kind)) => kinds.is_empty() || kinds.iter().any(|name| name.as_bytes() == kind),
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
