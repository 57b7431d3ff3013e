//! Rewinds: which messages are hidden.

use super::{Change, Chat, Message, millis};
use crate::session::{GoneBack, Node};
use crate::trace::typed::Rewind;

/// The ids of a message. There may be as many as lines, so they are small.
#[derive(Debug)]
pub(super) struct MessageIds {
    id: Box<str>,
    /// The length of the recorded id, which stands in the other one.
    recorded: Option<u32>,
}

impl MessageIds {
    pub fn of(message: &Message) -> Self {
        let length = message.recorded.as_ref().map(String::len);
        Self {
            id: message.id.as_str().into(),
            recorded: length.and_then(|length| u32::try_from(length).ok()),
        }
    }

    /// The recorded id, which begins after the session's.
    fn recorded(&self, start: usize) -> Option<&str> {
        self.id.get(start..start + self.recorded? as usize)
    }
}

impl Chat {
    /// Hides the messages that the rewind took off the visible path, and shows those that it put back on it.
    pub(super) fn rewind(&mut self, node: &Node, rewind: &Rewind<'_>) {
        self.finish();
        let now = millis(node.start);
        let mut rewind = GoneBack::new(rewind, 2 * self.ids.len() as u64);
        let start = self.session.message_id("").len();
        let target = Some(rewind.to_id.as_str());
        let mut ids = self.ids.iter();
        let target = ids.rposition(|ids| ids.recorded(start) == target);
        rewind.to = target.map(order);
        self.rewinds.push(rewind);
        for (at, ids) in self.ids.iter().enumerate() {
            let by = self.rewinds.by(order(at), ids.recorded(start));
            let id = &*ids.id;
            let (hide, is_hidden) = (by.is_some(), self.hidden.contains_key(id));
            if hide == is_hidden {
                continue;
            }
            match hide {
                true => self.hidden.insert(id.to_owned(), now),
                false => self.hidden.remove(id),
            };
            let at = hide.then_some(now);
            self.changes.push(Change::Hidden {
                message: id.to_owned(),
                at,
                now,
                by: node.address,
            });
        }
    }
}

/// Where a message is among messages and rewinds, which have even numbers.
fn order(message: usize) -> u64 {
    2 * message as u64 + 1
}
