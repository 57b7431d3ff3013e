//! Sends dead letters again.

use std::io;
use std::path::Path;

use super::batch::{Batch, Pushed};
use super::dead_letters::DeadLetter;
use super::in_flight::SpanRef;
use super::origin::opened_seg;
use super::ownership::Ownership;
use super::send::{Sender, empty_batch};
use crate::trace::{ReadItem, SegmentReader, segment_name, segments};

/// Sends the dead letters of a session again. Segments of live writers are included, because no cursor
/// moves.
pub(super) async fn resend_dead_letters(
    dir: &Path,
    ownership: &mut Ownership<'_>,
    sender: &mut Sender<'_>,
) -> io::Result<()> {
    for (seg, path) in segments(dir)? {
        let letters = sender.state.dead_letters(dir, seg)?.unresolved;
        if letters.is_empty() {
            continue;
        }
        if !ownership.is_for_endpoint(&path)? {
            sender.sent.elsewhere += 1;
            continue;
        }
        for letter in letters {
            let is_taken = sender.resend(dir, &letter).await?;
            if sender.sent.stopped.is_some() {
                return Ok(());
            }
            if is_taken {
                letter.resolve(&sender.state.files(dir, seg)?)?;
            }
        }
    }
    Ok(())
}

impl Sender<'_> {
    /// Sends the spans of a dead letter and returns whether the server accepted all of them.
    async fn resend(&mut self, session: &Path, letter: &DeadLetter) -> io::Result<bool> {
        let refused = self.sent.dead;
        let batches = self.read_letter(session, letter)?;
        let is_empty = batches.is_empty();
        for batch in batches {
            self.deliver(batch).await?;
            if self.sent.stopped.is_some() {
                return Ok(false);
            }
        }
        Ok(!is_empty && self.sent.dead == refused)
    }

    /// The spans of the lines that a dead letter is about.
    fn read_letter(
        &mut self,
        session: &Path,
        letter: &DeadLetter,
    ) -> io::Result<Vec<Batch<SpanRef>>> {
        let path = session.join(segment_name(letter.from.seg));
        let mut reader = SegmentReader::open(&path)?;
        reader.halve(|line| Some(line.seq < letter.from.seq))?;
        let (mut batches, mut batch) = (Vec::new(), empty_batch());
        while let Some(found) = reader.next()? {
            let ReadItem::Line(line) = found else {
                continue;
            };
            if line.seq > letter.to.seq {
                break;
            }
            if line.seq < letter.from.seq || !line.kind().is_close() {
                continue;
            }
            let Some(origin) = self.origins.get(&path, opened_seg(&line))? else {
                continue;
            };
            let span = SpanRef {
                segment: None,
                address: line.address(),
                end: 0,
            };
            if batch.push_line(&origin, &line, span) == Pushed::Full {
                batches.push(std::mem::replace(&mut batch, empty_batch()));
                let _ = batch.push_line(&origin, &line, span);
            }
        }
        batches.push(batch);
        batches.retain(|batch| !batch.is_empty());
        Ok(batches)
    }
}
