//! Reads the value that follows a sensitive name: where it starts and where it ends.

use std::ops::Range;

use super::mask;
use super::pattern::Pattern;
use super::text::{is_quote, run_end, run_start};

/// How a name and its value are joined, which decides how the value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// `NAME=value`: shells, URLs, keyword arguments.
    Tight,
    /// `name = value`: configuration, code.
    Spaced,
    /// `name: value`: headers, YAML, prose, types.
    Colon,
    /// `--name value`.
    Flag,
    /// `"name", "value"`.
    Comma,
    /// `name is value`.
    Prose,
}

/// A value, and whether it stands in quotes.
pub(super) struct Value {
    pub(super) range: Range<usize>,
    pub(super) quoted: bool,
}

/// A quote with the backslashes before it.
#[derive(Clone, Copy)]
pub(super) struct Quote {
    pub(super) end: usize,
    byte: u8,
    backslashes: usize,
}

/// Most backslashes that are read before a quote.
pub(super) const MOST_BACKSLASHES: usize = 64;
/// Longest quoted value; a quote without partner that near is taken to be no quote.
const LONGEST_QUOTED: usize = 64 * 1024;

/// The quote at `at`, or after the backslashes there.
pub(super) fn quote_at(text: &[u8], at: usize) -> Option<Quote> {
    let quote = run_end(text, at, MOST_BACKSLASHES, |b| b == b'\\');
    let byte = *text.get(quote)?;
    is_quote(byte).then_some(Quote {
        end: quote + 1,
        byte,
        backslashes: quote - at,
    })
}

/// How far a value without quotes reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Word,
    /// A word that is the parameter of a URL.
    Query,
    /// To the end of the line.
    Line,
    /// A word that is alone on its line.
    OwnLine,
    /// All lines that are indented like the first.
    Block,
}

/// Reads the value at `at`. `outer` is the quote the name itself is directly inside of, as in
/// `-H 'Cookie: …'`.
pub(super) fn read(text: &[u8], at: usize, outer: Option<u8>, join: Join, extent: Extent) -> Value {
    if let Some(range) = triple_quoted(text, at) {
        return Value {
            range,
            quoted: true,
        };
    }
    let quote = quote_at(text, at);
    if let Some(quote) = quote.filter(|q| Some(q.byte) != outer || q.backslashes > 0)
        && let Some(end) = closing_quote(text, quote)
    {
        let shell = matches!(join, Join::Tight | Join::Flag) && quote.backslashes == 0;
        // Quoted and other parts are one word to a shell.
        let word_end = shell.then(|| SHELL_WORD.end(text, end + 1)).flatten();
        let range = word_end.map_or(quote.end..end, |word_end| at..word_end);
        let quoted = true;
        return Value { range, quoted };
    }
    let start = quote.map_or(at, |quote| quote.end);
    // What starts like a mask without being one hides nothing: its line is all value.
    let false_mask = text[start..].starts_with(mask::OPENING.as_bytes())
        && mask::mask_end(text, start).is_none();
    let mut end = match extent {
        Extent::Block => block_end(text, start),
        Extent::Line => line_end(text, start, outer),
        _ if false_mask => line_end(text, start, outer),
        _ => bare_end(text, start, extent == Extent::Query),
    };
    // Punctuation that ends a sentence or an item is not the value's.
    while end > start && matches!(text[end - 1], b',' | b';') {
        end -= 1;
    }
    if extent == Extent::OwnLine && !LINE_END.is_match(&text[end..]) {
        end = start;
    }
    let (range, quoted) = (start..end, false);
    Value { range, quoted }
}

/// What stands between three quotes on one line, as in Python and TOML.
fn triple_quoted(text: &[u8], at: usize) -> Option<Range<usize>> {
    let quote = *text.get(at).filter(|b| matches!(b, b'"' | b'\''))?;
    let quotes = [quote; 3];
    let inside = text[at..].strip_prefix(&quotes)?;
    let limit = inside.len().min(LONGEST_QUOTED);
    let line_end = memchr::memchr(b'\n', &inside[..limit]);
    let line = &inside[..line_end.unwrap_or(limit)];
    let end = memchr::memmem::find(line, &quotes).unwrap_or(line.len());
    (end > 0).then_some(at + 3..at + 3 + end)
}

/// The rest of a shell's word after a quoted part: plain and escaped characters, quoted parts.
static SHELL_WORD: Pattern = Pattern::new(
    r#"(?x) (?: [A-Za-z0-9]                | \\[\x00-\x7f&&[^\n]] | '[^'\n]*' | "(?:[^"\\\n] | \\.)*" )
            (?: [\w @ % + = : . / ! \# ^ * ~ \-] | \\[\x00-\x7f&&[^\n]] | '[^'\n]*' | "(?:[^"\\\n] | \\.)*" )*"#,
);

/// The end of the lines from `start` on that are indented at least like the first.
fn block_end(text: &[u8], start: usize) -> usize {
    let indentation = start - run_start(text, start, usize::MAX, |b| b == b' ' || b == b'\t');
    let line_end = |at: usize| memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
    let mut end = line_end(start);
    while end < text.len() && run_end(text, end + 1, indentation, |b| b == b' ') - end > indentation
    {
        end = line_end(end + 1);
    }
    start + text[start..end].trim_ascii_end().len()
}

/// The end of a quoted value: its quote again with as many backslashes, on the same line.
fn closing_quote(text: &[u8], open: Quote) -> Option<usize> {
    let limit = text.len().min(open.end + LONGEST_QUOTED);
    let mut at = open.end;
    while let Some(found) = memchr::memchr3(open.byte, b'\n', b'\\', &text[at..limit]) {
        at += found;
        match text[at] {
            b'\n' => return None,
            b'\\' => {
                let run = run_end(&text[..limit], at, usize::MAX, |b| b == b'\\');
                let count = run - at;
                let is_quote = run < limit && text[run] == open.byte;
                // With no backslashes on the opening quote, an odd number escapes this one; with
                // some, as many or fewer close it and more belong to a nested quote.
                match open.backslashes {
                    0 if is_quote && count.is_multiple_of(2) => return Some(run),
                    1.. if is_quote && count <= open.backslashes => return Some(at),
                    _ => at = run + usize::from(is_quote),
                }
            }
            _ => return Some(at),
        }
    }
    // A text that is cut inside the quotes.
    (limit == text.len() && open.byte == b'"').then_some(limit)
}

fn line_end(text: &[u8], start: usize, outer: Option<u8>) -> usize {
    let goes_on = |b: u8| match outer {
        Some(quote) => b != b'\n' && b != b'\r' && b != quote,
        None => b != b'\n' && b != b'\r' && !is_quote(b),
    };
    let line = &text[start..run_end(text, start, usize::MAX, goes_on)];
    let escaped_end = |mark: &[u8]| memchr::memmem::find(line, mark);
    let end = escaped_end(b"\\r\\n").or_else(|| escaped_end(b"\\n"));
    let line = &line[..end.unwrap_or(line.len())];
    // The backslashes of an escaped quote or line end are not the value's.
    let last = line
        .iter()
        .rposition(|b| !matches!(b, b'\\' | b' ' | b'\t'));
    start + last.map_or(0, |last| last + 1)
}

/// What ends a value without quotes.
static VALUE_END: Pattern = Pattern::new(concat!(
    r#"[ \t\n\r"'`<>]|\\[nrt"'\\]"#,
    // A separator, but only before the next item (nothing, a blank, `name=`, `name:`), and closing
    // marks, but only up to a blank or quote: a password may hold any of them.
    r#"|[,;&|](?:$|[ \t\n\r"'&|\\)}\]]|[\w.-]{1,40}[=:])"#,
    r#"|[)\]}](?:[)\]},;.:?!]{0,14}(?:$|[ \t\n\r\\<"'`])|[)\]},;.:?!]{15})"#,
));
/// What ends the parameter of a URL.
static PARAMETER_END: Pattern = Pattern::new("[&#]|%26");
/// The end of a line, after blanks and separators.
static LINE_END: Pattern = Pattern::new(r"[ \t,;\r]{0,8}(?:\n|$)");

/// The end of a value without quotes.
fn bare_end(text: &[u8], start: usize, query: bool) -> usize {
    // The patterns are slow for each byte of a long value.
    let may_end = |byte: &u8| b" \t\n\r\"'`<>\\&#%,;|)]}".contains(byte);
    let mut at = start;
    while let Some(byte) = text.get(at) {
        let rest = &text[at..];
        // Escaped blanks and masks are part of it.
        if rest.starts_with(b"\\ ") {
            at += 2;
        } else if let Some(end) = mask::mask_end(text, at) {
            at = end;
        } else if may_end(byte)
            && (VALUE_END.is_match(rest) || query && PARAMETER_END.is_match(rest))
        {
            break;
        } else {
            at += 1;
        }
    }
    at
}
