//! What a server refused for good, with its reason: said beside the segment or in the mirror's own
//! state, never lost silently. A letter that was sent again and taken is not removed: a note says
//! that it is resolved.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use super::state::Place;
use crate::ledger::{parse_time, time_text, wall_ns};
use crate::reader::Address;

fn file_name(seg: u32) -> String {
    format!("dead.{seg:04}.jsonl")
}

/// Notes that one span was refused.
pub(super) fn refused(place: &Place, at: Address, span_id: &[u8], why: &str) -> io::Result<()> {
    let span_id: String = span_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let note = json!({
        "v": 1,
        "ts": time_text(wall_ns(), 6),
        "address": at.to_string(),
        "span_id": span_id,
        "reason": why,
    });
    append(place, at.seg, note)
}

/// What a server refused of a request, without saying which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub rejected: u64,
    pub of: u64,
    /// How many of these are taken for spans of the segment, and not counted there as sent.
    pub here: u64,
}

/// Notes that a server took a request and refused some of it.
pub(super) fn rejected(
    place: &Place,
    first: Address,
    last: Address,
    part: Part,
    why: &str,
) -> io::Result<()> {
    let note = json!({
        "v": 1,
        "ts": time_text(wall_ns(), 6),
        "from": first.to_string(),
        "to": last.to_string(),
        "rejected": part.rejected,
        "of": part.of,
        "not_counted": part.here,
        "reason": why,
    });
    append(place, first.seg, note)
}

fn append(place: &Place, seg: u32, mut note: Value) -> io::Result<()> {
    if let Some(of) = &place.of {
        note["segment"] = of.as_str().into();
    }
    place.write(
        &file_name(seg),
        OpenOptions::new().read(true).append(true),
        |mut file| {
            // A full disk may have left a part of a note, which is none; this one is.
            let start = if is_torn(&file)? { "\n" } else { "" };
            file.write_all(format!("{start}{note}\n").as_bytes())
        },
    )
}

/// Whether the last line of a file has no end.
fn is_torn(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(false);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

/// What was refused and not taken since.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// The lines it is about; both the same where it is about one.
    pub from: Address,
    pub to: Address,
    /// How many spans of it no cursor counts as sent.
    not_counted: u64,
    /// When it was refused, in nanoseconds since 1970; 0 where that isn't said.
    pub ts: u64,
    /// What the server said.
    pub reason: String,
}

impl Letter {
    fn read(note: &Value) -> Option<Self> {
        let at = |name: &str| note.get(name)?.as_str()?.parse().ok();
        let (from, to, not_counted) = match at("address") {
            Some(at) => (at, at, 1),
            None => {
                let not_counted = note.get("not_counted").and_then(Value::as_u64);
                (at("from")?, at("to")?, not_counted.unwrap_or(0))
            }
        };
        let text = |name: &str| note.get(name).and_then(Value::as_str);
        let (ts, reason) = (text("ts").and_then(parse_time), text("reason"));
        Some(Self {
            from,
            to,
            not_counted,
            ts: ts.unwrap_or(0),
            reason: reason.unwrap_or_default().to_owned(),
        })
    }

    /// Notes that a server has taken it after all.
    pub fn resolve(&self, place: &Place) -> io::Result<()> {
        let (from, to) = (self.from.to_string(), self.to.to_string());
        let note = json!({
            "v": 1,
            "ts": time_text(wall_ns(), 6),
            "resolved": {"from": from, "to": to},
        });
        append(place, self.from.seg, note)
    }
}

/// The dead letters of a segment.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Those that are not resolved, in the order in which they came.
    pub unresolved: Vec<Letter>,
    /// Spans that were refused, so that no cursor counts them, and taken since.
    pub taken: u64,
}

/// Reads them: what is noted in one place may be resolved in the other.
pub(super) fn read(beside: &Place, own: Option<&Place>, seg: u32) -> io::Result<Letters> {
    let mut beside = notes(beside, seg)?.into_iter().peekable();
    let own = own.map_or_else(|| Ok(Vec::new()), |own| notes(own, seg))?;
    let mut own = own.into_iter().peekable();
    let ts = |note: &Value| note.get("ts").and_then(Value::as_str).map(str::to_owned);
    let mut letters: Vec<Letter> = Vec::new();
    // By their first lines: the same can be refused, and taken, in either place.
    let mut taken = HashMap::new();
    loop {
        let next = match (beside.peek(), own.peek()) {
            (Some(a), Some(b)) if ts(b) < ts(a) => own.next(),
            (Some(_), _) => beside.next(),
            (None, _) => own.next(),
        };
        let Some(note) = next else {
            return Ok(Letters {
                unresolved: letters,
                taken: taken.into_values().sum(),
            });
        };
        let resolved = note.get("resolved");
        if let Some(about) = Letter::read(resolved.unwrap_or(&note)) {
            // The same lines can be refused twice, by whoever sends from either place.
            letters.retain(|letter| {
                let same = (letter.from, letter.to) == (about.from, about.to);
                if same && resolved.is_some() {
                    taken.insert(letter.from, letter.not_counted);
                }
                !same
            });
            letters.extend(Some(about).filter(|_| resolved.is_none()));
        }
    }
}

/// All that is noted of a segment in one place.
fn notes(place: &Place, seg: u32) -> io::Result<Vec<Value>> {
    let file = match place.open(&file_name(seg)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut notes = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let Ok(note) = serde_json::from_slice::<Value>(&line?) else {
            continue;
        };
        if note.get("segment").and_then(Value::as_str) == place.of.as_deref() {
            notes.push(note);
        }
    }
    Ok(notes)
}
