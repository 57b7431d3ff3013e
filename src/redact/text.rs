//! Classes of ASCII bytes, runs of them, and what a text is made of.
//!
//! Bytes of multi-byte characters belong to no class, so a run of a class always starts and ends on
//! a character boundary.

pub(super) fn is_alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Letters, digits and underscores.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The URL-safe base64 alphabet.
pub(super) fn is_url64(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

/// The standard base64 alphabet with padding.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// The characters of names such as `db.password` or `X-Api-Key`.
pub(super) fn is_name(byte: u8) -> bool {
    is_url64(byte) || byte == b'.'
}

/// Any of the three quotes that programs use.
pub(super) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// The end of the run of a class that starts at `from`, at most `max` bytes long.
pub(super) fn run_end(bytes: &[u8], from: usize, max: usize, class: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take(max).take_while(|b| class(**b)).count()
}

/// The start of the run of a class that ends at `to`, at most `max` bytes long.
pub(super) fn run_start(bytes: &[u8], to: usize, max: usize, class: impl Fn(u8) -> bool) -> usize {
    let before = bytes[..to].iter().rev();
    to - before.take(max).take_while(|b| class(**b)).count()
}

/// The start of the name or token that ends at `to`: of the run before it, without the letter of an
/// escape (`\npassword`).
pub(super) fn token_start(
    bytes: &[u8],
    to: usize,
    max: usize,
    class: impl Fn(u8) -> bool,
) -> usize {
    let start = run_start(bytes, to, max, class);
    let escape =
        start < to && bytes[start].is_ascii_lowercase() && opens(bytes, start + 1, is_alnum);
    start + usize::from(escape)
}

/// Whether a token may start at `at`: the byte before does not belong to `class`, or only looks
/// as if it did because it ends an escape (`\n`, `%3D`, `\u003d`, a terminal color).
pub(super) fn opens(bytes: &[u8], at: usize, class: impl Fn(u8) -> bool) -> bool {
    let back = |n: usize| at.checked_sub(n).and_then(|i| bytes.get(i)).copied();
    let Some(before) = back(1).filter(|byte| class(*byte)) else {
        return true;
    };
    let hex = |n: usize| (1..=n).all(|i| back(i).is_some_and(|b| b.is_ascii_hexdigit()));
    back(2) == Some(b'\\') && matches!(before, b'n' | b'r' | b't' | b'b' | b'f')
        || back(3) == Some(b'%') && hex(2)
        || back(6) == Some(b'\\') && back(5) == Some(b'u') && hex(4)
        || before == b'm' && ends_color(&bytes[..at - 1])
}

/// Whether `bytes` ends in text like `ESC [ 0;31`, so that an `m` after it ends a color.
fn ends_color(bytes: &[u8]) -> bool {
    let numbers = |b: u8| b.is_ascii_digit() || b == b';';
    let start = run_start(bytes, bytes.len(), 12, numbers);
    bytes[..start].ends_with(b"\x1b[")
}

/// How many bytes of each kind a text has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix {
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) digit: usize,
}

impl Mix {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut mix = Self::default();
        for &byte in bytes {
            match byte {
                b'a'..=b'z' => mix.lower += 1,
                b'A'..=b'Z' => mix.upper += 1,
                b'0'..=b'9' => mix.digit += 1,
                _ => {}
            }
        }
        mix
    }

    pub(super) fn letters(self) -> usize {
        self.lower + self.upper
    }
}

/// Surely no word: at least eight bytes, with letters and digits.
pub(super) fn is_strong(bytes: &[u8]) -> bool {
    let mix = Mix::of(bytes);
    bytes.len() >= 8 && mix.digit > 0 && mix.letters() > 0
}

/// How often a text changes from a small letter to a capital, or between letters and digits. Random text does at every
/// second or third byte, words and the numbers behind them seldom.
pub(super) fn class_changes(bytes: &[u8]) -> usize {
    let changes = |pair: &&[u8]| {
        let [before, after] = [pair[0], pair[1]];
        before.is_ascii_lowercase() && after.is_ascii_uppercase()
            || before.is_ascii_alphabetic() && after.is_ascii_digit()
            || before.is_ascii_digit() && after.is_ascii_alphabetic()
    };
    bytes.windows(2).filter(changes).count()
}

/// Whether at least `least` different bytes occur: rules out fillers such as `xxxxxxxx`.
pub(super) fn is_varied(bytes: &[u8], least: u32) -> bool {
    let mut seen = [0u64; 4];
    for &byte in bytes {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum::<u32>() >= least
}

/// Whether `bytes` starts with `prefix` in any ASCII case.
pub(super) fn starts_with_any_case(bytes: &[u8], prefix: &[u8]) -> bool {
    let head = bytes.get(..prefix.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Whether `bytes` ends with `suffix` in any ASCII case.
pub(super) fn ends_with_any_case(bytes: &[u8], suffix: &[u8]) -> bool {
    let at = bytes.len().checked_sub(suffix.len());
    at.is_some_and(|at| bytes[at..].eq_ignore_ascii_case(suffix))
}
