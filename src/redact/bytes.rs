//! Byte classes shared by the scanners.
//!
//! Everything here works on single ASCII bytes. Bytes of multi-byte characters belong to no class,
//! so a run of a class always starts and ends on a character boundary.

/// A set of byte kinds; a byte belongs to it if any of its own bits are set.
pub(super) type Class = u16;

const LOWER_HEX: Class = 1;
const LOWER_REST: Class = 1 << 1;
const UPPER_HEX: Class = 1 << 2;
const UPPER_REST: Class = 1 << 3;
pub(super) const DIGIT: Class = 1 << 4;
pub(super) const DASH: Class = 1 << 5;
pub(super) const UNDER: Class = 1 << 6;
pub(super) const DOT: Class = 1 << 7;
const PLUS_SLASH: Class = 1 << 8;
pub(super) const EQUALS: Class = 1 << 9;
pub(super) const TILDE: Class = 1 << 10;
pub(super) const COLON: Class = 1 << 11;

pub(super) const LOWER: Class = LOWER_HEX | LOWER_REST;
pub(super) const UPPER: Class = UPPER_HEX | UPPER_REST;
pub(super) const ALPHA: Class = LOWER | UPPER;
pub(super) const ALNUM: Class = ALPHA | DIGIT;
/// Lower-case hexadecimal digits.
pub(super) const HEX: Class = LOWER_HEX | DIGIT;
/// Hexadecimal digits of either case.
pub(super) const ANY_HEX: Class = LOWER_HEX | UPPER_HEX | DIGIT;
pub(super) const UPPER_DIGIT: Class = UPPER | DIGIT;
pub(super) const WORD: Class = ALNUM | UNDER;
/// The URL-safe base64 alphabet.
pub(super) const URL64: Class = ALNUM | UNDER | DASH;
/// The standard base64 alphabet without padding.
pub(super) const BARE64: Class = ALNUM | PLUS_SLASH;
/// The standard base64 alphabet with padding.
pub(super) const BASE64: Class = ALNUM | PLUS_SLASH | EQUALS;
/// The characters of names such as `db.password` or `X-Api-Key`.
pub(super) const IDENT: Class = ALNUM | UNDER | DASH | DOT;

static TABLE: [Class; 256] = table();

const fn table() -> [Class; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'f' => LOWER_HEX,
            b'g'..=b'z' => LOWER_REST,
            b'A'..=b'F' => UPPER_HEX,
            b'G'..=b'Z' => UPPER_REST,
            b'0'..=b'9' => DIGIT,
            b'-' => DASH,
            b'_' => UNDER,
            b'.' => DOT,
            b'+' | b'/' => PLUS_SLASH,
            b'=' => EQUALS,
            b'~' => TILDE,
            b':' => COLON,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// Whether `byte` belongs to `class`.
#[inline]
pub(super) fn is(class: Class, byte: u8) -> bool {
    TABLE[byte as usize] & class != 0
}

/// The end of the run of `class` that starts at `from`, at most `max` bytes long.
pub(super) fn run_end(bytes: &[u8], from: usize, class: Class, max: usize) -> usize {
    let limit = bytes.len().min(from.saturating_add(max));
    let mut at = from;
    while at < limit && is(class, bytes[at]) {
        at += 1;
    }
    at
}

/// The start of the run of `class` that ends at `to`, at most `max` bytes long.
pub(super) fn run_start(bytes: &[u8], to: usize, class: Class, max: usize) -> usize {
    let limit = to.saturating_sub(max);
    let mut at = to;
    while at > limit && is(class, bytes[at - 1]) {
        at -= 1;
    }
    at
}

/// Whether a token may start at `at`: the byte before belongs to no `class`, or only looks as if
/// it did because it ends an escape (`\n`, `%3D`, `\u003d`, a terminal colour).
pub(super) fn opens(bytes: &[u8], at: usize, class: Class) -> bool {
    let Some(&before) = at.checked_sub(1).and_then(|i| bytes.get(i)) else {
        return true;
    };
    if !is(class, before) {
        return true;
    }
    let back = |n: usize| at.checked_sub(n).and_then(|i| bytes.get(i)).copied();
    if back(2) == Some(b'\\') && matches!(before, b'n' | b'r' | b't' | b'b' | b'f') {
        return true;
    }
    let hexes = |n: usize| (1..=n).all(|i| back(i).is_some_and(|b| is(ANY_HEX, b)));
    if back(3) == Some(b'%') && hexes(2) {
        return true;
    }
    if back(6) == Some(b'\\') && back(5) == Some(b'u') && hexes(4) {
        return true;
    }
    before == b'm' && ends_colour(bytes, at - 1)
}

/// Whether `bytes[..to]` ends in `ESC [ 0;31`-like text, so that an `m` at `to` ends a colour.
fn ends_colour(bytes: &[u8], to: usize) -> bool {
    let mut at = to;
    while at > 0 && to - at < 12 && (bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b';') {
        at -= 1;
    }
    at >= 2 && bytes[at - 1] == b'[' && bytes[at - 2] == 0x1b
}

/// What a text is made of, counted once for the several tests that ask.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix {
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) digit: usize,
    pub(super) other: usize,
}

impl Mix {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut mix = Self::default();
        for &byte in bytes {
            if is(LOWER, byte) {
                mix.lower += 1;
            } else if is(UPPER, byte) {
                mix.upper += 1;
            } else if is(DIGIT, byte) {
                mix.digit += 1;
            } else {
                mix.other += 1;
            }
        }
        mix
    }

    pub(super) fn letters(self) -> usize {
        self.lower + self.upper
    }

    /// Letters only, as ordinary words are.
    pub(super) fn only_letters(self) -> bool {
        self.letters() > 0 && self.digit == 0 && self.other == 0
    }
}

/// Whether at least `least` different bytes occur: rules out fillers such as `xxxxxxxx`.
pub(super) fn varied(bytes: &[u8], least: u32) -> bool {
    let mut seen = [0u64; 4];
    for &byte in bytes {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum::<u32>() >= least
}

/// Whether `bytes` starts with `prefix` whatever its ASCII case.
pub(super) fn starts_with_any_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}
