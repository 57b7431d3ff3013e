//! A line as bytes: its head taken apart, its payload left as it is until somebody asks.
//!
//! Parsing every payload into values would cost most of the time that reading a long trace
//! takes, and most of it is never looked at.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;
use serde_json::Value;

use super::address::Address;
#[cfg(feature = "mirror")]
use super::json_scan::object;
use super::json_scan::{Expect, Member, Members, has_backslash, value_end};
use super::json_string::unescape;
use crate::trace::{Ids, Kind, SpanKind};
use crate::trace::{Line, LineError, VERSION};

/// A line whose payload has not been parsed yet.
///
/// ```
/// use spanledger::trace::RawLine;
/// let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"s","turn":1,"payload":{"tool_id":"bash","args":{"n":3}}}"#;
/// let line = RawLine::parse(bytes)?;
/// assert_eq!((line.kind.as_ref(), line.turn), ("tool_call", Some(1)));
/// assert_eq!(line.payload().get("tool_id").unwrap().text().unwrap(), "bash");
/// # Ok::<(), spanledger::trace::LineError>(())
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
    known: Kind,
    payload: Payload<'a>,
    /// The payload's members, if they were looked for.
    #[cfg_attr(not(feature = "mirror"), allow(dead_code))]
    fields: Option<Vec<Member<'a>>>,
    bytes: &'a [u8],
}

impl<'a> RawLine<'a> {
    /// Takes a line apart, with or without its newline. Its structure is checked as far as its
    /// members go; what stands inside nested values is checked when they are asked for.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LineError> {
        Self::read(bytes, |text, at| {
            Some((None, value_end(text.as_bytes(), at)?))
        })
    }

    /// The same for those who want all of its fields: one way through the payload finds its end and
    /// its members.
    #[cfg(feature = "mirror")]
    pub(crate) fn parse_all(bytes: &'a [u8]) -> Result<Self, LineError> {
        Self::read(bytes, |text, at| {
            let (fields, end) = object(text, at)?;
            Some((Some(fields), end))
        })
    }

    /// `payload` finds where the payload ends, and maybe its members.
    fn read(
        bytes: &'a [u8],
        payload: impl Fn(&'a str, usize) -> Option<(Option<Vec<Member<'a>>>, usize)>,
    ) -> Result<Self, LineError> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let damaged = |why: &str| LineError::Damaged(why.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("not UTF-8"))?;
        if let Some(line) = Self::usual(text, payload) {
            return Ok(line);
        }
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
            known: Kind::Other,
            payload: Payload { text: "" },
            fields: None,
            bytes,
        };
        // Which of the members that every line has were there.
        let mut seen = 0u8;
        for member in members {
            let (key, value) = member.ok_or_else(|| damaged("not a JSON object"))?;
            let wrong = || LineError::Damaged(format!("no valid `{key}`"));
            let small = || u32::try_from(value.u64()?).ok();
            match key {
                "v" => match value.u64().ok_or_else(wrong)? {
                    VERSION => seen |= 1,
                    found => return Err(LineError::Newer { found }),
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
                    line.known = Kind::parse(&line.kind);
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

    /// A line as our writers write them: these members, in this order, with nothing to unescape.
    /// Any other line, damaged or not, is none of these.
    fn usual(
        text: &'a str,
        payload: impl Fn(&'a str, usize) -> Option<(Option<Vec<Member<'a>>>, usize)>,
    ) -> Option<Self> {
        let mut rest = Expect { text, at: 0 };
        rest.pass("{\"v\":")?;
        if rest.number() != Some(VERSION) {
            return None;
        }
        rest.pass(",\"seg\":")?;
        let seg = rest.number()?;
        rest.pass(",\"seq\":")?;
        let seq = rest.number()?;
        rest.pass(",\"ts\":")?;
        let ts = rest.plain()?;
        rest.pass(",\"kind\":")?;
        let kind = rest.plain()?;
        rest.pass(",\"session_id\":")?;
        let session_id = rest.plain()?;
        let turn = match rest.pass(",\"turn\":") {
            Some(()) => Some(rest.number()?),
            None => None,
        };
        let mut id = |name| match rest.pass(name) {
            Some(()) => Some(Some(rest.plain()?)),
            None => Some(None),
        };
        let trace_id = id(",\"trace_id\":")?;
        let span_id = id(",\"span_id\":")?;
        let parent_span_id = id(",\"parent_span_id\":")?;
        rest.pass(",\"payload\":")?;
        let (fields, end) = payload(text, rest.at)?;
        let payload = &text[rest.at..end];
        if !payload.starts_with('{') || &text[end..] != "}" {
            return None;
        }
        Some(Self {
            seg,
            seq,
            ts,
            kind: Cow::Borrowed(kind),
            session_id: Cow::Borrowed(session_id),
            turn,
            trace_id,
            span_id,
            parent_span_id,
            known: Kind::parse(kind),
            payload: Payload { text: payload },
            fields,
            bytes: text.as_bytes(),
        })
    }

    /// Where it stands in its session.
    pub fn address(&self) -> Address {
        Address {
            seg: self.seg,
            seq: self.seq,
        }
    }

    /// What it is about. An unknown kind is [`Kind::Other`].
    pub fn kind(&self) -> Kind {
        self.known
    }

    /// The kind of span that it closes, if it closes one. Only an `interrupted` line has a field
    /// for that: looking for a field that isn't there costs as much as the whole payload.
    pub fn closes(&self) -> Option<SpanKind> {
        match self.known {
            Kind::Interrupted => Kind::parse(&self.payload.get("closes")?.text()?).closes(),
            kind => kind.closes(),
        }
    }

    /// Its ids as numbers, where the line has a span.
    pub(crate) fn ids(&self) -> Option<Ids> {
        let hex = |text: Option<&str>| u64::from_str_radix(text?, 16).ok();
        Some(Ids {
            trace: u128::from_str_radix(self.trace_id?, 16).ok()?,
            span: hex(self.span_id)?,
            parent: hex(self.parent_span_id),
        })
    }

    /// Its fields, not parsed yet.
    pub fn payload(&self) -> Payload<'a> {
        self.payload
    }

    /// Its fields, by their names as they stand in the line.
    #[cfg(feature = "mirror")]
    pub(crate) fn fields(&self) -> Cow<'_, [Member<'a>]> {
        match &self.fields {
            Some(fields) => Cow::Borrowed(fields),
            None => Cow::Owned(self.payload.members().collect()),
        }
    }

    /// The whole line, parsed.
    pub fn to_line(&self) -> Result<Line, LineError> {
        Line::parse(self.bytes)
    }

    /// The line's bytes, without the newline.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
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
        (!has_backslash(inner.as_bytes())).then_some(inner)
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

/// The whole lines of a piece of a segment. What follows the last newline is none.
pub(crate) fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    bytes[..end].split_inclusive(|b| *b == b'\n')
}

/// Every line that is read is asked for its kind.
static KIND: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(b",\"kind\":\""));

impl Kind {
    /// The kind of a line, without parsing the line.
    pub(crate) fn of_line(line: &[u8]) -> Self {
        kind_of(line).map_or(Self::Other, Self::parse_bytes)
    }
}

/// The kind of a line, without parsing it. Nothing a user wrote can stand before it.
pub(crate) fn kind_of(line: &[u8]) -> Option<&[u8]> {
    let head = &line[..line.len().min(200)];
    let start = KIND.find(head)? + KIND.needle().len();
    let len = memchr::memchr(b'"', &head[start..])?;
    Some(&head[start..start + len])
}

#[cfg(test)]
mod tests;
