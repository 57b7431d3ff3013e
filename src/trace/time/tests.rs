use super::*;
use proptest::prelude::*;

#[test]
fn a_time_is_written_as_it_is_read() {
    for (ns, text) in [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (951_782_399_000_000_001, "2000-02-28T23:59:59.000000001Z"),
        (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
        (1_794_789_065_123_456_789, "2026-11-16T00:31:05.123456789Z"),
        (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
    ] {
        assert_eq!(time_text(ns, 9), text);
        assert_eq!(parse_time(text), Some(ns));
    }
    assert_eq!(
        time_text(1_794_789_065_123_456_789, 6),
        "2026-11-16T00:31:05.123456Z"
    );
    assert_eq!(
        time_text(1_794_789_065_023_456_789, 3),
        "2026-11-16T00:31:05.023Z"
    );
}

proptest! {
    #[test]
    fn a_time_is_spelled_as_the_formatter_does(secs in 0..16_725_225_600u64, nanos in 0..1_000_000_000u32) {
        let ns = secs * 1_000_000_000 + u64::from(nanos);
        let whole = format!("{nanos:09}");
        for decimals in [3, 6, 9] {
            let text = time_text(ns, decimals);
            let fraction = format!(".{}Z", &whole[..decimals]);
            prop_assert_eq!(&text[19..], fraction);
        }
        prop_assert_eq!(parse_time(&time_text(ns, 9)), Some(ns));
    }
}

#[test]
fn what_is_no_time_is_refused() {
    for text in [
        "",
        "2026",
        "2026-13-01T00:00:00Z",
        "+026-01-01T00:00:00Z",
        "éééééééééé",
    ] {
        assert_eq!(parse_time(text), None, "{text}");
    }
}
