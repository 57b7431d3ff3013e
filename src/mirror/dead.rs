//! What a server refused for good, with its reason: said beside the segment, never lost silently.
//! A letter that was sent again and taken is not removed: a note says that it is resolved.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::ledger::{open_private, time_text, wall_ns};
use crate::reader::Address;

fn path(session: &Path, seg: u32) -> PathBuf {
    session.join(format!("dead.{seg:04}.jsonl"))
}

/// Notes that one span was refused.
pub(crate) fn refused(session: &Path, at: Address, span_id: &[u8], why: &str) -> io::Result<()> {
    let span_id: String = span_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let note = json!({
        "v": 1,
        "ts": time_text(wall_ns(), 6),
        "address": at.to_string(),
        "span_id": span_id,
        "reason": why,
    });
    append(&path(session, at.seg), &note)
}

/// Notes that a server took a request and refused some of it, without saying which.
pub(crate) fn rejected(
    session: &Path,
    first: Address,
    last: Address,
    (rejected, of): (u64, u64),
    why: &str,
) -> io::Result<()> {
    let note = json!({
        "v": 1,
        "ts": time_text(wall_ns(), 6),
        "from": first.to_string(),
        "to": last.to_string(),
        "rejected": rejected,
        "of": of,
        "reason": why,
    });
    append(&path(session, first.seg), &note)
}

fn append(path: &Path, note: &Value) -> io::Result<()> {
    let mut file = open_private(path, OpenOptions::new().append(true).create(true))?;
    file.write_all(format!("{note}\n").as_bytes())
}

/// What was refused and not taken since.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// The lines it is about; both the same where it is about one.
    pub from: Address,
    pub to: Address,
    /// What the server said.
    pub reason: String,
}

impl Letter {
    fn read(note: &Value) -> Option<Self> {
        let at = |name: &str| note.get(name)?.as_str()?.parse().ok();
        let (from, to) = match at("address") {
            Some(at) => (at, at),
            None => (at("from")?, at("to")?),
        };
        let reason = note.get("reason").and_then(Value::as_str);
        Some(Self {
            from,
            to,
            reason: reason.unwrap_or_default().to_owned(),
        })
    }

    /// Notes that a server has taken it after all.
    pub fn resolve(&self, session: &Path) -> io::Result<()> {
        let (from, to) = (self.from.to_string(), self.to.to_string());
        let note = json!({
            "v": 1,
            "ts": time_text(wall_ns(), 6),
            "resolved": {"from": from, "to": to},
        });
        append(&path(session, self.from.seg), &note)
    }
}

/// The dead letters of a segment that are not resolved, in the order in which they came.
pub(crate) fn read(session: &Path, seg: u32) -> io::Result<Vec<Letter>> {
    let file = match open_private(&path(session, seg), OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut letters = Vec::new();
    for line in BufReader::new(file).lines() {
        let Ok(note) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        match note.get("resolved").and_then(Letter::read) {
            Some(resolved) => letters
                .retain(|letter: &Letter| (letter.from, letter.to) != (resolved.from, resolved.to)),
            None => letters.extend(Letter::read(&note)),
        }
    }
    Ok(letters)
}
