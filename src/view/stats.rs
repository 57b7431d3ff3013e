//! The text of `stats`: a table with bars, and CSV.

use super::csv;
use super::style::Style;
use super::text::{
    columns, cost, count, cut, cut_id, duration, line, pad, pad_left, plural, thousands,
};
use crate::cost::Cost;
use crate::inspect::Quantiles;
use crate::inspect::stats::{By, StatsReport, StatsRow};

/// A column: its head, the text of a row, and how early it is left out where there is no room; 0 for never.
struct Column {
    head: &'static str,
    text: fn(&StatsRow) -> String,
    less: u8,
}

/// Dollars; `~` before a sum that list prices are part of, `≥` before one that lacks calls of unknown cost.
pub fn cost_sum(sum: &Cost) -> String {
    let Some(usd) = sum.usd() else {
        return cost(None);
    };
    let partial = if sum.is_partial() { "≥" } else { "" };
    let priced = if sum.priced > 0 { "~" } else { "" };
    format!("{partial}{priced}{}", cost(Some(usd)))
}

/// Where a sum comes from: what was recorded, or list prices.
pub(super) fn cost_source(sum: &Cost) -> String {
    match (sum.recorded, sum.priced) {
        (0, 0) => String::new(),
        (_, 0) => ", as recorded".to_owned(),
        (0, _) => ", by list prices".to_owned(),
        (recorded, _) => format!(
            ", {} as recorded, others by list prices",
            thousands(recorded)
        ),
    }
}

fn time(times: &Quantiles, part: f64) -> String {
    times.at(part).map_or_else(|| "–".into(), duration)
}

fn none(n: u64) -> String {
    match n {
        0 => "·".into(),
        n => thousands(n),
    }
}

fn cached(row: &StatsRow) -> String {
    let rate = row.cache_rate();
    rate.map_or_else(|| "–".into(), |rate| format!("{:.0}%", rate * 100.0))
}

fn waited(row: &StatsRow) -> String {
    match row.waited {
        0 => "·".into(),
        ns => duration(ns),
    }
}

const fn column(head: &'static str, less: u8, text: fn(&StatsRow) -> String) -> Column {
    Column { head, text, less }
}

const MODEL: [Column; 9] = [
    column("CALLS", 0, |row| thousands(row.model_calls)),
    column("INPUT", 0, |row| count(row.usage.input_tokens)),
    column("CACHED", 2, cached),
    column("OUTPUT", 0, |row| count(row.usage.output_tokens)),
    column("COST", 0, |row| cost_sum(&row.cost)),
    column("P50", 1, |row| time(&row.model_time, 0.5)),
    column("P95", 1, |row| time(&row.model_time, 0.95)),
    column("TTFT", 3, |row| time(&row.first_token, 0.5)),
    column("ERR", 0, |row| none(row.errors)),
];

const TOOL: [Column; 6] = [
    column("CALLS", 0, |row| thousands(row.tool_calls)),
    column("P50", 1, |row| time(&row.tool_time, 0.5)),
    column("P95", 1, |row| time(&row.tool_time, 0.95)),
    column("DENIED", 0, |row| none(row.denials)),
    column("WAITED", 2, waited),
    column("ERR", 0, |row| none(row.errors)),
];

const BOTH: [Column; 12] = [
    column("SESSIONS", 6, |row| thousands(row.sessions)),
    column("TURNS", 4, |row| thousands(row.turns)),
    column("MODEL", 0, |row| thousands(row.model_calls)),
    column("TOOL", 0, |row| thousands(row.tool_calls)),
    column("INPUT", 1, |row| count(row.usage.input_tokens)),
    column("CACHED", 3, cached),
    column("OUTPUT", 1, |row| count(row.usage.output_tokens)),
    column("COST", 0, |row| cost_sum(&row.cost)),
    column("P95", 5, |row| time(&row.model_time, 0.95)),
    column("DENIED", 3, |row| none(row.denials)),
    column("WAITED", 2, waited),
    column("ERR", 0, |row| none(row.errors)),
];

/// What the bars compare: cost where any is known, else calls.
fn weight(row: &StatsRow, by_cost: bool) -> f64 {
    match by_cost {
        true => row.cost.usd().unwrap_or(0.0),
        false => row.calls() as f64,
    }
}

/// The statistics as a table: a row for each key with a bar, and a total. Without keys, the total as a list.
pub fn stats(report: &StatsReport, style: &Style) -> Vec<String> {
    let Some(by) = report.by else {
        return total(&report.total, style);
    };
    let columns_shown: &[Column] = match by {
        By::Model => &MODEL,
        By::Tool => &TOOL,
        _ => &BOTH,
    };
    // What is about another thing than the rows is not in their total.
    let mut sum = StatsRow::default();
    report.rows.iter().for_each(|(_, row)| sum.merge(row));
    let mut out = table(report, by, columns_shown, &sum, style);
    out.extend(unknown_note(&sum.cost, style));
    out
}

fn unknown_note(cost: &Cost, style: &Style) -> Option<String> {
    let unknown = plural(cost.unknown, "model call");
    let note = format!("The cost of {unknown} is not known.");
    cost.is_partial()
        .then(|| style.dim(&cut(&note, style.width)))
}

/// A column with its text in each row.
struct FilledColumn<'a> {
    column: &'a Column,
    cells: Vec<String>,
    width: usize,
}

/// The columns that fit into `width`: the least important ones are left out first.
fn fitting<'a>(
    wanted: &'a [Column],
    rows: &[(&str, &StatsRow)],
    width: usize,
) -> Vec<FilledColumn<'a>> {
    let filled = wanted.iter().map(|column| {
        let cells: Vec<_> = rows.iter().map(|(_, row)| (column.text)(row)).collect();
        let widest = cells.iter().map(|cell| columns(cell)).max().unwrap_or(0);
        let width = widest.max(column.head.len()) + 2;
        FilledColumn {
            column,
            cells,
            width,
        }
    });
    let mut shown: Vec<_> = filled.collect();
    while shown.iter().map(|filled| filled.width).sum::<usize>() > width {
        let less = shown.iter().map(|filled| filled.column.less).max();
        let Some(less) = less.filter(|less| *less > 0) else {
            break;
        };
        shown.retain(|filled| filled.column.less != less);
    }
    shown
}

fn table(
    report: &StatsReport,
    by: By,
    wanted: &[Column],
    sum: &StatsRow,
    style: &Style,
) -> Vec<String> {
    let keys = report.rows.iter().map(|(key, row)| (key.as_str(), row));
    let rows: Vec<(&str, &StatsRow)> = keys.chain([("total", sum)]).collect();
    let head = by.as_str().to_uppercase();
    let longest = rows.iter().map(|(key, _)| columns(&line(key))).max();
    let key_width = longest.unwrap_or(0).max(head.len()).clamp(5, 36);
    let shown = fitting(wanted, &rows, style.width.saturating_sub(key_width));
    let used = key_width + shown.iter().map(|column| column.width).sum::<usize>();
    let bar_width = style.width.saturating_sub(used + 2).min(24);
    let by_cost = by != By::Tool && sum.cost.usd().is_some();
    let weights = report.rows.iter().map(|(_, row)| weight(row, by_cost));
    let most = weights.fold(0.0, f64::max);
    let heads = shown.iter().map(|c| pad_left(c.column.head, c.width));
    let head = pad(&head, key_width) + &heads.collect::<String>();
    let mut out = vec![style.dim(&cut(&head, style.width))];
    for (at, (key, row)) in rows.iter().enumerate() {
        let safe = line(key);
        let key = match by {
            By::Session => cut_id(&safe, key_width),
            _ => cut(&safe, key_width),
        };
        let cells = shown.iter().map(|c| pad_left(&c.cells[at], c.width));
        let text = pad(&key, key_width) + &cells.collect::<String>();
        let text = cut(&text, style.width);
        if at + 1 == rows.len() {
            out.push(style.bold(&text));
        } else {
            let bar = match bar_width < 4 {
                true => String::new(),
                false => bar(weight(row, by_cost), most, bar_width),
            };
            out.push(
                format!("{text}  {}", style.cyan(&bar))
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    out
}

/// A row as a list.
fn total(row: &StatsRow, style: &Style) -> Vec<String> {
    let times = |times: &Quantiles| {
        let [p50, p95] = [0.5, 0.95].map(|part| time(times, part));
        format!("p50 {p50}, p95 {p95}")
    };
    let usage = &row.usage;
    let mut sessions = thousands(row.sessions);
    if row.subagents > 0 {
        sessions.push_str(&format!(", and {}", plural(row.subagents, "subagent")));
    }
    let calls = |n: u64, of: &Quantiles| format!("{}, {}", thousands(n), times(of));
    let list = [
        ("sessions", sessions),
        ("turns", thousands(row.turns)),
        ("model calls", calls(row.model_calls, &row.model_time)),
        ("first token", times(&row.first_token)),
        ("tool calls", calls(row.tool_calls, &row.tool_time)),
        (
            "input",
            format!(
                "{} tokens, {} cached",
                count(usage.input_tokens),
                cached(row)
            ),
        ),
        ("output", format!("{} tokens", count(usage.output_tokens))),
        ("cost", cost_sum(&row.cost) + &cost_source(&row.cost)),
        ("errors", none(row.errors)),
        ("denials", none(row.denials)),
        ("waited", waited(row)),
    ];
    let rows = list.into_iter();
    let rows = rows.map(|(name, text)| style.named(name, &text));
    rows.chain(unknown_note(&row.cost, style)).collect()
}

/// A bar of eighths of a column.
pub(super) fn bar(value: f64, most: f64, width: usize) -> String {
    if most <= 0.0 || value <= 0.0 {
        return String::new();
    }
    let eighths = ((value / most).min(1.0) * (width * 8) as f64)
        .round()
        .max(1.0) as usize;
    let mut bar = "█".repeat(eighths / 8);
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    bar.push_str(part);
    bar
}

/// The statistics as CSV: a head, and a record for each row, or for the total if there are no rows. Durations are in
/// milliseconds; an unknown value is empty.
pub fn stats_csv(report: &StatsReport) -> Vec<String> {
    let key = report.by.map_or("all", By::as_str);
    let mut head = vec![key.to_owned()];
    let mut records = Vec::new();
    let all = [("total".to_owned(), report.total.clone())];
    let rows = match report.by {
        Some(_) => &report.rows[..],
        None => &all[..],
    };
    let names = flat(&StatsRow::default());
    head.extend(names.into_iter().map(|(name, _)| name));
    records.push(csv::record(&head));
    for (key, row) in rows {
        let values = flat(row).into_iter().map(|(_, value)| value);
        let record: Vec<String> = std::iter::once(key.clone()).chain(values).collect();
        records.push(csv::record(&record));
    }
    records
}

/// The members of a row's JSON, those of objects by their joined names.
fn flat(row: &StatsRow) -> Vec<(String, String)> {
    fn add(name: &str, value: &serde_json::Value, out: &mut Vec<(String, String)>) {
        match value {
            serde_json::Value::Object(members) => {
                for (inner, value) in members {
                    add(&format!("{name}_{inner}"), value, out);
                }
            }
            serde_json::Value::Null => out.push((name.to_owned(), String::new())),
            value => out.push((name.to_owned(), value.to_string())),
        }
    }
    let mut out = Vec::new();
    if let serde_json::Value::Object(members) = row.to_json() {
        for (name, value) in &members {
            add(name, value, &mut out);
        }
    }
    out
}
