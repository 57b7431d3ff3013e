//! Fits a description on one row of the timeline.

use super::describe::{Description, Detail, DetailKind};
use super::text::{self, Text, columns, cut};

/// The text of a row, while it is laid out.
pub(super) struct Layout {
    /// How many columns the row has for it.
    room: usize,
    /// Whether nothing may be hidden.
    full: bool,
    /// The row.
    pub text: String,
    /// Text that has no room on the row and must not be hidden.
    pub overflow: Vec<String>,
    /// The details below the row.
    pub below: Vec<Detail>,
}

impl Layout {
    /// Puts on a row what has room: the subject, the input, the facts, the extras, then the output.
    pub fn new(described: Description, room: usize, full: bool) -> Self {
        let mut row = Self {
            room,
            full,
            text: String::new(),
            overflow: Vec::new(),
            below: Vec::new(),
        };
        let facts = row.subject(described.subject, &described.facts);
        let mut details = described.details.into_iter().peekable();
        if let Some(input) = details.next_if(|detail| detail.kind == DetailKind::Input) {
            match row.fits(&input.text, columns(&facts) + 2) {
                true => row.push(&text::line(input.text.text.trim_end())),
                false => row.below.push(input),
            }
        }
        row.text.push_str(&facts);
        for extra in &described.extras {
            let left = row.left().saturating_sub(2);
            match extra.iter().find(|words| text::fits(words, left)) {
                Some(words) => row.push(words),
                None if full => row.overflow.extend(extra.first().cloned()),
                None => {}
            }
        }
        // Output goes on the row only if no input is below it.
        let fits = |row: &Self, detail: &Detail| {
            !full && row.below.is_empty() && row.fits(&detail.text, 4)
        };
        while let Some(detail) = details.next_if(|detail| fits(&row, detail)) {
            let text = text::line(detail.text.text.trim_end());
            row.push(&format!("{} {text}", detail.kind.mark()));
        }
        row.below.extend(details);
        row
    }

    /// Puts the subject on the row, cut so that the facts have room. Returns the wording of the facts.
    fn subject(&mut self, subject: String, facts: &[String]) -> String {
        let named = columns(&cut(&subject, self.room + 1));
        let last = facts.last().map_or("", String::as_str);
        let room = self.room.saturating_sub(named);
        let fitting = facts.iter().find(|facts| text::fits(facts, room));
        let facts = fitting.map_or(last, String::as_str);
        let facts = cut(facts, self.room.saturating_sub(named.min(8)));
        let left = self.room.saturating_sub(columns(&facts));
        self.text = cut(&subject, left).into_owned();
        if self.full {
            let subject = (!text::fits(&subject, left)).then_some(subject);
            let is_cut = facts.ends_with('…') && facts != last;
            let facts = is_cut.then(|| last.trim().to_owned());
            self.overflow.extend(subject.into_iter().chain(facts));
        }
        facts.into_owned()
    }

    fn push(&mut self, text: &str) {
        self.text.push_str("  ");
        self.text.push_str(text);
    }

    /// How many columns are left.
    pub fn left(&self) -> usize {
        self.room.saturating_sub(columns(&self.text))
    }

    /// Whether a text fits on the row, with so many columns beside it.
    fn fits(&self, text: &Text, beside: usize) -> bool {
        let short = text.elsewhere.is_none() && !text.text.trim_end().contains('\n');
        let left = self.left().saturating_sub(beside);
        short && text.text.len() < 8 * self.room && text::fits(&text::line(&text.text), left)
    }
}
