//! A transcript as Markdown.
//!
//! Texts of a session are in fenced blocks, with fences that no line of them can close, and the few words outside are
//! escaped: a viewer finds no link, no image and no HTML in them.

use std::io::{self, Write};

use super::super::attempts::{metrics_text, summary_text};
use super::super::text::{join, line};
use super::super::timeline::hidden_text;
use super::escape::path_url;
use super::page::{Body, Figure, Figures, Head, Look, Page, Row, TurnHead};
use crate::inspect::{Attempt, Attempts};
use crate::session::HiddenNodes;
use crate::trace::Damage;

pub(super) struct Markdown<'a> {
    out: &'a mut dyn Write,
    /// How deep in the list of rows.
    depth: usize,
    /// How deep in subagents.
    subagents: usize,
}

impl<'a> Markdown<'a> {
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            depth: 0,
            subagents: 0,
        }
    }

    /// The beginning of a line that belongs to the row at this depth.
    fn indent(&self) -> String {
        "  ".repeat(self.depth)
    }

    /// A paragraph inside the row.
    fn paragraph(&mut self, text: &str) -> io::Result<()> {
        let indent = self.indent();
        writeln!(self.out, "\n{indent}{text}")
    }

    /// A text in a fenced block, each line indented as the row's text is.
    fn fence(&mut self, name: &str, body: &Body) -> io::Result<()> {
        let indent = self.indent();
        let fence = "`".repeat(longest_run(&body.text).max(2) + 1);
        let named = if name.is_empty() { "" } else { " " };
        writeln!(self.out, "\n{indent}{fence}text{named}{name}")?;
        for text in body.text.split('\n') {
            let text = line(text.strip_suffix('\r').unwrap_or(text));
            writeln!(self.out, "{}", format!("{indent}{text}").trim_end())?;
        }
        writeln!(self.out, "{indent}{fence}")?;
        match &body.note {
            Some(note) => self.paragraph(&format!("*… {}*", escaped(note))),
            None => Ok(()),
        }
    }

    fn figure(&mut self, figure: &Figure) -> io::Result<()> {
        if let (Some(file), Some(_)) = (&figure.file, &figure.image) {
            let alt = escaped(&figure.path);
            self.paragraph(&format!("![{alt}]({})", path_url(file)))?;
        } else if let Some(file) = &figure.file {
            self.paragraph(&format!("[{}]({})", escaped(&figure.path), path_url(file)))?;
        }
        if let Some(note) = &figure.note {
            self.paragraph(&format!("*{}*", escaped(note)))?;
        }
        match &figure.code {
            Some(code) => self.fence("code", code),
            None => Ok(()),
        }
    }

    fn attempt(&mut self, depth: usize, attempt: &Attempt, figures: Figures<'_>) -> io::Result<()> {
        let indent = self.indent();
        let rationale = attempt.rationale.as_deref().map(|why| escaped(&line(why)));
        let rationale = rationale.map(|why| format!(" {why}")).unwrap_or_default();
        let (id, address) = (escaped(&line(&attempt.id)), attempt.address);
        writeln!(self.out, "{indent}- **{id}**{rationale} `{address}`")?;
        self.depth += 1;
        for text in [metrics_text(attempt), summary_text(attempt, depth)]
            .into_iter()
            .flatten()
        {
            self.paragraph(&escaped(&text))?;
        }
        if let Some(artifact) = &attempt.artifact {
            let path = escaped(&line(&artifact.path));
            self.paragraph(&format!("figure {path} `{}`", artifact.address))?;
            self.figure(&figures(artifact))?;
        }
        self.depth -= 1;
        Ok(())
    }
}

impl Page for Markdown<'_> {
    fn head(&mut self, head: &Head) -> io::Result<()> {
        writeln!(self.out, "# {}\n", escaped(&head.title))?;
        for fact in head.facts.iter().filter(|fact| !fact.text.is_empty()) {
            writeln!(self.out, "- {}: {}", fact.name, escaped(&fact.text))?;
        }
        if let Some(only) = head.only {
            writeln!(self.out, "\n*Only turn {only} is shown.*")?;
        }
        Ok(())
    }

    fn turn(&mut self, head: &TurnHead) -> io::Result<()> {
        if head.index.is_none() {
            return writeln!(self.out);
        }
        let indent = self.indent();
        let level = if self.subagents == 0 { "##" } else { "###" };
        let mut parts = head.text.split("  ").chain([head.split.as_str()]);
        let title = escaped(parts.next().unwrap_or_default());
        let rest: Vec<_> = parts.filter(|part| !part.is_empty()).map(escaped).collect();
        writeln!(
            self.out,
            "\n{indent}{level} {title} · {}\n",
            rest.join(" · ")
        )?;
        if let Some((error, at)) = &head.failure {
            let text = escaped(&line(&format!("✗ {error}  {at}")));
            writeln!(self.out, "{indent}**{text}**\n")?;
        }
        // A backslash at the end breaks the line.
        let facts = head.facts.iter().map(|fact| escaped(fact));
        match join(facts, &format!("\\\n{indent}")) {
            Some(facts) => writeln!(self.out, "{indent}{facts}\n"),
            None => Ok(()),
        }
    }

    fn end_turn(&mut self, hidden: Option<HiddenNodes>) -> io::Result<()> {
        match hidden {
            Some(hidden) => self.paragraph(&format!("*⤺ {}*", escaped(&hidden_text(hidden)))),
            None => Ok(()),
        }
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let indent = self.indent();
        let mut parts = vec![format!("**{}**", escaped(&row.label))];
        if !row.subject.is_empty() {
            parts.push(escaped(&row.subject));
        }
        parts.extend(row.input.as_ref().map(|input| code(input)));
        let facts = row.facts.iter().map(|fact| match row.is_outcome(fact) {
            true => format!("**{}**", escaped(fact)),
            false => escaped(fact),
        });
        parts.extend(join(facts, " · "));
        let (text, when, address) = (parts.join(" "), escaped(&row.when), &row.address);
        writeln!(self.out, "{indent}- {text} — {when} `{address}`")?;
        self.depth += 1;
        if let Some(message) = &row.message {
            let name = match row.look {
                Look::User => "user",
                Look::Assistant => "assistant",
                _ => "",
            };
            self.fence(name, message)?;
        }
        for (name, _, body) in &row.details {
            self.fence(name, body)?;
        }
        if let Some(figure) = &row.figure {
            self.figure(figure)?;
        }
        if !row.fields.is_empty() {
            let text = row.fields.join("\n");
            self.fence("fields", &Body { text, note: None })?;
        }
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.depth -= 1;
        Ok(())
    }

    fn subagent(&mut self, title: &str) -> io::Result<()> {
        self.subagents += 1;
        self.paragraph(&format!("**subagent {}**", escaped(title)))
    }

    fn end_subagent(&mut self) -> io::Result<()> {
        self.subagents -= 1;
        Ok(())
    }

    fn problem(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(&format!("**{}**", escaped(&line(text))))
    }

    fn attempts(&mut self, attempts: &Attempts, figures: Figures<'_>) -> io::Result<()> {
        writeln!(self.out, "\n## Attempts\n")?;
        for (depth, attempt) in attempts.tree() {
            self.depth = depth;
            self.attempt(depth, attempt, figures)?;
        }
        self.depth = 0;
        Ok(())
    }

    fn end(&mut self, damages: &[Damage]) -> io::Result<()> {
        for damage in damages {
            self.problem(&format!("damaged: {damage}"))?;
        }
        Ok(())
    }
}

/// Words outside a block, with everything escaped that Markdown or HTML gives a meaning.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let safe = line(text);
    let mut chars = safe.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            // Inside a word it has no meaning.
            '_' if before.is_alphanumeric()
                && chars.peek().is_some_and(|c| c.is_alphanumeric()) =>
            {
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            // An address that a viewer would make a link of.
            ':' if out.ends_with("http") || out.ends_with("https") => out.push_str("&#58;"),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A short text as code. A backtick in it needs a longer run around it.
fn code(text: &str) -> String {
    let marks = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{marks}{space}{text}{space}{marks}")
}

/// The length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
