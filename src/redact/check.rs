//! Whether a text is exactly one JSON value, and how deep.

use super::escape::plain_length;

/// Which of the open containers are objects, or of whatever else there are two kinds: one bit
/// each, so that a million levels are cheap.
#[derive(Default)]
pub(super) struct Levels {
    /// The innermost ones, up to 64, the last in the lowest bit.
    inner: u64,
    /// Those around them, the same way.
    outer: Vec<u64>,
    depth: usize,
}

impl Levels {
    pub(super) fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(object);
        self.depth += 1;
    }

    pub(super) fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.inner >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.inner = self.outer.pop().unwrap_or_default();
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Whether the innermost open container is an object.
    pub(super) fn in_object(&self) -> bool {
        self.depth > 0 && self.inner & 1 == 1
    }
}

/// What is known of a JSON text after it was checked.
pub(super) struct Checked {
    /// The greatest depth.
    pub(super) depth: usize,
    /// A line ends in it. None can inside a string.
    pub(super) line_ends: bool,
    /// A backslash is in it. None can be outside a string.
    pub(super) backslashes: bool,
}

/// Checks that `json` is exactly one JSON value.
pub(super) fn check(json: &str) -> Option<Checked> {
    let bytes = json.as_bytes();
    let mut checked = Checked {
        depth: 0,
        line_ends: false,
        backslashes: false,
    };
    let mut levels = Levels::default();
    let mut at = 0;
    // Whether the next string is a member's name.
    let mut names = false;
    loop {
        at = skip_blanks(bytes, at, &mut checked.line_ends);
        match *bytes.get(at)? {
            b'"' => {
                at = skip_string(bytes, at, &mut checked.backslashes)?;
                if names {
                    at = skip_blanks(bytes, at, &mut checked.line_ends);
                    if *bytes.get(at)? != b':' {
                        return None;
                    }
                    at += 1;
                    names = false;
                    continue;
                }
            }
            _ if names => return None,
            open @ (b'{' | b'[') => {
                names = open == b'{';
                levels.push(names);
                checked.depth = checked.depth.max(levels.depth());
                at = skip_blanks(bytes, at + 1, &mut checked.line_ends);
                if bytes.get(at) != Some(&if names { b'}' } else { b']' }) {
                    continue;
                }
                // Empty: closed below like any other.
            }
            b't' => at = word(bytes, at, b"true")?,
            b'f' => at = word(bytes, at, b"false")?,
            b'n' => at = word(bytes, at, b"null")?,
            _ => at = number(bytes, at)?,
        }
        // A value has ended; so may the containers around it.
        loop {
            at = skip_blanks(bytes, at, &mut checked.line_ends);
            if levels.depth() == 0 {
                return (at == bytes.len()).then_some(checked);
            }
            names = levels.in_object();
            match (*bytes.get(at)?, names) {
                (b'}', true) | (b']', false) => {
                    levels.pop();
                    at += 1;
                }
                (b',', _) => {
                    at += 1;
                    break;
                }
                _ => return None,
            }
        }
    }
}

/// The first byte from `at` on that is no JSON white space.
pub(super) fn blanks(bytes: &[u8], at: usize) -> usize {
    skip_blanks(bytes, at, &mut false)
}

/// The same, noting whether a line ends there.
#[inline]
fn skip_blanks(bytes: &[u8], mut at: usize, line_ends: &mut bool) -> usize {
    while let Some(blank @ (b' ' | b'\t' | b'\n' | b'\r')) = bytes.get(at) {
        *line_ends |= matches!(blank, b'\n' | b'\r');
        at += 1;
    }
    at
}

/// The end of the string that starts at `at`.
pub(super) fn string(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    skip_string(bytes, at, &mut false)
}

/// The same, where a quote is known to stand, noting whether there is a backslash in it.
#[inline(always)]
fn skip_string(bytes: &[u8], at: usize, backslashes: &mut bool) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += plain_length(bytes.get(at..)?);
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                *backslashes = true;
                match *bytes.get(at + 1)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                    b'u' => {
                        if !bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) {
                            return None;
                        }
                        at += 6;
                    }
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes[at..].starts_with(word).then_some(at + word.len())
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let count = bytes[from.min(bytes.len())..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        (count > 0).then_some(from + count)
    };
    let start = if bytes.get(at) == Some(&b'-') {
        at + 1
    } else {
        at
    };
    let mut end = if bytes.get(start) == Some(&b'0') {
        start + 1
    } else {
        digits(start)?
    };
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        end = digits(end + 1 + sign)?;
    }
    Some(end)
}

/// The end of the string that starts at `at` of a text known to be JSON.
pub(super) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(from..).unwrap_or_default()) {
        from += found;
        if bytes[from] == b'"' {
            return from + 1;
        }
        from += 2;
    }
    bytes.len()
}

/// The end of the container that starts at `at` of a text known to be JSON.
pub(super) fn container_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0usize;
    let mut from = at;
    while from < bytes.len() {
        match bytes[from] {
            b'"' => {
                from = string_end(bytes, from);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return from + 1;
                }
            }
            _ => {}
        }
        from += 1;
    }
    bytes.len()
}
