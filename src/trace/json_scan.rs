//! JSON gone through as bytes: where its strings, its values and the members of its objects end.

use super::raw_line::RawValue;

/// A name as it stands in the object, and what stands behind it.
pub(super) type Member<'a> = (&'a str, RawValue<'a>);

/// The top members of a JSON object. `None` for one that is malformed, and then no more.
#[derive(Clone)]
pub(super) struct Members<'a> {
    text: &'a str,
    start: usize,
    at: usize,
    done: bool,
    /// Whether the text ends with the object.
    alone: bool,
}

impl<'a> Members<'a> {
    pub fn of(text: &'a str) -> Option<Self> {
        let trimmed = text.trim_ascii();
        let object = trimmed.starts_with('{') && trimmed.ends_with('}');
        object.then(|| Self::begin(trimmed, 0, true))
    }

    fn begin(text: &'a str, start: usize, alone: bool) -> Self {
        Self {
            text,
            start,
            at: start + 1,
            done: false,
            alone,
        }
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn member(&mut self) -> Option<Member<'a>> {
        let bytes = self.text.as_bytes();
        let key_end = string_end(bytes, self.at)?;
        let key = &self.text[self.at + 1..key_end - 1];
        self.at = key_end;
        self.skip_space();
        if bytes.get(self.at) != Some(&b':') {
            return None;
        }
        self.at += 1;
        self.skip_space();
        let end = value_end(bytes, self.at)?;
        let value = RawValue::new(&self.text[self.at..end]);
        self.at = end;
        self.skip_space();
        Some((key, value))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Option<Member<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let bytes = self.text.as_bytes();
        let alone = self.alone;
        let may_end = |at: usize| !alone || at + 1 == bytes.len();
        self.skip_space();
        if self.at == self.start + 1 && bytes.get(self.at) == Some(&b'}') {
            self.done = true;
            return (!may_end(self.at)).then_some(None);
        }
        let member = self.member();
        match (member, bytes.get(self.at)) {
            (Some(member), Some(b',')) => {
                self.at += 1;
                Some(Some(member))
            }
            (Some(member), Some(b'}')) if may_end(self.at) => {
                self.done = true;
                Some(Some(member))
            }
            _ => {
                self.done = true;
                Some(None)
            }
        }
    }
}

/// The members of the object that begins at `start`, and where it ends. Nothing unless it is one
/// from its beginning to its end: then [`value_end`] is where it ends too.
#[cfg(any(feature = "mirror", test))]
pub(super) fn object(text: &str, start: usize) -> Option<(Vec<Member<'_>>, usize)> {
    if text.as_bytes().get(start) != Some(&b'{') {
        return None;
    }
    let mut members = Members::begin(text, start, false);
    // The close line of a tool call has ten or so.
    let mut list = Vec::with_capacity(16);
    for member in &mut members {
        list.push(member?);
    }
    Some((list, members.at + 1))
}

/// A text that is taken apart from its beginning, as long as it is what is expected.
pub(super) struct Expect<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Expect<'a> {
    /// Passes what is expected by the letter.
    pub fn pass(&mut self, what: &str) -> Option<()> {
        let found = self.text.as_bytes()[self.at..].starts_with(what.as_bytes());
        found.then(|| self.at += what.len())
    }

    /// A string that needs no unescaping.
    pub fn plain(&mut self) -> Option<&'a str> {
        self.pass("\"")?;
        let bytes = self.text.as_bytes();
        let end = self.at + quote_or_backslash(&bytes[self.at..])?;
        let plain = &self.text[self.at..end];
        self.at = end;
        self.pass("\"")?;
        Some(plain)
    }

    pub fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().position(|b| !b.is_ascii_digit())?];
        self.at += digits.len();
        digits.parse().ok()
    }
}

/// Where the string that begins at `start` ends, its quote included.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        let found = at + quote_or_backslash(bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

const ONES: u64 = u64::MAX / 255;

/// Eight bytes at once: the highest bit of each one that is `byte`, and of none before the first.
fn each(eight: u64, byte: u8) -> u64 {
    let x = eight ^ (ONES * u64::from(byte));
    x.wrapping_sub(ONES) & !x & (ONES << 7)
}

/// How many bytes are looked at here before others are called, who are faster once they run: most
/// strings are shorter.
const SHORT: usize = 32;

fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < SHORT
        && let Some(eight) = bytes[at..].first_chunk()
    {
        let x = u64::from_le_bytes(*eight);
        let found = each(x, b'"') | each(x, b'\\');
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Some(at + memchr::memchr2(b'"', b'\\', &bytes[at..])?)
}

/// Whether there is a backslash.
pub(crate) fn has_backslash(bytes: &[u8]) -> bool {
    if bytes.len() > SHORT {
        return memchr::memchr(b'\\', bytes).is_some();
    }
    let (eights, rest) = bytes.as_chunks();
    let in_eight = |eight: &[u8; 8]| each(u64::from_le_bytes(*eight), b'\\') != 0;
    eights.iter().any(in_eight) || rest.contains(&b'\\')
}

/// Where the value that begins at `start` ends. Nesting is counted, never recursed into.
pub(crate) fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let ends = |at: usize| {
        let stop = matches!(
            bytes.get(at)?,
            b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'
        );
        stop.then_some(at)
    };
    match bytes.get(start)? {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => {
            let mut depth = 0usize;
            let mut at = start;
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        b'-' | b'0'..=b'9' => {
            let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            ends(start + bytes[start..].iter().position(|b| !digit(b))?)
        }
        b't' | b'f' | b'n' => {
            let words: [&[u8]; 3] = [b"true", b"false", b"null"];
            let word = words.iter().find(|word| bytes[start..].starts_with(word))?;
            ends(start + word.len())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
