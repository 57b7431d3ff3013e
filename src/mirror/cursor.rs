//! The cursor of a segment: how far it was sent.
//!
//! A cursor moves only when the server has acknowledged everything before it. If it can't be read, the
//! segment is sent again from its beginning: delivery is at least once.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::state::SegmentFiles;

/// Room for the two longest numbers, so that a write always replaces the whole content.
const WIDTH: usize = 80;
/// The same with the identity of the segment.
const WIDTH_WITH_IDENTITY: usize = 128;

/// How far a segment has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Everything before this byte was accepted, or is in the dead letters.
    pub offset: u64,
    /// The spans accepted so far.
    pub sent: u64,
}

fn file_name(seg: u32) -> String {
    format!("trace.{seg:04}.cursor")
}

impl Cursor {
    /// Reads a segment's cursor. One that is missing, invalid or of another segment is at the beginning.
    pub fn read(files: &SegmentFiles, seg: u32) -> Self {
        let read = || -> Option<Self> {
            let mut text = String::new();
            let file = files.open(&file_name(seg)).ok()?;
            file.take(4096).read_to_string(&mut text).ok()?;
            let value: Value = serde_json::from_str(&text).ok()?;
            if value.get("segment").and_then(Value::as_str) != files.identity.as_deref() {
                return None;
            }
            Some(Self {
                offset: value.get("offset")?.as_u64()?,
                sent: value.get("sent")?.as_u64()?,
            })
        };
        read().unwrap_or_default()
    }

    /// Overwrites the file in place, in one write that fits into a sector. A new file per write would
    /// cost more than sending the spans.
    pub fn write(self, files: &SegmentFiles, seg: u32) -> io::Result<()> {
        let Self { offset, sent } = self;
        let (of, width) = match &files.identity {
            Some(of) => (format!(",\"segment\":\"{of}\""), WIDTH_WITH_IDENTITY),
            None => (String::new(), WIDTH),
        };
        let text = format!("{{\"v\":1,\"offset\":{offset},\"sent\":{sent}{of}}}");
        let mut options = OpenOptions::new();
        options.truncate(false).write(true);
        files.write(&file_name(seg), &mut options, |file| {
            file.write_all_at(format!("{text:<width$}\n").as_bytes(), 0)?;
            // A longer file was not written by us.
            match file.metadata()?.len() > width as u64 + 1 {
                true => file.set_len(width as u64 + 1),
                false => Ok(()),
            }
        })
    }
}
