//! Times as other programs write them.

use std::io;

use serde_json::Value;

use crate::trace::parse_time;

/// A time in ISO 8601, if the value is one.
pub(super) fn time_of(value: &Value) -> Option<u64> {
    iso_time(value.as_str()?)
}

/// The time in a member that may be absent or null.
pub(super) fn given_time(value: Option<&Value>, name: &str) -> io::Result<Option<u64>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match time_of(value) {
            Some(time) => Ok(Some(time)),
            None => Err(io::Error::other(format!(
                "`{name}` is no time in ISO 8601: {value}"
            ))),
        },
    }
}

/// A time in ISO 8601: in UTC, with an offset from it, or without a zone, which means UTC.
pub(super) fn iso_time(text: &str) -> Option<u64> {
    let text = text.trim().replacen(' ', "T", 1);
    if text.ends_with(['Z', 'z']) {
        return parse_time(&text.to_ascii_uppercase());
    }
    let clock = text.find('T')?;
    let Some(at) = text[clock..].find(['+', '-']).map(|at| clock + at) else {
        return parse_time(&format!("{text}Z"));
    };
    let (local, zone) = (parse_time(&format!("{}Z", &text[..at]))?, &text[at + 1..]);
    let digits: String = zone.chars().filter(|c| *c != ':').collect();
    let number = |digits: &str| digits.parse::<u64>().ok();
    let hours = number(digits.get(..2)?)?;
    let minutes = digits.get(2..4).map_or(Some(0), number)?;
    let offset = (hours * 60 + minutes) * 60_000_000_000;
    match text.as_bytes()[at] {
        b'+' => local.checked_sub(offset),
        _ => local.checked_add(offset),
    }
}

/// Milliseconds since 1970 as nanoseconds.
pub(super) fn from_millis(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// Seconds as nanoseconds.
pub(super) fn from_seconds(seconds: &Value) -> Option<u64> {
    let seconds = seconds.as_f64().filter(|seconds| *seconds >= 0.0)?;
    Some((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_are_not_negative() {
        assert_eq!(from_seconds(&json!(1.5)), Some(1_500_000_000));
        assert_eq!(from_seconds(&json!(-1)), None);
    }

    #[test]
    fn offsets_are_applied() {
        let utc = iso_time("2026-11-16T00:31:05.123456Z");
        assert!(utc.is_some());
        assert_eq!(iso_time("2026-11-16T00:31:05.123456+00:00"), utc);
        assert_eq!(iso_time("2026-11-16 00:31:05.123456"), utc);
        assert_eq!(iso_time("2026-11-16T02:01:05.123456+01:30"), utc);
        assert_eq!(iso_time("2026-11-15T19:31:05.123456-0500"), utc);
        assert_eq!(iso_time("2026-11-15T19:31:05.123456-05"), utc);
        for wrong in [
            "",
            "T",
            "yesterday",
            "2026-11-16T00:31:05+",
            "2026-11-16T00:31:05+x",
            "2026-11-16",
            "1970-01-01T00:00:00+01:00",
            "é-T+1",
        ] {
            assert_eq!(iso_time(wrong), None, "{wrong}");
        }
    }
}
