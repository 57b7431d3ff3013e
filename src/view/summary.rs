//! The text of `summary`.

use super::stats::{cost_source, cost_sum};
use super::style::Style;
use super::text::{duration, line, plural, thousands};
use crate::inspect::stats::StatsRow;
use crate::inspect::summary::{Ending, Outline};
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
