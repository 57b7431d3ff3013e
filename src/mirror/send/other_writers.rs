//! Sends segments that another process wrote.

use std::io;
use std::path::{Path, PathBuf};

use super::Sender;
use super::in_flight::Source;
use crate::ledger::{left_open_in, marker};
use crate::mirror::progress::ownership::{Owner, Ownership};

/// Sends those of a session's segments that no other process sends. The owners of others are added to `skipped`.
pub(crate) async fn send_segments(
    dir: &Path,
    segs: &[(u32, PathBuf)],
    ownership: &Ownership<'_>,
    sender: &mut Sender<'_>,
    skipped: &mut Vec<Owner>,
) -> io::Result<()> {
    let root = ownership.root();
    let mut open = None;
    for (seg, path) in segs {
        // A marker means that something beside the trace was not sent.
        let marker =
            marker(root, dir, *seg).filter(|marker| !sender.state.is_separate() && marker.exists());
        let (cursor, size) = sender.state.cursor(dir, *seg)?;
        if cursor.offset == size && marker.is_none() {
            continue;
        }
        match ownership.owner_of(path)?.0 {
            Owner::LiveUnassigned => sender.segment(dir, *seg, Source::Other(None)).await?,
            Owner::ThisEndpoint => {
                let open = match &open {
                    Some(open) => open,
                    None => open.insert(left_open_in(root, dir)?),
                };
                let marker = marker.filter(|_| !open.contains(seg));
                sender.segment(dir, *seg, Source::Other(marker)).await?;
            }
            other => skipped.push(other),
        }
    }
    Ok(())
}
