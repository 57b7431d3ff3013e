//! The messages and results that are in the context, and what they have cost so far.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::sizes::{ASSISTANT, RESULTS, SUMMARY, Sizes};
use super::{Carried, ContextItem};
use crate::trace::Address;

/// How many messages and results are followed one by one. Older ones count by their sum.
const MOST: usize = 65_536;

/// Sums over the calls so far, for one byte of the history: the share of a result is a difference of two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    pub calls: u64,
    pub tokens: f64,
    pub usd: f64,
    pub priced: u64,
}

impl Meter {
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.tokens += other.tokens;
        self.usd += other.usd;
        self.priced += other.priced;
    }
}

/// A message or a result.
#[derive(Debug)]
struct ContextEntry {
    part: usize,
    bytes: u64,
    /// A hash of the message's id.
    message: Option<u64>,
    /// The calls that had begun when it came.
    begun: u64,
    /// The sums when it came.
    since: Meter,
    result: Option<ResultSource>,
    /// It is no message of its own, but a part of one: the arguments of a tool call.
    is_part: bool,
}

/// Where a result comes from.
#[derive(Debug)]
pub(super) struct ResultSource {
    pub address: Address,
    pub turn: Option<u32>,
    pub tool: Box<str>,
}

/// The history in the context.
#[derive(Debug, Default)]
pub(super) struct History {
    /// What was found and not taken yet.
    pub found: Vec<ContextItem>,
    entries: VecDeque<ContextEntry>,
    sizes: Sizes,
    meter: Meter,
    /// Calls that have begun.
    begun: u64,
    /// Entries that came after the last call began.
    fresh: usize,
    /// Results as the model was sent them, since the last call began.
    sent: u64,
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl History {
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// A message.
    pub fn message(&mut self, part: usize, bytes: u64, id: Option<&str>) {
        let mut entry = self.entry(part, bytes);
        entry.message = id.map(hash);
        self.push(entry);
    }

    /// A tool call: its arguments, which are a part of the model's message, and its result.
    pub fn tool_call(&mut self, args: u64, result: u64, source: ResultSource) {
        let mut entry = self.entry(ASSISTANT, args);
        entry.is_part = true;
        self.push(entry);
        let mut entry = self.entry(RESULTS, result);
        entry.result = Some(source);
        self.push(entry);
    }

    fn entry(&self, part: usize, bytes: u64) -> ContextEntry {
        ContextEntry {
            part,
            bytes,
            message: None,
            begun: self.begun,
            since: self.meter,
            result: None,
            is_part: false,
        }
    }

    fn push(&mut self, entry: ContextEntry) {
        if entry.bytes == 0 && entry.is_part {
            return;
        }
        self.sizes[entry.part] += entry.bytes;
        self.fresh += 1;
        self.entries.push_back(entry);
        if self.entries.len() > MOST
            && let Some(oldest) = self.entries.pop_front()
        {
            // Its size stays in the sums.
            self.carried(oldest);
        }
    }

    /// Results of tools, as the model was sent them: they replace the sizes of the results that came since the last
    /// call.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// A call begins. Returns its number.
    pub fn begin_call(&mut self) -> u64 {
        let sent = std::mem::take(&mut self.sent);
        let fresh = std::mem::take(&mut self.fresh);
        let from = self.entries.len().saturating_sub(fresh);
        let new = || self.entries.range(from..);
        let results = new().filter(|entry| entry.part == RESULTS);
        let recorded: u64 = results.map(|entry| entry.bytes).sum();
        if sent > 0 && recorded > 0 {
            let factor = sent as f64 / recorded as f64;
            for entry in self.entries.range_mut(from..) {
                if entry.part == RESULTS {
                    let scaled = (entry.bytes as f64 * factor) as u64;
                    self.sizes[RESULTS] = self.sizes[RESULTS] - entry.bytes + scaled;
                    entry.bytes = scaled;
                }
            }
        } else {
            self.sizes[RESULTS] += sent;
        }
        self.begun += 1;
        self.begun
    }

    /// A call ended: what one byte of the history took of its input.
    pub fn end_call(&mut self, number: u64, share: &Meter) {
        self.meter.add(share);
        // What came after it began was not in its input.
        for entry in self.entries.iter_mut().rev() {
            if entry.begun < number {
                break;
            }
            entry.since.add(share);
        }
    }

    /// The entries before the message `number`, from 0.
    fn before(&self, number: u64) -> usize {
        let messages = self.entries.iter().enumerate();
        let mut messages = messages.filter(|(_, entry)| !entry.is_part);
        let found = messages.nth(usize::try_from(number).unwrap_or(usize::MAX));
        found.map_or(self.entries.len(), |(at, _)| at)
    }

    /// Replaces the older messages by a summary. Keeps what comes from `tail` on; else what comes after the oldest `drop`
    /// messages; else the newest `keep` messages; else nothing.
    pub fn compact(
        &mut self,
        tail: Option<&str>,
        drop: Option<u64>,
        keep: Option<u64>,
        summary: u64,
    ) {
        let tail = tail.map(hash);
        let at = tail.and_then(|tail| self.entries.iter().position(|e| e.message == Some(tail)));
        let messages = self.entries.iter().filter(|entry| !entry.is_part).count() as u64;
        let drop = drop.or_else(|| keep.map(|keep| messages.saturating_sub(keep)));
        let drop = at.unwrap_or_else(|| self.before(drop.unwrap_or(messages)));
        let removed: Vec<_> = self.entries.drain(..drop).collect();
        let kept = self.entries.iter();
        self.sizes = kept.fold(Sizes::default(), |mut sizes, entry| {
            sizes[entry.part] += entry.bytes;
            sizes
        });
        self.fresh = self.fresh.min(self.entries.len());
        for entry in removed {
            self.carried(entry);
        }
        if summary > 0 {
            self.sizes[SUMMARY] += summary;
            let entry = self.entry(SUMMARY, summary);
            self.entries.push_front(entry);
        }
    }

    /// Removes what came after a message.
    pub fn rewind(&mut self, message: &str) {
        let wanted = Some(hash(message));
        let Some(at) = self.entries.iter().rposition(|e| e.message == wanted) else {
            return;
        };
        let removed: Vec<_> = self.entries.drain(at + 1..).collect();
        self.fresh = self.fresh.saturating_sub(removed.len());
        for entry in removed {
            self.sizes[entry.part] = self.sizes[entry.part].saturating_sub(entry.bytes);
            self.carried(entry);
        }
    }

    /// The session is over.
    pub fn finish(&mut self) {
        for entry in std::mem::take(&mut self.entries) {
            self.carried(entry);
        }
    }

    /// An entry left the context.
    fn carried(&mut self, entry: ContextEntry) {
        let Some(source) = entry.result else { return };
        let (now, since) = (&self.meter, &entry.since);
        let (calls, priced) = (now.calls - since.calls, now.priced - since.priced);
        let bytes = entry.bytes as f64;
        self.found.push(ContextItem::Carried(Carried {
            address: source.address,
            turn: source.turn,
            tool: source.tool.into(),
            bytes: entry.bytes,
            calls,
            tokens: (bytes * (now.tokens - since.tokens)).round().max(0.0) as u64,
            usd: (priced > 0).then_some(bytes * (now.usd - since.usd)),
            partial: priced < calls,
        }));
    }
}
