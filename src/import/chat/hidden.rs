//! Hidden messages: the rewinds that have hidden them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The messages that rewinds will have hidden, by when.
#[derive(Default)]
pub(super) struct HiddenMessages {
    rewinds: BTreeMap<u64, Rewind>,
    /// Messages that a rewind can have gone back to, each hidden earlier than the one before it, or visible.
    visible: Vec<VisibleMessage>,
    /// How many messages there are.
    count: usize,
}

/// The messages that were hidden at one moment.
#[derive(Default)]
struct Rewind {
    ids: Vec<String>,
    /// The number of the last message before them that was visible then.
    to: Option<usize>,
}

struct VisibleMessage {
    number: usize,
    id: String,
    /// When it was hidden itself; [`u64::MAX`] if it never was.
    until: u64,
}

impl HiddenMessages {
    /// Adds a message, after all others.
    pub fn add(&mut self, id: String, hidden: Option<u64>) {
        if let Some(at) = hidden {
            let to = self.last_visible(at).map(|message| message.number);
            let rewind = self.rewinds.entry(at);
            let rewind = rewind.or_insert(Rewind {
                ids: Vec::new(),
                to,
            });
            rewind.ids.push(id.clone());
        }
        let until = hidden.unwrap_or(u64::MAX);
        // No rewind goes back to a message if a later one was visible for longer.
        let longer = self
            .visible
            .partition_point(|message| message.until > until);
        self.visible.truncate(longer);
        self.count += 1;
        let number = self.count;
        self.visible.push(VisibleMessage { number, id, until });
    }

    /// The next rewind that has happened by now, and when.
    pub fn next_rewind(&mut self, now: u64) -> Option<(u64, Value)> {
        let first = self.rewinds.first_entry();
        let first = first.filter(|first| *first.key() <= now)?;
        let (at, Rewind { ids, to }) = first.remove_entry();
        // If a message after the hidden ones was visible, it went back to none of them: only the list is known.
        let target = self.last_visible(at);
        let target = target.filter(|message| Some(message.number) == to);
        let target = target.map(|message| message.id.as_str());
        Some((at, json!({"to_message_id": target, "hidden_ids": ids})))
    }

    /// The last message that was not hidden at a moment.
    fn last_visible(&self, at: u64) -> Option<&VisibleMessage> {
        let later = self.visible.partition_point(|message| message.until > at);
        self.visible.get(later.checked_sub(1)?)
    }
}
