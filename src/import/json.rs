//! JSON of other tools. Half of a surrogate pair, which JavaScript writes, becomes U+FFFD, as in an export.

use std::borrow::Cow;

use serde_json::Value;

/// Parses JSON.
pub(super) fn from_slice(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| match without_halves(bytes) {
        Cow::Owned(mended) => serde_json::from_slice(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// The text with escapes that are halves of a surrogate pair replaced.
fn without_halves(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        match (unit(&bytes[at..]), bytes.get(at + 6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(&bytes[from..at]);
                out.extend_from_slice(b"\\ufffd");
                at += 6;
                from = at;
            }
            // An escape is two characters at least.
            _ => at = (at + 2).min(bytes.len()),
        }
    }
    if from == 0 {
        return Cow::Borrowed(bytes);
    }
    out.extend_from_slice(&bytes[from..]);
    Cow::Owned(out)
}

/// The unit of UTF-16 that an escape at the beginning stands for.
fn unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced() {
        let text = br#"{"a\ud83d":"\\ud83d \ud83d\ude00 \ude00\ud83d","b":"\ud83d\n"}"#;
        let value = from_slice(text).unwrap();
        let expected =
            "{\"a\u{fffd}\":\"\\\\ud83d \u{1f600} \u{fffd}\u{fffd}\",\"b\":\"\u{fffd}\\n\"}";
        assert_eq!(value.to_string(), expected);
        for torn in [r#"["\ud83d"#, r#"["\ud8"#, "[\"\\", r#"["\ud83d\ud8"#] {
            assert!(from_slice(torn.as_bytes()).is_err(), "{torn}");
        }
    }
}
