//! The row that a turn begins with: when, how long and on whom it waited, and what it used.

use super::style::Style;
use super::text::{columns, cost, count, cut, duration, line};
use crate::session::{Chapter, Node, NodeState};

/// Up to which column a title's line goes.
const RULE: usize = 100;

/// The title of a turn that began at `start`: one row where it fits, else two. `left`: nobody is at it
/// any more.
pub(super) fn title(chapter: &Chapter, start: u64, left: bool, style: &Style) -> Vec<String> {
    let mut parts = vec![
        format!("Turn {}", chapter.turn.unwrap_or(0)),
        style.clock(start),
    ];
    let span = chapter.span.as_ref();
    match span {
        Some(node) if node.state == NodeState::Open => {
            parts.push(if left { "left open" } else { "still open" }.into());
        }
        Some(node) => parts.push(duration(node.duration.unwrap_or(0))),
        None => {}
    }
    let outcome = span.and_then(|node| node.outcome());
    if let Some(outcome) = outcome.filter(|o| !matches!(o.as_ref(), "ok" | "unset")) {
        parts.push(line(&outcome).to_uppercase());
    }
    if let Some(reason) = span.and_then(|node| node.text("stop_reason")) {
        parts.push(line(&reason).into_owned());
    }
    let usage = turn_usage(chapter);
    if let Some(input) = usage.input {
        parts.push(format!(
            "{} in, {} out",
            count(Some(input)),
            count(usage.output)
        ));
    }
    if usage.cost.is_some() {
        parts.push(cost(usage.cost));
    }
    let split = time_split(chapter);
    let split = split.iter().filter(|(_, ns)| *ns > 0);
    let split: Vec<_> = split
        .map(|(who, ns)| format!("{who} {}", duration(*ns)))
        .collect();
    let (text, split) = (parts.join("  "), split.join(", "));
    let text = cut(&text, style.width).into_owned();
    let used = columns(&text);
    // A line sets it apart without a row for that.
    let rule = |used: usize| match style.width.min(RULE).saturating_sub(used + 1) {
        0..3 => String::new(),
        left => format!(" {}", style.dim(&"─".repeat(left))),
    };
    let head = style.bold(&text);
    match used + 3 + columns(&split) {
        _ if split.is_empty() => vec![format!("{head}{}", rule(used))],
        both if both <= style.width => {
            vec![format!("{head}   {}{}", style.dim(&split), rule(both))]
        }
        _ => vec![
            format!("{head}{}", rule(used)),
            style.dim(&cut(&format!("        {split}"), style.width)),
        ],
    }
}

struct TurnUsage {
    input: Option<u64>,
    output: Option<u64>,
    cost: Option<f64>,
}

/// What a turn used: what its model calls say, else what it says itself. One call alone tells it
/// on its own row.
fn turn_usage(chapter: &Chapter) -> TurnUsage {
    let mut sum = TurnUsage {
        input: None,
        output: None,
        cost: None,
    };
    let calls = chapter.nodes.iter();
    let calls: Vec<_> = calls
        .filter(|node| node.kind.as_ref() == "model_call")
        .collect();
    if calls.len() == 1 && calls[0].get("usage").is_some() {
        return sum;
    }
    let mut add = |node: &Node| {
        let Some(usage) = node.get("usage") else {
            return;
        };
        let n = |name: &str| usage.get(name).and_then(|v| v.u64());
        let plus = |sum: &mut Option<u64>, n: Option<u64>| {
            if let Some(n) = n {
                *sum = Some(sum.unwrap_or(0).saturating_add(n));
            }
        };
        plus(&mut sum.input, n("input_tokens"));
        plus(&mut sum.output, n("output_tokens"));
        if let Some(usd) = usage.get("cost_usd").and_then(|v| v.f64()) {
            sum.cost = Some(sum.cost.unwrap_or(0.0) + usd);
        }
    };
    calls.into_iter().for_each(&mut add);
    if sum.input.is_none()
        && sum.output.is_none()
        && let Some(span) = &chapter.span
    {
        let mut own = sum;
        if let Some(usage) = span.get("usage") {
            own.input = usage.get("input_tokens").and_then(|v| v.u64());
            own.output = usage.get("output_tokens").and_then(|v| v.u64());
            own.cost = own.cost.or(usage.get("cost_usd").and_then(|v| v.f64()));
        }
        return own;
    }
    sum
}

/// The turn's time: what models, tools and persons took. Overlaps count once for each.
fn time_split(chapter: &Chapter) -> [(&'static str, u64); 3] {
    let mut spans: [Vec<(u64, u64)>; 3] = Default::default();
    for node in &chapter.nodes {
        let Some(ns) = node.duration else { continue };
        let which = match node.kind.as_ref() {
            "model_call" => 0,
            "tool_call" => 1,
            "permission_request"
                if node.text("action").as_deref() == Some("ask")
                    || node.text("decided_by").is_some() =>
            {
                2
            }
            _ => continue,
        };
        spans[which].push((node.start, node.start.saturating_add(ns)));
    }
    let person = covered(&mut spans[2]);
    let tool = covered(&mut spans[1]).saturating_sub(person);
    [
        ("model", covered(&mut spans[0])),
        ("tool", tool),
        ("person", person),
    ]
}

/// How much time intervals cover together.
fn covered(spans: &mut [(u64, u64)]) -> u64 {
    spans.sort_unstable();
    let mut sum = 0;
    let mut until = 0;
    for (from, to) in spans.iter() {
        let from = (*from).max(until);
        sum += to.saturating_sub(from);
        until = until.max(*to);
    }
    sum
}
