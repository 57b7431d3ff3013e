//! Times of other tools: RFC 3339 with any offset, or without one, which is read as UTC.

use serde_json::Value;

use crate::trace::parse_time;

/// Nanoseconds since 1970.
pub(super) fn time_of(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    if text.ends_with('Z') {
        return parse_time(text);
    }
    // `+01:00` or `-0530`, after the time of day.
    let zone = text.get(11..)?.find(['+', '-']).map(|at| at + 11);
    let Some(zone) = zone else {
        return parse_time(&format!("{text}Z"));
    };
    let (local, offset) = text.split_at(zone);
    let digits: String = offset.chars().filter(char::is_ascii_digit).collect();
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<u64>().ok();
    let minutes = part(0..2)? * 60 + part(2..4).unwrap_or(0);
    let (local, shift) = (parse_time(&format!("{local}Z"))?, minutes * 60_000_000_000);
    match offset.starts_with('+') {
        true => local.checked_sub(shift),
        false => local.checked_add(shift),
    }
}

/// Seconds as nanoseconds.
pub(super) fn nanoseconds(seconds: &Value) -> Option<u64> {
    let seconds = seconds.as_f64().filter(|seconds| *seconds >= 0.0)?;
    Some((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn offsets_are_understood() {
        let noon = Some(43_200_000_000_000);
        for text in [
            "1970-01-01T12:00:00Z",
            "1970-01-01T12:00:00.000",
            "1970-01-01T12:00:00+00:00",
            "1970-01-01T13:30:00.000000+0130",
            "1970-01-01T07:00:00-05",
        ] {
            assert_eq!(time_of(&json!(text)), noon, "{text}");
        }
        for text in [
            "",
            "noon",
            "1970-01-01",
            "1970-01-01T12:00:00+x",
            "1970-01-01T00:00:00+01:00",
        ] {
            assert_eq!(time_of(&json!(text)), None, "{text}");
        }
        assert_eq!(nanoseconds(&json!(1.5)), Some(1_500_000_000));
        assert_eq!(nanoseconds(&json!(-1)), None);
    }
}
