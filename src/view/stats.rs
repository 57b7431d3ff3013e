//! The text of `stats`: a table with bars, and CSV.

use super::csv;
use super::style::Style;
use super::text::{columns, cost, count, cut, cut_id, duration, line, pad, pad_left, thousands};
use crate::cost::Cost;
use crate::inspect::Quantiles;
use crate::inspect::stats::{By, Report, Row};

/// A column: its head, and the text of a row.
type Column = (&'static str, fn(&Row) -> String);

/// Dollars; `≥` before a sum that lacks calls of unknown cost.
pub fn cost_sum(sum: &Cost) -> String {
    match sum.usd() {
        Some(_) if sum.is_partial() => format!("≥{}", cost(sum.usd())),
        usd => cost(usd),
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

const MODEL: &[Column] = &[
    ("CALLS", |row| thousands(row.model_calls)),
    ("INPUT", |row| count(row.usage.input_tokens)),
    ("CACHED", |row| {
        let rate = row.cache_rate();
        rate.map_or_else(|| "–".into(), |rate| format!("{:.0}%", rate * 100.0))
    }),
    ("OUTPUT", |row| count(row.usage.output_tokens)),
    ("COST", |row| cost_sum(&row.cost)),
    ("P50", |row| time(&row.model_time, 0.5)),
    ("P95", |row| time(&row.model_time, 0.95)),
    ("TTFT", |row| time(&row.first_token, 0.5)),
];

const TOOL: &[Column] = &[
    ("TOOLS", |row| thousands(row.tool_calls)),
    ("P50", |row| time(&row.tool_time, 0.5)),
    ("P95", |row| time(&row.tool_time, 0.95)),
    ("DENIED", |row| none(row.denials)),
    ("WAITED", |row| match row.waited {
        0 => "·".into(),
        ns => duration(ns),
    }),
];

const SESSIONS: &[Column] = &[
    ("SESSIONS", |row| thousands(row.sessions)),
    ("TURNS", |row| thousands(row.turns)),
];

const ERRORS: &[Column] = &[("ERR", |row| none(row.errors))];

fn columns_of(by: Option<By>) -> Vec<Column> {
    let parts: &[&[Column]] = match by {
        Some(By::Model) => &[MODEL, ERRORS],
        Some(By::Tool) => &[TOOL, ERRORS],
        Some(By::Session) => &[&SESSIONS[1..], MODEL, TOOL, ERRORS],
        _ => &[SESSIONS, MODEL, TOOL, ERRORS],
    };
    parts.concat()
}

/// What the bars compare: cost where any is known, else calls.
fn weight(row: &Row, by_cost: bool) -> f64 {
    match by_cost {
        true => row.cost.usd().unwrap_or(0.0),
        false => row.calls() as f64,
    }
}

/// The statistics as a table: a total, and a row for each key with a bar.
pub fn stats(report: &Report, style: &Style) -> Vec<String> {
    let mut rows: Vec<(&str, &Row)> = Vec::new();
    rows.extend(report.rows.iter().map(|(key, row)| (key.as_str(), row)));
    rows.push(("total", &report.total));
    let columns_shown = columns_of(report.by);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|(_, row)| columns_shown.iter().map(|(_, text)| text(row)).collect())
        .collect();
    let widths: Vec<usize> = columns_shown
        .iter()
        .enumerate()
        .map(|(at, (head, _))| {
            let widest = cells.iter().map(|row| columns(&row[at])).max();
            widest.unwrap_or(0).max(head.len())
        })
        .collect();
    let head = report.by.map_or("", By::as_str).to_uppercase();
    let longest = rows.iter().map(|(key, _)| columns(&line(key))).max();
    let key_width = longest.unwrap_or(0).max(head.len()).clamp(5, 36);
    let used: usize = key_width + widths.iter().map(|width| width + 2).sum::<usize>();
    let bar_width = style.width.saturating_sub(used + 2).min(24);
    let by_cost = report.by != Some(By::Tool) && report.total.cost.usd().is_some();
    let most = report.rows.iter().map(|(_, row)| weight(row, by_cost));
    let most = most.fold(0.0, f64::max);

    let joined = |key: String, cells: &[String]| {
        let cells = cells.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("  {}", pad_left(cell, *width)));
        format!("{key}{}", cells.collect::<String>())
    };
    let heads: Vec<String> = columns_shown.iter().map(|(h, _)| (*h).to_owned()).collect();
    let head = joined(pad(&head, key_width), &heads);
    let mut out = vec![style.dim(&cut(&head, style.width))];
    for ((key, row), cells) in rows.iter().zip(&cells) {
        let safe = line(key);
        let key = match report.by {
            Some(By::Session) => cut_id(&safe, key_width),
            _ => cut(&safe, key_width),
        };
        let text = cut(&joined(pad(&key, key_width), cells), style.width).into_owned();
        let is_total = std::ptr::eq(*row, &report.total);
        let bar = match is_total || bar_width < 4 {
            true => String::new(),
            false => bar(weight(row, by_cost), most, bar_width),
        };
        let text = match is_total && report.by.is_some() {
            true => style.bold(&text),
            false => text,
        };
        let text = format!("{text}  {}", style.cyan(&bar));
        out.push(text.trim_end().to_owned());
    }
    if report.total.cost.is_partial() {
        let unknown = thousands(report.total.cost.unknown);
        let note = format!("≥: the cost of {unknown} model calls is not known");
        out.push(style.dim(&cut(&note, style.width)));
    }
    out
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
pub fn stats_csv(report: &Report) -> Vec<String> {
    let key = report.by.map_or("all", By::as_str);
    let mut head = vec![key.to_owned()];
    let mut records = Vec::new();
    let all = [("total".to_owned(), report.total.clone())];
    let rows = match report.by {
        Some(_) => &report.rows[..],
        None => &all[..],
    };
    let names = flat(&Row::default());
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
fn flat(row: &Row) -> Vec<(String, String)> {
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
