//! Times as other programs write them.

use crate::trace::parse_time;

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

#[cfg(test)]
mod tests {
    use super::iso_time;

    #[test]
    fn offsets_are_applied() {
        let utc = iso_time("2026-11-16T00:31:05.123456Z");
        assert!(utc.is_some());
        assert_eq!(iso_time("2026-11-16T00:31:05.123456+00:00"), utc);
        assert_eq!(iso_time("2026-11-16 00:31:05.123456"), utc);
        assert_eq!(iso_time("2026-11-16T02:01:05.123456+01:30"), utc);
        assert_eq!(iso_time("2026-11-15T19:31:05.123456-0500"), utc);
        for wrong in [
            "",
            "T",
            "yesterday",
            "2026-11-16T00:31:05+",
            "2026-11-16T00:31:05+x",
            "é-T+1",
        ] {
            assert_eq!(iso_time(wrong), None, "{wrong}");
        }
    }
}
