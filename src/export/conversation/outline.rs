//! What later lines of a session say about entries that were given out before: which are hidden, which are replaced
//! by a summary, and how calls ended.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use super::{CallEnd, Entry, ModelEnd};
use crate::session::{GoneBack, Rewinds};
use crate::trace::typed::Rewind;

/// Takes notes until it is settled, and resolves entries from then on.
#[derive(Debug, Default)]
pub(super) struct Outline {
    is_settled: bool,
    /// Hashes of the ids of messages, and their entries.
    ids: Vec<(u64, u64)>,
    hasher: RandomState,
    rewinds: Rewinds<u64>,
    /// Entries that were replaced, and those that replace them.
    replaced: HashMap<u64, u64>,
    /// In the order of compactions; once it is settled, in that of the entries that they stand before.
    summaries: VecDeque<Summary>,
    /// Entries before this one were compacted.
    kept: u64,
    late_calls: HashMap<String, CallEnd>,
    late_models: HashMap<u64, ModelEnd>,
}

#[derive(Debug)]
struct Summary {
    /// The first entry that was kept.
    tail: u64,
    entry: Entry,
}

impl Outline {
    /// The id of a message in an entry.
    pub fn id(&mut self, id: &str, entry: u64) {
        if !self.is_settled {
            self.ids.push((self.hasher.hash_one(id), entry));
        }
    }

    /// The newest entry with a message of this id.
    fn find(&self, id: &str) -> Option<u64> {
        let hash = self.hasher.hash_one(id);
        let mut newest = self.ids.iter().rev();
        newest.find(|(known, _)| *known == hash).map(|(_, at)| *at)
    }

    pub fn rewind(&mut self, rewind: &Rewind<'_>, number: u64) {
        if !self.is_settled {
            let mut rewind = GoneBack::new(rewind, number);
            rewind.to = self.find(&rewind.to_id);
            self.rewinds.push(rewind);
        }
    }

    /// A message that replaces another one.
    pub fn edit(&mut self, replaced: &str, by: u64) {
        let hash = self.hasher.hash_one(replaced);
        let its = self.ids.iter().filter(|(known, _)| *known == hash);
        self.replaced.extend(its.map(|(_, entry)| (*entry, by)));
    }

    /// A summary of everything before the message with this id.
    pub fn summary(&mut self, entry: Entry, tail: &str) {
        if let Some(tail) = self.find(tail) {
            self.summaries.push_back(Summary { tail, entry });
        }
    }

    /// The end of a model call whose entry was given out.
    pub fn late_model(&mut self, entry: u64, end: ModelEnd) {
        if !self.is_settled {
            self.late_models.insert(entry, end);
        }
    }

    /// The end of a tool call whose entry was given out.
    pub fn late_call(&mut self, id: String, end: CallEnd) {
        if !self.is_settled {
            self.late_calls.insert(id, end);
        }
    }

    /// All lines were read.
    pub fn settle(&mut self) {
        self.is_settled = true;
        self.ids = Vec::new();
        let rewinds = &self.rewinds;
        let is_undone = |number: u64| rewinds.by(number, None).is_some();
        // An edit or a compaction that was rewound changes nothing.
        self.replaced.retain(|_, by| !is_undone(*by));
        self.summaries
            .retain(|summary| !is_undone(summary.entry.number));
        // Each compaction hides the summaries before it.
        for summary in self.summaries.iter_mut().rev() {
            summary.entry.hidden = self.kept >= summary.tail;
            self.kept = self.kept.max(summary.tail);
        }
        let summaries = self.summaries.make_contiguous();
        summaries.sort_by_key(|summary| summary.tail);
    }

    /// An entry as it is at the end of the session, after the summaries that stand before it.
    pub fn resolve(&mut self, mut entry: Entry) -> Vec<Entry> {
        if !self.is_settled {
            return vec![entry];
        }
        let mut all = Vec::new();
        let stands_before = |summary: &Summary| summary.tail <= entry.number;
        while self.summaries.front().is_some_and(stands_before) {
            all.extend(self.summaries.pop_front().map(|summary| summary.entry));
        }
        entry.hidden = self.is_hidden(&entry);
        if let Some(end) = self.late_models.remove(&entry.number) {
            entry.model_end = Some(end);
        }
        if !self.late_calls.is_empty() {
            let unfinished = entry.calls.iter_mut().filter(|call| call.end.is_none());
            unfinished.for_each(|call| call.end = self.late_calls.remove(&call.id));
        }
        all.push(entry);
        all
    }

    fn is_hidden(&self, entry: &Entry) -> bool {
        let number = entry.number;
        let is_rewound = |id: Option<&str>| self.rewinds.by(number, id).is_some();
        let mut ids = entry.message_ids.iter();
        number < self.kept
            || self.replaced.contains_key(&number)
            || (ids.len() == 0 && is_rewound(None))
            || ids.any(|id| is_rewound(Some(id)))
    }
}
