//! Full-text search: the texts of a session's lines and blobs.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::lookup::{blob, whole};
use super::streamed::{Streamed, Streams, is_delta};
use crate::read::SessionReader;
use crate::trace::{Damage, Kind, RawLine, RawValue, string_end};

/// One text of a line: a string inside its payload at any depth, a number, or a blob.
#[derive(Debug)]
pub struct SearchText<'a> {
    /// The line.
    pub line: &'a RawLine<'a>,
    /// The path of the field in the payload: `args.command`.
    pub field: String,
    /// The text.
    pub text: Cow<'a, str>,
    /// The blob that it comes from.
    pub blob: Option<&'a str>,
}

/// The parts of a session that could not be searched.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Unsearched {
    /// What is damaged.
    pub damages: Vec<Damage>,
    /// The errors of blobs that can't be read, each once. They name the path.
    pub blobs: Vec<io::Error>,
}

/// Calls `take` with each text of a session, in order; only with those of `kinds`, unless that is
/// empty. Returns what could not be read.
///
/// A blob comes once, with the first line that names it. The events in a span's close line don't come,
/// because each has a line of its own. Of a streamed message only the whole text comes; deltas that no
/// line has whole come joined, with the first delta's line. If `kinds` names the deltas, each one comes.
///
/// ```no_run
/// let unsearched = spanledger::session::texts("sessions/ses_1", &[], |text| {
///     if text.text.contains("E0308") {
///         println!("{} {}: {}", text.line.address(), text.field, text.text);
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn texts<E: From<io::Error>>(
    session: impl AsRef<Path>,
    kinds: &[String],
    take: impl FnMut(SearchText<'_>) -> Result<(), E>,
) -> Result<Unsearched, E> {
    let mut search = Search {
        session: session.as_ref(),
        take,
        streams: Streams::default(),
        known_blobs: HashSet::new(),
        unsearched: Unsearched::default(),
    };
    let reader = SessionReader::open(search.session)?;
    let damages = reader.each_line(|line| match kinds.is_empty() {
        true => search.any_line(line),
        false if kinds.iter().any(|kind| *kind == line.kind) => search.line(line),
        false => Ok(()),
    })?;
    search.unsearched.damages = damages;
    let mut rest = std::mem::take(&mut search.streams);
    rest.iter_mut().try_for_each(|rest| search.streamed(rest))?;
    Ok(search.unsearched)
}

struct Search<'s, F> {
    session: &'s Path,
    take: F,
    streams: Streams,
    known_blobs: HashSet<String>,
    unsearched: Unsearched,
}

impl<E, F: FnMut(SearchText<'_>) -> Result<(), E>> Search<'_, F> {
    /// A line of any kind, its deltas joined.
    fn any_line(&mut self, line: &RawLine<'_>) -> Result<(), E> {
        if is_delta(line.kind()) {
            let mut replaced = None;
            self.streams.push(line, &mut replaced);
            return replaced.map_or(Ok(()), |replaced| self.streamed(&replaced));
        }
        if line.kind() == Kind::Interrupted {
            let texts = self.streams.interrupt(line.span_id);
            texts.iter().try_for_each(|text| self.streamed(text))?;
        } else if let Some((streamed, content)) = self.streams.finish(line)
            && !self.has_all(content, &streamed.text)
        {
            // The whole was truncated, or its blob is gone.
            self.streamed(&streamed)?;
        }
        self.line(line)
    }

    /// Whether a line's content contains a streamed text.
    fn has_all(&self, content: Option<RawValue<'_>>, text: &str) -> bool {
        let content = content.and_then(|value| whole(self.session, value).ok());
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        content.is_some_and(|content| {
            content.contains(text) || json(&content).is_some_and(|all| json(text) == Some(all))
        })
    }

    fn line(&mut self, line: &RawLine<'_>) -> Result<(), E> {
        let closes = line.kind().is_close();
        for (key, value) in line.payload().members() {
            if closes && matches!(key, "events" | "totals" | "links" | "conversation") {
                continue;
            }
            each_leaf(key.to_owned(), value, 0, &mut |field, leaf| {
                self.leaf(line, field, leaf)
            })?;
        }
        Ok(())
    }

    fn leaf(&mut self, line: &RawLine<'_>, field: String, leaf: Leaf<'_>) -> Result<(), E> {
        let (text, blob) = match leaf {
            Leaf::Text(text) => (text, None),
            Leaf::Blob(sha256, size) => {
                if !self.known_blobs.insert(sha256.to_owned()) {
                    return Ok(());
                }
                match blob(self.session, sha256, size) {
                    Ok(text) => (Cow::Owned(text), Some(sha256)),
                    Err(error) => {
                        self.unsearched.blobs.push(error);
                        return Ok(());
                    }
                }
            }
        };
        (self.take)(SearchText {
            line,
            field,
            text,
            blob,
        })
    }

    /// A text that no line has whole.
    fn streamed(&mut self, streamed: &Streamed) -> Result<(), E> {
        let Ok(line) = RawLine::parse(&streamed.first) else {
            return Ok(());
        };
        (self.take)(SearchText {
            line: &line,
            field: "text".to_owned(),
            text: Cow::Borrowed(&streamed.text),
            blob: None,
        })
    }
}

enum Leaf<'a> {
    Text(Cow<'a, str>),
    /// Its digest and its size.
    Blob(&'a str, Option<u64>),
}

/// How deep a path gets: as deep as `serde_json` parses. A hostile value is nested hundreds of thousands deep: what
/// is inside this level is read in one pass.
const DEEP: usize = 128;

/// Passes the texts and numbers inside a value to `take`, in order. Of the marker of a blob, only the blob.
fn each_leaf<'a, E>(
    field: String,
    value: RawValue<'a>,
    depth: usize,
    take: &mut dyn FnMut(String, Leaf<'a>) -> Result<(), E>,
) -> Result<(), E> {
    match value.json().as_bytes().first() {
        Some(b'{' | b'[') if depth == DEEP => each_text(&field, value.json(), take),
        Some(b'{') => {
            if let Some(("$blob", blob)) = value.members().next() {
                let size = value.get("bytes").and_then(|size| size.u64());
                return take(field, Leaf::Blob(blob.json().trim_matches('"'), size));
            }
            for (name, member) in value.members() {
                each_leaf(format!("{field}.{name}"), member, depth + 1, take)?;
            }
            Ok(())
        }
        Some(b'[') => value
            .items()
            .try_for_each(|item| each_leaf(field.clone(), item, depth + 1, take)),
        _ => {
            let text = value.text().unwrap_or(Cow::Borrowed(value.json()));
            take(field, Leaf::Text(text))
        }
    }
}

/// Passes the texts inside a value to `take`, keys among them.
fn each_text<'a, E>(
    field: &str,
    json: &'a str,
    take: &mut dyn FnMut(String, Leaf<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = 0;
    while let Some(quote) = json[at..].find('"')
        && let Some(end) = string_end(json.as_bytes(), at + quote)
    {
        let text = RawValue::new(&json[at + quote..end]).text();
        take(field.to_owned(), Leaf::Text(text.unwrap_or_default()))?;
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
