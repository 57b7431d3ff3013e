//! Reading a session's lines: segments one by one or merged, damage told and passed over; and
//! following them as they grow (feature `follow`).

mod address;
#[cfg(feature = "follow")]
mod follow;
mod merge;
#[cfg(feature = "follow")]
mod place;
mod raw;
mod scan;
mod segment;
#[cfg(feature = "follow")]
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use crate::ledger::{Line, segments};

pub use address::{Address, NotAnAddress};
#[cfg(feature = "follow")]
pub use follow::{Followed, Follower, Start};
pub use merge::SessionReader;
pub use raw::{Payload, RawLine, RawValue};
#[cfg(feature = "mirror")]
pub(crate) use scan::has_backslash;
pub(crate) use scan::string_end;
pub use segment::{Damage, Found, Item, Segment, SegmentReader};
#[cfg(feature = "cli")]
pub(crate) use watch::Watch;

/// Lets an error say what it is about: the system's own words name no file.
pub(crate) fn about(path: &Path) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// All lines of a session directory, segment after segment. Damage is passed over.
///
/// ```no_run
/// let lines = spanledger::reader::lines("sessions/ses_1")?;
/// let tools = lines.iter().filter(|line| line.kind == "tool_call").count();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn lines(session: impl AsRef<Path>) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let session = session.as_ref();
    for (_, path) in segments(session).map_err(about(session))? {
        for item in Segment::open(path)? {
            if let Item::Line(line) = item? {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

/// The directory of a session under a root, whatever its id looks like.
///
/// ```
/// let dir = spanledger::reader::session_dir("/traces", "../x");
/// assert!(dir.starts_with("/traces/sessions"));
/// ```
pub fn session_dir(root: impl AsRef<Path>, session_id: &str) -> PathBuf {
    crate::ledger::Root::new(root.as_ref().to_owned()).session(session_id)
}
