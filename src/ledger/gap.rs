//! Lines that could not be written, counted until a `gap` line can be written.

use serde_json::json;

use crate::trace::time_text;

/// How many kinds a gap counts separately.
const MOST_KINDS: usize = 64;

/// What is missing since the last line that was written.
#[derive(Debug, Default)]
pub(super) struct Gap {
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
        // A gap must stay small, and users' own kinds could be many.
        let full = self.by_kind.len() >= MOST_KINDS;
        let known = |(known, _): &&mut (String, u64)| known == kind || (full && known == "other");
        match self.by_kind.iter_mut().find(known) {
            Some((_, n)) => *n += count,
            None if full => self.by_kind.push(("other".to_owned(), count)),
            None => self.by_kind.push((kind.to_owned(), count)),
        }
    }

    /// The payload of its line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let by_kind: serde_json::Map<_, _> = self
            .by_kind
            .iter()
            .map(|(kind, count)| (kind.clone(), json!(count)))
            .collect();
        let (first, last) = (time_text(self.first, 6), time_text(self.last, 6));
        let members = format!(
            "\"count\":{},\"by_kind\":{},\"first_ts\":\"{first}\",\"last_ts\":\"{last}\",\"cause\":{},",
            self.count,
            json!(by_kind),
            json!(self.cause)
        );
        out.extend_from_slice(members.as_bytes());
    }
}
