//! The values of a Kubernetes secret, as `kubectl get secret -o yaml` prints it: `data` comes before `kind`.

use std::ops::Range;

use super::mask::OPENING;
use super::pattern::Pattern;
use super::text::run_end;

/// What such a document is found by.
pub(super) const KIND: &str = "kind:";
/// How far before and after its kind a document is read.
const NEAR: usize = 8 * 1024;

static SECRET: Pattern = Pattern::new(r#"(?i)[ \t]*["']?secret["']?[ \t]*(?:\r?\n|$)"#);
/// A name and its value. A value that is a template or empty is no secret.
static MEMBER: Pattern =
    Pattern::new(r#"[\w.-]+:[ \t]+["']?([^\s"'{$<|>\[][^\s"']*)["']?[ \t\r]*$"#);
/// A line of a value that goes over lines.
static TEXT: Pattern = Pattern::new(r"([A-Za-z0-9+/=_-]{4,})[ \t\r]*$");

/// The values of the secret whose kind is at `kind`, and up to where it was read.
pub(super) fn secret_values(text: &[u8], kind: Range<usize>) -> Option<(usize, Vec<Range<usize>>)> {
    if !SECRET.is_match(&text[kind.end..]) {
        return None;
    }
    let document = document(text, &kind);
    let end = document.end;
    let mut values = Vec::new();
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
