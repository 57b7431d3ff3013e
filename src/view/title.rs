//! The title of a turn: start, duration, usage, and the time of models, tools and people.

use std::collections::HashMap;

use super::describer::Describer;
use super::header::named_span;
use super::outcome::{UNSET, bad_outcome, duration_of};
use super::stats::cost_sum;
use super::style::Style;
use super::text::{columns, count, cut, duration, line, thousands, wrap};
use super::timeline::other_lines;
use crate::session::{Item, Node, NodeState, Turn};
use crate::trace::typed;
use crate::trace::{Kind, Outcome};

/// How many rows the reason of a failed turn has unless everything is wanted.
const REASON: usize = 2;

/// The last column of the title's rule.
const RULE: usize = 100;

/// The title of a turn that began at `start`: one row if it fits, else two.
pub(super) fn title(
    turn: &Turn,
    start: u64,
    describer: &Describer<'_>,
    style: &Style,
) -> Vec<String> {
    let split = split_text(turn, describer);
    let mut texts = style.rows(&head(turn, start, describer.over, style));
    let text = texts.pop().unwrap_or_default();
    let used = columns(&text);
    let rule = |used: usize| match style.width.min(RULE).saturating_sub(used + 1) {
        0..3 => String::new(),
        left => format!(" {}", style.dim(&"─".repeat(left))),
    };
    let text = style.bold(&text);
    let mut rows: Vec<_> = texts.iter().map(|text| style.bold(text)).collect();
    match used + 3 + columns(&split) {
        _ if split.is_empty() => rows.push(format!("{text}{}", rule(used))),
        both if both <= style.width => {
            rows.push(format!("{text}   {}{}", style.dim(&split), rule(both)));
        }
        _ => {
            rows.push(format!("{text}{}", rule(used)));
            let split = style.rows(&format!("        {split}"));
            rows.extend(split.iter().map(|row| style.dim(row)));
        }
    }
    rows.extend(failure_rows(turn, style));
    if let Some(span) = turn.span.as_ref().filter(|_| style.full) {
        let lines = other_lines(span, style.width.saturating_sub(8), style);
        rows.extend(lines.into_iter().map(|line| format!("        {line}")));
    }
    rows
}

/// The turn's index, start, duration, outcome and usage.
pub(super) fn head(turn: &Turn, start: u64, over: bool, style: &Style) -> String {
    let mut parts = vec![
        format!("Turn {}", turn.index.unwrap_or(0)),
        style.clock(start),
    ];
    let span = turn.span.as_ref();
    match span {
        Some(node) if node.state == NodeState::Open => {
            parts.push(if over { "left open" } else { "still open" }.into());
        }
        Some(node) => {
            let unset = node.outcome() == Some(Outcome::Unset);
            let mark = if unset { UNSET } else { "" };
            let took = duration_of(node, node.duration.unwrap_or(0));
            parts.push(format!("{took}{mark}"));
        }
        None => {}
    }
    let failed = span.filter(|span| bad_outcome(span).is_some());
    let outcome = failed.and_then(Node::outcome_name);
    parts.extend(outcome.map(|outcome| line(&outcome).to_uppercase()));
    let reason = span.and_then(|node| node.view::<typed::Turn<'_>>().stop_reason());
    parts.extend(reason.map(|reason| line(&reason).into_owned()));
    if !has_one_call(turn) {
        let usage = turn.usage();
        let (input, output) = (usage.input_tokens, count(usage.output_tokens));
        parts.extend(input.map(|input| format!("{} in, {output} out", thousands(input))));
        let cost = turn.cost();
        parts.extend(cost.usd().map(|_| cost_sum(&cost)));
    }
    parts.join("  ")
}

/// Why the turn failed, and where: the call whose error was passed on to it, or the turn itself.
pub(super) fn failure(turn: &Turn) -> Option<(String, String)> {
    let span = turn.span.as_ref()?;
    let error = span.error()?;
    let at = match turn.failure_origin() {
        Some(origin) => {
            let name = origin.item().name().unwrap_or_default();
            let named = named_span(origin.kind, &name);
            format!("from {named} {}", origin.address)
        }
        None => span.address.to_string(),
    };
    Some((error, at))
}

fn failure_rows(turn: &Turn, style: &Style) -> Vec<String> {
    let Some((error, at)) = failure(turn) else {
        return Vec::new();
    };
    let room = style.width.saturating_sub(10);
    let mut lines = wrap(&error, room);
    if !style.full && lines.len() > REASON {
        lines.truncate(REASON);
        let last = lines.pop().unwrap_or_default();
        let left = room.saturating_sub(columns(&at) + 3);
        let last = cut(&last, left).trim_end_matches('…').to_owned();
        lines.push(format!("{last}…"));
    }
    match lines.last_mut() {
        Some(last) if columns(last) + 2 + columns(&at) <= room => {
            last.push_str(&format!("  {at}"));
        }
        _ => lines.extend(wrap(&at, room)),
    }
    let marks = ["✗"].into_iter().chain(std::iter::repeat(" "));
    let rows = marks.zip(lines);
    rows.map(|(mark, text)| style.red(&format!("        {mark} {text}")))
        .collect()
}

/// Whether the row of a turn's only model call has its usage.
fn has_one_call(turn: &Turn) -> bool {
    let calls = turn.nodes.iter().filter(|n| n.kind == Kind::ModelCall);
    let usages: Vec<_> = calls.map(Node::usage).collect();
    matches!(usages[..], [Some(_)])
}

/// The time that models, tools, subagents and people took, in words.
pub(super) fn split_text(turn: &Turn, describer: &Describer<'_>) -> String {
    let split = time_split(turn, describer);
    let split = split.iter().filter(|(_, ns)| *ns > 0);
    let took = |ns: u64| match &turn.span {
        Some(span) => duration_of(span, ns),
        None => duration(ns),
    };
    let split = split.map(|(who, ns)| format!("{who} {}", took(*ns)));
    split.collect::<Vec<_>>().join(", ")
}

/// The time that models, tools, subagents and people took. Overlaps count once for each. A tool does not
/// work while it waits for a person; another one may at the same time.
fn time_split(turn: &Turn, describer: &Describer<'_>) -> [(&'static str, u64); 4] {
    let waits = waits_by_tool(turn);
    let mut person: Vec<_> = waits.values().flatten().copied().collect();
    let none = Vec::new();
    let in_no_tool = waits.get(&None).unwrap_or(&none);
    let (mut model, mut tool, mut subagent) = (Vec::new(), Vec::new(), Vec::new());
    for node in &turn.nodes {
        match node.item() {
            Item::ModelCall(_) => model.push((node.start, node.end())),
            Item::ToolCall(_) => {
                let own = waits.get(&node.span_id).unwrap_or(&none);
                let waits = own.iter().chain(in_no_tool).copied().collect();
                tool.extend(without((node.start, node.end()), waits));
            }
            Item::Subagent(_) => {
                let result = describer.result(node);
                let took = result.and_then(|result| result.duration_since(node.start));
                subagent.extend(took.map(|took| (node.start, node.start.saturating_add(took))));
            }
            _ => {}
        }
    }
    [
        ("model", covered(&mut model)),
        ("tool", covered(&mut tool)),
        ("subagent", covered(&mut subagent)),
        ("person", covered(&mut person)),
    ]
}

/// When a person was waited for, by the tool call that waited; `None` if none did.
fn waits_by_tool(turn: &Turn) -> HashMap<Option<u64>, Vec<(u64, u64)>> {
    let waits = turn.waits();
    let mut by_tool: HashMap<_, Vec<_>> = HashMap::new();
    if waits.is_empty() {
        return by_tool;
    }
    let spans = turn.nodes.iter().filter(|node| node.span_id.is_some());
    let spans: HashMap<_, _> = spans.map(|node| (node.span_id, node)).collect();
    for wait in waits {
        let mut around = spans.get(&wait.parent);
        // The question may lie in the permission, which lies in the tool call.
        for _ in 0..2 {
            let outer = around.filter(|node| node.kind != Kind::ToolCall);
            around = outer.map_or(around, |node| spans.get(&node.within()));
        }
        let tool = around.filter(|node| node.kind == Kind::ToolCall);
        let tool = tool.and_then(|node| node.span_id);
        by_tool
            .entry(tool)
            .or_default()
            .push((wait.start, wait.end));
    }
    by_tool
}

/// What is left of an interval without some others.
fn without((mut from, to): (u64, u64), mut others: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    others.sort_unstable();
    let mut left = Vec::new();
    for (start, end) in others.into_iter().filter(|(start, _)| *start < to) {
        left.push((from, start.max(from)));
        from = from.max(end);
    }
    left.push((from, to.max(from)));
    left
}

/// The time that intervals cover together.
fn covered(spans: &mut [(u64, u64)]) -> u64 {
    spans.sort_unstable();
    let mut sum: u64 = 0;
    let mut until = 0;
    for (from, to) in spans.iter() {
        let from = (*from).max(until);
        sum = sum.saturating_add(to.saturating_sub(from));
        until = until.max(*to);
    }
    sum
}

#[cfg(test)]
mod tests;
