//! What rewinds and edits have hidden. Nothing is removed from the trace.

mod rewinds;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use memchr::memmem;

use super::lookup::find_line;
use super::node::Node;
use super::turns::Turn;
use crate::trace::typed::{Message, Rewind};
use crate::trace::{Address, Kind, RawLine, kind_of, parse_time};

pub(crate) use rewinds::{GoneBack, Rewinds};

/// When something happened, and in which line: lines of one microsecond are in the order of their addresses.
type Moment = (u64, Address);

/// What the rewinds of a session hide, and the messages that edits replaced.
///
/// A rewind comes later in the trace than what it hides, so [`read`](Self::read) looks through the session once,
/// and holds only the rewinds. They cut the session into stretches. A rewind goes back to a message in one of
/// these, and the conversation continues from there: the stretches are a tree, and the path from the last one
/// to the first is visible.
///
/// ```no_run
/// use spanledger::session::{Hidden, each_turn};
/// let hidden = Hidden::read("sessions/ses_1")?;
/// each_turn("sessions/ses_1", |mut turn| {
///     let removed = hidden.remove_from(&mut turn);
///     println!("turn {:?}: {} nodes, {removed:?}", turn.index, turn.nodes.len());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    rewinds: Rewinds<Moment>,
    /// Messages that another one replaced, by their ids, and when.
    replaced: HashMap<String, Moment>,
}

/// What was removed from a turn because it is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HiddenNodes {
    /// The rewind or the message that hides it; the first, where there are several.
    pub by: Address,
    /// How many messages.
    pub messages: u64,
    /// How many model and tool calls.
    pub calls: u64,
}

/// Whether a line is a message, or a piece of one.
fn is_message(line: &[u8]) -> bool {
    kind_of(line).is_some_and(|kind| kind.starts_with(b"message_"))
}

fn moment(line: &RawLine<'_>) -> Moment {
    (parse_time(line.ts).unwrap_or(0), line.address())
}

impl Hidden {
    /// Reads the rewinds and edits of a session.
    pub fn read(session: impl AsRef<Path>) -> io::Result<Self> {
        let session = session.as_ref();
        let mut hidden = Self::default();
        let replaces = memmem::Finder::new("\"replaces\":\"");
        // The kind is near the beginning of a line, so most lines are not searched.
        let wanted = |bytes: &[u8]| match kind_of(bytes) {
            Some(b"rewind") => true,
            _ => is_message(bytes) && replaces.find(bytes).is_some(),
        };
        find_line(session, wanted, &mut Vec::new(), |line| {
            hidden.take(line);
            Ok::<_, io::Error>(None::<()>)
        })?;
        let Self { rewinds, replaced } = &mut hidden;
        if !rewinds.all.is_empty() {
            rewinds.all.sort_by_key(|rewind| rewind.at);
            find_messages(&mut rewinds.all, session)?;
            rewinds.walk_back();
            // An edit that is hidden itself replaces nothing.
            replaced.retain(|_, at| rewinds.cut_off(*at, None).is_none());
        }
        Ok(hidden)
    }

    fn take(&mut self, line: &RawLine<'_>) {
        if let Some(rewind) = Rewind::of(line) {
            self.rewinds.all.push(GoneBack::new(&rewind, moment(line)));
        } else if let Some(old) = Message::of(line).and_then(|message| message.replaces()) {
            self.replaced.insert(old.into_owned(), moment(line));
        }
    }

    /// Whether nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.rewinds.all.is_empty() && self.replaced.is_empty()
    }

    /// The rewind or the message that hides a node; none if it is visible. What is not part of the conversation,
    /// such as a gap or the start of a run, is never hidden.
    pub fn by(&self, node: &Node) -> Option<Address> {
        if self.is_empty() || !is_conversation(node.kind) {
            return None;
        }
        let at = (node.start, node.address);
        let id = node.get("message_id").and_then(|id| id.text());
        let id = id.as_deref();
        let replaced = id.and_then(|id| self.replaced.get(id));
        if let Some(by) = replaced.filter(|by| at < **by) {
            return Some(by.1);
        }
        self.rewinds.by(at, id).map(|by| by.1)
    }

    /// Removes the hidden nodes of a turn.
    pub fn remove_from(&self, turn: &mut Turn) -> Option<HiddenNodes> {
        let mut removed: Option<HiddenNodes> = None;
        if self.is_empty() {
            return removed;
        }
        turn.nodes.retain(|node| {
            let Some(by) = self.by(node) else {
                return true;
            };
            let removed = removed.get_or_insert(HiddenNodes {
                by,
                messages: 0,
                calls: 0,
            });
            removed.messages += u64::from(node.role().is_some());
            let is_call = matches!(node.kind, Kind::ModelCall | Kind::ToolCall);
            removed.calls += u64::from(is_call);
            false
        });
        removed
    }
}

/// Finds the messages that the rewinds went back to.
fn find_messages(rewinds: &mut [GoneBack<Moment>], session: &Path) -> io::Result<()> {
    let mut wanted: HashMap<&str, Vec<Moment>> = HashMap::new();
    for rewind in &*rewinds {
        wanted.entry(rewind.to_id.as_str()).or_default();
    }
    find_line(session, is_message, &mut Vec::new(), |line| {
        let id = Message::of(line).and_then(|message| message.message_id());
        if let Some(lines) = id.and_then(|id| wanted.get_mut(&*id)) {
            lines.push(moment(line));
        }
        Ok::<_, io::Error>(None::<()>)
    })?;
    let last_before = |rewind: &GoneBack<Moment>| {
        let lines = wanted.get(rewind.to_id.as_str())?.iter();
        lines.filter(|line| **line < rewind.at).max().copied()
    };
    let found: Vec<_> = rewinds.iter().map(last_before).collect();
    for (rewind, found) in rewinds.iter_mut().zip(found) {
        rewind.to = found;
    }
    Ok(())
}

/// Whether nodes of a kind are part of a conversation, and so can be hidden with it.
fn is_conversation(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::SessionStart
            | Kind::SessionResume
            | Kind::SessionEnd
            | Kind::Interrupted
            | Kind::SessionTitle
            | Kind::SessionUpdate
            | Kind::SessionStatus
            | Kind::SystemPrompt
            | Kind::ToolCatalog
            | Kind::PermissionRules
            | Kind::Rewind
            | Kind::Branch
            | Kind::ClientAttach
            | Kind::ClientDetach
            | Kind::Error
            | Kind::Log
            | Kind::Gap
    )
}

#[cfg(test)]
mod tests;
