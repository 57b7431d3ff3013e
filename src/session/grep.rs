//! The texts of a session, one by one: what lines say, and the blobs they name.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::pieces::{Pieces, Streamed, is_piece};
use super::seek::blob;
use crate::event::SpanKind;
use crate::reader::{Damage, Found, RawLine, SessionReader, string_end};

/// One text of a line: a text inside its payload at any depth, a number, or a blob.
#[derive(Debug)]
pub struct Text<'a> {
    /// The line.
    pub line: &'a RawLine<'a>,
    /// Where in the payload it stands: `args.command`.
    pub field: String,
    /// The text.
    pub text: Cow<'a, str>,
    /// The blob it comes from.
    pub blob: Option<&'a str>,
}

/// What of a session could not be searched.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Unsearched {
    /// What is damaged.
    pub damages: Vec<Damage>,
    /// The blobs that are named and can't be read, each once, by their paths.
    pub lost: Vec<io::Error>,
}

/// Calls `take` with the texts of a session, in order; with those of `kinds` only, if there are
/// any. A blob comes once, with the first line that names it; the notes that a span's close line
/// keeps of its events don't come, since each event has a line of its own. What could not be read.
///
/// Of what was streamed the whole message comes; the pieces of one that has no whole come as one text, with
/// the line of the first. Where `kinds` names the pieces they come one by one.
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
    mut take: impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<Unsearched, E> {
    let session = session.as_ref();
    let mut seen = HashSet::new();
    let mut unsearched = Unsearched::default();
    let mut pieces = Pieces::default();
    let mut reader = SessionReader::open(session)?;
    while let Some(found) = reader.next()? {
        let line = match found {
            Found::Line(line) => line,
            Found::Damaged(damage) => {
                unsearched.damages.push(damage);
                continue;
            }
        };
        let kind = line.kind.as_ref();
        if kinds.is_empty() {
            let over = match kind {
                kind if is_piece(kind) => pieces.take(&line).into_iter().collect(),
                "interrupted" => pieces.interrupted(line.span_id),
                _ => pieces.told(session, &line).into_iter().collect(),
            };
            over.into_iter()
                .try_for_each(|over| streamed(over, &mut take))?;
            if is_piece(kind) {
                continue;
            }
        } else if !kinds.iter().any(|wanted| wanted == kind) {
            continue;
        }
        let closes = SpanKind::is_close_kind(kind);
        for (key, value) in line.payload().members() {
            if closes && matches!(key, "events" | "totals" | "links") {
                continue;
            }
            let mut leaves = Leaves::new(key, value.json());
            while let Some((field, leaf)) = leaves.next() {
                let text = match leaf {
                    Leaf::Text(text) => Text {
                        line: &line,
                        field,
                        text,
                        blob: None,
                    },
                    Leaf::Blob(sha256) => {
                        if !seen.insert(sha256.to_owned()) {
                            continue;
                        }
                        let text = match blob(session, sha256) {
                            Ok(text) => text,
                            Err(error) => {
                                unsearched.lost.push(error);
                                continue;
                            }
                        };
                        Text {
                            line: &line,
                            field,
                            text: Cow::Owned(text),
                            blob: Some(sha256),
                        }
                    }
                };
                take(text)?;
            }
        }
    }
    pieces
        .rest()
        .into_iter()
        .try_for_each(|rest| streamed(rest, &mut take))?;
    Ok(unsearched)
}

/// The text of a message that was never told whole.
fn streamed<E>(
    streamed: Streamed,
    take: &mut impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<(), E> {
    match RawLine::parse(&streamed.first) {
        Ok(line) => take(Text {
            line: &line,
            field: "text".to_owned(),
            text: Cow::Owned(streamed.text),
            blob: None,
        }),
        Err(_) => Ok(()),
    }
}

#[derive(Debug, PartialEq)]
enum Leaf<'a> {
    Text(Cow<'a, str>),
    Blob(&'a str),
}

/// As deep as `serde_json` goes.
const DEEP: usize = 128;

/// The texts and numbers inside a value, in order, without building it.
struct Leaves<'a> {
    json: &'a str,
    at: usize,
    /// The keys on the way here; none for an array's items.
    path: Vec<Option<&'a str>>,
    /// How deep the object that stands for a blob lies: the rest of it only describes it.
    blob: Option<usize>,
}

impl<'a> Leaves<'a> {
    fn new(key: &'a str, json: &'a str) -> Self {
        Self {
            json,
            at: 0,
            path: vec![Some(key)],
            blob: None,
        }
    }

    fn field(&self) -> String {
        // Of what lies deeper than anybody parses, where that begins.
        let keys: Vec<_> = self.path.iter().take(DEEP).flatten().copied().collect();
        keys.join(".")
    }

    fn next(&mut self) -> Option<(String, Leaf<'a>)> {
        let bytes = self.json.as_bytes();
        loop {
            let start = self.at;
            match *bytes.get(start)? {
                b'"' => {
                    self.at = string_end(bytes, start)?;
                    let inner = self.json.get(start + 1..self.at - 1)?;
                    if bytes.get(self.at) == Some(&b':') {
                        *self.path.last_mut()? = Some(inner);
                        continue;
                    }
                    let depth = self.path.len();
                    if self.path.last() == Some(&Some("$blob")) && self.blob.is_none() {
                        self.blob = Some(depth);
                        self.path.pop();
                        let field = self.field();
                        self.path.push(Some("$blob"));
                        return Some((field, Leaf::Blob(inner)));
                    }
                    if self.blob.is_none() {
                        let text = unescaped(&self.json[start..self.at])?;
                        return Some((self.field(), Leaf::Text(text)));
                    }
                }
                b'{' | b'[' => {
                    self.path.push(None);
                    self.at += 1;
                }
                b'}' | b']' => {
                    if self.blob == Some(self.path.len()) {
                        self.blob = None;
                    }
                    self.path.pop();
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                _ => {
                    let rest = &bytes[start..];
                    let stop = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ');
                    self.at += rest.iter().position(stop).unwrap_or(rest.len()).max(1);
                    if self.blob.is_none() {
                        let text = Cow::Borrowed(self.json.get(start..self.at)?);
                        return Some((self.field(), Leaf::Text(text)));
                    }
                }
            }
        }
    }
}

fn unescaped(json: &str) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'\\', json.as_bytes()).is_none() {
        return Some(Cow::Borrowed(&json[1..json.len() - 1]));
    }
    // A lone surrogate is no text: then as it stands.
    let inner = || json[1..json.len() - 1].to_owned();
    Some(Cow::Owned(
        serde_json::from_str(json).unwrap_or_else(|_| inner()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(json: &str) -> Vec<String> {
        let mut leaves = Leaves::new("args", json);
        let mut out = Vec::new();
        while let Some((field, leaf)) = leaves.next() {
            out.push(match leaf {
                Leaf::Text(text) => format!("{field}={text}"),
                Leaf::Blob(sha256) => format!("{field}@{sha256}"),
            });
        }
        out
    }

    #[test]
    fn every_text_comes_with_its_path_unescaped_and_keys_do_not() {
        assert_eq!(all(r#""a\nb""#), ["args=a\nb"]);
        assert_eq!(
            all(r#"{"cmd":"ls","list":["x",{"y":"z}"}],"n":-3,"t":true,"e":{}}"#),
            [
                "args.cmd=ls",
                "args.list=x",
                "args.list.y=z}",
                "args.n=-3",
                "args.t=true"
            ]
        );
    }

    #[test]
    fn a_blob_stands_for_its_text_and_what_describes_it_does_not_come() {
        assert_eq!(
            all(r#"[{"$blob":"ab","bytes":9,"head":"secret"},"after"]"#),
            ["args@ab", "args=after"]
        );
    }

    #[test]
    fn what_is_malformed_ends_quietly() {
        for json in ["", "\"", "{\"a\":", "[[[", "}}}", "{\"a\"}", "nul"] {
            all(json);
        }
    }
}
