//! The top of `show`: the status of a session, and where to look first.

use super::style::Style;
use super::text::{self, cost, count, cut, duration, line, plural, thousands};
use crate::session::{Entry, ErrorRef, Status, Summary};
use crate::trace::{Kind, Outcome, SpanKind};

/// A status in its color.
pub(super) fn paint_status(status: Status, text: &str, style: &Style) -> String {
    match status {
        Status::Busy | Status::Retrying => style.cyan(text),
        Status::Waiting => style.magenta(text),
        Status::Error | Status::Interrupted => style.red(text),
        Status::Ended => style.green(text),
        _ => style.dim(text),
    }
}

/// How many gaps have a row of their own.
const GAPS: usize = 3;

/// The header of a session: agent, status, counts, model and process, and what went wrong.
pub fn header(entry: &Entry, style: &Style) -> Vec<String> {
    let summary = &entry.summary;
    let agent = summary.agent.as_deref().unwrap_or("(no run)");
    let mut first = format!("{}  {}", line(&summary.session_id), line(agent));
    if let Some(title) = &summary.title {
        first.push_str(&format!("  {}", line(title)));
    }
    let mut out = vec![cut(&first, style.width).into_owned()];
    out.extend(status(entry, style));
    let (counts, tokens) = (counts(summary), tokens(summary));
    out.extend(pair(("counts", &counts), ("tokens", &tokens), style));
    let process = process_line(entry).unwrap_or_default();
    let (model, process) = (model(summary), line(&process));
    out.extend(pair(("model", &line(&model)), ("process", &process), style));
    if let Some(parent) = &summary.parent_session_id {
        out.push(row(
            "parent",
            &format!("subagent of {}", line(parent)),
            style,
        ));
    }
    if let Some(from) = &summary.branched_from {
        out.push(row("branch", &format!("of {}", line(from)), style));
    }
    let wrong = wrong(summary).into_iter();
    out.extend(wrong.map(|(name, text)| style.red(&row(name, &text, style))));
    out
}

fn status(entry: &Entry, style: &Style) -> Vec<String> {
    let (status, summary) = (entry.status.as_str(), &entry.summary);
    let time = format!(
        "{} to {} ({})",
        style.moment(summary.first),
        style.clock(summary.last),
        duration(summary.last.saturating_sub(summary.first)),
    );
    let reason = format!("{status}  {}", line(&why(entry, style)));
    let mut rows = pair(("status", reason.trim_end()), ("time", &time), style);
    rows[0] = rows[0].replacen(status, &paint_status(entry.status, status, style), 1);
    rows
}

/// The first and last error and the gaps, with the names of their rows.
fn wrong(summary: &Summary) -> Vec<(&'static str, String)> {
    let error = |error: &ErrorRef| {
        let (what, message) = (line(&error.what), line(&error.message));
        format!("{} {what}: {message}", error.address)
    };
    let mut out = Vec::new();
    if let Some(first) = &summary.first_error {
        out.push(("error", error(first)));
        let last = summary.last_error.as_ref();
        let last = last.filter(|last| last.address != first.address);
        out.extend(last.map(|last| ("last", error(last))));
    }
    for (address, cause) in summary.gaps.iter().take(GAPS) {
        let cause = line(cause);
        out.push(("gap", format!("{address} events are missing: {cause}")));
    }
    let (marks, _) = summary.marks();
    let shown = summary.gaps.len().min(GAPS) as u64;
    let more = marks.gaps.saturating_sub(shown);
    if more > 0 {
        let missing = thousands(marks.missing);
        out.push((
            "gaps",
            format!("{more} more; {missing} events missing in all"),
        ));
    }
    out
}

fn row(name: &str, text: &str, style: &Style) -> String {
    let text = format!("  {name:<8} {text}");
    cut(&text, style.width).trim_end().to_owned()
}

/// Two facts on one row where that is wide enough, else on two.
fn pair(first: (&str, &str), second: (&str, &str), style: &Style) -> Vec<String> {
    let row = |(name, text): (&str, &str)| row(name, text, style);
    let both = format!("{}   {} {}", row(first), second.0, second.1);
    match second.1.is_empty() {
        true => vec![row(first)],
        false if text::fits(&both, style.width) => vec![both],
        false => vec![row(first), row(second)],
    }
}

/// What is open and since when, or how it ended.
fn why(entry: &Entry, style: &Style) -> String {
    let summary = &entry.summary;
    match (&summary.ended, summary.deepest()) {
        (_, Some(open)) => {
            let verb = match entry.status.is_live() {
                true => "open since",
                false => "was open since",
            };
            let named = named_span(open.kind, &open.name);
            let since = style.clock(open.since);
            format!("{named} {verb} {since} at {}", open.address)
        }
        (Some((outcome, _)), None) if outcome == Outcome::Interrupted.as_str() => {
            "its process died".into()
        }
        // The status is the same word.
        (Some((outcome, reason)), None) if outcome == entry.status.as_str() => {
            reason.clone().unwrap_or_default()
        }
        (Some((outcome, Some(reason))), None) => format!("{outcome}, {reason}"),
        (Some((outcome, None)), None) => outcome.clone(),
        (None, None) => String::new(),
    }
}

fn counts(summary: &Summary) -> String {
    let totals = summary.totals();
    [
        plural(totals.turns, "turn"),
        plural(totals.model_calls, "model call"),
        plural(totals.tool_calls, "tool call"),
        plural(totals.errors, "error"),
    ]
    .join(", ")
}

fn tokens(summary: &Summary) -> String {
    let usage = summary.totals().usage;
    format!(
        "{} in ({} cached), {} out ({} reasoning), {}",
        count(usage.input_tokens),
        count(usage.cache_read_tokens),
        count(usage.output_tokens),
        count(usage.reasoning_tokens),
        match usage.cost_usd {
            None => "cost –".into(),
            known => cost(known),
        },
    )
}

fn model(summary: &Summary) -> String {
    let mut model = match (&summary.provider_id, &summary.model_id) {
        (Some(provider), Some(model)) => format!("{provider}/{model}"),
        (None, Some(model)) => model.clone(),
        _ => "–".into(),
    };
    if let Some(variant) = &summary.variant {
        model.push_str(&format!(" ({variant})"));
    }
    if let Some(temperature) = summary.temperature {
        model.push_str(&format!(", temperature {temperature}"));
    }
    model
}

/// A span in a word or two: its kind and its name.
pub fn named_span(kind: Kind, name: &str) -> String {
    let what = match kind.opens() {
        Some(SpanKind::Run) => "run",
        Some(SpanKind::Turn) => "turn",
        Some(SpanKind::Model) => "model call",
        Some(SpanKind::Tool) => "tool",
        Some(SpanKind::Permission) => "permission for",
        Some(SpanKind::Compaction) => "compaction",
        _ => "span",
    };
    format!("{what} {}", text::line(name)).trim_end().to_owned()
}

fn process_line(entry: &Entry) -> Option<String> {
    let writer = entry.summary.writer()?;
    let process = writer.process();
    let mut parts = Vec::new();
    if let Some(exe) = process.exe() {
        parts.push(exe.rsplit('/').next().unwrap_or(&exe).to_owned());
    }
    parts.extend(process.pid().map(|pid| format!("pid {pid}")));
    parts.extend(process.host().map(|host| format!("on {host}")));
    if let Some(git) = process.git() {
        let part = |name: &str| git.get(name).and_then(|value| value.text());
        let (branch, commit) = (part("branch"), part("commit"));
        let commit = commit.as_deref().unwrap_or_default();
        let commit = commit.get(..8).unwrap_or(commit);
        let git = format!("git {}@{commit}", branch.unwrap_or_default());
        parts.push(git.trim_end_matches('@').to_owned());
    }
    parts.push(format!("spanledger {}", writer.version));
    Some(parts.join(", "))
}
