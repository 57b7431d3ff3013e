//! The top of `show`: the status of a session, and where to look first.

use super::style::Style;
use super::text::{self, cost, count, cut, duration, line, plural, thousands, wrap};
use crate::session::{Entry, ErrorRef, Status, SubagentTotals, Summary, Writer};
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

/// The header of a session: agent, status, counts, model and process, where it is, and what went wrong.
/// `subagents`: what its subagents add up to. `implicit`: the implicit sessions beside it.
pub fn header(
    entry: &Entry,
    subagents: &SubagentTotals,
    implicit: &[String],
    style: &Style,
) -> Vec<String> {
    let summary = &entry.summary;
    let agent = summary.agent.as_deref().unwrap_or("(no run)");
    let mut first = format!("{}  {}", line(&summary.session_id), line(agent));
    if let Some(title) = &summary.title {
        first.push_str(&format!("  {}", line(title)));
    }
    let mut out = style.rows(&first);
    out.extend(implicit_row(summary, style));
    out.extend(status(entry, style));
    let (counts, tokens) = (counts(summary), tokens(summary));
    out.extend(pair(("counts", &counts), ("tokens", &tokens), style));
    let costs = [&summary.totals().usage, &subagents.totals.usage].map(|usage| usage.cost_usd);
    if subagents.sessions > 0 && costs.iter().any(Option::is_some) {
        let them = plural(subagents.sessions, "subagent");
        let [own, theirs] = costs.map(cost);
        let total = format!("{own} + {theirs} in {them}");
        out.extend(rows("cost", &total, style));
    }
    let process = process_line(summary).unwrap_or_default();
    let (model, process) = (model(summary), line(&process));
    out.extend(pair(("model", &line(&model)), ("process", &process), style));
    let dir = entry.dir.to_string_lossy();
    let (trace, dir) = (summary.trace_id.as_deref(), line(&dir));
    let trace = line(trace.unwrap_or("–"));
    out.extend(pair(("trace", &trace), ("files", &dir), style));
    if let Some(parent) = &summary.parent_session_id {
        let parent = format!("subagent of {}", line(parent));
        out.extend(rows("parent", &parent, style));
    }
    if let Some(from) = &summary.branched_from {
        out.extend(rows("branch", &format!("of {}", line(from)), style));
    }
    if let Some(text) = implicit_beside(implicit) {
        let rows = rows("outside", &text, style).into_iter();
        out.extend(rows.map(|row| style.yellow(&row)));
    }
    for (name, text) in wrong(summary) {
        let rows = rows(name, &text, style).into_iter();
        out.extend(rows.map(|row| style.red(&row)));
    }
    out
}

/// Where a session without a run comes from.
pub(super) fn implicit_text(summary: &Summary) -> Option<String> {
    let what = match summary.implicit()? {
        "anchor" => "agent spans inside a span of the program, outside every run",
        _ => "spans and events outside every run",
    };
    let process = summary.writer().map(Writer::process);
    let process = process.map(|process| {
        let exe = process.exe().unwrap_or("a process".into());
        let exe = exe.rsplit('/').next().unwrap_or(&exe).to_owned();
        let pid = process.pid().map(|pid| format!(" (pid {pid})"));
        format!("{}{}: ", line(&exe), pid.unwrap_or_default())
    });
    Some(format!("{}{what}", process.unwrap_or_default()))
}

/// What may have left a session: the implicit sessions of its processes.
pub(super) fn implicit_beside(sessions: &[String]) -> Option<String> {
    let ids: Vec<_> = sessions.iter().map(|id| line(id)).collect();
    let of = "has spans or events of the same process that are in no run; was a task spawned without a span?";
    (!ids.is_empty()).then(|| format!("{} {of}", ids.join(", ")))
}

fn implicit_row(summary: &Summary, style: &Style) -> Vec<String> {
    let rows = implicit_text(summary).map(|text| rows("implicit", &text, style));
    let painted = rows.into_iter().flatten().map(|row| style.yellow(&row));
    painted.collect()
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
        let mut text = format!("{} {what}: {message}", error.address);
        for (at, what) in &error.passed_to {
            text.push_str(&format!(" → {} {at}", line(what)));
        }
        text
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

/// The width of a row's name, with the blanks around it.
const NAME: usize = 11;

/// A fact: one row, cut, or as many as it needs if nothing may be truncated.
fn rows(name: &str, text: &str, style: &Style) -> Vec<String> {
    if !style.full {
        let text = format!("  {name:<8} {text}");
        return vec![cut(&text, style.width).trim_end().to_owned()];
    }
    let lines = wrap(text, style.width.saturating_sub(NAME));
    let names = [name].into_iter().chain(std::iter::repeat(""));
    let rows = names.zip(lines);
    rows.map(|(name, text)| format!("  {name:<8} {text}").trim_end().to_owned())
        .collect()
}

/// Two facts on one row where that is wide enough, else on two.
fn pair(first: (&str, &str), second: (&str, &str), style: &Style) -> Vec<String> {
    let rows = |(name, text): (&str, &str)| rows(name, text, style);
    let both = format!("  {:<8} {}   {} {}", first.0, first.1, second.0, second.1);
    match second.1.is_empty() {
        true => rows(first),
        false if text::fits(&both, style.width) => vec![both],
        false => [rows(first), rows(second)].concat(),
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

fn process_line(summary: &Summary) -> Option<String> {
    let writer = summary.writer()?;
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
