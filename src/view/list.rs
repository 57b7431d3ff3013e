//! The table of `list`.

use super::header::paint_status;
use super::style::Style;
use super::text::{cost, line, pad, pad_left, thousands};
use crate::session::Entry;

/// Sessions as a table: the entries with how deep each is indented, as a tree of subagents is.
pub fn list(entries: &[(usize, &Entry)], style: &Style) -> Vec<String> {
    let id_width = entries
        .iter()
        .map(|(depth, entry)| 2 * depth + line(&entry.summary.session_id).chars().count())
        .max()
        .unwrap_or(0)
        .clamp(10, 32);
    let wide = style.width >= 120;
    let mut out = Vec::new();
    let mut head = format!(
        "{} {} {} {} {} {} {} {} ",
        pad("SESSION", id_width),
        pad("STATUS", 11),
        pad_left("TURNS", 5),
        pad_left("TOOLS", 5),
        pad_left("ERR", 3),
        pad_left("TOKENS", 9),
        pad_left("COST", 8),
        pad_left("AGE", 4),
    );
    if wide {
        head.push_str(&format!("{} {} ", pad("AGENT", 14), pad("MODEL", 22)));
    }
    head.push_str("FIRST MESSAGE");
    out.push(style.dim(&super::text::cut(&head, style.width)));
    for (depth, entry) in entries {
        let summary = &entry.summary;
        let totals = summary.totals();
        let tokens = match (totals.usage.input_tokens, totals.usage.output_tokens) {
            (None, None) => "–".into(),
            (input, output) => thousands(input.unwrap_or(0) + output.unwrap_or(0)),
        };
        let id = format!("{}{}", "  ".repeat(*depth), line(&summary.session_id));
        let status = entry.status.as_str();
        let mut row = format!(
            "{} {} {} {} {} {} {} {} ",
            pad(&id, id_width),
            paint_status(entry.status, &pad(status, 11), style),
            pad_left(&totals.turns.to_string(), 5),
            pad_left(&totals.tool_calls.to_string(), 5),
            pad_left(&totals.errors.to_string(), 3),
            pad_left(&tokens, 9),
            pad_left(&cost(totals.usage.cost_usd), 8),
            pad_left(&style.ago(summary.last), 4),
        );
        let mut used = id_width + 11 + 5 + 5 + 3 + 9 + 8 + 4 + 8;
        let word = |text: &Option<String>| line(text.as_deref().unwrap_or("–")).into_owned();
        if wide {
            let (agent, model) = (word(&summary.agent), word(&summary.model_id));
            row.push_str(&format!("{} {} ", pad(&agent, 14), pad(&model, 22)));
            used += 14 + 22 + 2;
        }
        let message = summary.title.as_ref().or(summary.first_message.as_ref());
        let message = line(message.map_or("", String::as_str));
        row.push_str(&super::text::cut(
            &message,
            style.width.saturating_sub(used).max(8),
        ));
        out.push(row.trim_end().to_owned());
    }
    out
}
