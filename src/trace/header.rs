//! The header: the first line of a segment.
//!
//! [`SegmentHeader`] reads it, [`NewHeader`] writes it.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::typed::SegmentHeader;
use super::{RawLine, ReadItem, SegmentReader, VERSION};

/// The fields of a header that is about to be written.
pub(crate) struct NewHeader<'a> {
    pub writer: Option<&'a str>,
    /// The process, as JSON.
    pub process: &'a str,
    pub resource: &'a Value,
    /// Where the segment is sent, as JSON.
    pub mirror: Option<&'a str>,
    pub digest_salt: &'a str,
    pub session: SessionHeader,
}

/// The fields of a header about its session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionHeader {
    /// Why the session exists although no run named it.
    pub implicit: Option<&'static str>,
    /// The segment that the totals count from, if not the writer's first one.
    pub counts_from: Option<u32>,
}

impl NewHeader<'_> {
    /// The members of its payload, each followed by a comma.
    pub fn members(&self) -> Vec<u8> {
        let (version, process, resource) = (env!("CARGO_PKG_VERSION"), self.process, self.resource);
        let mut out = format!(
            "\"writer\":{},\"format\":{VERSION},\"spanledger\":\"{version}\",\"process\":{process},\
             \"resource\":{resource},\"scope\":{{\"name\":\"spanledger\",\"version\":\"{version}\"}},",
            json!(self.writer)
        );
        out.push_str(&format!("\"digest_salt\":{},", json!(self.digest_salt)));
        if let Some(policy) = self.mirror {
            out.push_str(&format!("\"mirror\":{policy},"));
        }
        if let Some(reason) = self.session.implicit {
            out.push_str(&format!("\"implicit\":{},", json!(reason)));
        }
        if let Some(seg) = self.session.counts_from {
            out.push_str(&format!("\"counts_from\":{seg},"));
        }
        out.into_bytes()
    }
}

/// Passes the first line of a segment to `read`. `None`: its writer died before the line was complete.
pub(crate) fn first_line<T>(
    path: &Path,
    read: impl FnOnce(&RawLine<'_>) -> T,
) -> io::Result<Option<T>> {
    let mut reader = SegmentReader::open(path)?;
    while let Some(item) = reader.next()? {
        if let ReadItem::Line(line) = item {
            return Ok(Some(read(&line)));
        }
    }
    Ok(None)
}

impl SegmentHeader<'_> {
    /// Passes the header of a segment to `read`. `None`: the segment has none.
    pub(crate) fn in_file<T>(
        path: &Path,
        read: impl FnOnce(&SegmentHeader<'_>) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let read = first_line(path, |line| read(&SegmentHeader::of(line)?))?;
        Ok(read.flatten())
    }
}

#[cfg(test)]
mod tests;
