//! Reading a session's lines: segments one by one or merged, damage reported and passed over; and
//! following them as they grow (feature `cli`).

#[cfg(feature = "cli")]
pub(crate) mod follow;
mod merge;

use std::io;
use std::path::{Path, PathBuf};

use crate::trace::{Line, ReadItem, SegmentReader, about, segments};

#[cfg(feature = "cli")]
pub use follow::{Followed, Follower, Start};
pub use merge::SessionReader;

/// All lines of a session directory, segment after segment. Damage is passed over.
///
/// ```no_run
/// let lines = spanledger::read::lines("sessions/ses_1")?;
/// let tools = lines.iter().filter(|line| line.kind == "tool_call").count();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn lines(session: impl AsRef<Path>) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let session = session.as_ref();
    for (_, path) in segments(session).map_err(about(session))? {
        let mut reader = SegmentReader::open(path)?;
        while let Some(item) = reader.next()? {
            if let ReadItem::Line(line) = item {
                lines.extend(line.to_line());
            }
        }
    }
    Ok(lines)
}

/// The directory of a session under a root. Any id has one.
///
/// ```
/// let dir = spanledger::read::session_dir("/traces", "../x");
/// assert!(dir.starts_with("/traces/sessions"));
/// ```
pub fn session_dir(root: impl AsRef<Path>, session_id: &str) -> PathBuf {
    crate::trace::Root::new(root.as_ref().to_owned()).session(session_id)
}
