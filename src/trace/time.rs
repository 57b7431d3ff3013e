//! Times as text: RFC 3339 in UTC.

use std::cell::Cell;

fn digits(slots: &mut [u8], mut value: u32) {
    for slot in slots.iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
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
    let mut text = [b'Z'; 30];
    text[..20].copy_from_slice(&SECOND.get().1);
    // All nine digits, after a one.
    let mut nine = itoa::Buffer::new();
    let nine = nine.format(1_000_000_000 + nanos);
    text[20..29].copy_from_slice(&nine.as_bytes()[1..]);
    let end = 20 + decimals.min(9);
    text[end] = b'Z';
    out.extend_from_slice(&text[..=end]);
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

/// Nanoseconds since 1970 as RFC 3339 in UTC, with so many decimals.
///
/// ```
/// use spanledger::trace::{parse_time, time_text};
/// let text = time_text(1_500_000_000, 6);
/// assert_eq!(text, "1970-01-01T00:00:01.500000Z");
/// assert_eq!(parse_time(&text), Some(1_500_000_000));
/// ```
pub fn time_text(ns: u64, decimals: usize) -> String {
    let mut out = Vec::with_capacity(32);
    write_time(ns, decimals, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Nanoseconds since 1970, from a text that [`time_text`] wrote.
pub fn parse_time(text: &str) -> Option<u64> {
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
mod tests;
