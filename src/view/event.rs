//! One line of a trace in a few words, for `tail`, `find` and their likes.

use std::borrow::Cow;

use super::text::{self, cost, count, duration, line};
use crate::reader::{RawLine, RawValue};
use crate::session::error_text;

/// How much of a value is looked at: more would not fit on a line.
const ENOUGH: usize = 2_000;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// A word for its kind.
    pub label: Cow<'static, str>,
    /// What it says, on one line and made safe.
    pub text: String,
    /// What it is like.
    pub tone: Tone,
}

/// What a line is like, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// Beside the point.
    Quiet,
    /// A person's part.
    Person,
    /// Work.
    Work,
    /// Something went wrong.
    Bad,
    /// Needs a look.
    Look,
}

impl Tone {
    /// A text in the tone's colour.
    pub fn paint(self, style: &super::Style, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Quiet => style.dim(text),
            Self::Person => style.magenta(text),
            Self::Work => style.cyan(text),
            Self::Bad => style.red(text),
            Self::Look => style.yellow(text),
        }
    }
}

/// A line in a few words.
///
/// ```
/// # let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"s","payload":{"tool_id":"bash","args":{"n":3}}}"#;
/// let line = spanledger::reader::RawLine::parse(bytes)?;
/// let brief = spanledger::view::brief(&line);
/// assert_eq!((brief.label.as_ref(), brief.text.as_str()), ("tool", r#"bash ← {"n":3}"#));
/// # Ok::<(), spanledger::ledger::NotALine>(())
/// ```
pub fn brief(raw: &RawLine<'_>) -> Brief {
    let payload = raw.payload();
    let said = |name: &str| payload.get(name).map(shown).unwrap_or_default();
    let closes = said("closes");
    let kind = match raw.kind.as_ref() {
        "interrupted" if !closes.is_empty() => closes.as_str(),
        kind => kind,
    };
    let (label, text, tone): (&'static str, String, Tone) = match kind {
        "segment" => ("process", process(raw), Tone::Quiet),
        "session_start" => ("run", run(raw), Tone::Plain),
        "session_resume" => ("resumed", run(raw), Tone::Plain),
        "session_end" => ("run", ended(raw, "ended"), Tone::Plain),
        "turn_start" => ("turn", turn(raw), Tone::Plain),
        "turn_end" => ("turn", ended(raw, &turn(raw)), Tone::Plain),
        "model_call" => ("model", said("model_id"), Tone::Work),
        "model_result" => ("model", ended(raw, &said("model_id")), Tone::Work),
        "tool_call" => ("tool", called(raw), Tone::Work),
        "tool_result" => ("tool", ended(raw, &said("tool_id")), Tone::Work),
        "permission_request" => (
            "permission",
            format!("{} {}?", said("tool_id"), said("pattern")),
            Tone::Quiet,
        ),
        "permission_evaluate" => (
            "permission",
            words(&[
                &said("tool_id"),
                &said("action"),
                &said("pattern"),
                &by(&said("decided_by"), &said("source")),
            ]),
            Tone::Quiet,
        ),
        "compaction_start" => ("compaction", String::new(), Tone::Look),
        "context_compaction" => ("compaction", ended(raw, &said("summary")), Tone::Look),
        "span_start" => ("span", said("name"), Tone::Quiet),
        "span_end" => ("span", ended(raw, &said("name")), Tone::Quiet),
        "span_update" => ("update", fields(raw), Tone::Quiet),
        "message_user" => ("user", said("content"), Tone::Person),
        "message_assistant" => ("assistant", message(raw), Tone::Plain),
        "message_reasoning" => ("reasoning", message(raw), Tone::Quiet),
        "message_system" => ("system", said("content"), Tone::Quiet),
        "message_tool" => ("tools say", message(raw), Tone::Quiet),
        "message_delta" => ("assistant", said("text"), Tone::Plain),
        "tool_input_delta" => ("tool input", said("text"), Tone::Quiet),
        "hitl_request" => (
            "asks",
            words(&[&said("interrupt_id"), &said("tool_id")]),
            Tone::Person,
        ),
        "hitl_response" => (
            "answer",
            words(&[
                &said("interrupt_id"),
                &said("decision"),
                &by(&said("decided_by"), ""),
            ]),
            Tone::Person,
        ),
        "system_prompt" => ("prompt", digested(raw, "body"), Tone::Quiet),
        "tool_catalog" => ("tools", digested(raw, "tools"), Tone::Quiet),
        "permission_rules" => ("rules", digested(raw, "rules"), Tone::Quiet),
        "session_title" => ("title", said("title"), Tone::Plain),
        "session_status" => (
            "status",
            words(&[&said("status"), &said("message")]),
            Tone::Plain,
        ),
        "subagent" => (
            "subagent",
            words(&[&said("agent"), &said("child_session_id")]),
            Tone::Look,
        ),
        "artifact" => (
            "artifact",
            words(&[&said("path"), &said("caption")]),
            Tone::Plain,
        ),
        "attempt" => (
            "attempt",
            words(&[&said("id"), &said("rationale")]),
            Tone::Plain,
        ),
        "error" => ("error", failure(raw).unwrap_or_default(), Tone::Bad),
        "gap" => (
            "GAP",
            format!("{} events are missing: {}", said("count"), said("cause")),
            Tone::Bad,
        ),
        "log" => (
            "log",
            words(&[&said("level"), &said("message"), &said_fields(raw)]),
            Tone::Look,
        ),
        _ => {
            return Brief {
                label: Cow::Owned(line(kind).into_owned()),
                text: line(&fields(raw)).into_owned(),
                tone: Tone::Quiet,
            };
        }
    };
    let failed = matches!(said("outcome").as_str(), "error" | "interrupted" | "denied");
    Brief {
        label: Cow::Borrowed(label),
        text: line(text.trim()).into_owned(),
        tone: if failed { Tone::Bad } else { tone },
    }
}

/// A value on one line: a text as it is, what was moved out or cut as its head and size.
pub(crate) fn shown(value: RawValue<'_>) -> String {
    let enough = |text: &str| text.chars().take(ENOUGH).collect::<String>();
    if let Some(text) = value.text() {
        return enough(&text);
    }
    let (moved, cut) = (value.get("$blob").is_some(), value.get("$cut"));
    if moved || cut.is_some() {
        let head = value.get("head").and_then(|v| v.text()).unwrap_or_default();
        let bytes = value.get("bytes").or_else(|| cut?.get("bytes"));
        let bytes = bytes.and_then(|v| v.u64()).unwrap_or(0);
        let what = if moved { "in a blob" } else { "cut" };
        return format!("{}… ({}, {what})", enough(&head), text::size(bytes));
    }
    enough(value.json())
}

/// The fields of a line nobody knows better.
fn fields(raw: &RawLine<'_>) -> String {
    let field = |(key, value): (&str, RawValue<'_>)| format!("{key}={}", shown(value));
    raw.payload()
        .members()
        .map(field)
        .collect::<Vec<_>>()
        .join(" ")
}

/// What a log line says beside its message.
fn said_fields(raw: &RawLine<'_>) -> String {
    let fields = raw.payload().get("fields");
    let members = fields.into_iter().flat_map(|fields| fields.members());
    members
        .map(|(key, value)| format!("{key}={}", shown(value)))
        .collect::<Vec<_>>()
        .join(" ")
}

fn words(parts: &[&str]) -> String {
    let said: Vec<_> = parts.iter().filter(|part| !part.is_empty()).collect();
    said.into_iter().copied().collect::<Vec<_>>().join("  ")
}

fn by(who: &str, else_who: &str) -> String {
    match (who, else_who) {
        ("", "") => String::new(),
        ("", who) | (who, _) => format!("by {who}"),
    }
}

fn process(raw: &RawLine<'_>) -> String {
    let payload = raw.payload();
    let process = payload.get("process");
    let part = |name: &str| process.and_then(|p| p.get(name)).map(shown);
    let exe = part("exe").unwrap_or_default();
    let exe = exe.rsplit('/').next().unwrap_or_default();
    let pid = part("pid").map(|pid| format!("pid {pid}"));
    words(&[exe, &pid.unwrap_or_default()])
}

fn run(raw: &RawLine<'_>) -> String {
    let payload = raw.payload();
    let said = |name: &str| payload.get(name).map(shown).unwrap_or_default();
    let parent = said("parent_session_id");
    let parent = match parent.as_str() {
        "" => String::new(),
        id => format!("subagent of {id}"),
    };
    words(&[&said("agent"), &said("model_id"), &parent])
}

fn turn(raw: &RawLine<'_>) -> String {
    let index = raw.payload().get("turn_index").and_then(|v| v.u64());
    let index = index.or(raw.turn.map(u64::from));
    index.map(|n| n.to_string()).unwrap_or_default()
}

fn called(raw: &RawLine<'_>) -> String {
    let payload = raw.payload();
    let tool = payload.get("tool_id").map(shown).unwrap_or_default();
    match payload.get("command").or_else(|| payload.get("args")) {
        Some(input) => format!("{tool} ← {}", shown(input)),
        None => tool,
    }
}

fn message(raw: &RawLine<'_>) -> String {
    let payload = raw.payload();
    let content = payload.get("content").map(shown);
    let parts = || payload.get("parts").map(super::row::parts_text);
    let content = content.or_else(parts).unwrap_or_default();
    match payload.get("complete").and_then(|v| v.bool()) {
        Some(false) => format!("{content} (stopped here)"),
        _ => content,
    }
}

fn digested(raw: &RawLine<'_>, body: &str) -> String {
    let payload = raw.payload();
    let digest = payload.get("digest").map(shown).unwrap_or_default();
    let digest = digest.get(..12).unwrap_or(&digest).to_owned();
    words(&[&digest, &payload.get(body).map(shown).unwrap_or_default()])
}

/// What went wrong, by a line's `error`.
fn failure(raw: &RawLine<'_>) -> Option<String> {
    let text = error_text(raw.payload().get("error")?);
    Some(text.chars().take(ENOUGH).collect())
}

/// How a span ended: how long it took, what came of it.
fn ended(raw: &RawLine<'_>, what: &str) -> String {
    let payload = raw.payload();
    let said = |name: &str| payload.get(name).map(shown).unwrap_or_default();
    let took = payload.get("duration_ns").and_then(|v| v.u64());
    let took = took.map(duration).unwrap_or_default();
    let outcome = match said("outcome").as_str() {
        "ok" | "unset" | "" => String::new(),
        outcome => outcome.to_uppercase(),
    };
    let code = match said("exit_code").as_str() {
        "" | "0" => String::new(),
        code => format!("exit {code}"),
    };
    let usage = payload.get("usage").map(|usage| {
        let n = |name: &str| count(usage.get(name).and_then(|v| v.u64()));
        let usd = usage.get("cost_usd").and_then(|v| v.f64());
        let usd = usd.map(|usd| cost(Some(usd))).unwrap_or_default();
        let tokens = format!("{} in, {} out", n("input_tokens"), n("output_tokens"));
        words(&[&tokens, &usd])
    });
    let reason = [said("finish_reason"), said("stop_reason")].concat();
    let result = ["result", "stdout", "stderr"]
        .iter()
        .find_map(|name| payload.get(name))
        .map(|result| format!("→ {}", shown(result)));
    let error = failure(raw).map(|error| format!("✗ {error}"));
    words(&[
        what,
        &took,
        &outcome,
        &code,
        &usage.unwrap_or_default(),
        &reason,
        &error.unwrap_or_default(),
        &result.unwrap_or_default(),
    ])
}
