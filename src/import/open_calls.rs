//! Tool calls of a source that wait for their results.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use serde_json::Value;

use super::history::{History, Span};
use crate::trace::Outcome;

/// More calls are not held: a source with so many without results doesn't have their results.
const MOST: usize = 1_000;

/// The calls without a result, by what the result has in common with them; those of one key in their order.
#[derive(Default)]
pub(super) struct OpenCalls {
    by_key: BTreeMap<String, VecDeque<(Span, Value)>>,
    count: usize,
}

impl OpenCalls {
    /// Adds a call, with the fields that its close line repeats.
    pub fn add(
        &mut self,
        history: &mut History<'_>,
        key: String,
        span: Span,
        call: Value,
    ) -> io::Result<()> {
        if self.count >= MOST {
            self.close_all(history, span.start())?;
        }
        self.count += 1;
        self.by_key.entry(key).or_default().push_back((span, call));
        Ok(())
    }

    /// The oldest call of a key.
    pub fn take(&mut self, key: &str) -> Option<(Span, Value)> {
        let same = self.by_key.get_mut(key)?;
        let oldest = same.pop_front()?;
        if same.is_empty() {
            self.by_key.remove(key);
        }
        self.count -= 1;
        Some(oldest)
    }

    /// Closes the calls that got no result.
    pub fn close_all(&mut self, history: &mut History<'_>, time: u64) -> io::Result<()> {
        self.count = 0;
        let calls = std::mem::take(&mut self.by_key);
        let mut calls = calls.into_values().flatten();
        calls.try_for_each(|(span, call)| history.close(span, time, Outcome::Unset, call))
    }
}
