//! A line as bytes: the members before the payload are parsed, the payload is not.
//!
//! Parsing every payload into values would cost most of the time that reading a long trace
//! takes, and most of it is never looked at.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::{Map, Value};

use super::address::Address;
use super::json::{
    Member, Members, has_backslash, object, quote_or_backslash, replace_lone_surrogates,
    unescape_lossy, value_end,
};
use super::{Ids, Kind, Line, LineError, SpanKind, VERSION};

/// The members of a line before its payload.
const HEAD: [&str; 10] = [
    "v",
    "seg",
    "seq",
    "ts",
    "kind",
    "session_id",
    "turn",
    "trace_id",
    "span_id",
    "parent_span_id",
];

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
    /// What it is about.
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
    payload: RawValue<'a>,
    /// The payload's members, if they were looked for.
    pub(super) fields: Option<Vec<Member<'a>>>,
    bytes: &'a [u8],
}

fn damaged(why: &str) -> LineError {
    LineError::Damaged(why.to_owned())
}

impl<'a> RawLine<'a> {
    /// Reads a line, with or without its newline. Its structure is checked as far as its members go; nested
    /// values are checked when they are read.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LineError> {
        Self::read(bytes, false)
    }

    /// The same. With `all_fields`, the fields are found while the payload's end is looked for.
    pub(super) fn read(bytes: &'a [u8], all_fields: bool) -> Result<Self, LineError> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("not UTF-8"))?;
        match Self::usual(text, all_fields) {
            Some(line) => Ok(line),
            None => Self::unusual(text),
        }
    }

    /// A line as our writers write them: these members, in this order, with nothing to unescape. `None` for
    /// any other line, damaged or not.
    fn usual(text: &'a str, all_fields: bool) -> Option<Self> {
        let mut rest = Cursor { text, at: 0 };
        if rest.number("{\"v\":") != Some(VERSION) {
            return None;
        }
        let seg = rest.number(",\"seg\":")?;
        let seq = rest.number(",\"seq\":")?;
        let ts = rest.plain(",\"ts\":\"")?;
        let kind = rest.plain(",\"kind\":\"")?;
        let session_id = rest.plain(",\"session_id\":\"")?;
        // A member that is malformed is read as one that is missing, and the payload does not follow then.
        let turn = rest.number(",\"turn\":");
        let trace_id = rest.plain(",\"trace_id\":\"");
        let span_id = rest.plain(",\"span_id\":\"");
        let parent_span_id = rest.plain(",\"parent_span_id\":\"");
        rest.pass(",\"payload\":")?;
        let (fields, end) = match all_fields {
            true => object(text, rest.at).map(|(fields, end)| (Some(fields), end))?,
            false => (None, value_end(text.as_bytes(), rest.at)?),
        };
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
            payload: RawValue::new(payload),
            fields,
            bytes: text.as_bytes(),
        })
    }

    /// A line in any other form. The last of several members of one name counts.
    fn unusual(text: &'a str) -> Result<Self, LineError> {
        let json = text.trim_ascii();
        let whole = object(json, 0).filter(|(_, end)| *end == json.len());
        let (members, _) = whole.ok_or_else(|| damaged("not a JSON object"))?;
        let get = |name: &str| {
            let (_, value) = members.iter().rev().find(|(key, _)| *key == name)?;
            Some(*value)
        };
        let missing = |name: &str| damaged(&format!("no valid `{name}`"));
        let number = |name: &str| {
            let number = get(name).and_then(|value| value.u64());
            number.ok_or_else(|| missing(name))
        };
        let text_of = |name: &str| {
            let text = get(name).and_then(|value| value.text());
            text.ok_or_else(|| missing(name))
        };
        let id = |name: &str| get(name).and_then(|value| value.plain());
        match number("v")? {
            VERSION => {}
            found => return Err(LineError::Newer { found }),
        }
        let seg = u32::try_from(number("seg")?).map_err(|_| missing("seg"))?;
        let seq = number("seq")?;
        let ts = id("ts").ok_or_else(|| missing("ts"))?;
        let kind = text_of("kind")?;
        let session_id = text_of("session_id")?;
        let payload = get("payload").filter(|value| value.text.starts_with('{'));
        Ok(Self {
            seg,
            seq,
            ts,
            known: Kind::parse(&kind),
            kind,
            session_id,
            turn: number("turn").ok().and_then(|turn| turn.try_into().ok()),
            trace_id: id("trace_id"),
            span_id: id("span_id"),
            parent_span_id: id("parent_span_id"),
            payload: payload.ok_or_else(|| missing("payload"))?,
            fields: None,
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
        Ids::parse(self.trace_id, self.span_id, self.parent_span_id)
    }

    /// Its fields: an object.
    pub fn payload(&self) -> RawValue<'a> {
        self.payload
    }

    /// Its fields, by their names as they are spelled in the line.
    pub(crate) fn fields(&self) -> Cow<'_, [Member<'a>]> {
        match &self.fields {
            Some(fields) => Cow::Borrowed(fields),
            None => Cow::Owned(self.payload.members().collect()),
        }
    }

    /// The whole line, parsed.
    pub fn to_line(&self) -> Result<Line, LineError> {
        let parsed = serde_json::from_slice(self.bytes);
        let mut unknown: Map<String, Value> = parsed.map_err(|e| damaged(&e.to_string()))?;
        let payload = match unknown.shift_remove("payload") {
            Some(Value::Object(payload)) => payload,
            _ => return Err(damaged("no valid `payload`")),
        };
        unknown.retain(|name, _| !HEAD.contains(&name.as_str()));
        Ok(Line {
            seg: self.seg,
            seq: self.seq,
            ts: self.ts.to_owned(),
            kind: self.kind.clone().into_owned(),
            session_id: self.session_id.clone().into_owned(),
            turn: self.turn,
            trace_id: self.trace_id.map(str::to_owned),
            span_id: self.span_id.map(str::to_owned),
            parent_span_id: self.parent_span_id.map(str::to_owned),
            payload,
            unknown,
        })
    }

    /// The line's bytes, without the newline.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Reads a text from its beginning, as long as it has the expected form.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Passes these bytes.
    fn pass(&mut self, what: &str) -> Option<()> {
        let found = self.text.as_bytes()[self.at..].starts_with(what.as_bytes());
        found.then(|| self.at += what.len())
    }

    /// The text of a string that needs no unescaping. `name` includes the opening quote.
    fn plain(&mut self, name: &str) -> Option<&'a str> {
        self.pass(name)?;
        let rest = &self.text[self.at..];
        let plain = &rest[..quote_or_backslash(rest.as_bytes())?];
        self.at += plain.len();
        self.pass("\"")?;
        Some(plain)
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Option<T> {
        self.pass(name)?;
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().position(|b| !b.is_ascii_digit())?];
        self.at += digits.len();
        digits.parse().ok()
    }
}

/// A payload or a value inside it, as JSON text.
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

    /// A string's content. Half of a surrogate pair becomes U+FFFD.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        if let Some(plain) = self.plain() {
            return Some(Cow::Borrowed(plain));
        }
        self.text
            .starts_with('"')
            .then(|| unescape_lossy(self.text).0)
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

    /// A member of an object. For several members of one object, [`members`](Self::members) is one pass.
    pub fn get(&self, name: &str) -> Option<RawValue<'a>> {
        let mut members = self.members();
        members
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// The items of an array; none of another value.
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

    /// The members of an object, in order; none of another value. Names are as they are spelled in the line; those
    /// of our own kinds need no unescaping.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, RawValue<'a>)> + use<'a> {
        let members = Members::of(self.text).into_iter().flatten();
        members.map_while(|member| member)
    }

    /// The value, parsed. Half of a surrogate pair becomes U+FFFD.
    pub fn value(&self) -> Option<Value> {
        let parsed = serde_json::from_str(self.text).ok();
        parsed.or_else(|| serde_json::from_str(&replace_lone_surrogates(self.text)).ok())
    }
}

/// The whole lines of a piece of a segment. What follows the last newline is none.
pub(crate) fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    bytes[..end].split_inclusive(|b| *b == b'\n')
}

impl Kind {
    /// The kind of a line, without parsing the line.
    pub(crate) fn of_line(line: &[u8]) -> Self {
        let name = kind_of(line).and_then(|name| std::str::from_utf8(name).ok());
        name.map_or(Self::Other, Self::parse)
    }
}

/// The kind of a line, without parsing it.
pub(crate) fn kind_of(line: &[u8]) -> Option<&[u8]> {
    static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b",\"kind\":\""));
    text_after(&KIND, line)
}

/// The `ts` of a line, without parsing it: its text sorts as the times do.
pub(crate) fn ts_of(line: &[u8]) -> Option<&[u8]> {
    static TS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b",\"ts\":\""));
    text_after(&TS, line)
}

/// The text of a member of a line, by its name. No text of a user's comes before it.
fn text_after<'a>(name: &Finder<'_>, line: &'a [u8]) -> Option<&'a [u8]> {
    let head = &line[..line.len().min(200)];
    let start = name.find(head)? + name.needle().len();
    let len = memchr::memchr(b'"', &head[start..])?;
    Some(&head[start..start + len])
}

#[cfg(test)]
mod tests;
