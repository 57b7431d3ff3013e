//! What a server refused for good, with its reason: said beside the segment, never lost silently.

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

/// The dead letters of a segment, as they were noted.
pub(crate) fn read(session: &Path, seg: u32) -> io::Result<Vec<Value>> {
    let file = match open_private(&path(session, seg), OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    Ok(lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect())
}
