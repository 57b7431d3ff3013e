//! The top of `show`: the status of a session, and where to look first.

use std::path::PathBuf;

use super::stats::cost_sum;
use super::style::{Style, Tone};
use super::text::{self, count, cut, duration, join, line, plural, thousands, wrap};
use crate::cost::Cost;
use crate::inspect::stats::Stats;
use crate::session::{Branch, Entry, ErrorRef, Status, Store, SubagentTotals, Summary, Writer};
use crate::trace::{Kind, Outcome, SpanKind, Totals};

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

/// What the header of a session is made from, beside the session itself.
#[derive(Clone, Debug, Default)]
pub struct Related {
    /// What it cost, without its subagents; nothing if only its first and last lines were read.
    pub cost: Cost,
    /// What its subagents add up to.
    pub subagents: SubagentTotals,
    /// What they cost.
    pub subagents_cost: Cost,
    /// The implicit sessions beside it.
    pub implicit: Vec<String>,
    /// The sessions that were branched from it.
    pub branches: Vec<Branch>,
}

impl Related {
    /// Reads them. Of a session that was read whole, all model calls are priced, and those of its subagents.
    pub fn of(entry: &Entry, store: &Store) -> Self {
        let summary = &entry.summary;
        let subagents = store.subagent_totals(summary);
        let cost_of = |dirs: &[PathBuf]| {
            let mut stats = Stats::new(None);
            if entry.whole {
                // What can't be read is reported where it is shown.
                stats.add_all(dirs.iter().cloned());
            }
            stats.finish().total.cost
        };
        Self {
            cost: cost_of(std::slice::from_ref(&entry.dir)),
            subagents_cost: cost_of(&subagents.dirs),
            subagents,
            implicit: store.implicit_beside(summary),
            branches: store.branches_of(summary),
        }
    }
}

/// A row of the header: its name and what it says, safe for a terminal.
pub(super) struct Fact {
    pub name: &'static str,
    pub text: String,
    pub tone: Tone,
}

/// The rows that can share one with the next.
const PAIRED: [&str; 4] = ["status", "counts", "model", "trace"];

/// The header of a session: agent, status, counts, model and process, where it is, and what went wrong.
pub fn header(entry: &Entry, related: &Related, style: &Style) -> Vec<String> {
    let mut out = style.rows(&headline(&entry.summary));
    let mut facts = facts(entry, related, style).into_iter().peekable();
    while let Some(fact) = facts.next() {
        let second = facts.next_if(|_| PAIRED.contains(&fact.name));
        let second = second
            .as_ref()
            .map_or(("", ""), |fact| (fact.name, &fact.text));
        let mut rows = pair((fact.name, &fact.text), second, style);
        if fact.name == "status" {
            let status = entry.status.as_str();
            rows[0] = rows[0].replacen(status, &paint_status(entry.status, status, style), 1);
        }
        out.extend(rows.iter().map(|row| fact.tone.paint(style, row)));
    }
    out
}

/// The id of a session, its agent and its title.
pub(super) fn headline(summary: &Summary) -> String {
    let agent = summary.agent.as_deref().unwrap_or("(no run)");
    let mut text = format!("{}  {}", line(&summary.session_id), line(agent));
    if let Some(title) = &summary.title {
        text.push_str(&format!("  {}", line(title)));
    }
    text
}

/// The rows of the header.
pub(super) fn facts(entry: &Entry, related: &Related, style: &Style) -> Vec<Fact> {
    let summary = &entry.summary;
    let mut out = Vec::new();
    let mut add = |name, tone, text: Option<String>| {
        out.extend(text.map(|text| Fact { name, text, tone }));
    };
    let safe = |text: &str| Some(line(text).into_owned());
    add("implicit", Tone::Look, implicit_text(summary));
    let reason = format!("{}  {}", entry.status.as_str(), line(&why(entry, style)));
    add("status", Tone::Plain, Some(reason.trim_end().to_owned()));
    add("time", Tone::Plain, Some(time(entry, style)));
    add("counts", Tone::Plain, Some(counts(&summary.totals())));
    let cost = cost_text(&related.cost, entry);
    add("tokens", Tone::Plain, Some(tokens(summary, &cost)));
    let subagents = subagent_totals(&related.subagents, &related.subagents_cost);
    add("subagent", Tone::Plain, subagents);
    add("model", Tone::Plain, safe(&model(summary)));
    add(
        "process",
        Tone::Plain,
        safe(&process_line(summary).unwrap_or_default()),
    );
    let trace = summary.trace_id.as_deref();
    add("trace", Tone::Plain, safe(trace.unwrap_or("–")));
    add("files", Tone::Plain, safe(&entry.dir.to_string_lossy()));
    let parent = summary.parent_session_id.as_ref();
    let parent = parent.map(|parent| format!("subagent of {}", line(parent)));
    add("parent", Tone::Plain, parent);
    add("branch", Tone::Plain, branched_from(summary));
    add("branches", Tone::Plain, branches(&related.branches));
    add("outside", Tone::Look, implicit_beside(&related.implicit));
    for (name, text) in wrong(summary) {
        add(name, Tone::Bad, Some(text));
    }
    out
}

/// What subagents add to the counts and tokens of the session.
fn subagent_totals(subagents: &SubagentTotals, cost: &Cost) -> Option<String> {
    let (sessions, totals) = (subagents.dirs.len() as u64, &subagents.totals);
    let usage = &totals.usage;
    // The cost first, as a narrow terminal cuts the rest.
    let cost = cost.usd().map(|_| format!(", {}", priced(cost)));
    let cost = cost.unwrap_or_default();
    let mut text = format!(
        "+ {}{cost}: {}",
        plural(sessions, "session"),
        counts(totals)
    );
    if usage.input_tokens.is_some() || usage.output_tokens.is_some() {
        let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
        text.push_str(&format!(", {input} in, {output} out"));
    }
    (sessions > 0).then_some(text)
}

/// The session and the message that a session was branched from.
fn branched_from(summary: &Summary) -> Option<String> {
    let from = summary.branched_from.as_ref()?;
    let message = summary.branched_from_message.as_ref();
    Some(format!("of {}", at_message(from, message)))
}

/// A session, and a message in it if that is known.
fn at_message(session_id: &str, message_id: Option<&String>) -> String {
    let message = message_id.map(|id| format!(" at {}", line(id)));
    format!("{}{}", line(session_id), message.unwrap_or_default())
}

/// The sessions that were branched from a session, and the messages that they start from.
fn branches(branches: &[Branch]) -> Option<String> {
    let all = branches
        .iter()
        .map(|branch| at_message(&branch.session_id, branch.message_id.as_ref()));
    join(all, ", ")
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
    let ids = join(sessions.iter().map(|id| line(id)), ", ")?;
    let why = "recorded by its process outside every run; was a task spawned without a span?";
    Some(format!("{ids}: {why}"))
}

fn time(entry: &Entry, style: &Style) -> String {
    let summary = &entry.summary;
    // When its process died is not known.
    let at_least = match entry.status {
        Status::Interrupted => "at least ",
        _ => "",
    };
    format!(
        "{} to {} ({at_least}{})",
        style.moment(summary.first),
        style.clock(summary.last),
        duration(summary.last.saturating_sub(summary.first)),
    )
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

fn counts(totals: &Totals) -> String {
    [
        plural(totals.turns, "turn"),
        plural(totals.model_calls, "model call"),
        plural(totals.tool_calls, "tool call"),
        plural(totals.errors, "error"),
    ]
    .join(", ")
}

fn tokens(summary: &Summary, cost: &str) -> String {
    let usage = summary.totals().usage;
    format!(
        "{} in ({} cached), {} out ({} reasoning), {cost}",
        count(usage.input_tokens),
        count(usage.cache_read_tokens),
        count(usage.output_tokens),
        count(usage.reasoning_tokens),
    )
}

/// What a session cost; if not all of it was read, what its process recorded.
fn cost_text(cost: &Cost, entry: &Entry) -> String {
    let usage = entry.summary.totals().usage;
    let recorded = Cost::recorded(&usage);
    match (cost.usd(), recorded.usd()) {
        (Some(_), _) => priced(cost),
        (None, Some(_)) => priced(&recorded),
        (None, None) if !entry.whole && usage.input_tokens.is_some() => {
            "cost – (see `stats`)".into()
        }
        (None, None) => "cost –".into(),
    }
}

/// A cost, and that it is by list prices.
fn priced(cost: &Cost) -> String {
    let by = match (cost.recorded, cost.priced) {
        (_, 0) => "",
        (0, _) => " by list prices",
        _ => " partly by list prices",
    };
    cost_sum(cost) + by
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
