//! Dead letters: spans that a server refused for good, with its reason, beside the segment or in the
//! mirror's state directory. A letter that was sent again and accepted is not removed; a note marks it
//! as resolved.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use serde_json::{Value, json};

use super::cursor::SegmentFiles;
use crate::trace::{Address, hex, if_exists, parse_time, time_text, wall_ns};

fn file_name(seg: u32) -> String {
    format!("dead.{seg:04}.jsonl")
}

/// Notes that one span was refused.
pub(crate) fn refused(
    files: &SegmentFiles,
    at: Address,
    span_id: &[u8],
    why: &str,
) -> io::Result<()> {
    let note = json!({
        "address": at.to_string(),
        "span_id": hex(span_id),
        "reason": why,
    });
    append(files, note)
}

/// How many spans of a request were rejected. Servers don't say which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rejected {
    pub rejected: u64,
    pub of: u64,
    /// How many of them are attributed to this segment and not counted there as sent.
    pub not_counted: u64,
}

/// Notes that a request was accepted except for some of its spans, which are in a range of lines.
pub(crate) fn rejected(
    files: &SegmentFiles,
    (from, to): (Address, Address),
    count: Rejected,
    why: &str,
) -> io::Result<()> {
    let note = json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "rejected": count.rejected,
        "of": count.of,
        "not_counted": count.not_counted,
        "reason": why,
    });
    append(files, note)
}

fn append(files: &SegmentFiles, note: Value) -> io::Result<()> {
    let mut line = json!({"v": 1, "ts": time_text(wall_ns(), 6)});
    if let (Value::Object(line), Value::Object(note)) = (&mut line, note) {
        line.extend(note);
    }
    if let Some(identity) = &files.identity {
        line["segment"] = identity.as_str().into();
    }
    let flags = OFlags::RDWR | OFlags::APPEND;
    files.write(&file_name(files.seg), flags, |mut file| {
        // A full disk may have left a part of the last note.
        let start = if is_torn(&file)? { "\n" } else { "" };
        file.write_all(format!("{start}{line}\n").as_bytes())
    })
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

/// A span, or several, that a server refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The close line of the span; the first one of a request that was rejected in part.
    pub from: Address,
    /// The last close line; the same as `from` for one span.
    pub to: Address,
    /// When it was refused, in nanoseconds since 1970; 0 if unknown.
    pub at: u64,
    /// The server's reason, with secrets masked.
    pub reason: String,
    /// How many of its spans no cursor counts as sent.
    not_counted: u64,
}

impl DeadLetter {
    fn parse(note: &Value) -> Option<Self> {
        let at = |name: &str| note.get(name)?.as_str()?.parse().ok();
        let (from, to, not_counted) = match at("address") {
            Some(at) => (at, at, 1),
            None => {
                let not_counted = note.get("not_counted").and_then(Value::as_u64);
                (at("from")?, at("to")?, not_counted.unwrap_or(0))
            }
        };
        let text = |name: &str| note.get(name).and_then(Value::as_str);
        Some(Self {
            from,
            to,
            at: text("ts").and_then(parse_time).unwrap_or(0),
            reason: text("reason").unwrap_or_default().to_owned(),
            not_counted,
        })
    }

    /// Notes that a server has accepted it.
    pub(crate) fn resolve(&self, files: &SegmentFiles) -> io::Result<()> {
        let (from, to) = (self.from.to_string(), self.to.to_string());
        let note = json!({"resolved": {"from": from, "to": to}});
        append(files, note)
    }
}

/// The dead letters of a segment.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    /// In the order in which they were written.
    pub unresolved: Vec<DeadLetter>,
    /// Spans that were refused, so that no cursor counts them, and accepted later.
    pub accepted_later: u64,
}

/// Reads the dead letters beside the trace and in the state directory: a note in one place may resolve a
/// letter in the other.
pub(crate) fn read(beside: &SegmentFiles, own: Option<&SegmentFiles>) -> io::Result<DeadLetters> {
    let mut notes = read_notes(beside)?;
    if let Some(own) = own {
        notes.extend(read_notes(own)?);
        notes.sort_by_cached_key(|note| note["ts"].as_str().map(str::to_owned));
    }
    let mut unresolved: Vec<DeadLetter> = Vec::new();
    // By address, because the same lines can be refused and accepted in either place.
    let mut accepted = HashMap::new();
    for note in notes {
        let resolved = note.get("resolved");
        let Some(letter) = DeadLetter::parse(resolved.unwrap_or(&note)) else {
            continue;
        };
        unresolved.retain(|earlier| {
            let same = (earlier.from, earlier.to) == (letter.from, letter.to);
            if same && resolved.is_some() {
                accepted.insert(earlier.from, earlier.not_counted);
            }
            !same
        });
        if resolved.is_none() {
            unresolved.push(letter);
        }
    }
    Ok(DeadLetters {
        unresolved,
        accepted_later: accepted.into_values().sum(),
    })
}

fn read_notes(files: &SegmentFiles) -> io::Result<Vec<Value>> {
    let Some(file) = if_exists(files.open(&file_name(files.seg)))? else {
        return Ok(Vec::new());
    };
    let mut notes = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let Ok(note) = serde_json::from_slice::<Value>(&line?) else {
            continue;
        };
        if note.get("segment").and_then(Value::as_str) == files.identity.as_deref() {
            notes.push(note);
        }
    }
    Ok(notes)
}
