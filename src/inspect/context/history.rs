//! The messages and results that are in the context, and what they have cost so far.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::sizes::{RESULTS, SUMMARY, Sizes};
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
struct Entry {
    part: usize,
    bytes: u64,
    /// A hash of the message's id.
    message: Option<u64>,
    /// The calls that had begun when it came.
    begun: u64,
    /// The sums when it came.
    since: Meter,
    result: Option<Source>,
}

/// Where a result comes from.
#[derive(Debug)]
pub(super) struct Source {
    pub address: Address,
    pub turn: Option<u32>,
    pub tool: Box<str>,
}

/// The history in the context.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<Entry>,
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

    pub fn push(
        &mut self,
        part: usize,
        bytes: u64,
        message: Option<&str>,
        result: Option<Source>,
        found: &mut Vec<ContextItem>,
    ) {
        if bytes == 0 && message.is_none() {
            return;
        }
        self.sizes[part] += bytes;
        self.fresh += 1;
        self.entries.push_back(Entry {
            part,
            bytes,
            message: message.map(hash),
            begun: self.begun,
            since: self.meter,
            result,
        });
        if self.entries.len() > MOST
            && let Some(oldest) = self.entries.pop_front()
        {
            // Its size stays in the sums.
            found.extend(self.carried(oldest));
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

    /// Replaces the older messages by a summary. Keeps what comes from `tail` on; else the newest `keep` entries; else
    /// none.
    pub fn compact(
        &mut self,
        tail: Option<&str>,
        drop: Option<u64>,
        keep: Option<u64>,
        summary: u64,
        found: &mut Vec<ContextItem>,
    ) {
        let tail = tail.map(hash);
        let at = tail.and_then(|tail| self.entries.iter().position(|e| e.message == Some(tail)));
        let all = self.entries.len();
        let count = |n: u64| usize::try_from(n).unwrap_or(all).min(all);
        let drop = at
            .or_else(|| drop.map(count))
            .or_else(|| keep.map(|keep| all - count(keep)))
            .unwrap_or(all);
        let removed: Vec<_> = self.entries.drain(..drop).collect();
        let kept = self.entries.iter();
        self.sizes = kept.fold(Sizes::default(), |mut sizes, entry| {
            sizes[entry.part] += entry.bytes;
            sizes
        });
        self.fresh = self.fresh.min(self.entries.len());
        for entry in removed {
            found.extend(self.carried(entry));
        }
        if summary > 0 {
            self.sizes[SUMMARY] += summary;
            self.entries.push_front(Entry {
                part: SUMMARY,
                bytes: summary,
                message: None,
                begun: self.begun,
                since: self.meter,
                result: None,
            });
        }
    }

    /// Removes what came after a message.
    pub fn rewind(&mut self, message: &str, found: &mut Vec<ContextItem>) {
        let wanted = Some(hash(message));
        let Some(at) = self.entries.iter().rposition(|e| e.message == wanted) else {
            return;
        };
        let removed: Vec<_> = self.entries.drain(at + 1..).collect();
        self.fresh = self.fresh.saturating_sub(removed.len());
        for entry in removed {
            self.sizes[entry.part] = self.sizes[entry.part].saturating_sub(entry.bytes);
            found.extend(self.carried(entry));
        }
    }

    /// The session is over.
    pub fn finish(&mut self, found: &mut Vec<ContextItem>) {
        for entry in std::mem::take(&mut self.entries) {
            found.extend(self.carried(entry));
        }
    }

    fn carried(&self, entry: Entry) -> Option<ContextItem> {
        let source = entry.result?;
        let (now, since) = (&self.meter, &entry.since);
        let (calls, priced) = (now.calls - since.calls, now.priced - since.priced);
        let bytes = entry.bytes as f64;
        Some(ContextItem::Carried(Carried {
            address: Some(source.address),
            turn: source.turn,
            tool: source.tool.into(),
            bytes: entry.bytes,
            calls,
            tokens: (bytes * (now.tokens - since.tokens)).round().max(0.0) as u64,
            usd: (priced > 0).then(|| bytes * (now.usd - since.usd)),
            partial: priced < calls,
        }))
    }
}
