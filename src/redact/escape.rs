//! JSON strings, out and in.

use std::borrow::Cow;

/// How a byte is written inside a JSON string: as it is (0), as `\u00XX` (`u`), or with this
/// letter after a backslash.
static ESCAPES: [u8; 256] = escapes();

const fn escapes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
}

/// Writes `text` as a JSON string with its quotes, on one line.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        out.push(b'\\');
        if escape == b'u' {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"u00");
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
        } else {
            out.push(escape);
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// The content of a JSON string, and whether its spelling may be kept: a lone half of a
/// surrogate pair stands for no character and becomes U+FFFD.
pub(super) struct Content<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) sound: bool,
}

/// Reads what is between the quotes of a valid JSON string.
pub(super) fn read_string(inside: &str) -> Content<'_> {
    let bytes = inside.as_bytes();
    let Some(first) = memchr::memchr(b'\\', bytes) else {
        return Content {
            text: Cow::Borrowed(inside),
            sound: true,
        };
    };
    let mut text = String::with_capacity(inside.len());
    let mut sound = true;
    let mut copied = 0;
    let mut next = Some(first);
    while let Some(at) = next {
        text.push_str(&inside[copied..at]);
        copied = at + 2;
        match bytes.get(at + 1) {
            Some(b'b') => text.push('\u{8}'),
            Some(b'f') => text.push('\u{c}'),
            Some(b'n') => text.push('\n'),
            Some(b'r') => text.push('\r'),
            Some(b't') => text.push('\t'),
            Some(b'u') => {
                let (character, length) = unicode(bytes, at);
                copied = at + length;
                sound &= character.is_some();
                text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(&other) => text.push(char::from(other)),
            None => {}
        }
        copied = copied.min(bytes.len());
        next = memchr::memchr(b'\\', &bytes[copied..]).map(|n| copied + n);
    }
    text.push_str(&inside[copied..]);
    Content {
        text: Cow::Owned(text),
        sound,
    }
}

/// The character of the `\uXXXX` at `at`, or of two of them, and how many bytes they take.
fn unicode(bytes: &[u8], at: usize) -> (Option<char>, usize) {
    let Some(first) = four_digits(bytes, at + 2) else {
        return (None, 2);
    };
    if !(0xd800..0xdc00).contains(&first) {
        return (char::from_u32(first), 6);
    }
    let second = match bytes.get(at + 6..at + 8) {
        Some(b"\\u") => four_digits(bytes, at + 8),
        _ => None,
    };
    match second {
        Some(second @ 0xdc00..0xe000) => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code), 12)
        }
        _ => (None, 6),
    }
}

fn four_digits(bytes: &[u8], at: usize) -> Option<u32> {
    let mut code = 0;
    for &byte in bytes.get(at..at + 4)? {
        code = code << 4 | char::from(byte).to_digit(16)?;
    }
    Some(code)
}
