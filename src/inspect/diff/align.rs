//! Two sessions side by side, turn by turn.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::sketch::TurnSketch;
use crate::read::SessionReader;
use crate::session::Turns;
use crate::trace::{Damage, ReadItem};

/// How many turns are read ahead to find where the sessions meet again.
const WINDOW: usize = 8;

/// The turns of a session, one after the other.
struct TurnReader {
    session: PathBuf,
    reader: SessionReader,
    turns: Option<Turns>,
    /// Turns that were read and not returned.
    ahead: VecDeque<TurnSketch>,
    damages: Vec<Damage>,
}

impl TurnReader {
    fn open(session: &Path) -> io::Result<Self> {
        Ok(Self {
            session: session.to_owned(),
            reader: SessionReader::open(session)?,
            turns: Some(Turns::default()),
            ahead: VecDeque::new(),
            damages: Vec::new(),
        })
    }

    /// Reads on until so many turns are ahead, or the session ends.
    fn fill(&mut self, count: usize) -> io::Result<()> {
        while self.ahead.len() < count
            && let Some(turns) = &mut self.turns
        {
            let mut ready = Vec::new();
            match self.reader.next()? {
                Some(ReadItem::Line(line)) => turns.take(&line),
                Some(ReadItem::Damaged(damage)) => self.damages.push(damage),
                None => ready = self.turns.take().unwrap_or_default().finish(),
            }
            if let Some(turns) = &mut self.turns {
                ready.extend(std::iter::from_fn(|| turns.ready()));
            }
            for mut turn in ready {
                turn.fetch_requests(&self.session);
                let sketch = TurnSketch::of(&turn);
                if !sketch.is_empty() {
                    self.ahead.push_back(sketch);
                }
            }
        }
        Ok(())
    }
}

/// A turn of the first session, the one of the second that it is compared with, or both.
pub(super) struct Pair {
    pub a: Option<TurnSketch>,
    pub b: Option<TurnSketch>,
}

/// The turns of two sessions in pairs.
pub(super) struct Aligned {
    a: TurnReader,
    b: TurnReader,
    /// How many turns come next that only the first, or only the second, session has.
    alone: (usize, usize),
}

impl Aligned {
    pub fn open(a: &Path, b: &Path) -> io::Result<Self> {
        Ok(Self {
            a: TurnReader::open(a)?,
            b: TurnReader::open(b)?,
            alone: (0, 0),
        })
    }

    pub fn damages(self) -> Vec<Damage> {
        let mut damages = self.a.damages;
        damages.extend(self.b.damages);
        damages
    }

    pub fn next(&mut self) -> io::Result<Option<Pair>> {
        self.a.fill(1)?;
        self.b.fill(1)?;
        if self.alone == (0, 0) {
            self.alone = self.skip()?;
        }
        if self.alone.0 > 0 {
            self.alone.0 -= 1;
            let (a, b) = (self.a.ahead.pop_front(), None);
            return Ok(Some(Pair { a, b }));
        }
        if self.alone.1 > 0 {
            self.alone.1 -= 1;
            let (a, b) = (None, self.b.ahead.pop_front());
            return Ok(Some(Pair { a, b }));
        }
        let pair = Pair {
            a: self.a.ahead.pop_front(),
            b: self.b.ahead.pop_front(),
        };
        let is_end = pair.a.is_none() && pair.b.is_none();
        Ok((!is_end).then_some(pair))
    }

    /// How many turns of either session to pass over until both begin with the same words.
    fn skip(&mut self) -> io::Result<(usize, usize)> {
        let key = |ahead: &VecDeque<TurnSketch>, at: usize| ahead.get(at).map(TurnSketch::key);
        if key(&self.a.ahead, 0) == key(&self.b.ahead, 0) {
            return Ok((0, 0));
        }
        self.a.fill(WINDOW)?;
        self.b.fill(WINDOW)?;
        let same = |i: usize, j: usize| {
            let key = |ahead: &VecDeque<TurnSketch>, at| key(ahead, at).flatten();
            let known = key(&self.a.ahead, i);
            known.is_some() && known == key(&self.b.ahead, j)
        };
        let pairs = (0..2 * WINDOW).flat_map(|sum| (0..=sum).map(move |i| (i, sum - i)));
        let meet = pairs.filter(|(i, j)| *i < WINDOW && *j < WINDOW);
        let mut meet = meet.filter(|(i, j)| same(*i, *j));
        // As many on both sides are pairs of changed turns.
        Ok(match meet.next() {
            Some((i, j)) if i != j => (i.saturating_sub(j), j.saturating_sub(i)),
            _ => (0, 0),
        })
    }
}
