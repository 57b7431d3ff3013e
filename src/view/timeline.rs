//! The timeline: what happened in a turn, as a tree with a bar for time.

use std::collections::HashMap;

use super::row::{Life, Row, Said, Tone, Verdict, row};
use super::style::Style;
use super::text::{self, columns, cut, duration, pad, pad_left, wrap};
use super::title::title;
use crate::session::{Chapter, Node, NodeState};

/// `+12m30s` and a blank behind it.
const OFFSET: usize = 8;
/// How many lines of a message are shown unless everything is asked for.
const LINES: usize = 2;
/// Of a text longer than this only the beginning is looked at.
const LONG: usize = 64 * 1024;
/// The column that says what a row is.
const LABEL: usize = 10;
/// How much of a line is shown at least, before how much is hidden.
const SOME: usize = 8;

/// Renders chapters.
///
/// ```
/// use spanledger::session::Chapter;
/// use spanledger::view::{Style, Timeline};
/// let chapter = Chapter::default(); // as `Chapters::ready` hands it out
/// for line in Timeline::new(&Style::plain()).chapter(&chapter) {
///     println!("{line}");
/// }
/// ```
pub struct Timeline<'a> {
    style: &'a Style,
    subagents: Option<Subagents<'a>>,
    left: bool,
}

/// The lines of a subagent's session, by its id.
type Subagents<'a> = &'a dyn Fn(&str, usize) -> Vec<String>;

impl std::fmt::Debug for Timeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timeline").finish_non_exhaustive()
    }
}

/// The time a chapter covers.
struct Span {
    start: u64,
    end: u64,
    /// Outside turns there is nothing to measure against: each row tells the time of day.
    outside: bool,
}

impl Span {
    fn of(chapter: &Chapter) -> Self {
        let all = || chapter.span.iter().chain(&chapter.nodes);
        let start = all().map(|node| node.start).min().unwrap_or(0);
        let ends = all().map(|node| node.start.saturating_add(node.duration.unwrap_or(0)));
        Self {
            start,
            end: ends.max().unwrap_or(start),
            outside: chapter.turn.is_none(),
        }
    }
}

impl<'a> Timeline<'a> {
    /// A renderer.
    pub fn new(style: &'a Style) -> Self {
        Self {
            style,
            subagents: None,
            left: false,
        }
    }

    /// Whether nobody is at it any more: what is open was left so.
    pub fn left(self, left: bool) -> Self {
        Self { left, ..self }
    }

    /// Puts what a subagent did under the row that started it.
    pub fn with_subagents(self, lines: &'a dyn Fn(&str, usize) -> Vec<String>) -> Self {
        Self {
            subagents: Some(lines),
            ..self
        }
    }

    /// The lines of a chapter.
    pub fn chapter(&self, chapter: &Chapter) -> Vec<String> {
        let mut out = self.title(chapter);
        out.extend(self.rows(chapter));
        out
    }

    /// What a turn begins with; nothing for what lies outside turns.
    pub fn title(&self, chapter: &Chapter) -> Vec<String> {
        match chapter.turn {
            Some(_) => title(chapter, Span::of(chapter).start, self.left, self.style),
            None => Vec::new(),
        }
    }

    /// What happened in a chapter.
    pub fn rows(&self, chapter: &Chapter) -> Vec<String> {
        let mut out = Vec::new();
        let nodes: Vec<&Node> = chapter.nodes.iter().collect();
        let span = Span::of(chapter);
        let mut children: HashMap<u64, Vec<&Node>> = HashMap::new();
        let spans: HashMap<u64, ()> = nodes
            .iter()
            .filter_map(|node| Some((node.span_id?, ())))
            .collect();
        let mut top = Vec::new();
        for node in &nodes {
            match node.within().filter(|parent| spans.contains_key(parent)) {
                Some(parent) => children.entry(parent).or_default().push(node),
                None => top.push(*node),
            }
        }
        let open = chapter.span.as_ref().is_some_and(is_open);
        self.level(&mut top, &mut children, (0, open), &span, &mut out);
        // What nothing on top leads to: spans that say they lie in each other, or too deep a tree.
        let first = |inside: &[&Node]| inside.iter().map(|node| (node.start, node.address)).min();
        let mut left: Vec<_> = children.iter().map(|(id, n)| (first(n), *id)).collect();
        left.sort_unstable();
        for (_, id) in left {
            if let Some(mut inside) = children.remove(&id) {
                self.level(&mut inside, &mut children, (0, open), &span, &mut out);
            }
        }
        out
    }

    /// Rows of one level of the tree: how deep that is, and whether what it lies in is open.
    fn level(
        &self,
        nodes: &mut [&Node],
        children: &mut HashMap<u64, Vec<&Node>>,
        (depth, open): (usize, bool),
        span: &Span,
        out: &mut Vec<String>,
    ) {
        nodes.sort_by_key(|node| (node.start, node.address));
        let mut nodes = nodes.iter().peekable();
        while let Some(node) = nodes.next() {
            // Taken out: where two lines claim one id, what is inside is shown once.
            // A tree deeper than this is a mistake, or an attempt on our stack: it goes on on top.
            let own = node.span_id.filter(|_| depth < 64);
            let inside = own.and_then(|id| children.remove(&id));
            let mut inside = inside.unwrap_or_default();
            let mut verdict = Verdict::default();
            let mut begun_with = Vec::new();
            if !self.style.full {
                if node.kind.as_ref() == "tool_call" {
                    inside.retain(|child| !settles(child, children, &mut verdict));
                }
                let begins = matches!(node.kind.as_ref(), "session_start" | "session_resume");
                while let Some(next) = nodes.next_if(|next| begins && in_force(next).is_some()) {
                    begun_with.extend(in_force(next).filter(|text| !text.is_empty()));
                }
            }
            if let Some(mut row) = row(
                node,
                verdict,
                Life {
                    open,
                    left: self.left,
                },
            ) {
                if !begun_with.is_empty() {
                    row.text
                        .push_str(&format!(" with {}", begun_with.join(", ")));
                }
                self.row(node, row, depth, span, out);
            }
            self.level(&mut inside, children, (depth + 1, is_open(node)), span, out);
        }
    }

    fn row(&self, node: &Node, row: Row, depth: usize, span: &Span, out: &mut Vec<String>) {
        let indent = "  ".repeat(depth.min(12));
        let bar = self.bar(node, span);
        let gutter = match span.outside {
            true => pad(&self.style.clock(node.start), OFFSET + columns(&bar)),
            false => {
                let offset = format!("+{}", duration(node.start.saturating_sub(span.start)));
                format!("{} {bar}", pad_left(&offset, OFFSET - 1))
            }
        };
        let gutter = format!("{gutter} ");
        let before = columns(&gutter) + indent.len() + LABEL + 1;
        // What stands below begins where the text does, and has the row's whole width.
        let wide = self.style.width.saturating_sub(before).max(16);
        let address = node.address.to_string();
        let room = wide.saturating_sub(address.len() + 2);
        let blank = " ".repeat(before);
        let mut below = Vec::new();

        let named = columns(&cut(&row.text, room + 1));
        let fitting = |facts: &&String| text::fits(facts, room.saturating_sub(named));
        let facts = row.facts.iter().find(fitting).or(row.facts.last());
        let facts = facts.map_or("", String::as_str);
        let facts = cut(facts, room.saturating_sub(named.min(8))).into_owned();
        let left = room.saturating_sub(columns(&facts));
        let mut text = cut(&row.text, left).into_owned();
        // Where nothing may be hidden, what has no room on the row stands below it.
        let mut hidden = Vec::new();
        if self.style.full {
            let whole = row.facts.last().map_or("", String::as_str);
            hidden.extend((!text::fits(&row.text, left)).then(|| row.text.clone()));
            hidden
                .extend((facts.ends_with('…') && facts != whole).then(|| whole.trim().to_owned()));
        }
        let mut texts = row.below.into_iter().peekable();
        // What a tool was called with stands before how it went.
        let fits = |text: &str, said: &Said, more: usize| {
            let short = said.elsewhere.is_none() && !said.text.trim_end().contains('\n');
            let left = room.saturating_sub(columns(text) + more);
            short && said.text.len() < 8 * room && text::fits(&text::line(&said.text), left)
        };
        let input = texts.next_if(|item| item.mark == '←');
        if let Some(item) = input {
            match fits(&text, &item.said, columns(&facts) + 2) {
                true => text.push_str(&format!("  {}", text::line(item.said.text.trim_end()))),
                false => below.push(item),
            }
        }
        text.push_str(&facts);
        for extra in &row.extras {
            let left = room.saturating_sub(columns(&text) + 2);
            match extra.iter().find(|words| text::fits(words, left)) {
                Some(words) => text.push_str(&format!("  {words}")),
                None if self.style.full => hidden.extend(extra.first().cloned()),
                None => {}
            }
        }
        // So does what came of it, if it fits and nothing has to stand above it.
        if !self.style.full {
            while let Some(item) =
                texts.next_if(|item| below.is_empty() && fits(&text, &item.said, 4))
            {
                let said = text::line(item.said.text.trim_end()).into_owned();
                let mark = item.mark.to_string();
                text.push_str(&format!("  {mark} {said}"));
            }
        }
        below.extend(texts);
        let mut spoken = Vec::new();
        if let Some((tone, said)) = row.said {
            // What somebody said begins on the row itself.
            let room = room.saturating_sub(columns(&text) + usize::from(!text.is_empty()));
            let mut lines = self.some(&said, room, LINES);
            text = format!("{text} {}", lines.remove(0))
                .trim_start()
                .to_owned();
            spoken = lines.iter().map(|line| self.tone(tone, line)).collect();
        }
        out.push(format!(
            "{}{indent}{} {text}{}{}",
            self.style.dim(&gutter),
            self.tone(row.tone, &pad(&row.label, LABEL)),
            if text.is_empty() { "" } else { "  " },
            self.style.dim(&address),
        ));
        out.extend(spoken.into_iter().map(|line| format!("{blank}{line}")));
        if !hidden.is_empty() {
            let lines = wrap(&hidden.join("  "), wide);
            out.extend(lines.iter().map(|line| format!("{blank}{line}")));
        }
        for item in below {
            let lines = self.some(&item.said, wide.saturating_sub(2), item.lines);
            for (index, line) in lines.into_iter().enumerate() {
                let mark = if index == 0 { item.mark } else { ' ' };
                let mark = self.tone(item.tone, &mark.to_string());
                out.push(format!("{blank}{mark} {}", self.tone(item.tone, &line)));
            }
        }
        if let (Some(lines), "subagent") = (self.subagents, node.kind.as_ref())
            && let Some(id) = node.text("child_session_id")
        {
            out.extend(lines(&id, depth));
        }
    }

    /// The first lines of a text, and at the end of the last of them how much is hidden.
    fn some(&self, said: &Said, room: usize, max: usize) -> Vec<String> {
        let size = || text::size(said.text.len() as u64);
        if !self.style.full && said.text.len() > LONG {
            // Whoever counts its lines has to go through all of it.
            let head = said.text.chars().take(room * (max + 1)).collect();
            let elsewhere = said
                .elsewhere
                .clone()
                .unwrap_or_else(|| format!("{} in all", size()));
            let head = Said {
                text: head,
                elsewhere: Some(elsewhere),
            };
            return self.some(&head, room, max);
        }
        let mut lines = wrap(&said.text, room);
        let all = lines.len();
        if !self.style.full {
            lines.truncate(max);
        }
        let hidden = (all - lines.len()) as u64;
        if hidden > 0 && said.elsewhere.is_none() {
            // Short lines one after the other say more than how many of them there are.
            let joined = wrap(&text::line(said.text.trim_end()), room);
            if joined.len() <= max {
                return joined;
            }
        }
        let more = match (&said.elsewhere, hidden) {
            (Some(elsewhere), _) => {
                let size = elsewhere.split(" in all").next();
                [elsewhere.clone(), size.unwrap_or_default().to_owned()]
            }
            (None, 0) => return lines,
            (None, n) => {
                let more = format!("+{}", text::plural(n, "line"));
                [format!("{more}, {} in all", size()), more]
            }
        };
        let [long, short] = more;
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

    fn tone(&self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Quiet => self.style.dim(text),
            Tone::Person => self.style.magenta(text),
            Tone::Good => self.style.cyan(text),
            Tone::Bad => self.style.red(text),
            Tone::Look => self.style.yellow(text),
        }
    }

    /// Where in the turn it lies, and how much of it it took.
    fn bar(&self, node: &Node, span: &Span) -> String {
        let bar = match self.style.width {
            // What is said needs the columns more.
            ..60 => 0,
            width => (width / 10).clamp(6, 16),
        };
        if span.outside || bar == 0 {
            return " ".repeat(bar);
        }
        let whole = span.end.saturating_sub(span.start).max(1);
        let at = |ns: u64| {
            let part = ns.saturating_sub(span.start).min(whole);
            (part as u128 * bar as u128 / u128::from(whole)) as usize
        };
        let from = at(node.start).min(bar - 1);
        let (to, mark) = match (node.state, node.duration) {
            (NodeState::Open, _) => (bar, '▒'),
            (_, Some(ns)) => (at(node.start.saturating_add(ns)).max(from + 1), '█'),
            (_, None) => (from + 1, '·'),
        };
        (0..bar)
            .map(|i| if (from..to).contains(&i) { mark } else { ' ' })
            .collect()
    }
}

fn is_open(node: &Node) -> bool {
    node.state == NodeState::Open
}

/// Whether a permission inside a tool is told on the tool's row. What happened in it goes with it.
fn settles(child: &Node, children: &mut HashMap<u64, Vec<&Node>>, verdict: &mut Verdict) -> bool {
    if child.kind.as_ref() != "permission_request" {
        return false;
    }
    let inside = child.span_id.and_then(|id| children.get(&id));
    let settled = verdict.take(child, inside.map_or(&[], Vec::as_slice));
    if settled && let Some(id) = child.span_id {
        children.remove(&id);
    }
    settled
}

/// What a run begins with, and where it is told; nothing of what has no row of its own.
fn in_force(node: &Node) -> Option<String> {
    let what = match node.kind.as_ref() {
        "system_prompt" => "prompt",
        "tool_catalog" => "tools",
        "permission_rules" => "rules",
        "session_title" => return Some(String::new()),
        _ => return None,
    };
    Some(format!("{what} {}", node.address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::RawLine;
    use crate::session::Chapters;

    /// On each level two spans that claim one id, and the two of the next level inside it: shown
    /// under both of them, twelve levels would be thousands of rows.
    #[test]
    fn what_is_inside_two_spans_of_one_id_is_shown_once() {
        const LEVELS: u64 = 12;
        let mut chapters = Chapters::default();
        for level in 1..=LEVELS {
            for _ in 0..2 {
                // A close line whose open line is missing is a node of its own, whatever its id.
                let line = serde_json::json!({
                    "v": 1, "seg": 1, "seq": level, "ts": "2026-11-16T00:31:05.123456Z",
                    "kind": "tool_result", "session_id": "s", "turn": 1,
                    "trace_id": "0".repeat(32), "span_id": format!("{level:016x}"),
                    "parent_span_id": format!("{:016x}", level - 1),
                    "payload": {"tool_id": format!("level-{level}"), "duration_ns": 1},
                });
                chapters.take(&RawLine::parse(line.to_string().as_bytes()).unwrap());
            }
        }
        let chapter = chapters.finish().remove(0);
        assert_eq!(chapter.nodes.len() as u64, 2 * LEVELS);
        let lines = Timeline::new(&Style::plain()).chapter(&chapter);
        let shown = lines.iter().filter(|line| line.contains("level-")).count();
        assert_eq!(shown, chapter.nodes.len());
    }
}
