//! Rewinds: which messages are hidden.

use super::{Change, Chat, millis};
use crate::session::{GoneBack, Node};
use crate::trace::typed::Rewind;

impl Chat {
    /// Hides the messages that the rewind took off the visible path, and shows those that it put back on it.
    pub(super) fn rewind(&mut self, node: &Node, rewind: &Rewind<'_>) {
        self.finish();
        let now = millis(node.start);
        let mut rewind = GoneBack::new(rewind, 2 * self.ids.len() as u64);
        let target = Some(rewind.to_id.as_str());
        let mut ids = self.ids.iter();
        let target = ids.rposition(|(_, recorded)| recorded.as_deref() == target);
        rewind.to = target.map(order);
        self.rewinds.push(rewind);
        for (at, (id, recorded)) in self.ids.iter().enumerate() {
            let by = self.rewinds.by(order(at), recorded.as_deref());
            let (hide, is_hidden) = (by.is_some(), self.hidden.contains_key(id));
            if hide == is_hidden {
                continue;
            }
            match hide {
                true => self.hidden.insert(id.clone(), now),
                false => self.hidden.remove(id),
            };
            let at = hide.then_some(now);
            self.changes.push(Change::Hidden {
                message: id.clone(),
                at,
                now,
            });
        }
    }
}

/// Where a message is among messages and rewinds, which have even numbers.
fn order(message: usize) -> u64 {
    2 * message as u64 + 1
}
