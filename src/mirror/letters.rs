//! Dead letters, sent once more.

use std::io;
use std::path::Path;

use super::batch::{Batch, Pushed};
use super::classify::Verdict;
use super::dead::Letter;
use super::origins::opened_seg;
use super::others::Sorter;
use super::send::{Sender, empty, smaller};
use super::work::Tag;
use crate::event::SpanKind;
use crate::ledger::{segment_name, segments};
use crate::reader::{Found, SegmentReader};

/// Sends the dead letters of a session again: of living writers' segments, too, since no cursor
/// has anything to do with them.
pub(super) async fn letters(
    dir: &Path,
    sorter: &mut Sorter<'_>,
    sender: &mut Sender<'_>,
) -> io::Result<()> {
    for (seg, path) in segments(dir)? {
        let letters = sender.state.letters(dir, seg)?.unresolved;
        if letters.is_empty() {
            continue;
        }
        if !sorter.meant(&path)? {
            sender.sent.elsewhere += 1;
            continue;
        }
        for letter in letters {
            if sender.sent.stopped.is_some() {
                return Ok(());
            }
            if sender.letter(dir, &letter).await? {
                letter.resolve(&sender.state.place(dir, seg)?)?;
            }
        }
    }
    Ok(())
}

impl Sender<'_> {
    /// Sends the spans of a dead letter once more. Whether a server has all of them now.
    async fn letter(&mut self, session: &Path, letter: &Letter) -> io::Result<bool> {
        let mut stack = self.lines(session, letter)?;
        let mut taken = !stack.is_empty();
        while let Some(batch) = stack.pop() {
            let len = batch.len() as u64;
            match self.deliver(&batch).await {
                Verdict::Accepted { rejected, message } => {
                    self.sent.spans += len.saturating_sub(rejected);
                    self.sent.dead += rejected.min(len);
                    if rejected > 0 {
                        self.sent.last_dead = Some(message);
                    }
                    taken &= rejected == 0;
                }
                Verdict::Split { .. } | Verdict::Dead { .. } if batch.len() > 1 => {
                    if let Ok((first, second)) = batch.split() {
                        stack.extend([second, first]);
                    }
                }
                Verdict::Split { why } => match smaller(batch) {
                    Ok(batch) => stack.push(batch),
                    Err(_) => taken = self.refused_again(why),
                },
                Verdict::Dead { why } => taken = self.refused_again(why),
                Verdict::Retry { why, .. } | Verdict::Wait { why } => {
                    (self.tell)(&self.sent, Some(&why));
                    self.sent.stopped = Some(why);
                    return Ok(false);
                }
            }
            (self.tell)(&self.sent, None);
        }
        Ok(taken)
    }

    /// Counts a span that is refused once more.
    fn refused_again(&mut self, why: String) -> bool {
        self.sent.dead += 1;
        self.sent.last_dead = Some(why);
        false
    }

    /// The spans of the lines that a letter is about, the first ones last.
    fn lines(&mut self, session: &Path, letter: &Letter) -> io::Result<Vec<Batch<Tag>>> {
        let path = session.join(segment_name(letter.from.seg));
        let mut reader = SegmentReader::open(&path)?;
        reader.halve(|line| Some(line.seq < letter.from.seq))?;
        let (mut batches, mut batch) = (Vec::new(), empty());
        while let Some(found) = reader.next()? {
            let Found::Line(line) = found else { continue };
            if line.seq > letter.to.seq {
                break;
            }
            if line.seq < letter.from.seq || !SpanKind::is_close_kind(&line.kind) {
                continue;
            }
            let opened = opened_seg(&line);
            let Some(origin) = self.origins.of(&path, opened)? else {
                continue;
            };
            let (work, end) = (0, 0);
            let at = line.address();
            let tag = Tag { work, at, end };
            if batch.push_line(&origin, &line, tag) == Pushed::Full {
                batches.push(std::mem::replace(&mut batch, empty()));
                let _ = batch.push_line(&origin, &line, tag);
            }
        }
        batches.push(batch);
        batches.retain(|batch| !batch.is_empty());
        batches.reverse();
        Ok(batches)
    }
}
