//! A line as bytes: its head taken apart, its payload left as it is until somebody asks.
//!
//! Parsing every payload into values would cost most of the time that reading a long trace
//! takes, and most of it is never looked at.

use std::borrow::Cow;

use serde_json::Value;

use crate::event::SpanKind;
use crate::ledger::{Line, NotALine, VERSION};
use crate::redact::unescape;

/// A line whose payload has not been parsed yet.
///
/// ```
/// use spanledger::reader::RawLine;
/// let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"s","turn":1,"payload":{"tool_id":"bash","args":{"n":3}}}"#;
/// let line = RawLine::parse(bytes)?;
/// assert_eq!((line.kind.as_ref(), line.turn), ("tool_call", Some(1)));
/// assert_eq!(line.payload().get("tool_id").unwrap().text().unwrap(), "bash");
/// # Ok::<(), spanledger::ledger::NotALine>(())
/// ```
#[derive(Clone, Debug)]
pub struct RawLine<'a> {
    /// The segment's number.
    pub seg: u32,
    /// The line's number in its segment.
    pub seq: u64,
    /// When it was appended.
    pub ts: &'a str,
    /// What it says.
    pub kind: Cow<'a, str>,
    /// The session's id as it was given.
    pub session_id: Cow<'a, str>,
    /// The enclosing turn's index.
    pub turn: Option<u32>,
    /// 32 hex digits.
    pub trace_id: Option<&'a str>,
    /// 16 hex digits.
    pub span_id: Option<&'a str>,
    /// 16 hex digits.
    pub parent_span_id: Option<&'a str>,
    payload: Payload<'a>,
    bytes: &'a [u8],
}

impl<'a> RawLine<'a> {
    /// Takes a line apart, with or without its newline. Its structure is checked as far as its
    /// members go; what stands inside nested values is checked when they are asked for.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NotALine> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let damaged = |why: &str| NotALine::Damaged(why.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("not UTF-8"))?;
        let members = Members::of(text).ok_or_else(|| damaged("not a JSON object"))?;
        let mut line = Self {
            seg: 0,
            seq: 0,
            ts: "",
            kind: Cow::Borrowed(""),
            session_id: Cow::Borrowed(""),
            turn: None,
            trace_id: None,
            span_id: None,
            parent_span_id: None,
            payload: Payload { text: "" },
            bytes,
        };
        // Which of the members that every line has were there.
        let mut seen = 0u8;
        for member in members {
            let (key, value) = member.ok_or_else(|| damaged("not a JSON object"))?;
            let wrong = || NotALine::Damaged(format!("no valid `{key}`"));
            let small = || u32::try_from(value.u64()?).ok();
            match key {
                "v" => match value.u64().ok_or_else(wrong)? {
                    VERSION => seen |= 1,
                    found => return Err(NotALine::Newer { found }),
                },
                "seg" => {
                    line.seg = small().ok_or_else(wrong)?;
                    seen |= 2;
                }
                "seq" => {
                    line.seq = value.u64().ok_or_else(wrong)?;
                    seen |= 4;
                }
                "ts" => {
                    line.ts = value.plain().ok_or_else(wrong)?;
                    seen |= 8;
                }
                "kind" => {
                    line.kind = value.text().ok_or_else(wrong)?;
                    seen |= 16;
                }
                "session_id" => {
                    line.session_id = value.text().ok_or_else(wrong)?;
                    seen |= 32;
                }
                "turn" => line.turn = small(),
                "trace_id" => line.trace_id = value.plain(),
                "span_id" => line.span_id = value.plain(),
                "parent_span_id" => line.parent_span_id = value.plain(),
                "payload" if value.text.starts_with('{') => {
                    line.payload = Payload { text: value.text };
                    seen |= 64;
                }
                _ => {}
            }
        }
        if seen != 127 {
            let names = ["v", "seg", "seq", "ts", "kind", "session_id", "payload"];
            let missing = (0..7).find(|bit| seen & (1 << bit) == 0).unwrap_or(0);
            return Err(damaged(&format!("no valid `{}`", names[missing])));
        }
        Ok(line)
    }

    /// Where it stands in its session.
    pub fn address(&self) -> Address {
        Address {
            seg: self.seg,
            seq: self.seq,
        }
    }

    /// What kind of span it closes, if it closes one. Only an `interrupted` line has to be asked:
    /// looking for a member that isn't there costs as much as the whole payload.
    pub(crate) fn closes(&self) -> Option<SpanKind> {
        if self.kind != "interrupted" {
            return SpanKind::from_close_kind(&self.kind);
        }
        SpanKind::from_close_kind(&self.payload.get("closes")?.text()?)
    }

    /// Its fields, not parsed yet.
    pub fn payload(&self) -> Payload<'a> {
        self.payload
    }

    /// The whole line, parsed.
    pub fn to_line(&self) -> Result<Line, NotALine> {
        Line::parse(self.bytes)
    }

    /// The line's bytes, without the newline.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Where an event stands in its session: `seg:seq`. A bare `seq` means the first segment.
///
/// ```
/// use spanledger::reader::Address;
/// assert_eq!("2:17".parse(), Ok(Address { seg: 2, seq: 17 }));
/// assert_eq!("17".parse::<Address>().unwrap().to_string(), "1:17");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The segment's number.
    pub seg: u32,
    /// The line's number in it.
    pub seq: u64,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.seg, self.seq)
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnAddress(String);

impl std::fmt::Display for NotAnAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} is no address: expected SEGMENT:SEQ, such as 1:17",
            self.0
        )
    }
}

impl std::error::Error for NotAnAddress {}

impl std::str::FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let (seg, seq) = text.split_once(':').unwrap_or(("1", text));
        match (seg.parse(), seq.parse()) {
            (Ok(seg), Ok(seq)) if seg > 0 && seq > 0 => Ok(Self { seg, seq }),
            _ => Err(NotAnAddress(text.to_owned())),
        }
    }
}

/// The fields of a line, as JSON text.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    text: &'a str,
}

impl<'a> Payload<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// A field by its name. For several fields of one line, [`members`](Self::members) is one pass.
    pub fn get(&self, name: &str) -> Option<RawValue<'a>> {
        self.members()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// The fields in order. Names are as they stand in the line; those of our own kinds need no
    /// unescaping.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> + use<'a> {
        // `parse` has been over these members already.
        Members::of(self.text)
            .into_iter()
            .flatten()
            .map_while(|member| member)
    }

    /// The JSON text.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// The fields, parsed.
    pub fn as_value(&self) -> Option<Value> {
        serde_json::from_str(self.text).ok()
    }
}

/// A value inside a payload, as JSON text.
#[derive(Clone, Copy, Debug)]
pub struct RawValue<'a> {
    text: &'a str,
}

impl<'a> RawValue<'a> {
    /// A JSON text as a value.
    #[cfg(feature = "mirror")]
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// The JSON text.
    pub fn json(&self) -> &'a str {
        self.text
    }

    /// A string's content, if it needs no unescaping.
    fn plain(&self) -> Option<&'a str> {
        let inner = self.text.strip_prefix('"')?.strip_suffix('"')?;
        memchr::memchr(b'\\', inner.as_bytes())
            .is_none()
            .then_some(inner)
    }

    /// A string's content.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        if let Some(plain) = self.plain() {
            return Some(Cow::Borrowed(plain));
        }
        unescape(self.text)
    }

    /// A whole number that is not negative.
    pub fn u64(&self) -> Option<u64> {
        self.text.parse().ok()
    }

    /// Any number.
    pub fn f64(&self) -> Option<f64> {
        match self.text.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => self.text.parse().ok(),
            _ => None,
        }
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Option<bool> {
        self.text.parse().ok()
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<RawValue<'a>> {
        Payload { text: self.text }.get(name)
    }

    /// The items of an array; none of what is no array.
    pub fn items(&self) -> impl Iterator<Item = RawValue<'a>> + use<'a> {
        let inner = self
            .text
            .strip_prefix('[')
            .and_then(|t| t.strip_suffix(']'));
        let (text, mut at) = (self.text, 1);
        std::iter::from_fn(move || {
            inner?;
            let bytes = text.as_bytes();
            while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n' | b',')) {
                at += 1;
            }
            let start = at;
            at = value_end(bytes, start)?;
            Some(RawValue {
                text: &text[start..at],
            })
        })
    }

    /// The members of an object; none of what is no object.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> + use<'a> {
        Payload { text: self.text }.members()
    }

    /// The value, parsed.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(self.text).ok()
    }
}

/// The top members of a JSON object. `None` for one that is malformed, and then no more.
struct Members<'a> {
    text: &'a str,
    at: usize,
    done: bool,
}

impl<'a> Members<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let trimmed = text.trim_ascii();
        (trimmed.starts_with('{') && trimmed.ends_with('}')).then_some(Self {
            text: trimmed,
            at: 1,
            done: false,
        })
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn member(&mut self) -> Option<(&'a str, RawValue<'a>)> {
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
        let value = RawValue {
            text: &self.text[self.at..end],
        };
        self.at = end;
        self.skip_space();
        Some((key, value))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Option<(&'a str, RawValue<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let bytes = self.text.as_bytes();
        self.skip_space();
        if self.at == 1 && bytes.get(self.at) == Some(&b'}') {
            self.done = true;
            return (self.at + 1 != bytes.len()).then_some(None);
        }
        let member = self.member();
        match (member, bytes.get(self.at)) {
            (Some(member), Some(b',')) => {
                self.at += 1;
                Some(Some(member))
            }
            (Some(member), Some(b'}')) if self.at + 1 == bytes.len() => {
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

/// Where the string that begins at `start` ends, its quote included.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// Where the value that begins at `start` ends. Nesting is counted, never recursed into.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
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
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
            let rest = &bytes[start..];
            let stop = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
            let len = rest.iter().position(stop)?;
            let word = &rest[..len];
            let known = matches!(word, b"true" | b"false" | b"null");
            let number = !word[0].is_ascii_alphabetic()
                && word
                    .iter()
                    .all(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
            (known || number).then_some(start + len)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"v":1,"seg":2,"seq":17,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"a\"b","turn":2,"trace_id":"00000000000000000000000000000001","span_id":"0000000000000002","payload":{"tool_id":"bash","args":{"a":[1,"]}"]},"n":-1.5e3,"t":true,"z":null,"e":{}}}"#;

    #[test]
    fn a_raw_line_says_the_same_as_the_parsed_one() {
        let raw = RawLine::parse(LINE.as_bytes()).unwrap();
        let line = Line::parse(LINE.as_bytes()).unwrap();
        assert_eq!(raw.address().to_string(), line.address());
        assert_eq!(raw.session_id, line.session_id);
        assert_eq!(raw.span_id, line.span_id.as_deref());
        for (key, value) in raw.payload().members() {
            assert_eq!(value.value().as_ref(), line.payload.get(key), "{key}");
        }
        assert_eq!(raw.payload().members().count(), line.payload.len());
    }

    #[test]
    fn the_items_of_an_array_come_in_order_and_of_nothing_else() {
        let items = |text| -> Vec<_> { RawValue { text }.items().map(|v| v.json()).collect() };
        assert_eq!(
            items(r#"[1, "a,]" ,{"b":[2,3]},[],null]"#),
            ["1", r#""a,]""#, r#"{"b":[2,3]}"#, "[]", "null"]
        );
        for none in ["[]", "{}", "3", r#""[1]""#, "[", "]", ""] {
            assert!(items(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn a_line_cut_anywhere_is_damaged() {
        for end in 0..LINE.len() {
            assert!(RawLine::parse(&LINE.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_newer_version_is_told_by_its_number() {
        let newer = LINE.replacen("\"v\":1", "\"v\":9", 1);
        let error = RawLine::parse(newer.as_bytes()).unwrap_err();
        assert_eq!(error, NotALine::Newer { found: 9 });
    }
}
