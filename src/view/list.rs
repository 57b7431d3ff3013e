//! The table of `list`.

use super::header::paint_status;
use super::style::Style;
use super::text::{columns, cost, cut, line, pad, pad_left, thousands};
use crate::session::Entry;

/// From this width on a session is one row; below, its words go to a second one.
const WIDE: usize = 130;

/// Sessions as a table: each entry with how deep it is indented, as a tree of subagents is.
pub fn list(entries: &[(usize, &Entry)], style: &Style) -> Vec<String> {
    let wide = style.width >= WIDE;
    let id = |depth: usize, entry: &Entry| {
        format!("{}{}", "  ".repeat(depth), line(&entry.summary.session_id))
    };
    let longest = entries
        .iter()
        .map(|(depth, entry)| columns(&id(*depth, entry)))
        .max();
    let id_width = longest.unwrap_or(0).clamp(8, if wide { 36 } else { 27 });

    let heads = ["STATUS", "TURNS", "TOOLS", "ERR", "TOKENS", "COST", "AGE"];
    let mut head = row(&pad("SESSION", id_width), &pad(heads[0], 11), &heads[1..]);
    if wide {
        head.push_str(&words("AGENT", "MODEL", "TITLE · FIRST MESSAGE"));
    }
    let mut out = vec![style.dim(cut(&head, style.width).trim_end())];
    for (depth, entry) in entries {
        let summary = &entry.summary;
        let totals = summary.totals();
        let tokens = match (totals.usage.input_tokens, totals.usage.output_tokens) {
            (None, None) => "–".into(),
            (input, output) => thousands(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        };
        let numbers = [
            totals.turns.to_string(),
            totals.tool_calls.to_string(),
            totals.errors.to_string(),
            tokens,
            cost(totals.usage.cost_usd),
            style.ago(summary.last),
        ];
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let status = paint_status(entry.status, &pad(entry.status.as_str(), 11), style);
        let mut text = row(&pad(&id(*depth, entry), id_width), &status, &numbers);
        let word = |text: &Option<String>| line(text.as_deref().unwrap_or("–")).into_owned();
        let said = [&summary.title, &summary.first_message];
        let said: Vec<_> = said.into_iter().flatten().map(|text| line(text)).collect();
        let message = said.join(" · ");
        let said = words(&word(&summary.agent), &word(&summary.model_id), &message);
        if wide {
            let used = id_width + 12 + NUMBERS.iter().map(|width| width + 1).sum::<usize>();
            text.push_str(&cut(&said, style.width.saturating_sub(used)));
            out.push(text.trim_end().to_owned());
        } else {
            out.push(text.trim_end().to_owned());
            let indent = "  ".repeat(depth + 1);
            let room = style.width.saturating_sub(indent.len());
            out.push(format!(
                "{indent}{}",
                style.dim(cut(&said, room).trim_end())
            ));
        }
    }
    out
}

/// The widths of the columns with numbers.
const NUMBERS: [usize; 6] = [5, 5, 3, 9, 8, 4];

fn row(id: &str, status: &str, numbers: &[&str]) -> String {
    let mut text = format!("{id} {status} ");
    for (number, width) in numbers.iter().zip(NUMBERS) {
        text.push_str(&pad_left(number, width));
        text.push(' ');
    }
    text
}

fn words(agent: &str, model: &str, message: &str) -> String {
    format!("{} {} {message}", pad(agent, 12), pad(model, 20))
}
