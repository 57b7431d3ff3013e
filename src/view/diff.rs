//! Two sessions beside each other, or one after the other on a narrow terminal.

use super::style::Style;
use super::text::{columns, cost, count, cut, duration, join, line, pad, wrap};
use crate::inspect::diff::{
    AssetChange, Cause, Change, DiffRow, DiffVerdict, RowKind, Side, TurnDiff,
};
use crate::trace::Usage;

/// From this width on, the sessions stand side by side.
const WIDE: usize = 120;
/// The most lines that are shown of a text, unless nothing may be truncated.
const MOST_LINES: usize = 6;
/// The most lines that are shown of a prompt, a catalog or rules.
const MOST_ENTRIES: usize = 20;

/// The rows of a pair of turns; with `only_differences`, those that differ, and nothing of equal turns.
pub fn diff_turn(turn: &TurnDiff, only_differences: bool, style: &Style) -> Vec<String> {
    if only_differences && turn.is_equal() {
        return Vec::new();
    }
    let mut out = vec![style.bold(&title(turn))];
    out.push(style.dim(&cut(&format!("  {}", used(turn)), style.width)));
    for row in &turn.rows {
        if only_differences && row.change == Change::Same {
            continue;
        }
        out.extend(match style.width >= WIDE {
            true => beside(row, style),
            false => unified(row, style),
        });
    }
    out
}

fn title(turn: &TurnDiff) -> String {
    let which = match (turn.a, turn.b) {
        (Some(a), Some(b)) if a == b => format!("Turn {a}"),
        (Some(a), Some(b)) => format!("Turn {a} and turn {b}"),
        (Some(a), None) => format!("Turn {a}"),
        (None, Some(b)) => format!("Turn {b}"),
        (None, None) => "Outside of turns".to_owned(),
    };
    let how = match (turn.alone, turn.used[0].is_some()) {
        (true, true) => "only in the first session",
        (true, false) => "only in the second session",
        _ if turn.is_equal() => "equal",
        _ => "different",
    };
    format!("{which}  {how}")
}

/// Tokens, cost and time of both turns.
fn used(turn: &TurnDiff) -> String {
    let side = |at: usize| {
        let (usage, took) = turn.used[at].as_ref()?;
        Some(amounts(Some(usage), *took))
    };
    match (side(0), side(1)) {
        (Some(a), Some(b)) => format!("{a}  |  {b}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

fn amounts(usage: Option<&Usage>, took: Option<u64>) -> String {
    let mut parts = Vec::new();
    if let Some(usage) = usage.filter(|usage| !usage.is_empty()) {
        let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
        parts.push(format!("{input} → {output}"));
        parts.extend(usage.cost_usd.map(|usd| cost(Some(usd))));
    }
    parts.extend(took.map(duration));
    parts.join("  ")
}

fn mark(change: Change) -> &'static str {
    match change {
        Change::Same => "=",
        Change::OnlyA => "<",
        Change::OnlyB => ">",
        _ => "≠",
    }
}

fn name(row: &DiffRow) -> &'static str {
    match row.kind {
        RowKind::SystemPrompt => "prompt",
        RowKind::ToolCatalog => "tools",
        RowKind::PermissionRules => "rules",
        RowKind::Model => "model",
        RowKind::Tool => "tool",
        RowKind::Subagent => "subagent",
        _ => "",
    }
}

/// What a side is about: the model, the tool and its arguments, or the author.
fn subject(row: &DiffRow, side: &Side) -> String {
    let parts = [name(row), &side.title, &side.input].into_iter();
    let parts = parts.filter(|part| !part.is_empty()).map(line);
    join(parts, "  ").unwrap_or_default()
}

/// The first line of one side.
fn head(row: &DiffRow, side: &Side) -> String {
    let amounts = amounts(side.usage.as_ref(), side.duration);
    format!("{}  {amounts}", subject(row, side))
        .trim_end()
        .to_owned()
}

/// The first line of both sides: what they share once.
fn both(row: &DiffRow, a: &Side, b: &Side) -> String {
    let pair = |one: String, other: String| match one == other {
        true => one,
        false => format!("{one}  |  {other}"),
    };
    let amounts = |side: &Side| amounts(side.usage.as_ref(), side.duration);
    let subjects = pair(subject(row, a), subject(row, b));
    let amounts = pair(amounts(a), amounts(b));
    format!("{subjects}  {amounts}").trim_end().to_owned()
}

fn address(side: Option<&Side>) -> String {
    let at = side.and_then(|side| side.address);
    at.map_or(String::new(), |at| at.to_string())
}

/// The lines of a text, and a mark where some are left out. What is the same in both sessions needs one line.
fn lines(text: &str, width: usize, is_same: bool, style: &Style) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    if is_same && !style.full {
        let head = text.split('\n').next().unwrap_or_default();
        let head: String = head.chars().take(width).collect();
        return wrap(&head, width.max(8)).into_iter().take(1).collect();
    }
    let mut lines = wrap(text, width.max(8));
    if !style.full && lines.len() > MOST_LINES {
        let left = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(format!("… {left} more lines"));
    }
    lines
}

fn notes(row: &DiffRow, indent: &str, style: &Style) -> Vec<String> {
    let notes = row.notes.iter();
    let rows = notes.flat_map(|note| style.rows(&format!("{indent}{}", line(note))));
    rows.map(|row| style.yellow(&row)).collect()
}

/// A row on a wide terminal: the first session left, the second right.
fn beside(row: &DiffRow, style: &Style) -> Vec<String> {
    let width = (style.width - 5) / 2;
    let column = |of: Option<&Side>| {
        let Some(of) = of else { return Vec::new() };
        let at = address(Some(of));
        let room = width.saturating_sub(columns(&at) + 1);
        let mut out = vec![format!("{} {at}", pad(&head(row, of), room))];
        let body = lines(&of.text, width - 2, row.change == Change::Same, style);
        out.extend(body.iter().map(|line| format!("  {line}")));
        out
    };
    let (left, right) = (column(row.a.as_ref()), column(row.b.as_ref()));
    let mut out = Vec::new();
    for at in 0..left.len().max(right.len()) {
        let cell = |column: &[String]| column.get(at).cloned().unwrap_or_default();
        let mark = if at == 0 { mark(row.change) } else { "|" };
        let (one, other) = (
            pad(&cell(&left), width),
            cut(&cell(&right), width).into_owned(),
        );
        let (one, other) = match row.change {
            Change::Same => (style.dim(&one), style.dim(&other)),
            _ => (style.red(&one), style.green(&other)),
        };
        out.push(format!("{one}  {mark}  {other}").trim_end().to_owned());
    }
    out.extend(notes(row, "     ", style));
    out
}

/// A row on a narrow terminal: what the first session has, then what the second has.
fn unified(row: &DiffRow, style: &Style) -> Vec<String> {
    let mark = mark(row.change);
    let at = [row.a.as_ref(), row.b.as_ref()].map(address);
    let at: Vec<_> = at.into_iter().filter(|at| !at.is_empty()).collect();
    let at = at.join(" | ");
    let (head, text, other) = match (&row.a, &row.b) {
        (Some(a), Some(b)) => (both(row, a, b), &a.text, Some(&b.text)),
        (Some(side), None) | (None, Some(side)) => (head(row, side), &side.text, None),
        (None, None) => return Vec::new(),
    };
    let room = style.width.saturating_sub(columns(&at) + 5);
    let head = format!("  {mark} {} {at}", pad(&head, room));
    let width = style.width.saturating_sub(8);
    let body = |text: &str, sign: &str| -> Vec<String> {
        let lines = lines(text, width, row.change == Change::Same, style).into_iter();
        lines.map(|line| format!("      {sign} {line}")).collect()
    };
    let mut out = vec![head];
    match (row.change, other) {
        (Change::Same, _) => {
            out.extend(body(text, " "));
            out = out.iter().map(|row| style.dim(row)).collect();
        }
        (Change::Changed, Some(other)) if other == text => out.extend(body(text, " ")),
        (Change::Changed, Some(other)) => {
            out.extend(body(text, "-").iter().map(|row| style.red(row)));
            out.extend(body(other, "+").iter().map(|row| style.green(row)));
        }
        (Change::OnlyB, _) => out.extend(body(text, "+").iter().map(|row| style.green(row))),
        _ => out.extend(body(text, "-").iter().map(|row| style.red(row))),
    }
    out.extend(notes(row, "      ", style));
    out
}

/// The verdict: equal, or the first divergence and its cause. `change` has what changed in a prompt, a catalog or
/// rules.
pub fn diff_verdict(verdict: &DiffVerdict, change: &AssetChange, style: &Style) -> Vec<String> {
    let inputs = format!("inputs {}", verdict.inputs);
    let Some(first) = &verdict.first else {
        let turns = super::text::plural(verdict.turns as u64, "turn");
        return vec![style.bold(&format!("Equal: {turns} compared, {inputs}"))];
    };
    let turn = match first.turn {
        Some(turn) => format!("in turn {turn}"),
        None => "outside of turns".to_owned(),
    };
    let [a, b] = first.addresses().map(|at| match at {
        Some(at) => line(&at).into_owned(),
        None => "–".to_owned(),
    });
    let mut out = vec![style.bold(&format!("First divergence {turn}, at {a} | {b}, {inputs}"))];
    let cause = match first.cause {
        Cause::None => "none: the same input has another answer".to_owned(),
        Cause::Unknown => {
            "unknown: the requests are not recorded, and all that is recorded is the same"
                .to_owned()
        }
        cause => cause.to_string(),
    };
    out.extend(wrap(&format!("Cause: {cause}"), style.width));
    out.extend(
        wrap(&line(&first.detail), style.width.saturating_sub(2))
            .iter()
            .map(|row| format!("  {row}")),
    );
    out.extend(
        entries(&change.removed, "-", style)
            .iter()
            .map(|row| style.red(row)),
    );
    out.extend(
        entries(&change.added, "+", style)
            .iter()
            .map(|row| style.green(row)),
    );
    out
}

fn entries(entries: &[String], sign: &str, style: &Style) -> Vec<String> {
    let most = if style.full { usize::MAX } else { MOST_ENTRIES };
    let mut out = Vec::new();
    for entry in entries.iter().take(most) {
        out.extend(style.rows(&format!("  {sign} {}", line(entry))));
    }
    if let Some(left @ 1..) = entries.len().checked_sub(most) {
        out.push(format!("  {sign} … {left} more"));
    }
    out
}
