//! The top of `show`: how a session stands, and where to look first.

use serde_json::Value;

use super::style::Style;
use super::text::{self, cost, count, cut, duration, line, thousands};
use crate::session::{Entry, Mishap, Status};

/// A status in its colour.
pub(super) fn paint_status(status: Status, text: &str, style: &Style) -> String {
    match status {
        Status::Busy | Status::Retrying => style.cyan(text),
        Status::Waiting => style.magenta(text),
        Status::Error | Status::Interrupted => style.red(text),
        Status::Ended => style.green(text),
        _ => style.dim(text),
    }
}

/// The header of a session.
pub fn header(entry: &Entry, style: &Style) -> Vec<String> {
    let summary = &entry.summary;
    let mut out = Vec::new();
    let mut put = |text: String| out.push(cut(&text, style.width).into_owned());

    let agent = summary.agent.as_deref().unwrap_or("(no run)");
    put(format!("{}  {}", line(&summary.session_id), line(agent)));
    if let Some(title) = &summary.title {
        put(format!("  {}", line(title)));
    }

    let mut model = match (&summary.provider_id, &summary.model_id) {
        (Some(provider), Some(model)) => format!("{provider}/{model}"),
        (None, Some(model)) => model.clone(),
        _ => "no model named".into(),
    };
    if let Some(variant) = &summary.variant {
        model.push_str(&format!(" ({variant})"));
    }
    if let Some(temperature) = summary.temperature {
        model.push_str(&format!(", temperature {temperature}"));
    }
    put(format!("  model    {}", line(&model)));

    let totals = summary.totals();
    let plural =
        |n: u64, one: &str| format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" });
    put(format!(
        "  counts   {}, {}, {}, {}",
        plural(totals.turns, "turn"),
        plural(totals.model_calls, "model call"),
        plural(totals.tool_calls, "tool call"),
        plural(totals.errors, "error"),
    ));
    let usage = &totals.usage;
    put(format!(
        "  tokens   {} in ({} cached), {} out ({} reasoning)   cost {}",
        count(usage.input_tokens),
        count(usage.cache_read_tokens),
        count(usage.output_tokens),
        count(usage.reasoning_tokens),
        cost(usage.cost_usd),
    ));
    put(format!(
        "  time     {} to {} ({})",
        style.moment(summary.first),
        style.clock(summary.last),
        duration(summary.last.saturating_sub(summary.first)),
    ));
    if let Some(process) = process_line(entry) {
        put(format!("  process  {}", line(&process)));
    }
    if let Some(parent) = &summary.parent_session_id {
        put(format!("  parent   subagent of {}", line(parent)));
    }
    if let Some(from) = &summary.branched_from {
        put(format!("  branch   of {}", line(from)));
    }

    let status = entry.status.as_str();
    let mut why = String::new();
    match (&summary.ended, summary.deepest()) {
        (_, Some(open)) => {
            let verb = if entry.status.is_live() {
                "open since"
            } else {
                "was open since"
            };
            let named = named_span(&open.kind, &open.name);
            why = format!(
                "{named} {verb} {} at {}",
                style.clock(open.since),
                open.address
            );
        }
        (Some((outcome, reason)), None) => {
            why.clone_from(outcome);
            if let Some(reason) = reason {
                why.push_str(&format!(", {reason}"));
            }
        }
        _ => {}
    }
    let plain = cut(&format!("  status   {status}  {}", line(&why)), style.width).into_owned();
    out.push(plain.replacen(status, &paint_status(entry.status, status, style), 1));

    let mut mishap = |name: &str, mishap: &Mishap| {
        let text = format!(
            "  {name:<8} {} {}: {}",
            mishap.address,
            line(&mishap.what),
            line(&mishap.message)
        );
        out.push(style.red(&cut(&text, style.width)));
    };
    if let Some(first) = &summary.first_error {
        mishap("error", first);
    }
    if let (Some(first), Some(last)) = (&summary.first_error, &summary.last_error)
        && first.address != last.address
    {
        mishap("last", last);
    }
    for (address, cause) in &summary.gaps {
        let text = format!("  gap      {address} events are missing: {}", line(cause));
        out.push(style.red(&cut(&text, style.width)));
    }
    out
}

/// What is open, in a word or two.
pub(crate) fn named_span(kind: &str, name: &str) -> String {
    let what = match kind {
        "session_start" | "session_resume" => "run",
        "turn_start" => "turn",
        "model_call" => "model call",
        "tool_call" => "tool",
        "permission_request" => "permission for",
        "compaction_start" => "compaction",
        _ => "span",
    };
    format!("{what} {}", text::line(name)).trim_end().to_owned()
}

fn process_line(entry: &Entry) -> Option<String> {
    let writer = entry.summary.writers.values().next_back()?;
    let process = writer.process();
    let text = |name: &str| process.get(name).and_then(Value::as_str);
    let mut parts = Vec::new();
    if let Some(exe) = text("exe") {
        parts.push(exe.rsplit('/').next().unwrap_or(exe).to_owned());
    }
    if let Some(pid) = process.get("pid").and_then(Value::as_u64) {
        parts.push(format!("pid {pid}"));
    }
    if let Some(host) = text("host") {
        parts.push(format!("on {host}"));
    }
    if let Some(git) = process.get("git") {
        let part = |name: &str| git.get(name).and_then(Value::as_str).unwrap_or_default();
        let commit = part("commit");
        let commit = commit.get(..8).unwrap_or(commit);
        parts.push(
            format!("git {}@{commit}", part("branch"))
                .trim_end_matches('@')
                .to_owned(),
        );
    }
    parts.push(format!("spanledger {}", writer.version));
    Some(parts.join(", "))
}
