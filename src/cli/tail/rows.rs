//! What is printed, a line an event.

use std::collections::VecDeque;
use std::io;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::streams::{Streamed, Streams};
use crate::cli::context::{Context, Failed};
use crate::ledger::parse_time;
use crate::reader::RawLine;
use crate::view::text::{columns, cut, cut_id, line, pad};
use crate::view::{Brief, Style, Tone, brief};

const LABEL: usize = 10;
const ADDRESS: usize = 7;

/// Makes rows of lines, and holds back all but the last ones until the past is over.
#[derive(Debug)]
pub(super) struct Rows {
    kinds: Vec<String>,
    /// The session whose rows need not name it.
    main: Option<String>,
    /// How wide the widest id was so far.
    id_width: usize,
    streams: Streams,
    /// What is there already: with each row, whether it counts.
    past: Option<VecDeque<(bool, String)>>,
    counted: usize,
    limit: usize,
}

impl Rows {
    pub fn new(kinds: &[String], main: Option<String>, limit: usize) -> Self {
        Self {
            kinds: kinds.to_vec(),
            main,
            id_width: 0,
            streams: Streams::default(),
            past: Some(VecDeque::new()),
            counted: 0,
            limit,
        }
    }

    /// Takes a line of a session that is followed.
    pub fn take(&mut self, context: &mut Context, raw: &RawLine<'_>) -> Result<(), Failed> {
        let kind = raw.kind.as_ref();
        let wanted = self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind);
        let is_piece = matches!(kind, "message_delta" | "tool_input_delta");
        if context.json {
            if wanted {
                // What stands inside its values was not looked at so far.
                if let Err(why) = serde_json::from_slice::<IgnoredAny>(raw.as_bytes()) {
                    return self.no_json(context, raw, &why.to_string());
                }
                let text = String::from_utf8_lossy(raw.as_bytes()).into_owned();
                self.put(context, !is_piece, text)?;
            }
            return Ok(());
        }
        if is_piece {
            if wanted {
                let room = self.room(&context.style, &raw.session_id);
                for streamed in self.streams.piece(raw, room) {
                    self.streamed(context, &streamed)?;
                }
            }
            return Ok(());
        }
        if matches!(kind, "message_assistant" | "message_reasoning") {
            let (rest, shown) = self.streams.whole(raw);
            if let Some(rest) = rest {
                self.streamed(context, &rest)?;
            }
            let complete = raw.payload().get("complete").and_then(|v| v.bool());
            if shown && complete != Some(false) {
                return Ok(());
            }
            if shown && wanted {
                let brief = Brief {
                    text: "(stopped here)".into(),
                    ..brief(raw)
                };
                return self.row(
                    context,
                    &raw.session_id,
                    raw.ts,
                    &raw.address().to_string(),
                    &brief,
                );
            }
        }
        if !wanted {
            return Ok(());
        }
        for streamed in self.streams.settle(Some(&raw.session_id)) {
            self.streamed(context, &streamed)?;
        }
        let address = raw.address().to_string();
        self.row(context, &raw.session_id, raw.ts, &address, &brief(raw))
    }

    /// A line that would make what is printed no JSON.
    fn no_json(
        &mut self,
        context: &mut Context,
        raw: &RawLine<'_>,
        why: &str,
    ) -> Result<(), Failed> {
        let (id, address) = (&raw.session_id, raw.address().to_string());
        let told = format!("session {id:?}: line {address}: {why}");
        context
            .lost
            .push(io::Error::new(io::ErrorKind::InvalidData, told));
        let object = json!({
            "notice": "damaged",
            "session_id": id,
            "address": address,
            "why": why,
        });
        self.put(context, false, object.to_string())
    }

    /// What tail itself has to say.
    pub fn notice(
        &mut self,
        context: &mut Context,
        text: &str,
        object: Value,
    ) -> Result<(), Failed> {
        if context.json {
            return self.put(context, false, object.to_string());
        }
        self.settle(context)?;
        let text = format!("-- {}", line(text));
        let text = context.style.yellow(&text);
        self.put(context, false, text)
    }

    /// The past is over: its last rows, and from here on each at once.
    pub fn begin(&mut self, context: &mut Context) -> Result<(), Failed> {
        for (_, row) in self.past.take().unwrap_or_default() {
            context.line(&row)?;
        }
        context.flush()
    }

    /// Nothing has come for a while: shows what is held of streamed text.
    pub fn settle(&mut self, context: &mut Context) -> Result<(), Failed> {
        for streamed in self.streams.settle(None) {
            self.streamed(context, &streamed)?;
        }
        Ok(())
    }

    fn streamed(&mut self, context: &mut Context, streamed: &Streamed) -> Result<(), Failed> {
        let (label, tone) = match streamed.kind {
            "tool_input_delta" => ("tool input", Tone::Quiet),
            _ => ("writes", Tone::Plain),
        };
        let brief = Brief {
            label: label.into(),
            text: line(&streamed.text).into_owned(),
            tone,
        };
        let (id, ts, address) = (&streamed.session_id, &streamed.ts, &streamed.address);
        self.row(context, id, ts, address, &brief)
    }

    /// Whether rows of a session name it.
    fn names(&self, id: &str) -> bool {
        self.main.as_deref() != Some(id)
    }

    /// How many columns the text of a row has.
    fn room(&self, style: &Style, id: &str) -> usize {
        if style.full {
            return usize::MAX / 16;
        }
        let id = if self.names(id) {
            self.id_width.max(columns(&short(id))) + 1
        } else {
            0
        };
        let taken = 8 + 1 + id + ADDRESS + 1 + LABEL + 1;
        style.width.saturating_sub(taken).max(20)
    }

    fn row(
        &mut self,
        context: &mut Context,
        id: &str,
        ts: &str,
        address: &str,
        brief: &Brief,
    ) -> Result<(), Failed> {
        let style = context.style.clone();
        let room = self.room(&style, id);
        let mut row = style.dim(&style.clock(parse_time(ts).unwrap_or(0)));
        row.push(' ');
        if self.names(id) {
            let id = short(id);
            self.id_width = self.id_width.max(columns(&id));
            row.push_str(&style.bold(&pad(&id, self.id_width)));
            row.push(' ');
        }
        let label = pad(&brief.label, LABEL.max(columns(&brief.label)));
        row.push_str(&format!(
            "{} {} {}",
            style.dim(&pad(address, ADDRESS.max(address.len()))),
            brief.tone.paint(&style, &label),
            cut(&brief.text, room),
        ));
        let row = row.trim_end().to_owned();
        self.put(context, true, row)
    }

    fn put(&mut self, context: &mut Context, counts: bool, row: String) -> Result<(), Failed> {
        let Some(past) = &mut self.past else {
            context.line(&row)?;
            return context.flush();
        };
        past.push_back((counts, row));
        self.counted += usize::from(counts);
        while self.counted > self.limit
            && let Some((counts, _)) = past.pop_front()
        {
            self.counted -= usize::from(counts);
        }
        Ok(())
    }
}

/// An id that leaves room for the rest.
fn short(id: &str) -> String {
    cut_id(&line(id), 24).into_owned()
}
