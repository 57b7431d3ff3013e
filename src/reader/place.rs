//! Where in a segment to start.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::address::Address;
use super::segment::{self, Found, SegmentReader};
use crate::ledger::{kind_of, whole_lines};

/// How far back the last lines are looked for.
const MAX_REACH: u64 = 256 << 20;

/// Where the line begins that `offset` lies in: a writer may have been half-way through it.
pub(super) fn line_start(path: &Path, offset: u64) -> io::Result<u64> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    segment::line_start(&file, offset.min(size))
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
            Some(Found::Line(line)) if line.seq >= address.seq => line.ts.to_owned(),
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
            Some(Found::Line(line)) if line.ts >= ts => return Ok(reader.line_offset()),
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
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if count == 0 {
        return Ok(size);
    }
    let mut reach = 64 << 10;
    loop {
        let from = size.saturating_sub(reach);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.by_ref().take(size - from).read_to_end(&mut bytes)?;
        let first = match from {
            0 => 0,
            _ => memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1),
        };
        let mut at = from + first as u64;
        let mut begins = VecDeque::new();
        for line in whole_lines(&bytes[first..]) {
            if counts(line) {
                begins.push_back(at);
                if begins.len() > count {
                    begins.pop_front();
                }
            }
            at += line.len() as u64;
        }
        if begins.len() == count || from == 0 || reach >= MAX_REACH {
            return Ok(begins.front().copied().unwrap_or(at));
        }
        reach *= 4;
    }
}
