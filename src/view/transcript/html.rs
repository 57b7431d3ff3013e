//! A transcript as one HTML file.
//!
//! Every text of a session is escaped, the page has no script and no link to another place, and its policy forbids
//! everything but its own style and images that are part of it. So nothing that a model wrote can load or run.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use sha2::{Digest, Sha256};

use super::super::attempts::{metrics_text, summary_text};
use super::super::describe::DetailKind;
use super::super::style::Tone;
use super::super::text::{cut, line, plural, size};
use super::super::timeline::hidden_text;
use super::escape::{Text, path_url, write_text};
use super::page::{Body, Figure, Figures, Head, Look, Page, Row, TurnHead};
use crate::inspect::{Attempt, Attempts};
use crate::session::HiddenNodes;
use crate::trace::Damage;

const STYLE: &str = include_str!("transcript.css");

/// A text of more lines or bytes is folded.
const FOLDED: (usize, usize) = (14, 1500);

/// How many turns the list of turns has at most.
const LISTED: usize = 2000;

pub(super) struct Html<'a> {
    out: &'a mut dyn Write,
    /// How many subagents there were, and what is before the addresses in those around: they repeat those of their
    /// parents.
    subagents: usize,
    prefixes: Vec<String>,
    /// The turns, for the list of turns, each with the beginning of the user's message.
    turns: Vec<(u32, String)>,
}

impl<'a> Html<'a> {
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            subagents: 0,
            prefixes: Vec::new(),
            turns: Vec::new(),
        }
    }

    fn prefix(&self) -> &str {
        self.prefixes.last().map_or("", String::as_str)
    }

    /// Names the turn in the list of turns by the beginning of the message that started it.
    fn name_turn(&mut self, row: &Row) {
        let message = row.message.as_ref().filter(|_| row.look == Look::User);
        if let (true, Some(message), Some((_, text))) =
            (self.prefixes.is_empty(), message, self.turns.last_mut())
            && text.is_empty()
        {
            let head: String = message.text.chars().take(200).collect();
            *text = cut(&line(&head), 44).into_owned();
        }
    }

    fn row_head(&mut self, row: &Row) -> io::Result<()> {
        let label = Text(&row.label);
        write!(self.out, "<header><span class=\"k\">{label}</span>")?;
        if !row.subject.is_empty() {
            write!(self.out, "<b>{}</b>", Text(&row.subject))?;
        }
        if let Some(input) = &row.input {
            write!(self.out, "<code>{}</code>", Text(input))?;
        }
        for fact in &row.facts {
            let class = if row.is_outcome(fact) { "f bad" } else { "f" };
            write!(self.out, "<span class=\"{class}\">{}</span>", Text(fact))?;
        }
        let id = format!("{}{}", self.prefix(), row.address);
        write!(self.out, "<span class=\"w\">")?;
        if let Some((from, length)) = row.bar {
            write!(
                self.out,
                "<svg viewBox=\"0 0 1000 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect x=\"{from}\" width=\"{length}\" height=\"8\"/></svg>"
            )?;
        }
        let (when, at) = (Text(&row.when), &row.address);
        let link = format!("<a href=\"#{id}\">{at}</a>");
        writeln!(self.out, "<time>{when}</time>{link}</span></header>")
    }

    /// A text in a block of its own; a long one is folded.
    fn block(&mut self, name: &str, class: &str, body: &Body) -> io::Result<()> {
        let lines = body.text.lines().take(FOLDED.0 + 1).count();
        let is_long = lines > FOLDED.0 || body.text.len() > FOLDED.1;
        if is_long && class != "err" {
            let count = body.text.matches('\n').count() as u64 + 1;
            let (lines, size) = (plural(count, "line"), size(body.text.len() as u64));
            let about = body.note.clone();
            let about = about.unwrap_or_else(|| format!("{lines}, {size}"));
            let first: String = body.text.chars().take(300).collect();
            let first = line(first.lines().next().unwrap_or_default());
            let first = cut(&first, 80);
            let (first, about) = (Text(&first), Text(&about));
            let summary = format!("{name} <i>{first}</i> <small>{about}</small>");
            write!(
                self.out,
                "<details class=\"{class}\"><summary>{summary}</summary>"
            )?;
            self.pre(class, body)?;
            return writeln!(self.out, "</details>");
        }
        if !name.is_empty() {
            write!(self.out, "<div class=\"n\">{name}</div>")?;
        }
        self.pre(class, body)
    }

    fn pre(&mut self, class: &str, body: &Body) -> io::Result<()> {
        write!(self.out, "<pre class=\"{class}\">")?;
        write_text(self.out, &body.text)?;
        writeln!(self.out, "</pre>")?;
        self.note(body)
    }

    fn note(&mut self, body: &Body) -> io::Result<()> {
        match &body.note {
            Some(note) => writeln!(self.out, "<p class=\"more\">… {}</p>", Text(note)),
            None => Ok(()),
        }
    }

    fn message(&mut self, row: &Row, body: &Body) -> io::Result<()> {
        if row.look == Look::Reasoning {
            return self.block("", "quiet", body);
        }
        write!(self.out, "<div class=\"m\">")?;
        write_text(self.out, &body.text)?;
        writeln!(self.out, "</div>")?;
        self.note(body)
    }

    fn figure(&mut self, figure: &Figure) -> io::Result<()> {
        let path = Text(&figure.path);
        write!(self.out, "<figure>")?;
        if let Some((kind, bytes)) = &figure.image {
            write!(self.out, "<img alt=\"{path}\" src=\"data:{kind};base64,")?;
            let mut encoder = EncoderWriter::new(&mut self.out, &STANDARD);
            encoder.write_all(bytes)?;
            encoder.finish()?;
            drop(encoder);
            write!(self.out, "\">")?;
        }
        if let Some(code) = &figure.code {
            write!(self.out, "<div class=\"code\">")?;
            self.block("code", "in", code)?;
            write!(self.out, "</div>")?;
        }
        // The row has the path already.
        if figure.file.is_none() && figure.note.is_none() {
            return writeln!(self.out, "</figure>");
        }
        write!(self.out, "<figcaption>")?;
        match &figure.file {
            Some(file) => write!(self.out, "<a href=\"{}\">{path}</a>", path_url(file))?,
            None => write!(self.out, "{path}")?,
        }
        if let Some(note) = &figure.note {
            write!(self.out, " <small>{}</small>", Text(note))?;
        }
        writeln!(self.out, "</figcaption></figure>")
    }

    fn attempt(&mut self, depth: usize, attempt: &Attempt, figures: Figures<'_>) -> io::Result<()> {
        let at = attempt.address;
        write!(self.out, "<p><b>{}</b> ", Text(&line(&attempt.id)))?;
        if let Some(why) = &attempt.rationale {
            write!(self.out, "{} ", Text(why))?;
        }
        writeln!(self.out, "<a href=\"#{at}\">{at}</a></p>")?;
        for text in [metrics_text(attempt), summary_text(attempt, depth)]
            .into_iter()
            .flatten()
        {
            writeln!(self.out, "<p class=\"f\">{}</p>", Text(&text))?;
        }
        let Some(artifact) = &attempt.artifact else {
            return Ok(());
        };
        let (at, path) = (artifact.address, line(&artifact.path));
        let figure = format!("figure {} <a href=\"#{at}\">{at}</a>", Text(&path));
        writeln!(self.out, "<p class=\"f\">{figure}</p>")?;
        self.figure(&figures(artifact))
    }

    fn turn_list(&mut self) -> io::Result<()> {
        if self.turns.len() < 2 {
            return Ok(());
        }
        write!(self.out, "<nav><b>Turns</b><ol>")?;
        for (index, text) in &self.turns {
            let text = Text(if text.is_empty() { "–" } else { text });
            let link = format!("<a href=\"#turn-{index}\">{text}</a>");
            write!(self.out, "<li value=\"{index}\">{link}</li>")?;
        }
        writeln!(self.out, "</ol></nav>")
    }
}

impl Page for Html<'_> {
    fn head(&mut self, head: &Head) -> io::Result<()> {
        let title = Text(&head.title);
        // The only style that the policy allows.
        let digest = STANDARD.encode(Sha256::digest(STYLE));
        write!(
            self.out,
            "<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">
<meta name=\"referrer\" content=\"no-referrer\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<link rel=\"icon\" href=\"data:,\">
<title>{title}</title>
<style>{STYLE}</style></head><body>
<main><header class=\"top\"><h1>{title}</h1><dl>"
        )?;
        for fact in &head.facts {
            let class = match fact.tone {
                Tone::Bad => " class=\"bad\"",
                Tone::Look => " class=\"look\"",
                _ => "",
            };
            if !fact.text.is_empty() {
                let (name, text) = (fact.name, Text(&fact.text));
                write!(self.out, "<dt>{name}</dt><dd{class}>{text}</dd>")?;
            }
        }
        writeln!(self.out, "</dl>")?;
        if let Some(only) = head.only {
            writeln!(self.out, "<p class=\"more\">Only turn {only} is shown.</p>")?;
        }
        writeln!(self.out, "</header>")
    }

    fn turn(&mut self, head: &TurnHead) -> io::Result<()> {
        let Some(index) = head.index else {
            return writeln!(self.out, "<section class=\"between\">");
        };
        if self.prefixes.is_empty() && self.turns.len() < LISTED {
            self.turns.push((index, String::new()));
        }
        let prefix = self.prefix().to_owned();
        write!(
            self.out,
            "<section class=\"turn\" id=\"{prefix}turn-{index}\">"
        )?;
        let mut parts = head.text.split("  ");
        write!(self.out, "<h2>{}", Text(parts.next().unwrap_or_default()))?;
        for part in parts
            .chain([head.split.as_str()])
            .filter(|part| !part.is_empty())
        {
            write!(self.out, " <span>{}</span>", Text(part))?;
        }
        writeln!(self.out, "</h2>")?;
        if let Some((error, at)) = &head.failure {
            let text = format!("✗ {error}  {at}");
            writeln!(self.out, "<pre class=\"err\">{}</pre>", Text(&text))?;
        }
        if !head.facts.is_empty() {
            write!(
                self.out,
                "<details class=\"facts\"><summary>tokens, model, tools</summary>"
            )?;
            for fact in &head.facts {
                write!(self.out, "<p>{}</p>", Text(fact))?;
            }
            writeln!(self.out, "</details>")?;
        }
        Ok(())
    }

    fn end_turn(&mut self, hidden: Option<HiddenNodes>) -> io::Result<()> {
        if let Some(hidden) = hidden {
            let text = hidden_text(hidden);
            writeln!(self.out, "<p class=\"rewound\">⤺ {}</p>", Text(&text))?;
        }
        writeln!(self.out, "</section>")
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        self.name_turn(row);
        let look = match row.look {
            Look::User => "user",
            Look::Assistant => "assistant",
            Look::Reasoning => "reasoning",
            Look::Tool => "tool",
            Look::Other => "other",
        };
        let tone = match (row.outcome.as_deref(), row.tone) {
            (Some("DENIED"), _) => " denied",
            (Some("INTERRUPTED" | "CANCELLED"), _) => " stopped",
            (Some(_), _) | (None, Tone::Bad) => " failed",
            (None, Tone::Look) => " look",
            (None, Tone::Quiet) => " dim",
            (None, Tone::Person) => " person",
            (None, _) => "",
        };
        let hidden = if row.hidden { " gone" } else { "" };
        let prefix = self.prefix().to_owned();
        let id = &row.address;
        write!(
            self.out,
            "<article class=\"{look}{tone}{hidden}\" id=\"{prefix}{id}\">"
        )?;
        self.row_head(row)?;
        if let Some(message) = &row.message {
            self.message(row, message)?;
        }
        for (name, kind, body) in &row.details {
            let class = match kind {
                DetailKind::Input => "in",
                DetailKind::Output => "out",
                DetailKind::Error => "err",
            };
            self.block(name, class, body)?;
        }
        if let Some(figure) = &row.figure {
            self.figure(figure)?;
        }
        if !row.fields.is_empty() {
            let text = row.fields.join("\n");
            self.block("fields", "quiet", &Body { text, note: None })?;
        }
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        writeln!(self.out, "</article>")
    }

    fn subagent(&mut self, title: &str) -> io::Result<()> {
        self.subagents += 1;
        self.prefixes.push(format!("s{}-", self.subagents));
        writeln!(
            self.out,
            "<details class=\"sub\" open><summary>subagent {}</summary>",
            Text(title)
        )
    }

    fn end_subagent(&mut self) -> io::Result<()> {
        self.prefixes.pop();
        writeln!(self.out, "</details>")
    }

    fn problem(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "<pre class=\"err\">{}</pre>", Text(text))
    }

    fn attempts(&mut self, attempts: &Attempts, figures: Figures<'_>) -> io::Result<()> {
        writeln!(self.out, "<section class=\"tree\"><h2>Attempts</h2><ul>")?;
        let mut depth = 0;
        for (n, (at, attempt)) in attempts.tree().into_iter().enumerate() {
            // A level deeper is a list inside the item above; a shallower one closes lists.
            match at > depth {
                true => write!(self.out, "<ul>")?,
                false => {
                    for _ in at..depth {
                        write!(self.out, "</li></ul>")?;
                    }
                    if n > 0 {
                        write!(self.out, "</li>")?;
                    }
                }
            }
            depth = at;
            write!(self.out, "<li>")?;
            self.attempt(at, attempt, figures)?;
        }
        for _ in 0..depth {
            write!(self.out, "</li></ul>")?;
        }
        writeln!(self.out, "</li></ul></section>")
    }

    fn end(&mut self, damages: &[Damage]) -> io::Result<()> {
        for damage in damages {
            let text = format!("damaged: {damage}");
            self.problem(&line(&text))?;
        }
        writeln!(self.out, "</main>")?;
        self.turn_list()?;
        writeln!(self.out, "</body></html>")
    }
}
