//! Lines that could not be written, counted until a `gap` line can be written.

use std::collections::BTreeMap;

use serde_json::json;

use crate::trace::time_text;

/// What is missing since the last line that was written.
#[derive(Debug, Default)]
pub(super) struct Gap {
    pub count: u64,
    by_kind: BTreeMap<String, u64>,
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
        *self.by_kind.entry(kind.to_owned()).or_default() += count;
    }

    /// The payload of its line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (first, last) = (time_text(self.first, 6), time_text(self.last, 6));
        let members = format!(
            "\"count\":{},\"by_kind\":{},\"first_ts\":\"{first}\",\"last_ts\":\"{last}\",\"cause\":{},",
            self.count,
            json!(self.by_kind),
            json!(self.cause)
        );
        out.extend_from_slice(members.as_bytes());
    }
}
