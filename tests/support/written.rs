//! Traces written by hand, line by line.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A line of a session, its number aside.
pub fn line(id: &str, kind: &str, payload: Value) -> Value {
    json!({
        "v": 1, "seg": 1, "ts": "2026-11-16T00:31:05.123456Z", "kind": kind, "session_id": id,
        "payload": payload,
    })
}

/// The same about a span.
pub fn span(id: &str, kind: &str, span: u64, parent: u64, payload: Value) -> Value {
    let mut line = line(id, kind, payload);
    line["turn"] = 1.into();
    line["span_id"] = format!("{span:016x}").into();
    line["parent_span_id"] = format!("{parent:016x}").into();
    line
}

/// Writes a segment of these lines, numbered, and returns its session's directory.
pub fn write(root: &Path, name: &str, seg: u32, lines: &[Value]) -> PathBuf {
    let dir = root.join("sessions").join(name);
    fs::create_dir_all(&dir).unwrap();
    let numbered = lines.iter().enumerate().map(|(at, line)| {
        let mut line = line.clone();
        (line["seg"], line["seq"]) = (seg.into(), (at + 1).into());
        format!("{line}\n")
    });
    let text: String = numbered.collect();
    fs::write(dir.join(format!("trace.{seg:04}.jsonl")), text).unwrap();
    dir
}
