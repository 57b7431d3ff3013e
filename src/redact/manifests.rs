//! The values of a Kubernetes secret, as `kubectl get secret` prints it: `data` comes before `kind`. The walk over JSON
//! finds them there; here they are found in YAML, and in JSON that is part of a text.

use std::ops::Range;

use super::mask::{OPENING, is_masked};
use super::pattern::Pattern;
use super::text::run_end;

/// What such a document is found by: in YAML, in JSON, and in JSON inside a string.
pub(super) const KINDS: [&str; 3] = ["kind:", "kind\":", "kind\\\":"];
/// How far before and after its kind a document is read.
const NEAR: usize = 8 * 1024;

static SECRET: Pattern = Pattern::new(r#"(?i)[ \t]*\\{0,7}["']?secret(?:[\\"'\s]|$)"#);
/// A name and its value. A value that is a template or empty is no secret.
static MEMBER: Pattern = Pattern::new(
    r#"[\w.-]+:[ \t]*(?:[|>][+-]?[ \t]+)?["']?([^\s"'{$<|>\[][^\s"']*)["']?[ \t\r]*$"#,
);
/// The beginning of the values in JSON, and one of them.
static OPENING_BRACE: Pattern = Pattern::new(r#"(?:data|stringData)\\{0,7}":\s{0,16}\{"#);
static JSON_MEMBER: Pattern =
    Pattern::new(r#"[\s,]*\\{0,7}"[\w.-]+\\{0,7}"\s*:\s*\\{0,7}"((?:[^"\\]|\\[^"])*)\\{0,7}""#);
/// A line of a value that goes over lines.
static TEXT: Pattern = Pattern::new(r"([A-Za-z0-9+/=_-]{4,})[ \t\r]*$");

/// Whether the kind at `kind` is that of a secret.
pub(super) fn is_secret(text: &[u8], kind: &Range<usize>) -> bool {
    SECRET.is_match(&text[kind.end..])
}

/// The values of the secret whose kind is at `kind`, and up to where it was read.
pub(super) fn secret_values(text: &[u8], kind: Range<usize>) -> Option<(usize, Vec<Range<usize>>)> {
    if !is_secret(text, &kind) {
        return None;
    }
    let document = document(text, &kind);
    let end = document.end;
    // YAML may hold the same as JSON, too: what was applied last.
    let mut values = json_values(text, document.clone());
    // How far the line `data:` is indented.
    let mut outer: Option<usize> = None;
    let mut at = document.start;
    while at < end {
        let line_end = memchr::memchr(b'\n', &text[at..end]).map_or(end, |n| at + n);
        let start = run_end(text, at, usize::MAX, |b| b == b' ' || b == b'\t').min(line_end);
        let (indentation, line) = (start - at, &text[start..line_end]);
        at = line_end + 1;
        if line.is_empty() {
            continue;
        }
        if outer.is_some_and(|outer| indentation <= outer) {
            outer = None;
        }
        if matches!(line.trim_ascii_end(), b"data:" | b"stringData:") {
            outer = Some(indentation);
        } else if outer.is_some() && !line.starts_with(OPENING.as_bytes()) {
            let found = MEMBER.find(line).or_else(|| TEXT.find(line));
            values.extend(found.map(|(_, value)| start + value.start..start + value.end));
        }
    }
    Some((end, values))
}

/// Where an object begins, in a text as it arrives, whose values are there and whose kind is not yet: `kubectl` prints
/// it behind them.
pub(super) fn undecided(text: &[u8]) -> Option<usize> {
    static VALUES: Pattern = Pattern::new(concat!(
        r#"apiVersion(?::[^\n]*\n[ \t]*(?:data|stringData):[ \t\r]*(?:\n|$)"#,
        r#"|\\{0,7}":\s?\\{0,7}"[\w./]*\\{0,7}",\s{0,16}\\{0,7}"(?:data|stringData)\\{0,7}":)"#,
    ));
    static KIND: Pattern = Pattern::new(r#"kind(?::[^\n]*\n|\\{0,7}":\s?\\{0,7}"\w*\\{0,7}")"#);
    let start = memchr::memmem::rfind(text, b"apiVersion")?;
    let values = VALUES.end(text, start)?;
    let is_kind = |at: usize| KIND.is_match(&text[values + at..]);
    let is_decided = memchr::memmem::find_iter(&text[values..], b"kind").any(is_kind);
    (text.len() - start <= NEAR && !is_decided).then_some(start)
}

/// The values in JSON, which may be on one line or on many.
fn json_values(text: &[u8], document: Range<usize>) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    for quote in memchr::memchr_iter(b'"', &text[document.clone()]) {
        let name = document.start + quote + 1;
        let mut at = OPENING_BRACE
            .end(&text[..document.end], name)
            .unwrap_or(text.len());
        while let Some((end, value)) = text
            .get(at..document.end)
            .and_then(|rest| JSON_MEMBER.find(rest))
        {
            let value = at + value.start..at + value.end;
            if !is_masked(text, value.clone()) {
                values.push(value);
            }
            at += end;
        }
    }
    values
}

/// The whole lines around a document's kind that belong to it.
fn document(text: &[u8], kind: &Range<usize>) -> Range<usize> {
    const SEPARATOR: &[u8] = b"\n---";
    let floor = kind.start.saturating_sub(NEAR);
    let before = &text[floor..kind.start];
    let start = match memchr::memmem::rfind(before, SEPARATOR) {
        Some(separator) => floor + separator + 1,
        None if floor == 0 => 0,
        None => floor + memchr::memchr(b'\n', before).map_or(before.len(), |n| n + 1),
    };
    let limit = text.len().min(kind.end + NEAR);
    let after = &text[kind.end..limit];
    let end = match memchr::memmem::find(after, SEPARATOR) {
        Some(separator) => separator,
        None if limit == text.len() => after.len(),
        None => memchr::memrchr(b'\n', after).unwrap_or(0),
    };
    start..kind.end + end
}
