//! The rewinds of a conversation, and what they hide.

use std::collections::HashSet;

use crate::trace::typed::Rewind;

/// The rewinds of a conversation. `T` orders messages and rewinds: by time, or by a number.
///
/// Rewinds cut the conversation into stretches. A rewind goes back to a message in one of these, and the
/// conversation continues from there: the stretches are a tree, and the path from the last one to the first is
/// visible.
#[derive(Clone, Debug)]
pub(crate) struct Rewinds<T> {
    /// In the order they happened. The stretch with the same index ends with it.
    pub(super) all: Vec<GoneBack<T>>,
    /// The visible part of each stretch: none, or up to a message.
    visible: Vec<Option<Visible<T>>>,
    /// The rewinds to messages that the trace does not have.
    without_message: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct GoneBack<T> {
    pub(super) at: T,
    pub(crate) to_id: String,
    /// The last line of that message, if the trace has it.
    pub(crate) to: Option<T>,
    /// What it hides, where the trace does not have the message.
    ids: HashSet<String>,
}

#[derive(Clone, Debug)]
struct Visible<T> {
    /// The rewind that cut it, and the message that it went back to. None: all of it is visible.
    cut: Option<(usize, T)>,
}

impl<T> GoneBack<T> {
    /// A rewind whose message is not looked up yet.
    pub(crate) fn new(rewind: &Rewind<'_>, at: T) -> Self {
        let ids = rewind.hidden_ids().into_iter().flat_map(|ids| ids.items());
        Self {
            at,
            to_id: rewind.to_message_id().unwrap_or_default().into_owned(),
            to: None,
            ids: ids.filter_map(|id| Some(id.text()?.into_owned())).collect(),
        }
    }
}

impl<T> Default for Rewinds<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            visible: Vec::new(),
            without_message: Vec::new(),
        }
    }
}

impl<T: Copy + Ord> Rewinds<T> {
    /// Adds a rewind that happened after all others.
    pub(crate) fn push(&mut self, rewind: GoneBack<T>) {
        self.all.push(rewind);
        self.walk_back();
    }

    /// Marks the path from the last stretch to the first.
    pub(super) fn walk_back(&mut self) {
        let rewinds = self.all.iter().enumerate();
        let without = rewinds.filter(|(_, rewind)| rewind.to.is_none());
        self.without_message = without.map(|(at, _)| at).collect();
        self.visible = vec![None; self.all.len() + 1];
        let mut at = self.all.len();
        self.visible[at] = Some(Visible { cut: None });
        while at > 0 {
            // A stretch starts at the rewind before it.
            let by = at - 1;
            let cut = self.all[by].to.map(|to| (by, to));
            at = cut.map_or(by, |(_, to)| self.stretch(to));
            self.visible[at] = Some(Visible { cut });
        }
    }

    /// The stretch that a moment is in.
    fn stretch(&self, at: T) -> usize {
        self.all.partition_point(|rewind| rewind.at <= at)
    }

    /// The rewind that hides a message, or something else of the conversation that has no id; none if it is visible.
    pub(crate) fn by(&self, at: T, message_id: Option<&str>) -> Option<T> {
        self.cut_off(at, message_id).or_else(|| {
            let id = message_id?;
            let stretch = self.stretch(at);
            let without = self.without_message.iter().rev();
            let mut later = without.take_while(|rewind| **rewind >= stretch);
            let by = later.find(|rewind| self.all[**rewind].ids.contains(id))?;
            Some(self.all[*by].at)
        })
    }

    /// The rewind that took a moment off the visible path. Everything of the message that it went back to stays.
    pub(super) fn cut_off(&self, at: T, message_id: Option<&str>) -> Option<T> {
        let stretch = self.stretch(at);
        let by = match self.visible.get(stretch)? {
            None => self.all.get(stretch)?,
            Some(Visible { cut }) => {
                let (by, _) = cut.filter(|(_, to)| at > *to)?;
                let by = &self.all[by];
                (message_id != Some(&by.to_id)).then_some(by)?
            }
        };
        Some(by.at)
    }
}
