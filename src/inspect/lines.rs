//! A session line by line.

use std::io;
use std::path::Path;

use crate::read::SessionReader;
use crate::trace::{Damage, RawLine, ReadItem};

/// Calls `take` with each line of a session, in order. Returns what is damaged.
pub(crate) fn each_line(
    session: &Path,
    mut take: impl FnMut(&RawLine<'_>),
) -> io::Result<Vec<Damage>> {
    let mut reader = SessionReader::open(session)?.with_all_fields();
    let mut damages = Vec::new();
    while let Some(item) = reader.next()? {
        match item {
            ReadItem::Line(line) => take(&line),
            ReadItem::Damaged(damage) => damages.push(damage),
        }
    }
    Ok(damages)
}
