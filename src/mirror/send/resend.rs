//! Sends dead letters again.

use std::io;
use std::path::{Path, PathBuf};

use super::Sender;
use super::batch::Pushed;
use crate::mirror::progress::dead_letters::DeadLetter;
use crate::mirror::progress::ownership::{Header, Owner, Ownership};
use crate::trace::{ReadItem, SegmentReader, segment_name};

/// Sends the dead letters of a session again. Segments of live writers are included, because no cursor
/// moves. The owners of segments that were skipped are added to `skipped`.
pub(crate) async fn resend_dead_letters(
    dir: &Path,
    segs: &[(u32, PathBuf)],
    ownership: &Ownership<'_>,
    sender: &mut Sender<'_>,
    skipped: &mut Vec<Owner>,
) -> io::Result<()> {
    for (seg, path) in segs {
        let letters = sender.state.dead_letters(dir, *seg)?.unresolved;
        if letters.is_empty() {
            continue;
        }
        let owner = Header::read(path)?.map(|header| ownership.after_writer(&header));
        if owner != Some(Owner::ThisEndpoint) {
            skipped.extend(owner);
            continue;
        }
        for letter in letters {
            let is_taken = sender.resend(dir, &letter).await?;
            if sender.sent.stopped.is_some() {
                return Ok(());
            }
            if is_taken {
                letter.resolve(&sender.state.files(dir, *seg)?)?;
            }
        }
    }
    Ok(())
}

impl Sender<'_> {
    /// Sends the spans of a dead letter and returns whether the server accepted all of them.
    async fn resend(&mut self, session: &Path, letter: &DeadLetter) -> io::Result<bool> {
        let (accepted, refused) = (self.sent.spans, self.sent.dead);
        let path = session.join(segment_name(letter.from.seg));
        let mut reader = SegmentReader::open(&path)?;
        reader.halve(|line| Some(line.seq < letter.from.seq))?;
        while let Some(found) = reader.next()? {
            let ReadItem::Line(line) = found else {
                continue;
            };
            if line.seq > letter.to.seq {
                break;
            }
            let is_meant = line.seq >= letter.from.seq && line.kind().is_close();
            if is_meant && self.push(&path, &line, None, 0).await? == Pushed::Full {
                return Ok(false);
            }
        }
        self.flush().await?;
        let is_sent = self.sent.stopped.is_none() && self.sent.spans > accepted;
        Ok(is_sent && self.sent.dead == refused)
    }
}
