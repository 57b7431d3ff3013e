//! How far the mirror got in a segment.
//!
//! A cursor moves only when a server has said OK to everything before it. One that can't be read
//! means that the segment is sent again from its beginning: at least once, never less.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::ledger::{open_private, segment_name};

/// As long as the two longest numbers make it: what is there is always written over whole.
const WIDTH: usize = 80;

/// How far a segment has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Everything before this byte was accepted, or is in the dead letters.
    pub offset: u64,
    /// The spans accepted so far.
    pub sent: u64,
}

impl Cursor {
    fn path(session: &Path, seg: u32) -> PathBuf {
        session.join(segment_name(seg)).with_extension("cursor")
    }

    /// Reads a segment's cursor. One that is missing or makes no sense is at the beginning.
    pub fn read(session: &Path, seg: u32) -> Self {
        let read = || -> Option<Self> {
            let mut text = String::new();
            let file =
                open_private(&Self::path(session, seg), OpenOptions::new().read(true)).ok()?;
            file.take(4096).read_to_string(&mut text).ok()?;
            let value: Value = serde_json::from_str(&text).ok()?;
            Some(Self {
                offset: value.get("offset")?.as_u64()?,
                sent: value.get("sent")?.as_u64()?,
            })
        };
        read().unwrap_or_default()
    }

    /// Keeps it: in its place, in one write that fits in a sector. A new file for each would cost
    /// more than the spans that are sent meanwhile.
    pub fn write(self, session: &Path, seg: u32) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = open_private(
            &Self::path(session, seg),
            options.create(true).truncate(false).write(true),
        )?;
        let Self { offset, sent } = self;
        let text = format!("{{\"v\":1,\"offset\":{offset},\"sent\":{sent}}}");
        file.write_all_at(format!("{text:<WIDTH$}\n").as_bytes(), 0)?;
        // Something longer can only stand there if it is not ours.
        match file.metadata()?.len() > WIDTH as u64 + 1 {
            true => file.set_len(WIDTH as u64 + 1),
            false => Ok(()),
        }
    }
}
