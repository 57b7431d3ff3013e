//! The timeline: a turn as a tree, with a bar for time.

use super::describe::Detail;
use super::describer::{Described, Describer, TurnTime};
use super::layout::Layout;
use super::other_fields::other_fields;
use super::style::{Style, Tone};
use super::text::{self, Text, columns, cut, duration, pad, pad_left, wrap};
use super::title::title;
use crate::session::{Branch, Entry, Hidden, HiddenNodes, Node, NodeState, Step, Store, Turn};
use crate::trace::Kind;

/// `+12m30s` and a blank behind it.
const OFFSET: usize = 8;
/// How many lines of a message are shown unless everything is wanted.
const LINES: usize = 2;
/// Only the beginning of a longer text is looked at.
const LONG: usize = 64 * 1024;
/// The width of the label's column.
const LABEL: usize = 10;
/// About how long the note on how much is hidden is.
const NOTE: usize = 20;
/// How much of a line is shown at least, before the note on how much is hidden.
const SOME: usize = 8;

/// Renders turns.
///
/// ```
/// use spanledger::session::Turn;
/// use spanledger::view::{Style, Timeline};
/// let turn = Turn::default(); // as `Turns::ready` returns it
/// for line in Timeline::new(&Style::plain()).turn(&turn) {
///     println!("{line}");
/// }
/// ```
pub struct Timeline<'a> {
    style: &'a Style,
    subagents: Option<Subagents<'a>>,
    describer: Describer<'a>,
}

/// The lines of a subagent's session, by its id.
type Subagents<'a> = &'a dyn Fn(&str, usize) -> Vec<String>;

impl std::fmt::Debug for Timeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timeline").finish_non_exhaustive()
    }
}

impl<'a> Timeline<'a> {
    /// A renderer.
    pub fn new(style: &'a Style) -> Self {
        Self {
            style,
            subagents: None,
            describer: Describer {
                permission_rows: style.full,
                asset_rows: style.full,
                ..Describer::default()
            },
        }
    }

    /// A renderer of a session of this store. If the session is over, its open spans were left open.
    pub fn of(entry: &Entry, store: &'a Store, style: &'a Style) -> Self {
        let mut timeline = Self::new(style);
        timeline.describer.over = !entry.status.is_live();
        timeline.describer.store = Some(store);
        timeline
    }

    /// Marks what rewinds have hidden.
    pub fn with_hidden(mut self, hidden: &'a Hidden) -> Self {
        self.describer.hidden = Some(hidden);
        self
    }

    /// Marks the messages that other sessions were branched from.
    pub fn with_branches(mut self, branches: &'a [Branch]) -> Self {
        self.describer.branches = branches;
        self
    }

    /// Puts the lines of a subagent under the row that started it.
    pub fn with_subagents(self, lines: &'a dyn Fn(&str, usize) -> Vec<String>) -> Self {
        Self {
            subagents: Some(lines),
            ..self
        }
    }

    /// The lines of a turn.
    pub fn turn(&self, turn: &Turn) -> Vec<String> {
        let mut out = self.title(turn);
        out.extend(self.rows(turn));
        out
    }

    /// The title of a turn; nothing between turns.
    pub fn title(&self, turn: &Turn) -> Vec<String> {
        match turn.index {
            Some(_) => title(turn, TurnTime::of(turn).start, &self.describer, self.style),
            None => Vec::new(),
        }
    }

    /// The nodes of a turn.
    pub fn rows(&self, turn: &Turn) -> Vec<String> {
        let mut out = Vec::new();
        let nodes = &mut self.describer.turn(turn);
        self.level(nodes, 0, &TurnTime::of(turn), &mut out);
        out
    }

    /// What the rows of a turn leave out because it is hidden.
    pub fn hidden_row(&self, hidden: HiddenNodes) -> String {
        let text = format!("        {}; --hidden shows it", hidden_text(hidden));
        self.style.dim(&cut(&text, self.style.width))
    }

    /// The rows of one level of the tree.
    fn level<'b>(
        &self,
        nodes: &mut dyn Iterator<Item = Described<'b>>,
        depth: usize,
        time: &TurnTime,
        out: &mut Vec<String>,
    ) {
        for described in nodes {
            let node = described.node;
            let inside = self.row(described, depth, time, out);
            let inside = &mut self.describer.inside(node, inside);
            self.level(inside, depth + 1, time, out);
        }
    }

    /// The rows of one node. Returns what is inside it.
    fn row<'b>(
        &self,
        described: Described<'b>,
        depth: usize,
        time: &TurnTime,
        out: &mut Vec<String>,
    ) -> Vec<Step<'b>> {
        let Described {
            node,
            description: described,
            duration,
            inside,
        } = described;
        let indent = "  ".repeat(depth.min(12));
        let gutter = self.gutter(node, duration, time);
        let before = columns(&gutter) + indent.len() + LABEL + 1;
        // Lines below the row begin in the text's column and have its whole width.
        let wide = self.style.width.saturating_sub(before).max(16);
        let address = node.address.to_string();
        let room = wide.saturating_sub(address.len() + 2);
        let blank = " ".repeat(before);
        let label = described
            .tone
            .paint(self.style, &pad(&described.label, LABEL));

        let tone = match node.kind {
            Kind::MessageUser => Tone::Plain,
            _ => described.tone,
        };
        let message = described.message.clone();
        let mut layout = Layout::new(described, room, self.style.full);
        let mut more = Vec::new();
        if let Some(message) = message {
            let rest = self.begin_message(&message, &mut layout).into_iter();
            more.extend(rest.map(|line| tone.paint(self.style, &line)));
        }
        let text = layout.text;
        let space = if text.is_empty() { "" } else { "  " };
        let (gutter, address) = (self.style.dim(&gutter), self.style.dim(&address));
        out.push(format!("{gutter}{indent}{label} {text}{space}{address}"));
        if !layout.overflow.is_empty() {
            more.extend(wrap(&layout.overflow.join("  "), wide));
        }
        for detail in &layout.below {
            more.extend(self.detail(detail, wide));
        }
        if self.style.full {
            more.extend(other_lines(node, wide, self.style));
        }
        out.extend(more.into_iter().map(|line| format!("{blank}{line}")));
        if let (Some(lines), Some(id)) = (self.subagents, node.subagent()) {
            out.extend(lines(&id, depth));
        }
        inside
    }

    /// Puts the first line of a message on the row itself, and returns the others.
    fn begin_message(&self, message: &Text, layout: &mut Layout) -> Vec<String> {
        let blank = usize::from(!layout.text.is_empty());
        let mut lines = self.some(message, layout.left().saturating_sub(blank), LINES);
        let text = format!("{} {}", layout.text, lines.remove(0));
        layout.text = text.trim_start().to_owned();
        lines
    }

    /// The lines of a detail, the first with its mark.
    fn detail(&self, detail: &Detail, wide: usize) -> Vec<String> {
        let paint = |text: &str| detail.kind.tone().paint(self.style, text);
        let lines = self.some(&detail.text, wide.saturating_sub(2), detail.lines);
        let marked = lines.into_iter().enumerate().map(|(index, line)| {
            let mark = if index == 0 { detail.kind.mark() } else { ' ' };
            format!("{} {}", paint(&mark.to_string()), paint(&line))
        });
        marked.collect()
    }

    /// The first lines of a text, and at the end of the last of them how much is hidden.
    fn some(&self, text: &Text, room: usize, max: usize) -> Vec<String> {
        let size = || text::size(text.text.len() as u64);
        if !self.style.full && text.text.len() > LONG {
            // Counting its lines would take too long.
            let in_all = || format!("{} in all", size());
            let head = Text {
                text: text.text.chars().take(room * (max + 1)).collect(),
                elsewhere: Some(text.elsewhere.clone().unwrap_or_else(in_all)),
            };
            return self.some(&head, room, max);
        }
        let mut lines = wrap(&text.text, room);
        let rest = match self.style.full {
            true => Vec::new(),
            false => lines.split_off(lines.len().min(max)),
        };
        let hidden = rest.len() as u64;
        if hidden > 0 && text.elsewhere.is_none() {
            // Short lines are joined: they are more useful than their number.
            let joined = wrap(&text::line(text.text.trim_end()), room);
            if joined.len() <= max {
                return joined;
            }
        }
        // The note on one short line would be as long as the line.
        if let ([last], None) = (&rest[..], &text.elsewhere)
            && columns(last) <= NOTE
        {
            lines.extend(rest);
            return lines;
        }
        let (long, short) = match (&text.elsewhere, hidden) {
            (Some(elsewhere), _) => {
                let size = elsewhere.split(" in all").next();
                (elsewhere.clone(), size.unwrap_or_default().to_owned())
            }
            (None, 0) => return lines,
            (None, _) => match hidden_lines(&text.text, room, max) {
                0 => (format!("{} in all", size()), size()),
                n => {
                    let more = format!("+{}", text::plural(n, "line"));
                    (format!("{more}, {} in all", size()), more)
                }
            },
        };
        let more = match columns(&long) + 1 + SOME <= room {
            true => long,
            false => short,
        };
        if let Some(last) = lines.last_mut() {
            let left = room.saturating_sub(columns(&more) + 1);
            let head = match columns(last) + 2 <= left {
                true => format!("{last} …"),
                false => format!("{}…", cut(last, left.max(SOME)).trim_end_matches('…')),
            };
            *last = format!("{head} {}", self.style.dim(&more));
        }
        lines
    }

    /// The time when a node began, and a bar for its part of the turn.
    fn gutter(&self, node: &Node, took: Option<u64>, time: &TurnTime) -> String {
        let width = match self.style.width {
            // The text needs the columns more.
            ..60 => 0,
            width => (width / 10).clamp(6, 16),
        };
        if time.outside {
            let clock = match width {
                0 => self.style.clock(node.start),
                _ => self.style.exact_clock(node.start),
            };
            return format!("{} ", pad(&clock, OFFSET + width));
        }
        let offset = format!("+{}", duration(node.start.saturating_sub(time.start)));
        let bar = bar(node, took, time, width);
        format!("{} {bar} ", pad_left(&offset, OFFSET - 1))
    }
}

/// How many lines of a text begin after the first `max` rows of so many columns.
fn hidden_lines(text: &str, room: usize, max: usize) -> u64 {
    let mut rows = 0;
    let mut hidden = 0;
    for line in text.trim_end_matches(['\n', '\r']).split('\n') {
        hidden += u64::from(rows >= max);
        rows += wrap(line, room).len();
    }
    hidden
}

/// The fields that a row does not show, wrapped.
pub(super) fn other_lines(node: &Node, wide: usize, style: &Style) -> Vec<String> {
    let fields = other_fields(node).into_iter();
    let lines = fields.flat_map(|field| wrap(&field, wide));
    lines.map(|line| style.dim(&line)).collect()
}

/// A bar for the part of the turn that a node took.
fn bar(node: &Node, took: Option<u64>, time: &TurnTime, width: usize) -> String {
    if width == 0 {
        return String::new();
    }
    let at = |ns| time.part(ns, width as u64) as usize;
    let from = at(node.start).min(width - 1);
    let (to, mark) = match (node.state, took) {
        (NodeState::Open, _) => (width, '▒'),
        (_, Some(took)) => {
            let end = node.start.saturating_add(took);
            (at(end).max(from + 1), '█')
        }
        (_, None) => (from + 1, '·'),
    };
    (0..width)
        .map(|i| if (from..to).contains(&i) { mark } else { ' ' })
        .collect()
}

/// What is hidden, and by which line.
pub(super) fn hidden_text(hidden: HiddenNodes) -> String {
    let HiddenNodes {
        by,
        messages,
        calls,
        ..
    } = hidden;
    let (messages, calls) = (
        text::plural(messages, "message"),
        text::plural(calls, "call"),
    );
    format!("hidden by {by}: {messages}, {calls}")
}

#[cfg(test)]
mod tests;
