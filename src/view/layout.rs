//! Fits a description on one row of the timeline.

use super::describe::{Description, Detail, DetailKind};
use super::text::{self, Text, columns, cut};

/// The text of a row, while it is laid out.
#[derive(Default)]
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
            ..Self::default()
        };
        let reserved = reserved(&described.rules).min(room / 2);
        row.room -= reserved;
        let facts = row.subject(described.subject, &described.facts);
        let mut details = described.details.into_iter().peekable();
        if let Some(input) = details.next_if(|detail| detail.kind == DetailKind::Input) {
            match row.fits(&input.text, columns(&facts) + 2) {
                true => row.push(&text::line(input.text.text.trim_end())),
                false => row.below.push(input),
            }
        }
        row.text.push_str(&facts);
        row.room = room;
        row.rules(&described.rules);
        for note in described.notes {
            match text::fits(&note, row.left().saturating_sub(2)) {
                true => row.push(&note),
                false => row.overflow.push(note),
            }
        }
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

    /// Puts the rules on the row, each in the first wording that leaves room for the others.
    fn rules(&mut self, rules: &[Vec<String>]) {
        for (at, wordings) in rules.iter().enumerate() {
            let others = reserved(&rules[at + 1..]);
            let left = self.left().saturating_sub(others + 2);
            match wordings.iter().find(|words| text::fits(words, left)) {
                Some(words) => self.push(words),
                None => {
                    if self.left() > 2 {
                        self.push("…");
                    }
                    if self.full {
                        self.overflow.extend(wordings.first().cloned());
                    }
                }
            }
        }
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
        if self.full {
            // The rest of the subject continues below the row.
            let first = text::wrap(&subject, left).into_iter().next();
            self.text = first.unwrap_or_default();
            let rest = subject.strip_prefix(self.text.as_str()).unwrap_or(&subject);
            let rest = (!rest.trim().is_empty()).then(|| rest.trim().to_owned());
            let is_cut = facts.ends_with('…') && facts != last;
            let facts = is_cut.then(|| last.trim().to_owned());
            self.overflow.extend(rest.into_iter().chain(facts));
        } else {
            self.text = cut(&subject, left).into_owned();
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

/// How many columns the rules need at least: a mark for each that is left out.
fn reserved(rules: &[Vec<String>]) -> usize {
    3 * rules.len()
}
