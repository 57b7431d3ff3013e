//! The segments that are being sent: how far each was read, and how far a server has it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::cursor::Cursor;
use super::others::found;
use super::state::{self, Place};
use crate::ledger::{Live, unmark};
use crate::reader::Address;

/// Whose segment it is.
#[derive(Clone, Debug)]
pub(super) enum Of {
    /// This process's own.
    Live(Arc<Live>),
    /// Another process's, with the marker that goes when all of it was sent.
    Other(Option<PathBuf>),
}

/// Where a span in a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    /// The number of its segment among the works.
    pub work: u64,
    pub at: Address,
    /// Where its line ends.
    pub end: u64,
}

/// A segment that is being sent.
pub(super) struct Work {
    /// Where its cursor and its dead letters are.
    pub place: Place,
    seg: u32,
    of: Of,
    /// Another process's session and which segment of it was read: it may be removed, and begun
    /// again under the same name, while a server is waited for.
    was: Option<(PathBuf, String)>,
    cursor: Cursor,
    /// Spans of it that were read, and that no server has answered for.
    pending: u64,
    /// How far it was read, once that is as far as it can be.
    read_to: Option<u64>,
}

impl Work {
    pub fn new(
        place: Place,
        seg: u32,
        of: Of,
        was: Option<(PathBuf, String)>,
        cursor: Cursor,
    ) -> Self {
        Self {
            place,
            seg,
            of,
            was,
            cursor,
            pending: 0,
            read_to: None,
        }
    }

    /// Whether what is found under its name is still it.
    pub fn is_there(&self) -> bool {
        if let Of::Live(live) = &self.of {
            return live.is_there();
        }
        let Some((session, identity)) = &self.was else {
            return true;
        };
        // One that can't be read now may well be.
        match found(state::identity(session, self.seg)) {
            Ok(now) => now.as_ref() == Some(identity),
            Err(_) => true,
        }
    }

    /// Keeps how far it got.
    fn save(&self) -> io::Result<()> {
        match &self.of {
            // In memory, and on disk now and then: a thousand sessions are a thousand files.
            Of::Live(live) => {
                live.pass(self.cursor.offset, self.cursor.sent);
                Ok(())
            }
            Of::Other(_) if !self.is_there() => Ok(()),
            Of::Other(_) => unless_gone(self.cursor.write(&self.place, self.seg)),
        }
    }

    /// Whether all of it that is there was sent.
    fn done(&self) -> Option<u64> {
        self.read_to.filter(|_| self.pending == 0)
    }

    fn end(&self) -> io::Result<()> {
        match &self.of {
            Of::Live(live) => live.settle(),
            Of::Other(Some(marker)) if self.is_there() => unmark(marker),
            Of::Other(_) => Ok(()),
        }
    }
}

/// A session that was removed meanwhile needs neither cursor nor letters.
pub(super) fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// All that are being sent: the last one may still be being read.
#[derive(Default)]
pub(super) struct Works {
    all: BTreeMap<u64, Work>,
    next: u64,
}

impl Works {
    /// Takes one in. Its number.
    pub fn begin(&mut self, work: Work) -> u64 {
        let number = self.next;
        self.next += 1;
        self.all.insert(number, work);
        number
    }

    pub fn get(&self, number: u64) -> Option<&Work> {
        self.all.get(&number)
    }

    /// A span of it was read.
    pub fn took(&mut self, number: u64) {
        if let Some(work) = self.all.get_mut(&number) {
            work.pending += 1;
        }
    }

    /// As far as it can be read it was.
    pub fn read_to(&mut self, number: u64, offset: u64) -> io::Result<()> {
        let Some(work) = self.all.get_mut(&number) else {
            return Ok(());
        };
        work.read_to = Some(offset);
        if work.done().is_none() {
            return Ok(());
        }
        if offset > work.cursor.offset {
            work.cursor.offset = offset;
            work.save()?;
        }
        work.end()?;
        self.all.remove(&number);
        Ok(())
    }

    /// So many spans need not be sent again, the last of which ends at `until`; of them so many
    /// were accepted.
    pub fn pass(&mut self, number: u64, spans: u64, accepted: u64, until: u64) -> io::Result<()> {
        let Some(work) = self.all.get_mut(&number) else {
            return Ok(());
        };
        work.pending = work.pending.saturating_sub(spans);
        work.cursor.sent += accepted;
        // What follows the last span of a segment is nothing that is sent: passed when that one is.
        let done = work.done();
        work.cursor.offset = done.map_or(until, |read_to| read_to.max(until));
        work.save()?;
        if done.is_some() {
            work.end()?;
            self.all.remove(&number);
        }
        Ok(())
    }

    /// Lets go of all of them. Whose they were.
    pub fn abandon(&mut self) -> Vec<Of> {
        let all = std::mem::take(&mut self.all);
        all.into_values().map(|work| work.of).collect()
    }
}
