//! How far the mirror got in a segment.
//!
//! A cursor moves only when a server has said OK to everything before it. One that can't be read
//! means that the segment is sent again from its beginning: at least once, never less.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::ledger::{open_private, segment_name};

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

    /// Keeps it, whole or not at all.
    pub fn write(self, session: &Path, seg: u32) -> io::Result<()> {
        let path = Self::path(session, seg);
        let unnamed = path.with_extension("cursor.new");
        let mut file = open_private(
            &unnamed,
            OpenOptions::new().create(true).truncate(true).write(true),
        )?;
        let value = json!({"v": 1, "offset": self.offset, "sent": self.sent});
        writeln!(file, "{value}")?;
        std::fs::rename(&unnamed, &path)
    }
}
