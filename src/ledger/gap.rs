//! Events that could not be written, counted until the trace itself can say so.

use super::clock::write_time;
use crate::event::Ids;
use crate::redact::write_string;

/// What is missing since the last line that was written.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    pub count: u64,
    by_kind: Vec<(String, u64)>,
    first: u64,
    last: u64,
    cause: String,
}

impl Gap {
    pub fn add(&mut self, kind: &str, count: u64, now: u64, cause: &str) {
        if self.count == 0 {
            self.first = now;
            self.cause = cause.to_owned();
        }
        self.count += count;
        self.last = now;
        // Kinds are few; users' own could be many, and a gap must stay small.
        let full = self.by_kind.len() >= 64;
        let known = |(known, _): &&mut (String, u64)| known == kind || (full && known == "other");
        match self.by_kind.iter_mut().find(known) {
            Some((_, n)) => *n += count,
            None if full => self.by_kind.push(("other".to_owned(), count)),
            None => self.by_kind.push((kind.to_owned(), count)),
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("\"count\":{},\"by_kind\":{{", self.count).as_bytes());
        for (index, (kind, n)) in self.by_kind.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(kind, out);
            out.extend_from_slice(format!(":{n}").as_bytes());
        }
        out.extend_from_slice(b"},\"first_ts\":\"");
        write_time(self.first, 6, out);
        out.extend_from_slice(b"\",\"last_ts\":\"");
        write_time(self.last, 6, out);
        out.extend_from_slice(b"\",\"cause\":");
        write_string(&self.cause, out);
        out.push(b',');
    }
}

/// A span's close that could not be written: just enough to say that it ended, and how.
#[derive(Debug)]
pub(crate) struct LostClose {
    pub kind: &'static str,
    pub turn: Option<u32>,
    pub ids: Ids,
    pub start: u64,
    pub duration: u64,
    pub outcome: &'static str,
    /// What decides whether and how it is sent.
    pub sending: Vec<u8>,
}

/// Closes remembered while nothing can be written; beyond that they are only counted.
pub(crate) const LOST_CLOSES: usize = 1024;
