//! JSON as bytes: strings are written and read, and values, objects and strings are passed over without parsing.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::raw_line::RawValue;

/// Appends bytes, part after part.
#[inline]
pub(crate) fn put<const N: usize>(out: &mut Vec<u8>, parts: [&[u8]; N]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Writes `text` as a JSON string with its quotes, on one line.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, more)) = special.split_first() else {
            break;
        };
        write_escape(*byte, out);
        rest = more;
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// How many bytes there are before the first that must be escaped in a JSON string: a quote, a
/// backslash or a control character. Eight bytes at a time, by arithmetic that sets the highest
/// bit of each such byte, and of no byte before the first.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let below = |x: u64, limit: u8| x.wrapping_sub(ONES * u64::from(limit));
    let first_special = |eight: &[u8; 8]| {
        let x = u64::from_le_bytes(*eight);
        // With this bit flipped, the quote follows the control characters.
        let low = below(x ^ (ONES * 2), b' ' + 1);
        let backslash = below(x ^ (ONES * u64::from(b'\\')), 1);
        let special = (low | backslash) & !x & TOPS;
        (special != 0).then(|| special.trailing_zeros() as usize / 8)
    };
    let (eights, rest) = bytes.as_chunks();
    for (index, eight) in eights.iter().enumerate() {
        if let Some(at) = first_special(eight) {
            return index * 8 + at;
        }
    }
    match bytes.last_chunk() {
        // The first of these were looked at before.
        Some(last) => first_special(last).map_or(bytes.len(), |at| bytes.len() - 8 + at),
        None => {
            let special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
            rest.iter().position(special).unwrap_or(rest.len())
        }
    }
}

/// The text of a JSON string, given with its quotes. `None` if it is no JSON string, or has half
/// of a surrogate pair, which stands for no text.
pub(crate) fn unescape(quoted: &str) -> Option<Cow<'_, str>> {
    let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if plain_length(inside.as_bytes()) == inside.len() {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(quoted).ok().map(Cow::Owned)
}

/// The text of a valid JSON string, given with its quotes, and whether its spelling is sound:
/// half of a surrogate pair becomes U+FFFD.
pub(crate) fn unescape_lossy(quoted: &str) -> (Cow<'_, str>, bool) {
    match unescape(quoted) {
        Some(text) => (text, true),
        None => {
            let sound = replace_lone_surrogates(quoted);
            let text: String = serde_json::from_str(&sound).unwrap_or_default();
            (Cow::Owned(text), false)
        }
    }
}

/// JSON with U+FFFD for each half of a surrogate pair.
pub(crate) fn replace_lone_surrogates(quoted: &str) -> String {
    let code = |at: usize| {
        let digits = quoted.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut sound = String::with_capacity(quoted.len());
    let mut rest = 0;
    while let Some(found) = quoted.get(rest..).and_then(|rest| rest.find('\\')) {
        let start = rest + found;
        sound.push_str(&quoted[rest..start]);
        let (length, lone) = match (code(start), code(start + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (12, false),
            (Some(code), _) => (6, matches!(code, 0xd800..0xe000)),
            (None, _) => (2, false),
        };
        rest = start + length;
        let escape = quoted.get(start..rest).unwrap_or_default();
        sound.push_str(if lone { "\\ufffd" } else { escape });
    }
    sound.push_str(quoted.get(rest..).unwrap_or_default());
    sound
}

/// `at`, or the start of the character that `at` is inside of. (`str::floor_char_boundary` needs Rust 1.91.)
pub(crate) fn floor_char(text: &str, at: usize) -> usize {
    let boundary = |at: &usize| text.is_char_boundary(*at);
    (0..=at.min(text.len())).rev().find(boundary).unwrap_or(0)
}

/// Where the string that begins at `start` ends, its quote included.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        let found = at + quote_or_backslash(bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// From this length on, `memchr` is faster than [`plain_length`]. Most strings are shorter.
const LONG: usize = 32;

/// Where the first quote or backslash is.
pub(super) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let start = plain_length(&bytes[..bytes.len().min(LONG)]);
    match bytes.get(start)? {
        b'"' | b'\\' => Some(start),
        _ => Some(start + memchr::memchr2(b'"', b'\\', &bytes[start..])?),
    }
}

/// Whether the inside of a JSON string has an escape.
pub(crate) fn has_backslash(inside: &[u8]) -> bool {
    quote_or_backslash(inside).is_some()
}

/// Where the value that begins at `start` ends. Nesting is counted, never recursed into.
pub(crate) fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let ends = |at: usize| {
        let stop = matches!(
            bytes.get(at)?,
            b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'
        );
        stop.then_some(at)
    };
    match bytes.get(start)? {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => {
            let mut depth = 0usize;
            let mut at = start;
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        b'-' | b'0'..=b'9' => {
            let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            ends(start + bytes[start..].iter().position(|b| !digit(b))?)
        }
        b't' | b'f' | b'n' => {
            let words: [&[u8]; 3] = [b"true", b"false", b"null"];
            let word = words.iter().find(|word| bytes[start..].starts_with(word))?;
            ends(start + word.len())
        }
        _ => None,
    }
}

/// Whether a text begins like a JSON object or array.
pub(crate) fn opens_json(text: &str) -> bool {
    matches!(text.trim_ascii_start().as_bytes(), [b'{' | b'[', ..])
}

/// Whether a text is exactly one JSON value.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// A name as it is spelled in an object, and its value.
pub(super) type Member<'a> = (&'a str, RawValue<'a>);

/// The members of a JSON object. A malformed one is `None` and ends the iteration.
#[derive(Clone)]
pub(super) struct Members<'a> {
    text: &'a str,
    /// Where the next member begins; at the end where the object ends.
    at: usize,
    done: bool,
}

impl<'a> Members<'a> {
    /// The members of a text that is an object.
    pub fn of(text: &'a str) -> Option<Self> {
        Self::at(text.trim_ascii_start(), 0)
    }

    /// The members of the object that begins at `start`.
    fn at(text: &'a str, start: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_object = bytes.get(start) == Some(&b'{');
        let mut members = Self {
            text,
            at: start + 1,
            done: false,
        };
        members.skip_space();
        members.done = bytes.get(members.at) == Some(&b'}');
        is_object.then_some(members)
    }

    fn skip_space(&mut self) {
        self.at = skip_space(self.text.as_bytes(), self.at);
    }

    fn member(&mut self) -> Option<Member<'a>> {
        let bytes = self.text.as_bytes();
        let key_end = string_end(bytes, self.at)?;
        let key = &self.text[self.at + 1..key_end - 1];
        self.at = key_end;
        self.skip_space();
        if bytes.get(self.at) != Some(&b':') {
            return None;
        }
        self.at += 1;
        self.skip_space();
        let end = value_end(bytes, self.at)?;
        let value = RawValue::new(&self.text[self.at..end]);
        self.at = end;
        self.skip_space();
        Some((key, value))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Option<Member<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        self.skip_space();
        let member = self.member();
        match self.text.as_bytes().get(self.at) {
            Some(b',') if member.is_some() => {
                self.at += 1;
                Some(member)
            }
            Some(b'}') if member.is_some() => {
                self.done = true;
                Some(member)
            }
            _ => {
                self.done = true;
                Some(None)
            }
        }
    }
}

/// The members of the object that begins at `start`, and where it ends. `None` if it is malformed; otherwise
/// [`value_end`] finds the same end.
pub(super) fn object(text: &str, start: usize) -> Option<(Vec<Member<'_>>, usize)> {
    let mut members = Members::at(text, start)?;
    // The close line of a tool call has ten or so.
    let mut list = Vec::with_capacity(16);
    for member in &mut members {
        list.push(member?);
    }
    Some((list, members.at + 1))
}

#[cfg(test)]
mod tests;
