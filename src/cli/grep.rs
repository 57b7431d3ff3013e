//! `grep`: searches the texts of lines and blobs.

use std::io;

use clap::Args;
use regex::{Regex, RegexBuilder};
use serde_json::json;

use super::context::{Context, Failed};
use spanledger::session::{self, ResolveError, SearchText};
use spanledger::view::Style;
use spanledger::view::text::{columns, cut, line};

/// Search the texts of all lines, and the blobs they name
///
/// PATTERN is a regular expression, matched against each text inside a line's payload by itself
/// (so `^` and `$` are the ends of a text's lines, and nothing needs JSON's escapes), against
/// numbers, and against the blobs. The names of fields are not searched. A message that was streamed is
/// searched as a whole, once; its pieces one by one only with `--kind message_delta`.
///
/// Exits as grep does: 0 if something matched, 1 if nothing did; 2 for a usage error; 3 if parts
/// of the trace are damaged, or blobs gone, and could not be searched.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger grep 'E0[0-9]{3}' last --kind tool_result\n  spanledger grep -il 'rate limit'"
)]
pub(crate) struct Grep {
    /// A regular expression
    pattern: String,
    /// Only this session: its id, a prefix of it, its directory, or `last`; all by default
    session: Option<String>,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Only lines of this kind, such as tool_result; can be given again
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Only the ids of sessions that match
    #[arg(short = 'l', long)]
    sessions: bool,
}

impl Grep {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let regex = RegexBuilder::new(&self.pattern)
            .case_insensitive(self.ignore_case)
            .multi_line(true)
            .build()
            .map_err(|error| {
                Failed::Usage(format!("invalid pattern {:?}: {error}", self.pattern))
            })?;
        let dirs = context.dirs(self.session.as_deref())?;
        if dirs.is_empty() && context.unreadable.is_empty() {
            let root = context.store.root().to_owned();
            super::context::warn(&ResolveError::Empty(root).to_string());
        }
        let mut matched = false;
        // Oldest first, in the order of reading.
        for dir in dirs.into_iter().rev() {
            let done = session::texts(&dir, &self.kind, |text| {
                if !regex.is_match(&text.text) {
                    return Ok(());
                }
                matched = true;
                if self.sessions {
                    list_session(context, &text)?;
                    // Ends the search of this session.
                    return Failed::unless(false);
                }
                print(context, &regex, &text)
            });
            match done {
                // A session that was pruned in the meantime has lost nothing.
                Ok(found) if dir.exists() => {
                    context.damages.extend(found.damages);
                    context.lost.extend(found.blobs);
                }
                Ok(_) | Err(Failed::Finding(_)) => {}
                // Pruned in the meantime.
                Err(Failed::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(failed) => return Err(failed),
            }
        }
        Failed::unless(matched)
    }
}

fn list_session(context: &mut Context, text: &SearchText<'_>) -> Result<(), Failed> {
    let id = &text.line.session_id;
    context.print(
        || json!({"session_id": id}),
        |_| vec![line(id).into_owned()],
    )
}

/// The lines of a text that match.
fn print(context: &mut Context, regex: &Regex, text: &SearchText<'_>) -> Result<(), Failed> {
    let mut past = 0;
    while let Some(found) = regex.find_at(&text.text, past) {
        let whole = text.text.as_ref();
        let start = whole[..found.start()].rfind('\n').map_or(0, |at| at + 1);
        let end = whole[found.end()..]
            .find('\n')
            .map_or(whole.len(), |at| found.end() + at);
        let part = &whole[start..end];
        let (from, to) = (found.start() - start, found.end() - start);
        let object = || {
            json!({
                "session_id": text.line.session_id,
                "address": text.line.address().to_string(),
                "kind": text.line.kind,
                "ts": text.line.ts,
                "field": text.field,
                "blob": text.blob,
                "text": part,
                "start": from,
                "end": to,
            })
        };
        let parts = (&part[..from], &part[from..to], &part[to..]);
        context.print(object, |style| vec![row(style, text, parts)])?;
        if end >= whole.len() {
            break;
        }
        past = end + 1;
    }
    Ok(())
}

fn row(style: &Style, text: &SearchText<'_>, (before, found, after): (&str, &str, &str)) -> String {
    let id = line(&text.line.session_id).into_owned();
    let address = text.line.address().to_string();
    let kind = line(&text.line.kind).into_owned();
    let field = line(&text.field).into_owned();
    let used = columns(&id) + address.len() + columns(&kind) + columns(&field) + 5;
    let room = style.width.saturating_sub(used).max(30);
    // The match in the middle of what fits, unless the line fits as a whole.
    let found = cut(&line(&head(found, room * 4)), room).into_owned();
    let rest = room.saturating_sub(columns(&found));
    let after_all = line(&head(after, room * 4)).into_owned();
    let keep_after = columns(&after_all).min(rest / 2);
    let before = cut_front(before, rest - keep_after);
    let after = cut(&after_all, rest.saturating_sub(columns(&before))).into_owned();
    format!(
        "{} {} {} {}: {before}{}{after}",
        style.cyan(&id),
        style.dim(&address),
        kind,
        style.dim(&field),
        style.red(&found),
    )
}

/// The first characters: a line may be a million of them.
fn head(text: &str, max: usize) -> String {
    text.chars().take(max + 1).collect()
}

/// The end of a text that fits so many columns, made safe.
fn cut_front(text: &str, max: usize) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        let safe = line(c.encode_utf8(&mut [0; 4])).into_owned();
        used += columns(&safe);
        if used >= max.max(1) {
            kept.push("…".into());
            break;
        }
        kept.push(safe);
    }
    kept.into_iter().rev().collect()
}
