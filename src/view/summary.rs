//! The text of `summary`, `assert` and `permissions`.

use serde_json::Value;

use super::stats::{cost_source, cost_sum};
use super::style::Style;
use super::text::{cost, cut, duration, line, pad, plural, thousands};
use crate::inspect::baseline::{Check, CheckKind};
use crate::inspect::permissions::{Flip, Recorded, WhatIf};
use crate::inspect::stats::StatsRow;
use crate::inspect::summary::{Ending, Outline};
use crate::session::Action;
use crate::trace::Outcome;

fn paint(ending: Ending, style: &Style) -> String {
    let word = ending.as_str();
    match ending {
        Ending::Completed => style.green(word),
        Ending::Running => style.cyan(word),
        Ending::Denied | Ending::Limit => style.yellow(word),
        _ => style.red(word),
    }
}

/// How a session went. `all` has what it and its subagents used.
pub fn outline(outline: &Outline, all: &StatsRow, style: &Style) -> Vec<String> {
    let totals = &outline.totals;
    let id = style.bold(&line(&outline.summary.session_id));
    let reason = outline.stop_reason.as_deref().map(line);
    let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let mut out = vec![format!("{id}  {}{reason}", paint(outline.ending, style))];
    let mut row = |name: &str, text: String| out.push(style.named(name, &text));
    let failed = |n: u64| match n {
        0 => String::new(),
        n => format!(", {} failed", thousands(n)),
    };
    let subagents = &outline.subagents.totals;
    let inside = |n: u64| match outline.subagents.dirs.len() {
        0 => String::new(),
        _ => format!(" (+{} in subagents)", thousands(n)),
    };
    row("turns", thousands(totals.turns) + &inside(subagents.turns));
    let calls = thousands(totals.model_calls) + &failed(outline.model_errors);
    row("model calls", calls + &inside(subagents.model_calls));
    let denied = match outline.denials {
        0 => String::new(),
        n => format!(", {} denied", thousands(n)),
    };
    let calls = thousands(totals.tool_calls) + &failed(outline.tool_errors) + &denied;
    row("tool calls", calls + &inside(subagents.tool_calls));
    row(
        "errors",
        thousands(totals.errors) + &inside(subagents.errors),
    );
    if let Some(error) = outline.first_error() {
        let (what, message) = (line(&error.what), line(&error.message));
        row(
            "first error",
            format!("{} {what}: {message}", error.address),
        );
    }
    if outline.loops > 0 {
        row("loops", plural(outline.loops, "warning"));
    }
    if outline.compactions > 0 {
        row("compactions", thousands(outline.compactions));
    }
    let usage = &all.usage;
    let tokens = [usage.input_tokens, usage.output_tokens].map(super::text::count);
    let with = match outline.subagents.dirs.len() {
        0 => "",
        _ => " (with subagents)",
    };
    row("tokens", format!("{} → {}{with}", tokens[0], tokens[1]));
    row("cost", cost_sum(&all.cost) + &cost_source(&all.cost) + with);
    let summary = &outline.summary;
    let died = |(outcome, _): &(String, Option<String>)| outcome == Outcome::Interrupted.as_str();
    let goes_on = !summary.open.is_empty() || summary.ended.as_ref().is_some_and(died);
    let at_least = if goes_on { "≥" } else { "" };
    row(
        "duration",
        format!("{at_least}{}", duration(outline.duration())),
    );
    out
}

/// The result of the checks of a session.
pub fn checks_of(session_id: &str, checks: &[Check], style: &Style) -> Vec<String> {
    let mut out = Vec::new();
    for check in checks {
        let name = pad(check.kind.as_str(), 11);
        out.push(match &check.why {
            None => format!("{} {name} {}", style.green("ok  "), accepted(check)),
            Some(why) => format!("{} {name} {}", style.red("FAIL"), line(why)),
        });
    }
    let failed = checks.iter().filter(|check| !check.passed).count() as u64;
    let id = line(session_id);
    out.push(match failed {
        0 => format!("{id}: {} passed", plural(checks.len() as u64, "check")),
        n => format!(
            "{id}: {} of {} failed",
            thousands(n),
            plural(checks.len() as u64, "check")
        ),
    });
    out
}

/// What was found, and the limit.
fn accepted(check: &Check) -> String {
    let shown = |value: &Value| match (check.kind, value.as_f64(), value) {
        (CheckKind::Cost, usd @ Some(_), _) => cost(usd),
        (CheckKind::Duration, Some(ms), _) => duration((ms * 1e6) as u64),
        (CheckKind::Divergence, Some(part), _) => format!("{part:.2}"),
        (_, Some(number), _) => thousands(number as u64),
        (_, None, Value::String(text)) => line(text).into_owned(),
        (_, None, Value::Array(texts)) if texts.is_empty() => "none".to_owned(),
        (_, None, Value::Array(texts)) => {
            let texts = texts.iter().filter_map(Value::as_str).map(line);
            texts.collect::<Vec<_>>().join(" or ")
        }
        _ => "–".to_owned(),
    };
    format!("{}  (limit {})", shown(&check.actual), shown(&check.limit))
}

fn subject_of(recorded: &Recorded) -> String {
    let name = line(&recorded.tool);
    match &recorded.subject {
        Some(subject) => format!("{name}  {}", line(subject)),
        None => name.into_owned(),
    }
}

/// One decision: what, by which rule, who was asked and how long it took.
pub fn decision(recorded: &Recorded, style: &Style) -> Vec<String> {
    let action = recorded.action.map_or("–", Action::as_str);
    let painted = match action {
        "deny" => style.red(&pad(action, 6)),
        "ask" => style.magenta(&pad(action, 6)),
        _ => style.green(&pad(action, 6)),
    };
    let named = [("rule", &recorded.pattern), ("by", &recorded.source)].into_iter();
    let named = named.filter_map(|(name, text)| Some(format!("{name} {}", line(text.as_ref()?))));
    let mut facts: Vec<_> = named.collect();
    if recorded.asked {
        let who = recorded.decided_by.as_deref().unwrap_or("a person");
        let answer = recorded.answer.as_deref().unwrap_or("no answer");
        facts.push(format!("asked {}: {}", line(who), line(answer)));
    }
    facts.extend(recorded.duration.map(duration));
    let facts = facts.join(", ");
    let address = pad(&recorded.address.to_string(), 8);
    let room = style.width.saturating_sub(15);
    let what = subject_of(recorded);
    let both = format!("{what}  {facts}");
    if super::text::fits(&both, room) {
        return vec![format!(
            "{} {painted}{what}  {}",
            style.dim(&address),
            style.dim(&facts)
        )];
    }
    vec![
        format!("{} {painted}{}", style.dim(&address), cut(&what, room)),
        format!("{}{}", " ".repeat(15), style.dim(&cut(&facts, room))),
    ]
}

/// One decision that other rules would change.
pub fn flip(flip: &Flip, style: &Style) -> Vec<String> {
    let recorded = &flip.recorded;
    let before = recorded.action.map_or("–", Action::as_str);
    let answer = match (recorded.asked, &recorded.answer) {
        (true, Some(answer)) => format!(" (answer: {})", line(answer)),
        _ => String::new(),
    };
    let after = flip.decided.action;
    let rule = match flip.decided.rule {
        Some(at) => format!("rule {at}"),
        None => "no rule".to_owned(),
    };
    let change = format!("{before}{answer} → {after}, by {rule}");
    let change = match flip.decided.action {
        Action::Allow => style.yellow(&change),
        _ => style.cyan(&change),
    };
    let place = format!("{}/{}", line(&recorded.session_id), recorded.address);
    let what = subject_of(recorded);
    vec![
        format!("{}  {}", style.dim(&place), change),
        format!("    {}", cut(&what, style.width.saturating_sub(4))),
    ]
}

/// What other rules would change in all.
pub fn what_if(counts: &WhatIf, style: &Style) -> Vec<String> {
    let decisions = plural(counts.decisions, "decision");
    let mut out = vec![style.bold(&format!(
        "{} of {decisions} would flip",
        thousands(counts.flips)
    ))];
    let rows = [
        ("questions to a person saved", counts.saved),
        ("questions to a person added", counts.added),
        ("calls that would run unasked", counts.unasked),
        ("  of these, denied by a person", counts.unasked_denied),
        ("allowed calls that would be denied", counts.denied),
        ("not decided: no recorded action or text", counts.undecided),
    ];
    for (name, n) in rows {
        out.push(format!("  {} {}", pad(name, 40), thousands(n)));
    }
    out
}
