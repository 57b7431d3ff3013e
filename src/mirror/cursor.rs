//! How far the mirror got in a segment.
//!
//! A cursor moves only when a server has said OK to everything before it. One that can't be read
//! means that the segment is sent again from its beginning: at least once, never less.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::state::Place;

/// As long as the two longest numbers make it: what is there is always written over whole.
const WIDTH: usize = 80;
/// The same with the name of the segment.
const WIDTH_OF: usize = 128;

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
    /// Reads a segment's cursor. One that is missing, makes no sense or is another segment's is at
    /// the beginning.
    pub fn read(place: &Place, seg: u32) -> Self {
        let read = || -> Option<Self> {
            let mut text = String::new();
            let file = place.open(&file_name(seg)).ok()?;
            file.take(4096).read_to_string(&mut text).ok()?;
            let value: Value = serde_json::from_str(&text).ok()?;
            if value.get("segment").and_then(Value::as_str) != place.of.as_deref() {
                return None;
            }
            Some(Self {
                offset: value.get("offset")?.as_u64()?,
                sent: value.get("sent")?.as_u64()?,
            })
        };
        read().unwrap_or_default()
    }

    /// Keeps it: in its place, in one write that fits in a sector. A new file for each would cost
    /// more than the spans that are sent meanwhile.
    pub fn write(self, place: &Place, seg: u32) -> io::Result<()> {
        let Self { offset, sent } = self;
        let (of, width) = match &place.of {
            Some(of) => (format!(",\"segment\":\"{of}\""), WIDTH_OF),
            None => (String::new(), WIDTH),
        };
        let text = format!("{{\"v\":1,\"offset\":{offset},\"sent\":{sent}{of}}}");
        let mut options = OpenOptions::new();
        options.truncate(false).write(true);
        place.write(&file_name(seg), &mut options, |file| {
            file.write_all_at(format!("{text:<width$}\n").as_bytes(), 0)?;
            // Something longer can only stand there if it is not ours.
            match file.metadata()?.len() > width as u64 + 1 {
                true => file.set_len(width as u64 + 1),
                false => Ok(()),
            }
        })
    }
}
