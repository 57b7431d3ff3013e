//! One row of the timeline: what a node is in a word, what it says, and what stands below it.

use super::text::{self, cost, count, duration, line};
use crate::reader::RawValue;
use crate::session::{Node, NodeState};

/// What one node looks like: a word for what it is, the rest of its line, and text below it.
pub(super) struct Row {
    pub label: String,
    pub text: String,
    /// A message: it begins on the row itself.
    pub said: Option<(Tone, Said)>,
    /// What stands below the row, each behind a mark.
    pub below: Vec<(Tone, char, Said)>,
    pub tone: Tone,
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

/// What a node looks like. `rules` is what its permissions said, where they need no row of their own.
pub(super) fn row(node: &Node, rules: Option<&str>) -> Option<Row> {
    let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
    let mut row = Row {
        label: line(&node.kind).into_owned(),
        text: String::new(),
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
            row.text = model_text(node);
        }
        "tool_call" => {
            row.label = "tool".into();
            row.tone = Tone::Good;
            row.text = said("tool_id").unwrap_or_default();
            let input = node
                .get("command")
                .or_else(|| node.get("args"))
                .map(input_value);
            match input {
                // What is short enough to read at a glance stands on the row itself.
                Some(input) if input.text.len() <= 28 && !input.text.contains('\n') => {
                    row.text.push_str(&format!("  {}", input.text));
                }
                Some(input) => row.below.push((Tone::Plain, '←', input)),
                None => {}
            }
            row.text.push_str(&how_it_went(node));
            if let Some(rules) = rules {
                row.text.push_str(&format!("  {rules}"));
            }
            for name in ["result", "stdout", "stderr"] {
                if let Some(output) = node.get(name) {
                    row.below.push((Tone::Quiet, '→', said_value(output)));
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
                row.below
                    .push((Tone::Quiet, ' ', summary.into_owned().into()));
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
        row.below.push((Tone::Bad, '✗', error.into()));
    }
    row.text = line(&row.text).into_owned();
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
            "  {} → {}",
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

/// What a permission said in a word, if nobody had to be asked.
pub(super) fn settled(node: &Node) -> Option<String> {
    let asked = node.text("decided_by").is_some() || node.text("interrupt_id").is_some();
    let word = match node.text("action")?.as_ref() {
        "allow" if !asked => "allowed",
        "deny" if !asked => "denied",
        _ => return None,
    };
    let said = |name: &str| node.text(name).map(|text| line(&text).into_owned());
    let by = said("source")
        .map(|source| format!(" by {source}"))
        .unwrap_or_default();
    let pattern = said("pattern")
        .map(|pattern| format!(" ({pattern})"))
        .unwrap_or_default();
    Some(format!("{word}{by}{pattern}"))
}

/// A value on one line.
fn show_value(value: RawValue<'_>) -> String {
    said_value(value).text
}
