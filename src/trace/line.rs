//! The line: the one place where the format of a trace is described.
//!
//! A segment is a file of lines; a line is one JSON object in UTF-8 that ends with `\n`. What
//! follows the last `\n` is not a line: its writer is either still writing it or died over it.
//!
//! ```text
//! {"v":1,"seg":1,"seq":17,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call",
//!  "session_id":"…","turn":2,"trace_id":"…","span_id":"…","parent_span_id":"…","payload":{…}}
//! ```
//!
//! | member | meaning |
//! |---|---|
//! | `v` | version of the format: [`VERSION`]. A reader refuses a newer one. |
//! | `seg`, `seq` | the segment's number and the line's in it, both from 1, `seq` without holes; `seg:seq` is the event's address |
//! | `ts` | when it was appended, or when the span that it opens or closes began or ended just before: wall clock, UTC, microseconds, never less than the previous line's unless the clock was set back |
//! | `kind` | what the line is about; readers keep kinds that they don't know |
//! | `session_id` | the id as it was given; the directory may have another name |
//! | `turn` | the enclosing turn's index, if there is one |
//! | `trace_id`, `span_id`, `parent_span_id` | lower-case hex, 32 and 16 digits; absent where there is no span |
//! | `payload` | an object; members that aren't known are left out, members that a reader doesn't know are kept |
//!
//! The first line of a segment has kind `segment` and describes its writer: `writer`, `process`,
//! `resource`, `scope`, and, where it was recorded to be sent, `mirror` with the `endpoint` (without
//! credentials), whether `content` goes, the `limits` that were set, and the version of the
//! `mapping`. A segment has one writer for its whole life. The `totals` in it count from the writer's first
//! segment in the session, or from the one that `counts_from` names: a process that had forgotten the session counts
//! anew. A line that is not valid JSON is the rest of a write that failed half-way (its event is counted by the next
//! `gap`), or damage.
//!
//! A value that was changed before it was written is replaced by a marker:
//!
//! | in place of | stands |
//! |---|---|
//! | a secret | `[masked rule=… bytes=… hmac=… key=…]`, a text, also inside a longer text |
//! | a value too large for a line | `{"$blob":"<sha256>","bytes":…,"media_type":"…","head":"…"}`; the value is in `blobs/<sha256>` |
//! | what was cut | `{"$cut":{"bytes":…,"sha256":"…","rule":"…"},"head":"…"}` |
//! | bytes that are no UTF-8 | `{"$lossy":{"bytes":…,"replaced":…},"text":"…"}` |
//!
//! A span is two lines. The close line repeats the fields of the open line and of its `span_update`s,
//! and adds `start` (nanoseconds), `duration_ns`, `outcome`, `events` and `links`; `opened_seg`
//! names the segment that opened it where that is another one. `late: true` marks a line that
//! came after its time: an open line written again after a fault, or what was recorded on a
//! span, or opened inside it, after it had been closed. `sampled: false` means that its trace is not
//! sent anywhere, `tracestate` what goes with its context, `parent_remote: true` that its parent is
//! another process's, `span_kind` what OpenTelemetry calls a span that is none of the six, `attributes`
//! the attributes of one of the six that were set through its API, `synthetic: true`
//! that a turn was made up for a library that has none: it is not sent, its calls carry its number and
//! hang from something else. A field of the user's that has the name of one of these is called `custom.…`.
//!
//! A session may have several traces. A run that goes on with a session links to the run before it;
//! a turn without a parent that links to its run goes on where a trace had grown too long, and so does
//! any other span without a parent that links to the span it lies in (in a turn that was made up: to
//! the run); a run may link to the span that started its process.

use serde_json::{Map, Value};

use super::time::write_time;
use super::{Address, Ids, Kind, RawLine, hex16, hex32, put, write_string};

/// The version of the format that this crate writes, and the newest it reads.
pub const VERSION: u64 = 1;

/// A line that is about to be written, apart from its place and its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineMeta<'a> {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// A plain word.
    pub kind: &'a str,
    pub turn: Option<u32>,
    pub ids: Option<Ids>,
}

#[inline]
pub(crate) fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

impl LineMeta<'_> {
    /// A line about the segment it is in.
    pub fn of_segment(kind: Kind, time: u64) -> Self {
        Self {
            time,
            kind: kind.as_str(),
            turn: None,
            ids: None,
        }
    }

    /// Appends everything up to the payload's opening brace.
    pub fn write_head(&self, place: Address, session: &mut SessionPart, out: &mut Vec<u8>) {
        let session = session.text(self.turn, self.ids.map(|ids| ids.trace));
        // The longest head without that part.
        out.reserve(256 + session.len());
        out.extend_from_slice(b"{\"v\":1,\"seg\":");
        number(place.seg.into(), out);
        out.extend_from_slice(b",\"seq\":");
        number(place.seq, out);
        out.extend_from_slice(b",\"ts\":\"");
        write_time(self.time, 6, out);
        put(out, [b"\",\"kind\":\"", self.kind.as_bytes(), session]);
        if let Some(ids) = self.ids {
            put(out, [b",\"span_id\":\"", &hex16(ids.span)]);
            if let Some(parent) = ids.parent {
                put(out, [b"\",\"parent_span_id\":\"", &hex16(parent)]);
            }
            out.push(b'"');
        }
        out.extend_from_slice(b",\"payload\":{");
    }
}

/// The part of a head that most lines of a session share: the session's id, the turn and the trace. It is
/// spelled when one of them changes. With it and the table in `hex.rs`, `write_head` itself, without the functions
/// it calls, takes 700 instructions a span instead of 1,400 (callgrind, on the load of `benches/common/load.rs`).
#[derive(Debug, Default)]
pub(crate) struct SessionPart {
    id: String,
    /// The turn and the trace that `text` is for.
    of: Option<(Option<u32>, Option<u128>)>,
    text: Vec<u8>,
}

impl SessionPart {
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }

    fn text(&mut self, turn: Option<u32>, trace: Option<u128>) -> &[u8] {
        if self.of != Some((turn, trace)) {
            self.of = Some((turn, trace));
            let out = &mut self.text;
            out.clear();
            out.extend_from_slice(b"\",\"session_id\":");
            write_string(&self.id, out);
            if let Some(turn) = turn {
                out.extend_from_slice(b",\"turn\":");
                number(turn.into(), out);
            }
            if let Some(trace) = trace {
                put(out, [b",\"trace_id\":\"", &hex32(trace), b"\""]);
            }
        }
        &self.text
    }
}

/// Closes the payload and the line. Each member of the payload was written with a comma behind it.
pub(crate) fn finish_line(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.extend_from_slice(b"}}\n");
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The segment's number.
    pub seg: u32,
    /// The line's number in its segment.
    pub seq: u64,
    /// When it was appended.
    pub ts: String,
    /// What it is about.
    pub kind: String,
    /// The session's id as it was given.
    pub session_id: String,
    /// The enclosing turn's index.
    pub turn: Option<u32>,
    /// 32 hex digits.
    pub trace_id: Option<String>,
    /// 16 hex digits.
    pub span_id: Option<String>,
    /// 16 hex digits.
    pub parent_span_id: Option<String>,
    /// The kind's fields, unknown ones included, in the order written.
    pub payload: Map<String, Value>,
    /// Members of the line itself that this version doesn't know.
    pub unknown: Map<String, Value>,
}

/// Why bytes are not a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// Not JSON, or not an object with the members every line has.
    Damaged(String),
    /// Written by a newer spanledger.
    Newer {
        /// Its version.
        found: u64,
    },
    /// The end of a segment without a newline: its writer died over it.
    Torn,
    /// No bytes at all: lines that were here are gone, by what the next one is numbered.
    Missing {
        /// The first `seq` that is missing.
        from: u64,
        /// The last one.
        to: u64,
    },
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(why) => write!(f, "not a line of a trace: {why}"),
            Self::Torn => {
                f.write_str("not a line of a trace: no newline at its end: its writer died over it")
            }
            Self::Newer { found } => write!(
                f,
                "written in format version {found}; this spanledger reads up to version {VERSION}"
            ),
            Self::Missing { from, to } if from == to => write!(f, "line {from} is missing"),
            Self::Missing { from, to } => write!(f, "lines {from} to {to} are missing"),
        }
    }
}

impl std::error::Error for LineError {}

impl Line {
    /// Reads one line, with or without its newline.
    ///
    /// ```
    /// use spanledger::trace::Line;
    /// let line = Line::parse(br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"error","session_id":"s","payload":{}}"#)?;
    /// assert_eq!(line.address(), "1:2");
    /// # Ok::<(), spanledger::trace::LineError>(())
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        RawLine::parse(bytes)?.to_line()
    }

    /// Where it stands in its session: `seg:seq`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.seg, self.seq)
    }

    /// The ids as numbers, where the line has a span.
    pub(crate) fn ids(&self) -> Option<Ids> {
        let (trace, span) = (self.trace_id.as_deref(), self.span_id.as_deref());
        Ids::parse(trace, span, self.parent_span_id.as_deref())
    }
}
