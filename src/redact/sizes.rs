//! Values too large for a line: moved out to a store, or cut.

use std::fmt;

use sha2::{Digest, Sha256};

use super::escape::write_string;
use super::mask::hex;
use super::scan::Tally;

/// How large values may be before they are moved out or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest text written into the line itself, in bytes.
    pub inline: usize,
    /// Longest text kept at all, in bytes.
    pub value: usize,
    /// How many bytes from the start of a moved or cut text stay readable in the line.
    pub head: usize,
    /// Deepest JSON written as such; deeper is written as a string that holds it.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inline: 16 * 1024,
            value: 64 * 1024 * 1024,
            head: 512,
            depth: 64,
        }
    }
}

/// Where texts too large for a line go, under the SHA-256 of their bytes.
pub trait Store {
    /// Keeps `bytes`, whose SHA-256 is `sha256` in lower-case hexadecimal.
    ///
    /// # Errors
    ///
    /// If they could not be kept; the line then says that they are lost.
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed>;
}

/// A store could not keep what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFailed;

impl fmt::Display for StoreFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value could not be stored")
    }
}

impl std::error::Error for StoreFailed {}

/// What kind of text is written, which decides how a moved one is described.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Text,
    Json,
}

/// Whether a text of this length has to leave the line.
pub(super) fn too_long(length: usize, limits: &Limits) -> bool {
    length > limits.inline || length > limits.value
}

/// Writes the object that stands for a text moved out of the line, or cut.
pub(super) fn write_moved(
    text: &str,
    media: Media,
    limits: &Limits,
    store: &mut dyn Store,
    out: &mut Vec<u8>,
    tally: &mut Tally,
) {
    let kept = front(text, limits.value);
    let cut = &text[kept.len()..];
    let sha256 = sha256(kept);
    if kept.is_empty() || store.put(&sha256, kept.as_bytes()).is_err() {
        let rule = if kept.is_empty() {
            "value-limit"
        } else {
            "blob-failed"
        };
        out.push(b'{');
        write_cut(text, rule, out);
        write_head(text, limits, out);
        out.push(b'}');
        tally.cut += 1;
        return;
    }
    // Half a JSON text is only text.
    let whole_json = media == Media::Json && cut.is_empty();
    let media_type = if whole_json {
        "application/json"
    } else {
        "text/plain"
    };
    out.extend_from_slice(
        format!(
            r#"{{"$blob":"{sha256}","bytes":{},"media_type":"{media_type}""#,
            kept.len()
        )
        .as_bytes(),
    );
    if !whole_json {
        write_head(text, limits, out);
    }
    if !cut.is_empty() {
        out.push(b',');
        write_cut(cut, "value-limit", out);
        tally.cut += 1;
    }
    out.push(b'}');
}

fn write_cut(cut: &str, rule: &str, out: &mut Vec<u8>) {
    let sha256 = sha256(cut);
    out.extend_from_slice(
        format!(
            r#""$cut":{{"bytes":{},"sha256":"{sha256}","rule":"{rule}"}}"#,
            cut.len()
        )
        .as_bytes(),
    );
}

fn write_head(text: &str, limits: &Limits, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","head":"#);
    write_string(front(text, limits.head), out);
}

/// At most the first `longest` bytes, up to a character's end.
fn front(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
