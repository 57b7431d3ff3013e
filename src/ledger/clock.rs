//! Two clocks: the wall for when, one that counts sleep for how long.

use std::cell::Cell;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970, UTC.
    pub wall: u64,
    /// Nanoseconds on a clock that never steps and goes on while the machine sleeps.
    pub steady: u64,
}

thread_local! {
    /// When the two clocks were last read together, by the steady one, and how far the wall's was
    /// ahead.
    static AHEAD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// How soon a wall clock that was set is noticed. A look at a clock takes as long as writing a
/// short text.
const FRESH_NS: u64 = 1_000_000;
/// A thread that lost the processor between two looks has not seen one moment.
const TOGETHER_NS: u64 = 2_000;
/// How far the moments of two threads may be from their order: each is that much off, and an open
/// line's is a microsecond ahead.
pub(crate) const APART_NS: u64 = 2 * TOGETHER_NS;

impl Moment {
    /// One look at a clock if this thread has just looked, and otherwise enough of them to be sure
    /// that both were read at one time: a span whose start was not would seem to end before what
    /// is inside it.
    pub fn now() -> Self {
        let steady = steady_ns();
        let (looked, ahead) = AHEAD.get();
        let ahead = match steady.checked_sub(looked) {
            Some(since) if since < FRESH_NS => ahead,
            _ => look_at_both(),
        };
        Self {
            wall: steady.wrapping_add(ahead),
            steady,
        }
    }
}

#[cold]
fn look_at_both() -> u64 {
    let mut before = steady_ns();
    let (mut shortest, mut ahead) = (u64::MAX, 0);
    for _ in 0..4 {
        let wall = wall_ns();
        let after = steady_ns();
        let passed = after.saturating_sub(before);
        if passed < shortest {
            (shortest, ahead) = (passed, how_far_ahead(wall, before + passed / 2));
        }
        before = after;
        if passed <= TOGETHER_NS {
            break;
        }
    }
    AHEAD.set((before, ahead));
    ahead
}

/// One moment on the wall's clock and on the steady one. A clock before 1970 reads as 1970, and not as
/// its first instant: what was a little earlier must not be before that.
fn how_far_ahead(wall: u64, steady: u64) -> u64 {
    wall.max(1_000_000_000).wrapping_sub(steady)
}

pub(crate) fn wall_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

pub(crate) fn steady_ns() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    // On Apple systems CLOCK_MONOTONIC counts sleep.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    read(CLOCK)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid place for the answer; the clock is one the system has.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    // A wall clock before 1970 reads as 1970.
    u64::try_from(ts.tv_sec).map_or(0, |secs| {
        secs.saturating_mul(1_000_000_000)
            .saturating_add(ts.tv_nsec as u64)
    })
}

fn digits(slots: &mut [u8], mut value: u32) {
    for slot in slots.iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// The last eight digits of a number, all at once: halves, quarters and then single digits are
/// parted by multiplications that stand for divisions.
#[inline]
pub(super) fn eight_digits(value: u32) -> [u8; 8] {
    let value = u64::from(value % 100_000_000);
    // The first half lowest, as bytes are when they are written.
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - 10 * tens) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

thread_local! {
    /// The second last written, and how: most times are in the same one.
    static SECOND: Cell<(u64, [u8; 20])> = const { Cell::new((u64::MAX, [0; 20])) };
}

/// Appends `ns` since 1970 as RFC 3339 in UTC, with 3, 6 or 9 digits after the second.
pub(crate) fn write_time(ns: u64, decimals: usize, out: &mut Vec<u8>) {
    let (secs, nanos) = (ns / 1_000_000_000, (ns % 1_000_000_000) as u32);
    if SECOND.get().0 != secs {
        spell_second(secs);
    }
    // Copies of known lengths, and one cut, are cheaper than one of any length.
    out.extend_from_slice(&SECOND.get().1);
    let end = out.len() + decimals.min(9);
    out.push(b'0' + (nanos / 100_000_000) as u8);
    out.extend_from_slice(&eight_digits(nanos));
    out.truncate(end);
    out.push(b'Z');
}

#[cold]
fn spell_second(secs: u64) {
    SECOND.set((secs, second_text(secs)));
}

/// A second since 1970, up to the point before its fraction.
fn second_text(secs: u64) -> [u8; 20] {
    let (days, second) = (secs / 86_400, (secs % 86_400) as u32);
    // Days since 0000-03-01, in eras of 400 years, so that leap days end each year.
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    let mut text = *b"0000-00-00T00:00:00.";
    digits(&mut text[0..4], year as u32);
    digits(&mut text[5..7], month as u32);
    digits(&mut text[8..10], day as u32);
    digits(&mut text[11..13], second / 3_600);
    digits(&mut text[14..16], second / 60 % 60);
    digits(&mut text[17..19], second % 60);
    text
}

/// `ns` since 1970 as RFC 3339 in UTC.
pub(crate) fn time_text(ns: u64, decimals: usize) -> String {
    let mut out = Vec::with_capacity(32);
    write_time(ns, decimals, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Reads what [`write_time`] wrote: nanoseconds since 1970.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let digit = |b: &u8| b.is_ascii_digit().then(|| u64::from(b - b'0'));
        let mut digits = bytes.get(range)?.iter();
        digits.try_fold(0, |number, b| Some(number * 10 + digit(b)?))
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|(at, c)| bytes.get(*at) == Some(c)) || bytes.last() != Some(&b'Z') {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let nanos = match bytes.get(19) {
        Some(b'.') => {
            let decimals = bytes
                .len()
                .checked_sub(21)
                .filter(|d| (1..=9).contains(d))?;
            number(20..20 + decimals)? * 10u64.pow(9 - decimals as u32)
        }
        _ => 0,
    };
    let y = if month <= 2 { year - 1 } else { year };
    let (era, yoe) = (y / 400, y % 400);
    let mp = (month + 9) % 12;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + (153 * mp + 2) / 5 + day - 1;
    let days = (era * 146_097 + doe).checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_a_little_earlier_than_1970_is_not_in_the_far_future() {
        let looked_at = 5_000_000_000;
        let ahead = how_far_ahead(0, looked_at);
        for earlier in [0, 1, 1_000, 1_000_000] {
            let wall = (looked_at - earlier).wrapping_add(ahead);
            assert_eq!(&time_text(wall, 9)[..4], "1970");
        }
        assert_eq!(how_far_ahead(looked_at + 7, looked_at), 7);
    }

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
    fn digits_are_those_of_the_formatter() {
        for half in 0..10_000 {
            let value = half * 10_000 + (9_999 - half);
            let text = format!("{value:08}");
            assert_eq!(&eight_digits(value)[..], text.as_bytes());
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
}
