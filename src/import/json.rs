//! JSON of other tools. Half of a surrogate pair, which JavaScript writes, becomes U+FFFD, as in an export.

use serde_json::Value;

use crate::trace::RawValue;

/// Parses JSON.
pub(super) fn from_slice(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        let text = std::str::from_utf8(bytes).ok();
        text.and_then(|text| RawValue::new(text).value())
            .ok_or(error)
    })
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
