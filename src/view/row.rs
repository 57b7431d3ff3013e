//! One row of the timeline: what a node is in a word, what it says, and what stands below it.

use super::text::{self, cost, count, duration, line};
use crate::reader::RawValue;
use crate::session::{Node, NodeState};

/// What one node looks like: a word for what it is, the rest of its line, and text below it.
pub(super) struct Row {
    pub label: String,
    /// What it is about; cut to the room there is.
    pub text: String,
    /// Numbers and words that are told in any case: the last wording, if none before it fits.
    pub facts: Vec<String>,
    /// What is told where there is room: of each the first wording that fits.
    pub extras: Vec<Vec<String>>,
    /// A message: it begins on the row itself.
    pub said: Option<(Tone, Said)>,
    /// What stands below the row, each behind a mark, unless the row has room for it.
    pub below: Vec<Below>,
    pub tone: Tone,
}

/// A text that stands below a row.
pub(super) struct Below {
    pub tone: Tone,
    pub mark: char,
    pub said: Said,
    /// How many lines are shown unless everything is asked for.
    pub lines: usize,
}

/// A text, and where the rest of it is if this is only its head.
pub(super) struct Said {
    pub text: String,
    pub elsewhere: Option<String>,
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self {
            text,
            elsewhere: None,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Person,
    Good,
    Bad,
    Look,
}

/// What the permissions of a tool came to, where they need no rows of their own.
#[derive(Default)]
pub(super) struct Verdict {
    /// What is told in any case: that it was denied, or that a person was asked.
    firm: Vec<String>,
    /// A rule that let it pass, or what the rule was.
    soft: Vec<Vec<String>>,
}

/// Whether something can still come.
#[derive(Clone, Copy)]
pub(super) struct Life {
    /// What the node lies in is open.
    pub open: bool,
    /// Nobody is at it any more: what is open was left so.
    pub left: bool,
}

/// What a node looks like, with what its permissions came to.
pub(super) fn row(node: &Node, verdict: Verdict, life: Life) -> Option<Row> {
    let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
    let mut row = Row {
        label: line(&node.kind).into_owned(),
        text: String::new(),
        facts: Vec::new(),
        extras: Vec::new(),
        said: None,
        below: Vec::new(),
        tone: Tone::Plain,
    };
    match node.kind.as_ref() {
        "message_user" => row.person("user", node),
        "message_assistant" => row.message("assistant", node, Tone::Plain),
        "message_reasoning" => row.message("reasoning", node, Tone::Quiet),
        "message_system" => row.message("system", node, Tone::Quiet),
        "message_tool" => row.message("tools say", node, Tone::Quiet),
        "tool_input" => row.message("tool input", node, Tone::Quiet),
        "model_call" => {
            row.label = "model".into();
            row.tone = Tone::Good;
            row.model(node, life);
        }
        "tool_call" => {
            row.label = "tool".into();
            row.tone = Tone::Good;
            row.tool(node, verdict, life);
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
            row.text = format!("{} messages summarized", count(n));
            row.facts = vec![how_it_went(node, life)];
            if let Some(summary) = node.get("summary") {
                row.put_below(Tone::Quiet, '→', said_value(summary), 1);
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
            let outcome = match node.outcome().unwrap_or_default() {
                said if matches!(said.as_ref(), "ok" | "unset") => said.into_owned(),
                said => said.to_uppercase(),
            };
            let took = node.get("duration_ns").and_then(|v| v.u64());
            row.text = format!(
                "{}  {}",
                line(&outcome),
                took.map_or_else(String::new, duration)
            );
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
            row.text = format!("{} {}", agent.unwrap_or_default(), id.unwrap_or_default());
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
            let metrics = node.get("metrics").map(|metrics| vec![show_value(metrics)]);
            row.extras.extend(metrics);
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
            let fields = node.get("fields").into_iter();
            let fields = fields.flat_map(|fields| fields.members());
            let fields = fields.map(|(key, value)| format!("{key}={}", show_value(value)));
            row.text = said("message")
                .into_iter()
                .chain(fields)
                .collect::<Vec<_>>()
                .join("  ");
        }
        "span_start" => {
            row.label = "span".into();
            row.text = said("name").unwrap_or_default();
            row.facts = vec![how_it_went(node, life)];
        }
        "session_status" => {
            row.label = "status".into();
            row.text = said("status").unwrap_or_default();
        }
        // Shown with the turn and the call it belongs to, and in the header.
        "model_usage" | "session_title" => return None,
        _ => {
            row.tone = Tone::Quiet;
            let field = |(key, value): (&str, RawValue<'_>)| format!("{key}={}", show_value(value));
            row.text = node.fields().map(field).collect::<Vec<_>>().join(" ");
        }
    }
    if let Some(error) = node.error() {
        row.put_below(Tone::Bad, '✗', error.into(), 2);
    }
    if life.open && !life.left && node.is_arriving() {
        row.text = "(so far)".into();
    }
    // Whatever of it came from a trace, none of it moves the terminal.
    let texts = row.extras.iter_mut().flatten().chain(&mut row.facts);
    for text in texts.chain([&mut row.text, &mut row.label]) {
        *text = line(text.trim_end()).into_owned();
    }
    Some(row)
}

impl Row {
    fn person(&mut self, label: &str, node: &Node) {
        self.message(label, node, Tone::Plain);
        self.tone = Tone::Person;
    }

    fn message(&mut self, label: &str, node: &Node, tone: Tone) {
        self.label = label.into();
        self.tone = tone;
        if node.streamed_or_incomplete() {
            self.text = "(stopped here)".into();
        }
        let said = match (node.content(), node.get("content")) {
            (Some(content), _) => Some(content.into_owned().into()),
            (None, Some(content)) => Some(said_value(content)),
            (None, None) => None,
        };
        if said.is_none() && self.text.is_empty() {
            self.text = node.get("parts").map(parts_text).unwrap_or_default();
        }
        self.said = said.map(|said| (tone, said));
    }

    fn model(&mut self, node: &Node, life: Life) {
        let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
        self.text = said("model_id").unwrap_or_default();
        if let Some(purpose) = said("purpose").filter(|purpose| purpose != "main") {
            self.text.push_str(&format!(" for {purpose}"));
        }
        let mut went = how_it_went(node, life);
        if let Some(attempt) = node.get("attempt").and_then(|v| v.u64()).filter(|n| *n > 1) {
            went.push_str(&format!("  try {attempt}"));
        }
        self.facts = match node.get("usage") {
            Some(usage) => {
                let n = |name: &str| count(usage.get(name).and_then(|v| v.u64()));
                let (input, output) = (n("input_tokens"), n("output_tokens"));
                let usd = usage.get("cost_usd").and_then(|v| v.f64());
                let usd = usd.map_or_else(String::new, |usd| format!("  {}", cost(Some(usd))));
                vec![
                    format!("{went}  {input} in, {output} out{usd}"),
                    format!("{went}  {input} → {output}{usd}"),
                ]
            }
            None => vec![went],
        };
        for name in ["variant", "finish_reason"] {
            self.extras.extend(said(name).map(|text| vec![text]));
        }
    }

    fn tool(&mut self, node: &Node, verdict: Verdict, life: Life) {
        let name = node.text("tool_id").unwrap_or_default();
        self.text = line(&name).into_owned();
        let input = node.get("command").or_else(|| node.get("args"));
        if let Some(input) = input {
            self.put_below(Tone::Plain, '←', input_value(input), 1);
        }
        let mut facts = how_it_went(node, life);
        for firm in verdict.firm {
            match firm.strip_prefix("denied") {
                Some(by) if facts.ends_with("DENIED") => facts.push_str(by),
                _ => facts.push_str(&format!("  {firm}")),
            }
        }
        self.facts = vec![facts];
        self.extras = verdict.soft;
        // Of what failed, more is wanted.
        let failed = node.get("error").is_some()
            || node.get("exit_code").is_some_and(|code| code.json() != "0");
        for name in ["result", "stdout", "stderr"] {
            if let Some(output) = node.get(name) {
                let lines = if failed { 2 } else { 1 };
                self.put_below(Tone::Quiet, '→', said_value(output), lines);
            }
        }
    }

    fn put_below(&mut self, tone: Tone, mark: char, said: Said, lines: usize) {
        self.below.push(Below {
            tone,
            mark,
            said,
            lines,
        });
    }
}

/// A message without text, by what it is made of: the tools that are called, or that answer.
pub(super) fn parts_text(parts: RawValue<'_>) -> String {
    let texts = parts.items().map(|part| {
        let said = |name: &str| part.get(name).and_then(|value| value.text());
        let kind = said("type").unwrap_or_default();
        let text = match kind.as_ref() {
            "tool_call" => format!("calls {}", said("name").unwrap_or_default()),
            "tool_call_response" => format!("to {}", said("id").unwrap_or_default()),
            other => other.to_owned(),
        };
        line(&text).into_owned()
    });
    texts.collect::<Vec<_>>().join(", ")
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
fn how_it_went(node: &Node, life: Life) -> String {
    let mut text = String::new();
    match (node.state, node.duration) {
        (NodeState::Open, _) if life.left => text.push_str("  left open"),
        (NodeState::Open, _) => text.push_str("  still open"),
        // What was not done took no time of its own.
        _ if node.outcome().as_deref() == Some("denied") => {}
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

/// A value as text. Of what was moved out or cut only the head is here.
fn said_value(value: RawValue<'_>) -> Said {
    if let Some(text) = value.text() {
        return text.into_owned().into();
    }
    let head = || {
        value
            .get("head")
            .and_then(|v| v.text())
            .unwrap_or_default()
            .into_owned()
    };
    if value.get("$blob").is_some() {
        let bytes = value.get("bytes").and_then(|v| v.u64()).unwrap_or(0);
        return Said {
            text: head(),
            elsewhere: Some(format!("{} in all, in a blob", text::size(bytes))),
        };
    }
    if let Some(gone) = value.get("$cut") {
        let bytes = gone.get("bytes").and_then(|v| v.u64()).unwrap_or(0);
        return Said {
            text: head(),
            elsewhere: Some(format!("{} were cut", text::size(bytes))),
        };
    }
    value.json().to_owned().into()
}

/// What a tool was called with: an object with one text is that text.
fn input_value(value: RawValue<'_>) -> Said {
    let mut members = value.members();
    match (members.next(), members.next()) {
        (Some((name, only)), None) if !name.starts_with('$') && only.text().is_some() => {
            said_value(only)
        }
        _ => said_value(value),
    }
}

impl Verdict {
    /// Takes a permission and what happened in it. Whether it is told by that: one that nobody
    /// has decided yet, or in which more happened than a question and its answer, has its rows.
    pub fn take(&mut self, node: &Node, inside: &[&Node]) -> bool {
        let answers = |kind: &str| inside.iter().find(move |node| node.kind.as_ref() == kind);
        let simple = |node: &&Node| matches!(node.kind.as_ref(), "hitl_request" | "hitl_response");
        let action = node.text("action").unwrap_or_default();
        if node.state == NodeState::Open || action.is_empty() || !inside.iter().all(simple) {
            return false;
        }
        let said = |name: &str| {
            let own = node.get(name);
            let value = own.or_else(|| answers("hitl_response")?.get(name));
            value.map(|value| line(&show_value(value)).into_owned())
        };
        let by = said("source").map_or_else(String::new, |source| format!(" by {source}"));
        let pattern = said("pattern").filter(|pattern| pattern != "*");
        let pattern = pattern.map(|pattern| format!("({pattern})"));
        let asked = action == "ask"
            || answers("hitl_request").is_some()
            || ["decided_by", "interrupt_id"]
                .iter()
                .any(|name| node.get(name).is_some());
        if asked {
            let word = match (action.as_ref(), node.outcome().as_deref()) {
                ("ask", Some("denied")) => Some("denied".into()),
                ("ask", Some("ok")) if node.get("decided_by").is_some() => Some("allowed".into()),
                ("ask", _) => None,
                (action, _) => Some(line(action).into_owned()),
            };
            let Some(decision) = said("decision").or(word) else {
                return false;
            };
            let who = said("decided_by").map_or_else(String::new, |who| format!(" {who}"));
            let took = node
                .duration
                .map_or_else(String::new, |ns| format!(", {}", duration(ns)));
            self.firm.push(format!("asked{who}: {decision}{took}"));
            self.soft.extend(pattern.map(|pattern| vec![pattern]));
            return true;
        }
        match action.as_ref() {
            "allow" => {
                let whole = pattern.map(|pattern| format!("allowed{by} {pattern}"));
                let words = [format!("allowed{by}"), "allowed".into()];
                self.soft.push(whole.into_iter().chain(words).collect());
            }
            "deny" => {
                self.firm.push(format!("denied{by}"));
                self.soft.extend(pattern.map(|pattern| vec![pattern]));
            }
            _ => return false,
        }
        true
    }
}

/// A value on one line.
fn show_value(value: RawValue<'_>) -> String {
    said_value(value).text
}
