//! A session turn by turn.

use std::collections::{HashMap, VecDeque};

use super::node::{Node, NodeState};
use crate::event::SpanKind;
use crate::reader::RawLine;

/// What is between turns is handed out in pieces of about this many nodes.
const OUTSIDE_NODES: usize = 4096;

/// So many chapters wait for one that does not end. Two processes, or two turns at once, are a few.
const WAITING: usize = 256;

/// A turn, or what happened between two.
#[derive(Clone, Debug, Default)]
pub struct Chapter {
    /// The turn's index; none for what lies outside turns.
    pub turn: Option<u32>,
    /// The turn's own span.
    pub span: Option<Node>,
    /// What happened, in the order it began.
    pub nodes: Vec<Node>,
    /// The digests of the system prompt, tool catalog and permission rules in force at its end.
    pub digests: Digests,
    spans: HashMap<u64, usize>,
    messages: HashMap<(String, u64), usize>,
    open: usize,
    passed: bool,
}

/// The texts in force, by digest.
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
    /// What a line says of them: the text itself, or the model call it was in force for.
    fn take(&mut self, line: &RawLine<'_>) {
        let text = |name: &str| Some(line.payload().get(name)?.text()?.into_owned());
        let slot = match line.kind.as_ref() {
            "system_prompt" => &mut self.system_prompt,
            "tool_catalog" => &mut self.tool_catalog,
            "permission_rules" => &mut self.permission_rules,
            "model_call" | "model_result" => {
                for (slot, name) in [
                    (&mut self.system_prompt, "system_prompt_digest"),
                    (&mut self.tool_catalog, "tool_catalog_digest"),
                    (&mut self.permission_rules, "permission_rules_digest"),
                ] {
                    *slot = text(name).or_else(|| slot.take());
                }
                return;
            }
            _ => return,
        };
        *slot = text("digest").or_else(|| slot.take());
    }
}

/// Folds lines into chapters. Holds what has not been handed out: as a rule one turn.
///
/// ```no_run
/// use spanledger::reader::{Found, SessionReader};
/// use spanledger::session::Chapters;
/// let mut reader = SessionReader::open("sessions/ses_1")?;
/// let mut chapters = Chapters::default();
/// while let Some(found) = reader.next()? {
///     let Found::Line(line) = found else { continue };
///     chapters.take(&line);
///     while let Some(chapter) = chapters.ready() {
///         println!("turn {:?}: {} nodes", chapter.turn, chapter.nodes.len());
///     }
/// }
/// for chapter in chapters.finish() {
///     println!("turn {:?}: {} nodes, unfinished", chapter.turn, chapter.nodes.len());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Chapters {
    /// In the order they began. The last one without a turn takes what is outside.
    current: VecDeque<Chapter>,
    ready: VecDeque<Chapter>,
    digests: Digests,
}

impl Chapters {
    /// Takes one line.
    pub fn take(&mut self, line: &RawLine<'_>) {
        let kind = line.kind.as_ref();
        if matches!(
            kind,
            "system_prompt" | "tool_catalog" | "permission_rules" | "model_call"
        ) {
            self.digests.take(line);
            let digests = self.digests.clone();
            self.chapter(line.turn).digests = digests;
        }
        match kind {
            "segment" | "checkpoint" => {}
            "message_delta" | "tool_input_delta" => self.delta(line),
            "span_update" => {
                if let Some(node) = self.span(line) {
                    node.update(line.payload().as_str());
                }
            }
            _ if SpanKind::is_close_kind(kind) => self.close(line),
            _ => match SpanKind::from_open_kind(kind) {
                Some(SpanKind::Turn) => self.open_turn(line),
                Some(SpanKind::Run) => self.push(Node::event(line)),
                Some(_) => self.open(line),
                None => self.event(line),
            },
        }
    }

    /// The next chapter that is over.
    pub fn ready(&mut self) -> Option<Chapter> {
        self.ready.pop_front()
    }

    /// What is left: chapters that never ended.
    pub fn finish(mut self) -> Vec<Chapter> {
        self.ready.extend(self.current);
        self.ready
            .into_iter()
            .filter(|chapter| chapter.span.is_some() || !chapter.nodes.is_empty())
            .collect()
    }

    fn chapter(&mut self, turn: Option<u32>) -> &mut Chapter {
        let mut at = self
            .current
            .iter()
            .rposition(|chapter| chapter.turn == turn);
        if at.is_none() {
            at = Some(self.current.len());
            self.current.push_back(Chapter {
                turn,
                digests: self.digests.clone(),
                ..Chapter::default()
            });
        }
        &mut self.current[at.unwrap_or(0)]
    }

    fn open_turn(&mut self, line: &RawLine<'_>) {
        let node = Node::span(line);
        self.current.push_back(Chapter {
            turn: line.turn,
            span: Some(node),
            digests: self.digests.clone(),
            ..Chapter::default()
        });
        self.hand_out();
    }

    fn push(&mut self, node: Node) {
        let turn = node.turn;
        let chapter = self.chapter(turn);
        chapter.nodes.push(node);
        if turn.is_none() && chapter.nodes.len() >= OUTSIDE_NODES && chapter.open == 0 {
            chapter.passed = true;
            self.hand_out();
        }
    }

    fn open(&mut self, line: &RawLine<'_>) {
        let node = Node::span(line);
        let chapter = self.chapter(line.turn);
        if let Some(id) = node.span_id {
            // A `late` open line tells of a span again whose first one was lost.
            if let Some(at) = chapter.spans.insert(id, chapter.nodes.len())
                && let Some(known) = chapter.nodes.get_mut(at)
            {
                chapter.spans.insert(id, at);
                *known = node;
                return;
            }
            chapter.open += 1;
        }
        chapter.nodes.push(node);
    }

    fn close(&mut self, line: &RawLine<'_>) {
        match line.closes() {
            Some(SpanKind::Run) => return self.push(Node::end(line)),
            Some(SpanKind::Turn) => return self.close_turn(line),
            _ => {}
        }
        let id = line.span_id.and_then(|id| u64::from_str_radix(id, 16).ok());
        // By the span and not by the turn: two processes can have given two turns one number.
        let held = id.and_then(|id| {
            let mut held = self.current.iter_mut().rev();
            held.find_map(|chapter| Some((*chapter.spans.get(&id)?, chapter)))
        });
        if let Some((at, chapter)) = held {
            if let Some(node) = chapter.nodes.get_mut(at)
                // The first close wins.
                && node.state == NodeState::Open
            {
                node.close(line);
                chapter.open = chapter.open.saturating_sub(1);
                self.hand_out();
            }
            return;
        }
        let mut node = Node::span(line);
        node.close(line);
        self.push(node);
    }

    fn close_turn(&mut self, line: &RawLine<'_>) {
        let chapter = self.chapter(line.turn);
        let span = chapter.span.get_or_insert_with(|| Node::span(line));
        if span.state == NodeState::Open {
            span.close(line);
        }
        chapter.passed = true;
        self.hand_out();
    }

    fn event(&mut self, line: &RawLine<'_>) {
        let node = Node::event(line);
        let chapter = self.chapter(line.turn);
        if let Some(key) = message_key(line)
            && let Some(at) = chapter.messages.remove(&key)
            && let Some(streamed) = chapter.nodes.get_mut(at)
        {
            // Told whole at last: it stands where it began.
            let start = streamed.start;
            *streamed = node;
            streamed.start = start;
            return;
        }
        self.push(node);
    }

    /// A piece of a message that is on its way.
    fn delta(&mut self, line: &RawLine<'_>) {
        let Some(key) = message_key(line) else {
            return;
        };
        let text = line.payload().get("text").and_then(|value| value.text());
        let text = text.unwrap_or_default();
        let tool_input = line.kind == "tool_input_delta";
        let chapter = self.chapter(line.turn);
        let at = *chapter.messages.entry(key).or_insert(chapter.nodes.len());
        if at == chapter.nodes.len() {
            let mut node = Node::event(line);
            node.kind = if tool_input {
                "tool_input"
            } else {
                "message_assistant"
            }
            .into();
            node.streamed = Some(String::new());
            chapter.nodes.push(node);
        }
        if let Some(streamed) = chapter
            .nodes
            .get_mut(at)
            .and_then(|node| node.streamed.as_mut())
        {
            streamed.push_str(&text);
        }
    }

    /// The node of the span that a line is about.
    fn span(&mut self, line: &RawLine<'_>) -> Option<&mut Node> {
        let id = u64::from_str_radix(line.span_id?, 16).ok()?;
        for chapter in self.current.iter_mut().rev() {
            if let Some(at) = chapter.spans.get(&id) {
                return chapter.nodes.get_mut(*at);
            }
            if let Some(span) = chapter
                .span
                .as_mut()
                .filter(|span| span.span_id == Some(id))
            {
                return Some(span);
            }
        }
        None
    }

    /// Hands out what is over, in order. A turn that left a span open waits until a later turn is
    /// over: then what it left open is shown open.
    fn hand_out(&mut self) {
        while let Some(first) = self.current.front() {
            let over = first.passed && first.open == 0;
            let later_turn_over = |chapter: &Chapter| chapter.turn.is_some() && chapter.passed;
            let outside = first.turn.is_none() && first.open == 0 && self.current.len() > 1;
            let overtaken = first.passed && self.current.iter().skip(1).any(later_turn_over);
            // Whatever would have closed it is lost, or late beyond measure.
            let waited = self.current.len() > WAITING;
            if !(over || outside || overtaken || waited) {
                return;
            }
            if let Some(chapter) = self.current.pop_front()
                && (chapter.span.is_some() || !chapter.nodes.is_empty())
            {
                self.ready.push_back(chapter);
            }
        }
    }
}

/// What keeps the pieces of one message together.
pub(super) fn message_key(line: &RawLine<'_>) -> Option<(String, u64)> {
    if !matches!(
        line.kind.as_ref(),
        "message_delta" | "tool_input_delta" | "message_assistant" | "message_reasoning"
    ) {
        return None;
    }
    let payload = line.payload();
    let id = payload
        .get("message_id")
        .or_else(|| payload.get("tool_call_id"))?;
    let part = payload.get("part_index").and_then(|value| value.u64());
    Some((id.text()?.into_owned(), part.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_turns_of_one_number_keep_their_own_spans() {
        let line = |seg: u32, seq: u64, kind: &str, span: u64| {
            let span = format!("{span:016x}");
            serde_json::json!({
                "v": 1, "seg": seg, "seq": seq, "ts": "2026-11-16T00:31:05.123456Z", "kind": kind,
                "session_id": "s", "turn": 1, "trace_id": "0".repeat(32), "span_id": span, "payload": {},
            })
            .to_string()
        };
        let mut chapters = Chapters::default();
        for text in [
            line(1, 2, "turn_start", 1),
            line(1, 3, "tool_call", 2),
            line(2, 2, "turn_start", 3),
            line(1, 4, "tool_result", 2),
            line(2, 3, "turn_end", 3),
            line(1, 5, "turn_end", 1),
        ] {
            chapters.take(&RawLine::parse(text.as_bytes()).unwrap());
        }
        let mut all = Vec::new();
        while let Some(chapter) = chapters.ready() {
            all.push(chapter);
        }
        all.extend(chapters.finish());
        let tools: Vec<_> = all.iter().flat_map(|chapter| &chapter.nodes).collect();
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0].state, NodeState::Closed);
    }
}
