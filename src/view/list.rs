//! The table of `list`.

use std::path::Path;

use super::header::{implicit_text, paint_status};
use super::style::Style;
use super::text::{columns, columns_of, cost, cut, cut_id, line, pad, thousands, wrap};
use crate::session::{Entry, Summary};

/// From this width on a session is one row; below, its title and message have a second one.
const WIDE: usize = 130;

/// Sessions as a table: a head, and the rows of each session.
#[derive(Debug)]
pub struct SessionTable<'a> {
    style: &'a Style,
    /// With a row for the trace id and the directory of each.
    long: bool,
    id_width: usize,
    shown: [bool; 6],
}

impl<'a> SessionTable<'a> {
    /// The column of ids is as wide as those of `first` need, each with how deep it is indented.
    pub fn new<'b>(
        first: impl Iterator<Item = (usize, &'b Entry)>,
        long: bool,
        style: &'a Style,
    ) -> Self {
        let longest = first.map(|(depth, entry)| columns(&id(depth, entry))).max();
        // The width that the other columns leave, so that an id can be copied.
        let most = match style.width >= WIDE {
            true => 36,
            false => style.width.saturating_sub(ROW).clamp(27, 36),
        };
        let id_width = longest.unwrap_or(0).clamp(8, most);
        Self {
            style,
            long,
            id_width,
            shown: shown(style.width.saturating_sub(id_width + 12)),
        }
    }

    /// The names of the columns.
    pub fn head(&self) -> String {
        let heads = ["TURNS", "TOOLS", "ERR", "TOKENS", "COST", "AGE"].map(str::to_owned);
        let (name, status) = (pad("SESSION", self.id_width), pad("STATUS", 11));
        let mut head = row(&name, &status, &heads, &self.shown);
        if self.style.width >= WIDE {
            head.push_str(&words("AGENT", "MODEL", "TITLE · FIRST MESSAGE"));
        }
        self.style.dim(&cut(head.trim_end(), self.style.width))
    }

    /// Which root this is, and how to see where each session is.
    pub fn foot(&self, root: &Path) -> Vec<String> {
        let root = root.to_string_lossy();
        let text = match self.long {
            true => format!("Root {root}"),
            false => format!("Root {root}; --long adds trace ids and directories"),
        };
        let rows = wrap(&line(&text), self.style.width);
        rows.iter().map(|row| self.style.dim(row)).collect()
    }

    /// The rows of a session, indented as a tree of subagents is.
    pub fn rows(&self, depth: usize, entry: &Entry) -> Vec<String> {
        let (style, id_width) = (self.style, self.id_width);
        let status = paint_status(entry.status, &pad(entry.status.as_str(), 11), style);
        let name = pad(&cut_id(&id(depth, entry), id_width), id_width);
        let numbers = numbers(&entry.summary, style);
        let mut text = row(&name, &status, &numbers, &self.shown);
        let about = about(&entry.summary);
        let indent = "  ".repeat(depth + 1);
        let mut out = Vec::new();
        if style.width >= WIDE {
            let used = id_width + 12 + NUMBERS.iter().map(|width| width + 1).sum::<usize>();
            text.push_str(&cut(&about, style.width.saturating_sub(used)));
            out.push(text.trim_end().to_owned());
        } else {
            out.push(text.trim_end().to_owned());
            let about = cut(&about, style.width.saturating_sub(indent.len()));
            out.push(format!("{indent}{}", style.dim(about.trim_end())));
        }
        if self.long {
            let trace = entry.summary.trace_id.as_deref().unwrap_or("–");
            let dir = entry.dir.to_string_lossy();
            for (name, text) in [("trace", trace), ("files", &*dir)] {
                out.push(style.dim(&format!("{indent}{name} {}", line(text))));
            }
        }
        out
    }
}

fn id(depth: usize, entry: &Entry) -> String {
    format!("{}{}", "  ".repeat(depth), line(&entry.summary.session_id))
}

fn numbers(summary: &Summary, style: &Style) -> [String; 6] {
    let totals = summary.totals();
    let tokens = match (totals.usage.input_tokens, totals.usage.output_tokens) {
        (None, None) => "–".into(),
        (input, output) => thousands(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
    };
    [
        totals.turns.to_string(),
        totals.tool_calls.to_string(),
        totals.errors.to_string(),
        tokens,
        cost(totals.usage.cost_usd),
        style.ago(summary.last),
    ]
}

/// Agent, model, title and first message.
fn about(summary: &Summary) -> String {
    let word = |text: &Option<String>| line(text.as_deref().unwrap_or("–")).into_owned();
    let texts = [&summary.title, &summary.first_message]
        .into_iter()
        .flatten();
    let texts = texts.map(|text| line(text));
    let implicit = implicit_text(summary).map(|text| format!("implicit, {text}").into());
    let texts: Vec<_> = implicit.into_iter().chain(texts).collect();
    words(
        &word(&summary.agent),
        &word(&summary.model_id),
        &texts.join(" · "),
    )
}

/// The widths of the columns with numbers.
const NUMBERS: [usize; 6] = [5, 5, 3, 9, 8, 4];

/// The width of a row without its id: the status and the numbers.
const ROW: usize = 12 + 40;

/// Which numbers have room, the most important first: age, errors, cost, turns.
fn shown(mut room: usize) -> [bool; 6] {
    let mut shown = [false; 6];
    for at in [5, 2, 4, 0, 3, 1] {
        shown[at] = NUMBERS[at] < room;
        room -= if shown[at] { NUMBERS[at] + 1 } else { 0 };
    }
    shown
}

fn row(id: &str, status: &str, numbers: &[String; 6], shown: &[bool; 6]) -> String {
    let cells = numbers.iter().zip(NUMBERS).zip(shown);
    let cells = cells.filter_map(|(cell, shown)| shown.then_some(cell));
    format!("{id} {status} {}", columns_of(cells))
}

fn words(agent: &str, model: &str, message: &str) -> String {
    format!("{} {} {message}", pad(agent, 12), pad(model, 20))
}
