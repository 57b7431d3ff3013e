//! The timeline: what happened in a turn, as a tree with a bar for time.

use std::collections::HashMap;

use super::style::Style;
use super::text::{self, cost, count, cut, duration, line, pad, pad_left, thousands, wrap};
use crate::reader::RawValue;
use crate::session::{Chapter, Node, NodeState};

const BAR: usize = 10;
/// `+12m30s ` and the bar with a blank behind it.
const GUTTER: usize = 8 + BAR + 1;
/// How many lines of a text are shown unless everything is asked for.
const LINES: usize = 3;

/// Renders chapters.
///
/// ```no_run
/// use spanledger::view::{Style, Timeline};
/// # let chapter: spanledger::session::Chapter = unimplemented!();
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

/// What one node looks like: a word for what it is, the rest of its line, and text below it.
struct Row {
    label: String,
    text: String,
    below: Vec<(Tone, String)>,
    tone: Tone,
}

#[derive(Clone, Copy, PartialEq)]
enum Tone {
    Plain,
    Quiet,
    Person,
    Good,
    Bad,
    Look,
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
            .map(|node| node.start + node.duration.unwrap_or(0))
            .max()
            .unwrap_or(start);
        let span = Span { start, end };
        if chapter.turn.is_some() {
            out.push(self.turn_line(chapter, &span));
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
        self.level(&mut top, &children, 0, &span, &mut out);
        out
    }

    fn level(
        &self,
        nodes: &mut [&Node],
        children: &HashMap<u64, Vec<&Node>>,
        depth: usize,
        span: &Span,
        out: &mut Vec<String>,
    ) {
        nodes.sort_by_key(|node| (node.start, node.address));
        for node in nodes.iter() {
            self.node(node, depth, span, out);
            let inside = node.span_id.and_then(|id| children.get(&id));
            // A tree deeper than this is a mistake, or an attempt on our stack.
            if let Some(inside) = inside.filter(|_| depth < 64) {
                self.level(&mut inside.clone(), children, depth + 1, span, out);
            }
        }
    }

    fn turn_line(&self, chapter: &Chapter, span: &Span) -> String {
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
        let split = time_split(chapter);
        if split.iter().any(|(_, ns)| *ns > 0) {
            let parts: Vec<_> = split
                .iter()
                .filter(|(_, ns)| *ns > 0)
                .map(|(who, ns)| format!("{who} {}", duration(*ns)))
                .collect();
            add(format!("({})", parts.join(", ")));
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
            add(outcome.into_owned());
        }
        self.style.bold(&cut(&text, self.style.width))
    }

    fn node(&self, node: &Node, depth: usize, span: &Span, out: &mut Vec<String>) {
        let Some(row) = self.row(node) else {
            return;
        };
        let indent = "  ".repeat(depth.min(12));
        let room = self
            .style
            .width
            .saturating_sub(GUTTER + indent.len())
            .max(20);
        let label = pad(&row.label, row.label.chars().count().max(9));
        let address = node.address.to_string();
        let taken = text::columns(&label) + address.len() + 3;
        let text = cut(&row.text, room.saturating_sub(taken));
        let offset = format!("+{}", duration(node.start.saturating_sub(span.start)));
        let gutter = format!("{} {} ", pad_left(&offset, 7), self.bar(node, span));
        out.push(format!(
            "{}{indent}{} {text}{}{}",
            self.style.dim(&gutter),
            self.tone(row.tone, &label),
            if text.is_empty() { "" } else { "  " },
            self.style.dim(&address),
        ));
        for (tone, below) in row.below {
            let room = room.saturating_sub(10);
            let lines = wrap(&below, room);
            let shown = if self.style.full {
                lines.len()
            } else {
                LINES.min(lines.len())
            };
            let blank = " ".repeat(GUTTER + indent.len() + 10);
            for line in &lines[..shown] {
                out.push(
                    format!("{blank}{}", self.tone(tone, line))
                        .trim_end()
                        .to_owned(),
                );
            }
            let hidden = lines.len() - shown;
            if hidden > 0 {
                let more = format!("… {hidden} more lines ({})", text::size(below.len() as u64));
                out.push(format!("{blank}{}", self.style.dim(&more)));
            }
        }
        if let (Some(lines), "subagent") = (self.subagents, node.kind.as_ref())
            && let Some(id) = node.text("child_session_id")
        {
            out.extend(lines(&id, depth));
        }
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
            (_, Some(ns)) => (at(node.start + ns).max(from + 1), '█'),
            (_, None) => (from + 1, '·'),
        };
        (0..BAR)
            .map(|i| if (from..to).contains(&i) { mark } else { ' ' })
            .collect()
    }

    fn row(&self, node: &Node) -> Option<Row> {
        let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
        let mut row = Row {
            label: node.kind.to_string(),
            text: String::new(),
            below: Vec::new(),
            tone: Tone::Plain,
        };
        match node.kind.as_ref() {
            "message_user" => row.person("user", node),
            "message_assistant" => row.message("assistant", node, Tone::Plain),
            "message_reasoning" => row.message("reasoning", node, Tone::Quiet),
            "message_system" => row.message("system", node, Tone::Quiet),
            "tool_input" => row.message("tool input", node, Tone::Quiet),
            "model_call" => {
                row.label = "model".into();
                row.tone = Tone::Good;
                row.text = model_text(node);
            }
            "tool_call" => {
                row.label = "tool".into();
                row.tone = Tone::Good;
                row.text = format!(
                    "{}{}",
                    said("tool_id").unwrap_or_default(),
                    how_it_went(node)
                );
                if let Some(input) = node.get("command").or_else(|| node.get("args")) {
                    row.below
                        .push((Tone::Plain, format!("← {}", show_value(input))));
                }
                for name in ["result", "stdout", "stderr"] {
                    if let Some(output) = node.get(name) {
                        row.below
                            .push((Tone::Quiet, format!("→ {}", show_value(output))));
                    }
                }
            }
            "permission_request" => {
                row.label = "permission".into();
                row.text = permission_text(node);
                row.tone = match node.text("action").as_deref() {
                    Some("deny") => Tone::Bad,
                    Some("ask") => Tone::Person,
                    _ => Tone::Quiet,
                };
            }
            "compaction_start" => {
                row.label = "compaction".into();
                row.tone = Tone::Look;
                let n = node.get("summarized_message_count").and_then(|v| v.u64());
                row.text = format!("{} messages summarized{}", count(n), how_it_went(node));
                if let Some(summary) = node.text("summary") {
                    row.below.push((Tone::Quiet, summary.into_owned()));
                }
            }
            "session_start" | "session_resume" => {
                let word = if node.kind.as_ref() == "session_start" {
                    "run"
                } else {
                    "resumed"
                };
                row.label = word.into();
                row.text = said("agent").unwrap_or_default();
            }
            "session_end" | "interrupted" => {
                row.label = "run ended".into();
                row.text = how_it_went(node).trim_start().to_owned();
            }
            "hitl_request" => {
                row.label = "asks".into();
                row.tone = Tone::Person;
                row.text = said("interrupt_id").unwrap_or_default();
            }
            "hitl_response" => {
                row.label = "answer".into();
                row.tone = Tone::Person;
                row.text = node.get("decision").map(show_value).unwrap_or_default();
            }
            "subagent" => {
                row.label = "subagent".into();
                row.tone = Tone::Look;
                let (agent, id) = (said("agent"), said("child_session_id"));
                row.text = format!("{}  {}", agent.unwrap_or_default(), id.unwrap_or_default());
            }
            "artifact" => {
                row.label = "artifact".into();
                row.text = said("path").unwrap_or_default();
                if let Some(caption) = said("caption") {
                    row.text.push_str(&format!("  {caption}"));
                }
            }
            "attempt" => {
                row.label = "attempt".into();
                let (id, why) = (said("id"), said("rationale"));
                row.text = format!("{}  {}", id.unwrap_or_default(), why.unwrap_or_default());
            }
            "system_prompt" | "tool_catalog" | "permission_rules" => {
                row.tone = Tone::Quiet;
                row.label = match node.kind.as_ref() {
                    "system_prompt" => "prompt",
                    "tool_catalog" => "tools",
                    _ => "rules",
                }
                .into();
                let digest = said("digest").unwrap_or_default();
                row.text = format!("{} in force from here", digest.get(..12).unwrap_or(&digest));
            }
            "error" => {
                row.label = "error".into();
                row.tone = Tone::Bad;
            }
            "gap" => {
                row.label = "GAP".into();
                row.tone = Tone::Bad;
                let n = node.get("count").and_then(|v| v.u64());
                let cause = said("cause").unwrap_or_default();
                row.text = format!("{} events missing: {cause}", count(n));
            }
            "log" => {
                let level = said("level").unwrap_or_default();
                row.tone = if level == "ERROR" {
                    Tone::Bad
                } else {
                    Tone::Look
                };
                row.label = level.to_lowercase();
                row.text = said("message").unwrap_or_default();
            }
            "span_start" => {
                row.label = "span".into();
                row.text = format!("{}{}", said("name").unwrap_or_default(), how_it_went(node));
            }
            "session_title" => {
                row.label = "title".into();
                row.text = said("title").unwrap_or_default();
            }
            "session_status" => {
                row.label = "status".into();
                row.text = said("status").unwrap_or_default();
            }
            // Usage is shown with the turn and the call it belongs to.
            "model_usage" => return None,
            _ => {
                row.tone = Tone::Quiet;
                let field =
                    |(key, value): (&str, RawValue<'_>)| format!("{key}={}", show_value(value));
                row.text = node.fields().map(field).collect::<Vec<_>>().join(" ");
            }
        }
        if let Some(error) = node.error() {
            row.below.push((Tone::Bad, format!("✗ {error}")));
        }
        row.text = line(&row.text).into_owned();
        Some(row)
    }
}

impl Row {
    fn person(&mut self, label: &str, node: &Node) {
        self.message(label, node, Tone::Plain);
        self.tone = Tone::Person;
    }

    fn message(&mut self, label: &str, node: &Node, tone: Tone) {
        self.label = label.into();
        self.tone = tone;
        let partial = node.streamed_or_incomplete();
        if partial {
            self.text = "(stopped here)".into();
        }
        if let Some(content) = node.content() {
            self.below.push((tone, content.into_owned()));
        } else if let Some(content) = node.get("content") {
            self.below.push((tone, show_value(content)));
        }
    }
}

fn model_text(node: &Node) -> String {
    let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
    let mut text = said("model_id").unwrap_or_default();
    if let Some(variant) = said("variant") {
        text.push_str(&format!(" ({variant})"));
    }
    if let Some(purpose) = said("purpose").filter(|purpose| purpose != "main") {
        text.push_str(&format!(" for {purpose}"));
    }
    if let Some(attempt) = node.get("attempt").and_then(|v| v.u64()).filter(|n| *n > 1) {
        text.push_str(&format!(" try {attempt}"));
    }
    text.push_str(&how_it_went(node));
    if let Some(usage) = node.get("usage") {
        let n = |name: &str| usage.get(name).and_then(|v| v.u64());
        text.push_str(&format!(
            "  {} in, {} out",
            count(n("input_tokens")),
            count(n("output_tokens"))
        ));
        if let Some(usd) = usage.get("cost_usd").and_then(|v| v.f64()) {
            text.push_str(&format!("  {}", cost(Some(usd))));
        }
    }
    if let Some(reason) = said("finish_reason") {
        text.push_str(&format!("  {reason}"));
    }
    text
}

fn permission_text(node: &Node) -> String {
    let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
    let mut text = said("action").unwrap_or_else(|| "not decided".into());
    if let Some(pattern) = said("pattern") {
        text.push_str(&format!("  {pattern}"));
    }
    if let Some(source) = said("source") {
        text.push_str(&format!("  by {source}"));
    }
    if let Some(who) = said("decided_by") {
        text.push_str(&format!(", {who}"));
    }
    if let Some(ns) = node.duration.filter(|ns| *ns >= 1_000_000) {
        text.push_str(&format!("  {}", duration(ns)));
    }
    text
}

/// How long a span took and how it ended, where that isn't as it should be.
fn how_it_went(node: &Node) -> String {
    let mut text = String::new();
    match (node.state, node.duration) {
        (NodeState::Open, _) => text.push_str("  still open"),
        (_, Some(ns)) => text.push_str(&format!("  {}", duration(ns))),
        _ => {}
    }
    if let Some(outcome) = node
        .outcome()
        .filter(|o| !matches!(o.as_ref(), "ok" | "unset"))
    {
        text.push_str(&format!("  {}", outcome.to_uppercase()));
    }
    if let Some(code) = node
        .get("exit_code")
        .map(|v| v.json())
        .filter(|code| *code != "0")
    {
        text.push_str(&format!("  exit {code}"));
    }
    text
}

/// A value on one line: a text as it is, what was moved out or cut as its head and size.
fn show_value(value: RawValue<'_>) -> String {
    if let Some(text) = value.text() {
        return text.into_owned();
    }
    let moved = value.get("$blob").is_some();
    if moved || value.get("$cut").is_some() {
        let head = value.get("head").and_then(|v| v.text()).unwrap_or_default();
        let bytes = value.get("bytes").and_then(|v| v.u64()).unwrap_or(0);
        let what = if moved { "in a blob" } else { "cut" };
        return format!("{head}… ({}, {what})", text::size(bytes));
    }
    value.json().to_owned()
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
                *sum = Some(sum.unwrap_or(0) + n);
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
        spans[which].push((node.start, node.start + ns));
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
