//! The text of `context`: a chart of the window's growth, and the results that cost most.

use std::collections::BTreeMap;

use super::stats::bar;
use super::style::Style;
use super::text::{cost, cut, line, pad, pad_left, plural, thousands};
use crate::inspect::context::{Carried, Compaction, ContextCall, ContextItem, Parts};

/// The chart has at most this many rows; neighboring calls share one then.
const ROWS: usize = 48;

/// How many results are listed.
const RESULTS: usize = 10;

/// The parts with their marks in the chart.
const MARKS: [(&str, char); 7] = [
    ("system", 's'),
    ("tools", 't'),
    ("user", 'u'),
    ("assistant", 'a'),
    ("tool_results", 'r'),
    ("summary", 'c'),
    ("other", '·'),
];

/// Collects what `context` shows, in bounded memory.
#[derive(Debug, Default)]
pub struct ContextChart {
    rows: Vec<ChartRow>,
    /// How many calls a row stands for.
    each: usize,
    /// How many calls the last row has.
    filled: usize,
    calls: u64,
    top: Vec<Carried>,
    tools: BTreeMap<String, Sum>,
}

/// The largest of some neighboring calls, or a compaction.
#[derive(Debug)]
enum ChartRow {
    Call(Box<ContextCall>),
    Compaction(Compaction),
}

#[derive(Clone, Debug, Default)]
struct Sum {
    results: u64,
    tokens: u64,
    usd: Option<f64>,
    partial: bool,
}

impl ContextChart {
    /// Takes what the fold found.
    pub fn take(&mut self, item: ContextItem) {
        match item {
            ContextItem::Call(call) => self.call(call),
            ContextItem::Compaction(compaction) => {
                self.rows.push(ChartRow::Compaction(compaction));
                self.filled = 0;
                self.shrink();
            }
            ContextItem::Carried(result) => self.carried(result),
        }
    }

    fn call(&mut self, call: Box<ContextCall>) {
        self.calls += 1;
        self.each = self.each.max(1);
        let size = |call: &ContextCall| call.input_tokens.unwrap_or(0);
        match self.rows.last_mut() {
            Some(ChartRow::Call(last)) if self.filled > 0 && self.filled < self.each => {
                self.filled += 1;
                if size(&call) > size(last) {
                    *last = call;
                }
            }
            _ => {
                self.rows.push(ChartRow::Call(call));
                self.filled = 1;
            }
        }
        self.shrink();
    }

    /// Joins neighbors if there are too many rows.
    fn shrink(&mut self) {
        if self.rows.len() <= 2 * ROWS {
            return;
        }
        let mut joined: Vec<ChartRow> = Vec::new();
        let mut single = false;
        for row in self.rows.drain(..) {
            match (joined.last_mut(), row) {
                (Some(ChartRow::Call(last)), ChartRow::Call(call)) if single => {
                    if call.input_tokens > last.input_tokens {
                        *last = call;
                    }
                    single = false;
                }
                // Of many compactions in a row the last one is kept.
                (Some(ChartRow::Compaction(last)), ChartRow::Compaction(next)) => *last = next,
                (_, row) => {
                    single = matches!(row, ChartRow::Call(_));
                    joined.push(row);
                }
            }
        }
        // Calls between compactions can't be joined further: the older half is left out.
        if joined.len() > 2 * ROWS - ROWS / 2 {
            joined.drain(..ROWS / 2);
        }
        self.rows = joined;
        self.each *= 2;
        self.filled = 0;
    }

    fn carried(&mut self, result: Carried) {
        let is_known = self.tools.contains_key(&result.tool) || self.tools.len() < 1_000;
        let tool = match is_known {
            true => result.tool.clone(),
            false => "(other tools)".to_owned(),
        };
        let sum = self.tools.entry(tool).or_default();
        sum.results += 1;
        sum.tokens += result.tokens;
        sum.partial |= result.partial && result.calls > 0;
        if let Some(usd) = result.usd {
            sum.usd = Some(sum.usd.unwrap_or(0.0) + usd);
        }
        if result.calls == 0 {
            return;
        }
        let at = self.top.partition_point(|one| one.tokens >= result.tokens);
        if at < RESULTS {
            self.top.insert(at, result);
            self.top.truncate(RESULTS);
        }
    }

    /// The chart, the tools and the results that cost most.
    pub fn lines(&self, style: &Style) -> Vec<String> {
        if self.calls == 0 {
            return vec!["No model call was recorded.".to_owned()];
        }
        let mut out = self.chart(style);
        if !self.top.is_empty() {
            out.push(String::new());
            out.extend(self.results(style));
        }
        out
    }

    fn chart(&self, style: &Style) -> Vec<String> {
        let legend = MARKS.map(|(name, mark)| format!("{mark} {}", name.replace('_', " ")));
        let mut out = vec![style.dim(&cut(&legend.join("  "), style.width))];
        let largest = self.rows.iter().map(|row| match row {
            ChartRow::Call(call) => call.input_tokens.unwrap_or(0).max(call.window.unwrap_or(0)),
            ChartRow::Compaction(_) => 0,
        });
        let most = largest.max().unwrap_or(0).max(1);
        let head = format!(
            "{}{}{}",
            pad("AT", 8),
            pad_left("TOKENS", 12),
            pad_left("CACHED", 8)
        );
        out.push(style.dim(&cut(&head, style.width)));
        for row in &self.rows {
            out.push(match row {
                ChartRow::Call(call) => call_row(call, most, style),
                ChartRow::Compaction(compaction) => compaction_row(compaction, style),
            });
        }
        let mut note = plural(self.calls, "model call");
        if self.each > 1 {
            note.push_str(&format!("; a row is the largest of up to {}", self.each));
        }
        note.push_str("; parts are estimated, see docs/inspecting.md");
        out.push(style.dim(&cut(&note, style.width)));
        out
    }

    fn results(&self, style: &Style) -> Vec<String> {
        let mut out = vec![style.bold("Carried tool results")];
        let mut tools: Vec<_> = self.tools.iter().collect();
        tools.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.tokens));
        let most = tools.first().map_or(0, |(_, sum)| sum.tokens);
        for (tool, sum) in tools.into_iter().take(RESULTS) {
            let row = format!(
                "  {} {} {} tokens {}",
                pad(&line(tool), 20),
                pad_left(&plural(sum.results, "result"), 13),
                pad_left(&thousands(sum.tokens), 13),
                pad_left(&dollars(sum.usd, sum.partial), 10),
            );
            let row = cut(&row, style.width).into_owned();
            let room = style.width.saturating_sub(super::text::columns(&row) + 2);
            let bar = bar(sum.tokens as f64, most as f64, room.min(20));
            out.push(format!("{row}  {}", style.cyan(&bar)).trim_end().to_owned());
        }
        out.push(style.bold("Most expensive"));
        for result in &self.top {
            let row = format!(
                "  {} {} {} bytes, {} × = {} tokens {}",
                pad(&result.address.to_string(), 9),
                pad(&line(&result.tool), 20),
                pad_left(&thousands(result.bytes), 10),
                plural(result.calls, "call"),
                thousands(result.tokens),
                dollars(result.usd, result.partial && result.calls > 0),
            );
            out.push(cut(&row, style.width).into_owned());
        }
        out
    }
}

fn dollars(usd: Option<f64>, partial: bool) -> String {
    match usd {
        Some(_) if partial => format!("≥{}", cost(usd)),
        usd => cost(usd),
    }
}

fn call_row(call: &ContextCall, most: u64, style: &Style) -> String {
    let tokens = call.input_tokens.map_or_else(|| "–".into(), thousands);
    let tokens = match call.estimated {
        true => format!("~{tokens}"),
        false => tokens,
    };
    let input = call.input_tokens.filter(|tokens| *tokens > 0);
    let cached = call.cached_tokens.zip(input);
    let cached = cached.map_or_else(
        || "–".into(),
        |(cached, input)| format!("{:.0}%", 100.0 * cached as f64 / input as f64),
    );
    let head = format!(
        "{}{}{}  ",
        pad(&call.address.to_string(), 8),
        pad_left(&tokens, 12),
        pad_left(&cached, 8)
    );
    let room = style.width.saturating_sub(super::text::columns(&head));
    let bar = match (&call.parts, &call.purpose) {
        (Some(parts), _) => stacked(parts, most, room),
        (None, Some(purpose)) => cut(&line(purpose), room).into_owned(),
        (None, None) => String::new(),
    };
    format!("{head}{bar}").trim_end().to_owned()
}

/// The parts of a context side by side, as long as the whole is of the largest one.
fn stacked(parts: &Parts, most: u64, room: usize) -> String {
    let scale = room as f64 / most as f64;
    let mut out = String::new();
    let (mut sum, mut drawn) = (0, 0);
    for ((_, tokens), (_, mark)) in parts.all().into_iter().zip(MARKS) {
        sum += tokens;
        let end = (sum as f64 * scale).round() as usize;
        out.extend(std::iter::repeat_n(mark, end.saturating_sub(drawn)));
        drawn = drawn.max(end);
    }
    out
}

fn compaction_row(compaction: &Compaction, style: &Style) -> String {
    let address = pad(&compaction.address.to_string(), 8);
    let (before, after) = (thousands(compaction.before), thousands(compaction.after));
    let text = format!("{address}  compaction: ~{before} → ~{after}");
    style.yellow(&cut(&text, style.width))
}
