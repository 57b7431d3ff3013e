//! Markers: `outbox/<session>.<segment>` exists while something of that segment is left to send.
//!
//! A process that records for an endpoint creates it before the segment's first line. It is removed when all
//! of the segment was sent and its spans are closed.

use std::io;
use std::path::{Path, PathBuf};

use crate::trace::{Dir, FILE, Root, if_exists, split};

/// The directory of the markers.
pub(super) fn outbox_dir(root: &Root) -> PathBuf {
    root.path().join("outbox")
}

/// The marker of a segment. No session's directory has a dot in its name.
pub(crate) fn marker(root: &Root, session: &Path, seg: u32) -> Option<PathBuf> {
    let name = session.file_name()?.to_str()?;
    Some(outbox_dir(root).join(format!("{name}.{seg:04}")))
}

#[cfg(test)]
thread_local! {
    /// How often this thread has listed an outbox.
    pub(super) static LISTED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Which segments have a marker: the name of the session's directory, and the number.
pub(crate) fn marked(root: &Root) -> io::Result<Vec<(String, u32)>> {
    #[cfg(test)]
    LISTED.set(LISTED.get() + 1);
    let Some(entries) = if_exists(std::fs::read_dir(outbox_dir(root)))? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let parts = name.to_str().and_then(|name| name.rsplit_once('.'));
        if let Some((session, seg)) = parts
            && let Ok(seg) = seg.parse()
            && !session.is_empty()
        {
            found.push((session.to_owned(), seg));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Creates a marker, if it isn't there.
pub(crate) fn mark(marker: &Path) -> io::Result<()> {
    let (outbox, name) = split(marker);
    Dir::make(outbox, 1)?.file(name, FILE).map(drop)
}

/// Removes a marker, if it is there.
pub(crate) fn unmark(marker: &Path) -> io::Result<()> {
    let (outbox, name) = split(marker);
    let removed = Dir::open(outbox, 1).and_then(|outbox| outbox.remove(name));
    if_exists(removed).map(drop)
}

#[cfg(test)]
mod tests;
