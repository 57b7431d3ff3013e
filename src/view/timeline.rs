//! The timeline: what happened in a turn, as a tree with a bar for time.

use std::collections::HashMap;

use super::row::{Said, Tone, row, settled};
use super::style::Style;
use super::text::{self, cost, count, cut, duration, line, pad, pad_left, thousands, wrap};
use crate::session::{Chapter, Node, NodeState};

const BAR: usize = 10;
/// `+12m30s ` and the bar with a blank behind it.
const GUTTER: usize = 8 + BAR + 1;
/// How many lines of a text are shown unless everything is asked for.
const LINES: usize = 2;
/// The column that says what a row is.
const LABEL: usize = 10;

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
}

impl<'a> Timeline<'a> {
    /// A renderer.
    pub fn new(style: &'a Style) -> Self {
        Self {
            style,
            subagents: None,
        }
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
        let mut out = Vec::new();
        let nodes: Vec<&Node> = chapter.nodes.iter().collect();
        let start = chapter
            .span
            .as_ref()
            .map(|span| span.start)
            .into_iter()
            .chain(nodes.iter().map(|node| node.start))
            .min()
            .unwrap_or(0);
        let end = nodes
            .iter()
            .chain(chapter.span.as_ref().iter())
            .map(|node| node.start.saturating_add(node.duration.unwrap_or(0)))
            .max()
            .unwrap_or(start);
        let span = Span { start, end };
        if chapter.turn.is_some() {
            out.extend(self.turn_lines(chapter, &span));
        }
        let mut children: HashMap<u64, Vec<&Node>> = HashMap::new();
        let spans: HashMap<u64, ()> = nodes
            .iter()
            .filter_map(|node| Some((node.span_id?, ())))
            .collect();
        let mut top = Vec::new();
        for node in &nodes {
            match node.parent.filter(|parent| spans.contains_key(parent)) {
                Some(parent) => children.entry(parent).or_default().push(node),
                None => top.push(*node),
            }
        }
        self.level(&mut top, &mut children, 0, &span, &mut out);
        out
    }

    fn level(
        &self,
        nodes: &mut [&Node],
        children: &mut HashMap<u64, Vec<&Node>>,
        depth: usize,
        span: &Span,
        out: &mut Vec<String>,
    ) {
        nodes.sort_by_key(|node| (node.start, node.address));
        for node in nodes.iter() {
            // Taken out: where two lines claim one id, what is inside is shown once.
            let inside = node.span_id.and_then(|id| children.remove(&id));
            let mut inside = inside.unwrap_or_default();
            let mut rules = Vec::new();
            if !self.style.full && node.kind.as_ref() == "tool_call" {
                // A rule that let a tool pass is a word on its row; a person's answer has its own.
                inside.retain(|child| {
                    let bare = child.span_id.is_none_or(|id| !children.contains_key(&id));
                    let settled = (bare && child.kind.as_ref() == "permission_request")
                        .then(|| settled(child))
                        .flatten();
                    let keep = settled.is_none();
                    rules.extend(settled);
                    keep
                });
            }
            self.node(
                node,
                (!rules.is_empty()).then(|| rules.join(", ")),
                depth,
                span,
                out,
            );
            // A tree deeper than this is a mistake, or an attempt on our stack.
            if depth < 64 {
                self.level(&mut inside, children, depth + 1, span, out);
            }
        }
    }

    fn turn_lines(&self, chapter: &Chapter, span: &Span) -> Vec<String> {
        let turn = chapter.turn.unwrap_or(0);
        let mut text = format!("Turn {turn}");
        let mut add = |part: String| text.push_str(&format!("  {part}"));
        add(self.style.clock(span.start));
        match &chapter.span {
            Some(node) if node.state == NodeState::Open => add("still open".into()),
            Some(node) => add(duration(node.duration.unwrap_or(0))),
            None => {}
        }
        let usage = turn_usage(chapter);
        if let Some(input) = usage.input {
            add(format!(
                "{} in, {} out",
                thousands(input),
                count(usage.output)
            ));
        }
        if usage.cost.is_some() {
            add(cost(usage.cost));
        }
        if let Some(reason) = chapter
            .span
            .as_ref()
            .and_then(|node| node.text("stop_reason"))
        {
            add(line(&reason).into_owned());
        }
        let outcome = chapter.span.as_ref().and_then(|node| node.outcome());
        if let Some(outcome) = outcome.filter(|o| !matches!(o.as_ref(), "ok" | "unset")) {
            add(line(&outcome).to_uppercase());
        }
        let mut out = vec![self.style.bold(&cut(&text, self.style.width))];
        let split = time_split(chapter);
        let parts = split.iter().filter(|(_, ns)| *ns > 0);
        let parts: Vec<_> = parts
            .map(|(who, ns)| format!("{who} {}", duration(*ns)))
            .collect();
        if !parts.is_empty() {
            out.push(self.style.dim(&format!("        {}", parts.join(", "))));
        }
        out
    }

    fn node(
        &self,
        node: &Node,
        rules: Option<String>,
        depth: usize,
        span: &Span,
        out: &mut Vec<String>,
    ) {
        let Some(row) = row(node, rules.as_deref()) else {
            return;
        };
        let indent = "  ".repeat(depth.min(12));
        let room = self
            .style
            .width
            .saturating_sub(GUTTER + indent.len())
            .max(30);
        let label = pad(&row.label, LABEL);
        let address = node.address.to_string();
        let taken = LABEL + 1 + address.len() + 2;
        let mut below = row.below;
        let mut text = cut(&row.text, room.saturating_sub(taken)).into_owned();
        let mut spoken = Vec::new();
        if let Some((tone, said)) = row.said {
            // What somebody said begins on the row itself.
            let mut lines = wrap(&said.text, room.saturating_sub(taken));
            text = format!("{text} {}", lines.remove(0))
                .trim_start()
                .to_owned();
            spoken = self.some(tone, lines, &said);
        }
        let offset = format!("+{}", duration(node.start.saturating_sub(span.start)));
        let gutter = format!("{} {} ", pad_left(&offset, 7), self.bar(node, span));
        out.push(format!(
            "{}{indent}{} {text}{}{}",
            self.style.dim(&gutter),
            self.tone(row.tone, &label),
            if text.is_empty() { "" } else { "  " },
            self.style.dim(&address),
        ));
        let blank = " ".repeat(GUTTER + indent.len() + LABEL + 1);
        out.extend(spoken.into_iter().map(|line| format!("{blank}{line}")));
        for (tone, mark, said) in below.drain(..) {
            let lines = wrap(&said.text, room.saturating_sub(LABEL + 3));
            for (index, line) in self.some(tone, lines, &said).into_iter().enumerate() {
                let mark = if index == 0 { mark } else { ' ' };
                out.push(format!(
                    "{blank}{} {line}",
                    self.tone(tone, &mark.to_string())
                ));
            }
        }
        if let (Some(lines), "subagent") = (self.subagents, node.kind.as_ref())
            && let Some(id) = node.text("child_session_id")
        {
            out.extend(lines(&id, depth));
        }
    }

    /// The first lines of a text, and how much is hidden.
    fn some(&self, tone: Tone, lines: Vec<String>, said: &Said) -> Vec<String> {
        let shown = if self.style.full {
            lines.len()
        } else {
            LINES.min(lines.len())
        };
        let hidden = lines.len() - shown;
        let mut out: Vec<_> = lines[..shown]
            .iter()
            .map(|line| self.tone(tone, line))
            .collect();
        let more = match (&said.elsewhere, hidden) {
            (Some(elsewhere), _) => Some(format!("… {elsewhere}")),
            (None, 0) => None,
            (None, 1) => Some("… 1 more line".to_owned()),
            (None, n) => Some(format!(
                "… {n} more lines, {} in all",
                text::size(said.text.len() as u64)
            )),
        };
        out.extend(more.map(|more| self.style.dim(&more)));
        out
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
        let whole = span.end.saturating_sub(span.start).max(1);
        let at = |ns: u64| {
            let part = ns.saturating_sub(span.start).min(whole);
            (part as u128 * BAR as u128 / u128::from(whole)) as usize
        };
        let from = at(node.start).min(BAR - 1);
        let (to, mark) = match (node.state, node.duration) {
            (NodeState::Open, _) => (BAR, '▒'),
            (_, Some(ns)) => (at(node.start.saturating_add(ns)).max(from + 1), '█'),
            (_, None) => (from + 1, '·'),
        };
        (0..BAR)
            .map(|i| if (from..to).contains(&i) { mark } else { ' ' })
            .collect()
    }
}

struct TurnUsage {
    input: Option<u64>,
    output: Option<u64>,
    cost: Option<f64>,
}

/// What a turn used: what its model calls say, else what it says itself.
fn turn_usage(chapter: &Chapter) -> TurnUsage {
    let mut sum = TurnUsage {
        input: None,
        output: None,
        cost: None,
    };
    let calls = chapter
        .nodes
        .iter()
        .filter(|node| node.kind.as_ref() == "model_call");
    let mut add = |node: &Node| {
        let Some(usage) = node.get("usage") else {
            return;
        };
        let n = |name: &str| usage.get(name).and_then(|v| v.u64());
        let plus = |sum: &mut Option<u64>, n: Option<u64>| {
            if let Some(n) = n {
                *sum = Some(sum.unwrap_or(0).saturating_add(n));
            }
        };
        plus(&mut sum.input, n("input_tokens"));
        plus(&mut sum.output, n("output_tokens"));
        if let Some(usd) = usage.get("cost_usd").and_then(|v| v.f64()) {
            sum.cost = Some(sum.cost.unwrap_or(0.0) + usd);
        }
    };
    calls.for_each(&mut add);
    if sum.input.is_none()
        && sum.output.is_none()
        && let Some(span) = &chapter.span
    {
        let mut own = sum;
        if let Some(usage) = span.get("usage") {
            own.input = usage.get("input_tokens").and_then(|v| v.u64());
            own.output = usage.get("output_tokens").and_then(|v| v.u64());
            own.cost = own.cost.or(usage.get("cost_usd").and_then(|v| v.f64()));
        }
        return own;
    }
    sum
}

/// The turn's time: what models, tools and persons took. Overlaps count once for each.
fn time_split(chapter: &Chapter) -> [(&'static str, u64); 3] {
    let mut spans: [Vec<(u64, u64)>; 3] = Default::default();
    for node in &chapter.nodes {
        let Some(ns) = node.duration else { continue };
        let which = match node.kind.as_ref() {
            "model_call" => 0,
            "tool_call" => 1,
            "permission_request"
                if node.text("action").as_deref() == Some("ask")
                    || node.text("decided_by").is_some() =>
            {
                2
            }
            _ => continue,
        };
        spans[which].push((node.start, node.start.saturating_add(ns)));
    }
    let person = covered(&mut spans[2]);
    let tool = covered(&mut spans[1]).saturating_sub(person);
    [
        ("model", covered(&mut spans[0])),
        ("tool", tool),
        ("person", person),
    ]
}

/// How much time intervals cover together.
fn covered(spans: &mut [(u64, u64)]) -> u64 {
    spans.sort_unstable();
    let mut sum = 0;
    let mut until = 0;
    for (from, to) in spans.iter() {
        let from = (*from).max(until);
        sum += to.saturating_sub(from);
        until = until.max(*to);
    }
    sum
}
