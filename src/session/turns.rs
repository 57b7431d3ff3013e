//! A session turn by turn.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;

use super::node::{Node, NodeState};
use super::streamed::{StreamKey, delta_text};
use crate::read::SessionReader;
use crate::trace::typed::{ContextAsset, ModelCall, set};
use crate::trace::{Damage, Kind, RawLine, SpanKind};

/// What happens between turns is returned in parts of about this many nodes.
const OUTSIDE_NODES: usize = 4096;

/// How many turns wait for one that does not end. Two processes, or two concurrent turns, are a few.
const WAITING: usize = 256;

/// A turn, or what happened between two turns.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// The turn's index; none between turns.
    pub index: Option<u32>,
    /// The turn's own span.
    pub span: Option<Node>,
    /// Its spans and events, in the order they began.
    pub nodes: Vec<Node>,
    /// The digests of the system prompt, tool catalog and permission rules in force at its end.
    pub digests: Digests,
    spans: HashMap<u64, usize>,
    messages: HashMap<StreamKey, usize>,
    open: usize,
    ended: bool,
}

impl Turn {
    fn is_empty(&self) -> bool {
        self.span.is_none() && self.nodes.is_empty()
    }

    /// Puts values that were moved to blobs back. A value whose blob can't be read stays a marker;
    /// returns the errors.
    pub fn fetch_blobs(&mut self, session: &Path) -> Vec<io::Error> {
        let nodes = self.nodes.iter_mut();
        nodes.flat_map(|node| node.fetch_blobs(session)).collect()
    }

    /// Puts what model calls have in blobs back: the requests of long conversations.
    pub(crate) fn fetch_requests(&mut self, session: &Path) {
        let calls = self.nodes.iter_mut();
        for call in calls.filter(|node| node.kind == Kind::ModelCall) {
            call.fetch_blobs(session);
        }
    }
}

/// The digests of the texts in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// The system prompt's.
    pub system_prompt: Option<String>,
    /// The tool catalog's.
    pub tool_catalog: Option<String>,
    /// The permission rules'.
    pub permission_rules: Option<String>,
}

impl Digests {
    /// The digests of the prompt, the catalog and the rules.
    pub(crate) fn all(&self) -> [&Option<String>; 3] {
        [
            &self.system_prompt,
            &self.tool_catalog,
            &self.permission_rules,
        ]
    }

    /// Takes over the digests of a line that has any: the text itself, or a model call. Returns
    /// whether it has.
    fn update(&mut self, line: &RawLine<'_>) -> bool {
        let digest = || ContextAsset::from(line).digest();
        match line.kind() {
            Kind::SystemPrompt => set(&mut self.system_prompt, digest()),
            Kind::ToolCatalog => set(&mut self.tool_catalog, digest()),
            Kind::PermissionRules => set(&mut self.permission_rules, digest()),
            Kind::ModelCall => {
                let call: ModelCall<'_> = line.into();
                set(&mut self.system_prompt, call.system_prompt_digest());
                set(&mut self.tool_catalog, call.tool_catalog_digest());
                set(&mut self.permission_rules, call.permission_rules_digest());
            }
            _ => return false,
        }
        true
    }
}

/// Builds turns from lines. Holds what was not returned yet: usually one turn.
///
/// ```no_run
/// use spanledger::trace::ReadItem;
/// use spanledger::read::SessionReader;
/// use spanledger::session::Turns;
/// let mut reader = SessionReader::open("sessions/ses_1")?;
/// let mut turns = Turns::default();
/// while let Some(found) = reader.next()? {
///     let ReadItem::Line(line) = found else { continue };
///     turns.take(&line);
///     while let Some(turn) = turns.ready() {
///         println!("turn {:?}: {} nodes", turn.index, turn.nodes.len());
///     }
/// }
/// for turn in turns.finish() {
///     println!("turn {:?}: {} nodes, unfinished", turn.index, turn.nodes.len());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Turns {
    /// In the order they began. What happens between turns goes to the last one without an index.
    current: VecDeque<Turn>,
    ready: VecDeque<Turn>,
    digests: Digests,
}

impl Turns {
    /// Takes one line.
    pub fn take(&mut self, line: &RawLine<'_>) {
        let kind = line.kind();
        if self.digests.update(line) {
            let digests = self.digests.clone();
            self.turn(line.turn).digests = digests;
        }
        match kind {
            Kind::Segment | Kind::Checkpoint | Kind::RequestPart => {}
            Kind::MessageDelta | Kind::ToolInputDelta => self.delta(line),
            Kind::SpanUpdate => {
                if let Some(node) = self.span(line) {
                    node.update(line.payload().json());
                }
            }
            _ if kind.is_close() => self.close(line),
            _ => match kind.opens() {
                Some(SpanKind::Turn) => self.open_turn(line),
                Some(SpanKind::Run) => self.push(Node::event(line)),
                Some(_) => self.open(line),
                None => self.event(line),
            },
        }
    }

    /// The next turn that is over.
    pub fn ready(&mut self) -> Option<Turn> {
        self.ready.pop_front()
    }

    /// The rest: turns that never ended.
    pub fn finish(mut self) -> Vec<Turn> {
        self.ready.extend(self.current);
        let turns = self.ready.into_iter();
        turns.filter(|turn| !turn.is_empty()).collect()
    }

    fn turn(&mut self, index: Option<u32>) -> &mut Turn {
        let at = self.current.iter().rposition(|turn| turn.index == index);
        let at = at.unwrap_or_else(|| {
            self.current.push_back(Turn {
                index,
                digests: self.digests.clone(),
                ..Turn::default()
            });
            self.current.len() - 1
        });
        &mut self.current[at]
    }

    fn open_turn(&mut self, line: &RawLine<'_>) {
        self.current.push_back(Turn {
            index: line.turn,
            span: Some(Node::span(line)),
            digests: self.digests.clone(),
            ..Turn::default()
        });
        self.release();
    }

    fn push(&mut self, node: Node) {
        let index = node.turn;
        let turn = self.turn(index);
        turn.nodes.push(node);
        if index.is_none() && turn.nodes.len() >= OUTSIDE_NODES && turn.open == 0 {
            turn.ended = true;
            self.release();
        }
    }

    fn open(&mut self, line: &RawLine<'_>) {
        let node = Node::span(line);
        let turn = self.turn(line.turn);
        if let Some(id) = node.span_id {
            // A `late` open line repeats a span whose first one was lost.
            if let Some(known) = turn.spans.get(&id).and_then(|at| turn.nodes.get_mut(*at)) {
                *known = node;
                return;
            }
            turn.spans.insert(id, turn.nodes.len());
            turn.open += 1;
        }
        turn.nodes.push(node);
    }

    fn close(&mut self, line: &RawLine<'_>) {
        match line.closes() {
            Some(SpanKind::Run) => return self.push(Node::run_end(line)),
            Some(SpanKind::Turn) => return self.close_turn(line),
            _ => {}
        }
        let id = line.span_id.and_then(|id| u64::from_str_radix(id, 16).ok());
        // By the span and not by the turn: two processes may have given two turns the same index.
        let held = id.and_then(|id| {
            let mut turns = self.current.iter_mut().rev();
            turns.find_map(|turn| Some((*turn.spans.get(&id)?, turn)))
        });
        let Some((at, turn)) = held else {
            return self.push(Node::of_line(line));
        };
        if let Some(node) = turn.nodes.get_mut(at)
            // The first close line counts.
            && node.state == NodeState::Open
        {
            node.close(line);
            turn.open = turn.open.saturating_sub(1);
            self.release();
        }
    }

    fn close_turn(&mut self, line: &RawLine<'_>) {
        let turn = self.turn(line.turn);
        let span = turn.span.get_or_insert_with(|| Node::span(line));
        if span.state == NodeState::Open {
            span.close(line);
        }
        turn.ended = true;
        self.release();
    }

    fn event(&mut self, line: &RawLine<'_>) {
        let mut node = Node::event(line);
        let turn = self.turn(line.turn);
        let streamed = StreamKey::of_message(line).and_then(|key| turn.messages.remove(&key));
        match streamed.and_then(|at| turn.nodes.get_mut(at)) {
            // The whole message replaces its deltas, and begins when they began.
            Some(streamed) => {
                node.start = streamed.start;
                *streamed = node;
            }
            None => self.push(node),
        }
    }

    fn delta(&mut self, line: &RawLine<'_>) {
        let Some(key) = StreamKey::of_delta(line) else {
            return;
        };
        let turn = self.turn(line.turn);
        let at = *turn.messages.entry(key).or_insert(turn.nodes.len());
        if at == turn.nodes.len() {
            turn.nodes.push(Node::arriving(line, String::new()));
        }
        if let Some(node) = turn.nodes.get_mut(at) {
            let streamed = node.streamed.get_or_insert_default();
            streamed.push_str(&delta_text(line));
        }
    }

    /// The node of the span that a line belongs to.
    fn span(&mut self, line: &RawLine<'_>) -> Option<&mut Node> {
        let id = u64::from_str_radix(line.span_id?, 16).ok()?;
        self.current.iter_mut().rev().find_map(|turn| {
            if let Some(at) = turn.spans.get(&id) {
                return turn.nodes.get_mut(*at);
            }
            turn.span.as_mut().filter(|span| span.span_id == Some(id))
        })
    }

    /// Moves the turns that are over to `ready`, in order. A turn that left a span open waits until a
    /// later turn is over; then the span is shown open.
    fn release(&mut self) {
        while let Some(first) = self.current.front() {
            let over = first.ended && first.open == 0;
            let outside = first.index.is_none() && first.open == 0 && self.current.len() > 1;
            let mut later = self.current.iter().skip(1);
            let overtaken = first.ended && later.any(|turn| turn.index.is_some() && turn.ended);
            // The lines that would have ended it are lost.
            let waited = self.current.len() > WAITING;
            if !(over || outside || overtaken || waited) {
                return;
            }
            let turn = self.current.pop_front();
            self.ready.extend(turn.filter(|turn| !turn.is_empty()));
        }
    }
}

/// Calls `take` with each turn of a session, in order. Returns what is damaged.
///
/// ```no_run
/// let damages = spanledger::session::each_turn("sessions/ses_1", |turn| {
///     println!("turn {:?}: {} nodes", turn.index, turn.nodes.len());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn each_turn<E: From<io::Error>>(
    session: impl AsRef<Path>,
    mut take: impl FnMut(Turn) -> Result<(), E>,
) -> Result<Vec<Damage>, E> {
    let mut turns = Turns::default();
    let damages = SessionReader::open(session)?.each_line(|line| {
        turns.take(line);
        std::iter::from_fn(|| turns.ready()).try_for_each(&mut take)
    })?;
    turns.finish().into_iter().try_for_each(take)?;
    Ok(damages)
}

#[cfg(test)]
mod tests;
