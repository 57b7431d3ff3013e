//! Which messages of a conversation a session has recorded already. Libraries send the whole history
//! with every model call; each message is recorded once.
//!
//! Messages are compared by position, not only by text: "yes" sent twice is two
//! messages. A conversation is a chain of digests, each made of the one before and the message, so
//! that one digest stands for all messages up to it. A request is looked up by its longest known
//! prefix. The digests are keyed, and each message's line carries the one up to it as `history`,
//! so that the next process can continue.

use std::collections::HashMap;

/// How many chain tips a session remembers. With more, the oldest half is forgotten, and its messages
/// would be recorded again.
const MOST_TIPS: usize = 8192;

/// How many tips a checkpoint has.
const MOST_CHECKPOINTED: usize = 64;

/// A tip that an earlier process has recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PastTip {
    pub tip: ChainTip,
    /// The model wrote its last message.
    pub from_model: bool,
    /// The model answered it, by a checkpoint.
    pub answered: bool,
}

/// A message, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageKey {
    pub digest: u128,
    pub from_model: bool,
    pub is_system: bool,
}

/// The digest of a conversation up to some message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ChainTip(pub u128);

impl ChainTip {
    /// `key` is a keyed digest: the text can't be guessed from it.
    fn then(self, digest: u128, key: impl Fn(&[u8]) -> u128) -> Self {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&self.0.to_be_bytes());
        both[16..].copy_from_slice(&digest.to_be_bytes());
        Self(key(&both))
    }
}

#[derive(Debug)]
struct Known {
    answered: bool,
    age: u64,
}

/// The conversations of a session.
#[derive(Debug, Default)]
pub(crate) struct History {
    tips: HashMap<ChainTip, Known>,
    /// The digests of the last request and its answer.
    last: Vec<u128>,
    clock: u64,
}

impl History {
    /// A call sent these messages. Returns which of them are new, each with the tip up to it, and the tip of
    /// all.
    pub fn observe_request(
        &mut self,
        messages: &[MessageKey],
        key: impl Fn(&[u8]) -> u128,
    ) -> (Vec<(usize, ChainTip)>, ChainTip) {
        let count = messages.len();
        let mut end = ChainTip::default();
        let mut known = 0;
        let mut ends = Vec::with_capacity(count);
        for (index, message) in messages.iter().enumerate() {
            end = end.then(message.digest, &key);
            ends.push(end);
            if self.tips.contains_key(&end) {
                known = index + 1;
            }
        }
        let new = if known == 0 {
            self.new_after_overlap(messages)
        } else if known == count && self.tips.get(&end).is_some_and(|known| known.answered) {
            // Not the same call tried again: that one got its answer. It is asked anew.
            let asked = messages.iter().rposition(|message| message.from_model);
            (asked.map_or(0, |at| at + 1)..count).collect()
        } else {
            (known..count).collect()
        };
        self.note(end, false);
        self.last.clear();
        self.last
            .extend(messages.iter().map(|message| message.digest));
        (new.into_iter().map(|at| (at, ends[at])).collect(), end)
    }

    /// The model answered the request that ended with `end`. Returns the tip with the answer.
    pub fn answer(&mut self, end: ChainTip, digest: u128, key: impl Fn(&[u8]) -> u128) -> ChainTip {
        self.note(end, true);
        let now = end.then(digest, key);
        self.note(now, false);
        self.last.push(digest);
        now
    }

    /// Restores the tips of earlier lines, in their order.
    pub fn recall(&mut self, tips: &[PastTip]) {
        let mut before = None;
        for past in tips {
            if let Some(before) = before.filter(|before| *before != past.tip && past.from_model) {
                self.note(before, true);
            }
            self.note(past.tip, past.answered);
            before = Some(past.tip);
        }
    }

    /// The tips that were noted last, in their order, and whether each was answered.
    pub fn newest(&self) -> Vec<(ChainTip, bool)> {
        let mut tips: Vec<_> = self.tips.iter().collect();
        tips.sort_unstable_by_key(|(_, known)| known.age);
        let old = tips.len().saturating_sub(MOST_CHECKPOINTED);
        let newest = tips[old..].iter();
        newest.map(|(tip, known)| (**tip, known.answered)).collect()
    }

    /// Where the beginning was cut off, as by a window that slides, or begins with other
    /// instructions, the rest overlaps with the last request. One message alone is no overlap:
    /// another conversation may begin as this one ended.
    fn new_after_overlap(&self, messages: &[MessageKey]) -> Vec<usize> {
        let leading = messages.iter().take_while(|m| m.is_system).count();
        let rest = &messages[leading..];
        let fits = |from: &usize| {
            let tail = &self.last[*from..];
            (2..=rest.len()).contains(&tail.len())
                && tail
                    .iter()
                    .zip(rest)
                    .all(|(digest, message)| *digest == message.digest)
        };
        let Some(from) = (0..self.last.len()).find(fits) else {
            return (0..messages.len()).collect();
        };
        let known = leading + self.last.len() - from;
        let instructions =
            (0..leading).filter(|index| !self.last.contains(&messages[*index].digest));
        instructions.chain(known..messages.len()).collect()
    }

    fn note(&mut self, end: ChainTip, answered: bool) {
        self.clock += 1;
        let age = self.clock;
        if self.tips.len() >= MOST_TIPS {
            let oldest = age.saturating_sub(MOST_TIPS as u64 / 2);
            self.tips.retain(|_, known| known.age > oldest);
        }
        self.tips.insert(end, Known { answered, age });
    }
}

#[cfg(test)]
mod tests;
