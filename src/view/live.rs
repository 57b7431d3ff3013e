//! Lines as they arrive, a row each. Streamed text comes in readable lines, not delta by delta.

use super::describe::{Brief, brief};
use super::style::{Style, Tone};
use super::text::{columns, cut, cut_id, line, line_end, pad};
use crate::session::{StreamKey, Streamed, Streams, is_delta};
use crate::trace::typed::Message;
use crate::trace::{Kind, RawLine, parse_time};

const LABEL: usize = 10;
const ADDRESS: usize = 7;
/// More streamed texts are not kept at once.
const MANY: usize = 1_024;

/// Renders lines of one or more sessions as they arrive.
///
/// ```
/// # let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"message_user","session_id":"s","payload":{"content":"Hello"}}"#;
/// use spanledger::view::{LiveRows, Style};
/// let line = spanledger::trace::RawLine::parse(bytes)?;
/// let rows = LiveRows::new(Some("s"), &[]).line(&line, &Style::plain());
/// assert_eq!(rows, ["00:31:05 1:2     user       Hello"]);
/// # Ok::<(), spanledger::trace::LineError>(())
/// ```
#[derive(Debug)]
pub struct LiveRows {
    kinds: Vec<String>,
    /// The session whose rows don't name it.
    main: Option<String>,
    /// The width of the widest id so far.
    id_width: usize,
    streams: Streams,
}

impl LiveRows {
    /// Rows of lines of these kinds, or of all if there are none. The rows of the session `main` don't
    /// name it.
    pub fn new(main: Option<&str>, kinds: &[String]) -> Self {
        Self {
            kinds: kinds.to_vec(),
            main: main.map(str::to_owned),
            id_width: 0,
            streams: Streams::default(),
        }
    }

    /// Whether a line is of a wanted kind.
    pub fn wants(&self, raw: &RawLine<'_>) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| *kind == raw.kind)
    }

    /// The rows of a line.
    pub fn line(&mut self, raw: &RawLine<'_>, style: &Style) -> Vec<String> {
        let wanted = self.wants(raw);
        if is_delta(raw.kind()) {
            return match wanted {
                true => self.delta(raw, style),
                false => Vec::new(),
            };
        }
        let mut rows = Vec::new();
        let key = StreamKey::of_message(raw);
        // If only the end of a text was seen, the whole message is shown.
        let streamed = key.and_then(|key| self.streams.remove(&key));
        let streamed = streamed.filter(|streamed| streamed.from_start);
        let shown = streamed.is_some();
        rows.extend(streamed.and_then(|mut rest| self.rest(&mut rest, style)));
        let complete = Message::from(raw.payload()).complete();
        if !wanted || (shown && complete != Some(false)) {
            return rows;
        }
        if !shown {
            rows.extend(self.settle(Some(&raw.session_id), style));
        }
        let mut brief = brief(raw);
        if shown {
            brief.text = "(stopped here)".into();
        }
        rows.push(self.row(raw, &brief, style));
        rows
    }

    /// The rows of streamed text that is held back for a whole line: of one session, or of all.
    pub fn settle(&mut self, session_id: Option<&str>, style: &Style) -> Vec<String> {
        let mut streams = std::mem::take(&mut self.streams);
        let mut rows = Vec::new();
        for streamed in streams.iter_mut() {
            let is_its = session_id.is_none_or(|id| streamed.session_id == id);
            rows.extend(is_its.then(|| self.rest(streamed, style)).flatten());
        }
        self.streams = streams;
        rows
    }

    /// The rows that a delta completes: lines that end, and lines that fill the width.
    fn delta(&mut self, raw: &RawLine<'_>, style: &Style) -> Vec<String> {
        if self.streams.len() >= MANY {
            self.streams.forget_empty();
        }
        let room = self.room(style, &raw.session_id);
        let mut done = Vec::new();
        if let Some(streamed) = self.streams.push(raw, &mut None) {
            while let Some(end) = line_end(&streamed.text, room) {
                let rest = streamed.text.split_off(end);
                let text = std::mem::replace(&mut streamed.text, rest);
                let first = raw.as_bytes().to_owned();
                done.push((std::mem::replace(&mut streamed.first, first), text));
            }
        }
        let rows = done.iter();
        rows.filter_map(|(first, text)| self.streamed(first, text, style))
            .collect()
    }

    /// The row of the text that is left.
    fn rest(&mut self, streamed: &mut Streamed, style: &Style) -> Option<String> {
        let text = std::mem::take(&mut streamed.text);
        self.streamed(&streamed.first, &text, style)
    }

    fn streamed(&mut self, first: &[u8], text: &str, style: &Style) -> Option<String> {
        let raw = RawLine::parse(first).ok()?;
        let (label, tone) = match raw.kind() {
            Kind::ToolInputDelta => ("tool input", Tone::Quiet),
            _ => ("writes", Tone::Plain),
        };
        let brief = Brief {
            label: label.into(),
            text: line(text.trim_end()).into_owned(),
            tone,
        };
        (!brief.text.is_empty()).then(|| self.row(&raw, &brief, style))
    }

    fn names(&self, id: &str) -> bool {
        self.main.as_deref() != Some(id)
    }

    /// How many columns the text of a row has.
    fn room(&self, style: &Style, id: &str) -> usize {
        if style.full {
            return usize::MAX / 16;
        }
        let id = match self.names(id) {
            true => self.id_width.max(columns(&short(id))) + 1,
            false if self.id_width > 0 => self.id_width + 1,
            false => 0,
        };
        let taken = 8 + 1 + id + ADDRESS + 1 + LABEL + 1;
        style.width.saturating_sub(taken).max(20)
    }

    fn row(&mut self, raw: &RawLine<'_>, brief: &Brief, style: &Style) -> String {
        let room = self.room(style, &raw.session_id);
        let mut row = style.dim(&style.clock(parse_time(raw.ts).unwrap_or(0)));
        row.push(' ');
        if self.names(&raw.session_id) {
            let id = short(&raw.session_id);
            self.id_width = self.id_width.max(columns(&id));
            row.push_str(&style.bold(&pad(&id, self.id_width)));
            row.push(' ');
        } else if self.id_width > 0 {
            // The columns of all rows begin at the same place.
            row.push_str(&" ".repeat(self.id_width + 1));
        }
        let address = raw.address().to_string();
        let label = pad(&brief.label, LABEL.max(columns(&brief.label)));
        row.push_str(&format!(
            "{} {} {}",
            style.dim(&pad(&address, ADDRESS.max(address.len()))),
            brief.tone.paint(style, &label),
            cut(&brief.text, room),
        ));
        row.trim_end().to_owned()
    }
}

/// An id that leaves room for the rest.
fn short(id: &str) -> String {
    cut_id(&line(id), 24).into_owned()
}

#[cfg(test)]
mod tests;
