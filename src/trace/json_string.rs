//! JSON strings: writing them, and reading their text.

use std::borrow::Cow;

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
    let (eights, rest) = bytes.as_chunks();
    for (index, eight) in eights.iter().enumerate() {
        let x = u64::from_le_bytes(*eight);
        // With this bit flipped, the quote follows the control characters.
        let low = below(x ^ (ONES * 2), b' ' + 1);
        let backslash = below(x ^ (ONES * u64::from(b'\\')), 1);
        let special = (low | backslash) & !x & TOPS;
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    bytes.len() - rest.len() + rest.iter().position(special).unwrap_or(rest.len())
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

fn replace_lone_surrogates(quoted: &str) -> String {
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

#[cfg(test)]
mod tests;
