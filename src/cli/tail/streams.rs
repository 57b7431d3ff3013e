//! Text that arrives piece by piece, put together to lines that can be read.

use std::collections::HashMap;

use crate::reader::RawLine;
use crate::view::text::widths;

/// More texts than this are not on their way at once.
const MANY: usize = 1_024;

/// A line of streamed text.
#[derive(Debug, PartialEq)]
pub(super) struct Streamed {
    pub session_id: String,
    pub address: String,
    pub ts: String,
    pub kind: &'static str,
    pub text: String,
}

#[derive(Debug)]
struct Stream {
    /// Its text has been seen from its first character on.
    from_start: bool,
    /// What has not been shown yet, and the piece that it began in.
    held: String,
    first: Option<(String, String)>,
    session_id: String,
    kind: &'static str,
}

/// The texts that are on their way.
#[derive(Debug, Default)]
pub(super) struct Streams(HashMap<(String, String, u64), Stream>);

impl Streams {
    /// Takes a piece. The lines it completes: those that end, and those that are as long as
    /// `width`.
    pub fn piece(&mut self, line: &RawLine<'_>, width: usize) -> Vec<Streamed> {
        let Some(key) = key(line) else {
            return Vec::new();
        };
        let payload = line.payload();
        let text = payload.get("text").and_then(|value| value.text());
        let offset = payload.get("offset").and_then(|value| value.u64());
        let kind = match line.kind.as_ref() {
            "tool_input_delta" => "tool_input_delta",
            _ => "message_delta",
        };
        if self.0.len() >= MANY {
            // What has been shown and is never told whole, as a tool's input.
            self.0.retain(|_, stream| !stream.held.is_empty());
        }
        let stream = self.0.entry(key).or_insert_with(|| Stream {
            from_start: offset == Some(0),
            held: String::new(),
            first: None,
            session_id: line.session_id.to_string(),
            kind,
        });
        if stream.first.is_none() {
            stream.first = Some((line.address().to_string(), line.ts.to_owned()));
        }
        stream.held.push_str(&text.unwrap_or_default());
        let mut out = Vec::new();
        let held = std::mem::take(&mut stream.held);
        let mut rest = held.as_str();
        while let Some(at) = line_end(rest, width) {
            stream.held = rest[..at].to_owned();
            out.extend(stream.take());
            rest = &rest[at..];
            if !rest.is_empty() {
                stream.first = Some((line.address().to_string(), line.ts.to_owned()));
            }
        }
        stream.held = rest.to_owned();
        out
    }

    /// The message is told whole: what of it was not shown yet, and whether all of it has been
    /// shown with that.
    pub fn whole(&mut self, line: &RawLine<'_>) -> (Option<Streamed>, bool) {
        let Some(mut stream) = key(line).and_then(|key| self.0.remove(&key)) else {
            return (None, false);
        };
        match stream.from_start {
            true => (stream.take(), true),
            // Only its end was seen: the whole says all of it.
            false => (None, false),
        }
    }

    /// What is held of all texts, or of one session's: something else comes, or nothing has for
    /// a while.
    pub fn settle(&mut self, session_id: Option<&str>) -> Vec<Streamed> {
        let streams = self.0.values_mut();
        let ours = streams.filter(|s| session_id.is_none_or(|id| s.session_id == id));
        ours.filter_map(Stream::take).collect()
    }
}

impl Stream {
    fn take(&mut self) -> Option<Streamed> {
        let text = std::mem::take(&mut self.held);
        let (address, ts) = self.first.take()?;
        let text = text.trim_end();
        (!text.is_empty()).then(|| Streamed {
            session_id: self.session_id.clone(),
            address,
            ts,
            kind: self.kind,
            text: text.to_owned(),
        })
    }
}

/// Where the first line ends that is whole, or as long as a line can be.
fn line_end(text: &str, width: usize) -> Option<usize> {
    let mut used = 0;
    let mut space = None;
    for (at, c, wide) in widths(text) {
        if c == '\n' {
            return Some(at + 1);
        }
        used += wide;
        if used > width {
            return Some(space.unwrap_or(at).max(1));
        }
        if c == ' ' {
            space = Some(at + 1);
        }
    }
    None
}

/// What keeps the pieces of one text together.
fn key(line: &RawLine<'_>) -> Option<(String, String, u64)> {
    let payload = line.payload();
    let id = match payload.get("message_id") {
        Some(id) => id,
        None => payload.get("tool_call_id")?,
    };
    let part = payload.get("part_index").and_then(|value| value.u64());
    Some((
        line.session_id.to_string(),
        id.text()?.into_owned(),
        part.unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(streams: &mut Streams, seq: u64, offset: u64, text: &str) -> Vec<(String, String)> {
        let text = serde_json::Value::from(text);
        let line = format!(
            "{{\"v\":1,\"seg\":1,\"seq\":{seq},\"ts\":\"2026-11-16T00:31:05.123456Z\",\
             \"kind\":\"message_delta\",\"session_id\":\"s\",\
             \"payload\":{{\"message_id\":\"m\",\"offset\":{offset},\"text\":{text}}}}}"
        );
        let line = RawLine::parse(line.as_bytes()).unwrap();
        let lines = streams.piece(&line, 20);
        lines.into_iter().map(|s| (s.address, s.text)).collect()
    }

    #[test]
    fn pieces_become_lines_at_newlines_and_where_a_line_is_full() {
        let mut streams = Streams::default();
        assert!(piece(&mut streams, 1, 0, "One ").is_empty());
        let said = |address: &str, text: &str| (address.to_owned(), text.to_owned());
        assert_eq!(
            piece(&mut streams, 2, 4, "line.\nAnd another that is "),
            [said("1:1", "One line.")]
        );
        assert_eq!(
            piece(&mut streams, 3, 30, "longer"),
            [said("1:2", "And another that is")]
        );
        assert_eq!(streams.settle(Some("s")).remove(0).text, "longer");
        assert!(streams.settle(None).is_empty());
    }
}
