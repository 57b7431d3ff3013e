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

/// The first eight bytes, the first one lowest, with zeros for those that are missing.
#[inline]
pub(super) fn first_word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    let place = |at: usize, part: u32| u64::from(part) << (8 * at);
    let length = bytes.len();
    // Parts that overlap say the same where they do.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return place(0, u32::from_le_bytes(*first)) | place(length - 4, u32::from_le_bytes(*last));
    }
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| place(at, (*byte).into()));
    byte(0) | byte(1) | byte(2)
}

/// How many bytes there are before the first that can't stand in a JSON string as it is: a quote,
/// a backslash or a control character. Eight bytes at a time, by arithmetic that sets the highest
/// bit of each such byte, and of no byte before the first.
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let below = |x: u64, limit: u8| x.wrapping_sub(ONES * u64::from(limit));
    let special = |x: u64| {
        // With this bit turned, the quote comes right after the control characters.
        let low = below(x ^ (ONES * 2), b' ' + 1);
        let backslash = below(x ^ (ONES * u64::from(b'\\')), 1);
        (low | backslash) & !x & TOPS
    };
    let mut rest = bytes;
    while let Some((eight, more)) = rest.split_first_chunk() {
        let special = special(u64::from_le_bytes(*eight));
        if special != 0 {
            return bytes.len() - rest.len() + special.trailing_zeros() as usize / 8;
        }
        rest = more;
    }
    // Of the last few, the zero behind them is found if nothing else is.
    let special = special(first_word(rest));
    bytes.len() - rest.len() + special.trailing_zeros() as usize / 8
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
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match ESCAPES[usize::from(byte)] {
        b'u' => {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
        }
        letter => out.extend_from_slice(&[b'\\', letter]),
    }
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

/// The text of a JSON string with its quotes. Nothing for what is no string, or stands for no text:
/// a damaged line can hold anything.
pub(crate) fn unescape(quoted: &str) -> Option<Cow<'_, str>> {
    let end = super::check::string(quoted.as_bytes(), 0)?;
    let inside = quoted.get(1..end.checked_sub(1)?)?;
    let Content { text, sound } = read_string(inside);
    (end == quoted.len() && sound).then_some(text)
}

/// The character that the `\u` at `at` stands for, or two of them do, and how many bytes they take.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_json_string_has_no_text() {
        let cut_short = r#""a\u00"#;
        let unknown_before_a_wide_character = "\"a\\é\"";
        let half_a_pair = r#""\ud83d""#;
        let two = r#""a" "b""#;
        for text in [
            cut_short,
            unknown_before_a_wide_character,
            half_a_pair,
            two,
            "\"",
            "a",
            "",
        ] {
            assert_eq!(unescape(text), None, "{text}");
        }
        assert_eq!(unescape(r#""\u00e9\n\"\ud83d\ude00""#).unwrap(), "é\n\"😀");
    }

    proptest! {
        #[test]
        fn a_text_is_unescaped_as_serde_json_does(text in ".{0,20}", cut in 0usize..40) {
            let json = serde_json::to_string(&text).unwrap();
            let cut: String = json.chars().take(cut).collect();
            for json in [&json, &cut] {
                let read = serde_json::from_str::<String>(json).ok();
                prop_assert_eq!(unescape(json).map(Cow::into_owned), read);
            }
        }

        #[test]
        fn what_must_be_escaped_is_found(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x1fu8..0x24, 0x5b..0x5eu8], 0..40),
        ) {
            let special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
            // From every place, so that the last few are met in all lengths.
            for at in 0..=bytes.len() {
                let rest = &bytes[at..];
                let first = rest.iter().position(special).unwrap_or(rest.len());
                prop_assert_eq!(plain_length(rest), first);
                let mut word = [0; 8];
                let length = rest.len().min(8);
                word[..length].copy_from_slice(&rest[..length]);
                prop_assert_eq!(first_word(rest), u64::from_le_bytes(word));
            }
        }

        #[test]
        fn a_text_is_escaped_as_serde_json_does(text in "[ab\"\\\\\u{0}-\u{20}é😀]{0,40}") {
            let mut out = Vec::new();
            write_string(&text, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }
}
