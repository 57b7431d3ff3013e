//! One line of a session, decoded, with its blobs.

use std::io;
use std::path::Path;

use serde_json::json;

use super::super::context::{Context, Failed};
use spanledger::session;
use spanledger::trace::Address;
use spanledger::view;

/// Prints the line with this address, and the texts that were moved to blobs.
pub(super) fn show_event(
    context: &mut Context,
    dir: &Path,
    address: Address,
) -> Result<(), Failed> {
    let line = session::line(dir, address).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failed::Damaged(error.to_string()),
        _ => error.into(),
    })?;
    let Some(line) = line else {
        // It may be one of those that can't be read.
        let missing = format!("there is no line {address} in {}", dir.display());
        context.damages = context.store.read(dir)?.damages;
        return Err(Failed::NotFound(missing));
    };
    let mut blobs = serde_json::Map::new();
    let mut lost = Ok(());
    for (sha256, size) in session::blobs(&line) {
        match session::blob(dir, sha256, size) {
            Ok(text) => drop(blobs.insert(sha256.to_owned(), text.into())),
            // The line is shown anyway: it has the beginning of the missing text.
            Err(error) => lost = Err(Failed::Damaged(error.to_string())),
        }
    }
    let mut value = json!({
        "address": line.address(),
        "ts": line.ts,
        "kind": line.kind,
        "session_id": line.session_id,
        "turn": line.turn,
        "trace_id": line.trace_id,
        "span_id": line.span_id,
        "parent_span_id": line.parent_span_id,
        "payload": line.payload,
    });
    if context.json {
        value["blobs"] = blobs.into();
        context.document(&value)?;
        return lost;
    }
    // JSON escapes control characters. Other characters that affect a terminal are escaped here.
    let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
    for text in pretty.lines() {
        context.line(&view::text::line(text))?;
    }
    for (sha256, text) in &blobs {
        context.line("")?;
        context.line(&context.style.bold(&format!("blob {sha256}")))?;
        for text in text.as_str().unwrap_or_default().lines() {
            context.line(&view::text::line(text))?;
        }
    }
    lost
}
