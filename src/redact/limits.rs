//! How large a value may be, and the object that stands for a larger one.

use super::redactor::Tally;
use crate::trace::{floor_char, hex_digest, write_string};

/// How large values may be before they are moved out or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Longest text written into the line itself, in bytes.
    pub(crate) inline: usize,
    /// Longest text kept at all, in bytes.
    pub(crate) value: usize,
    /// How many bytes from the start of a moved or cut text stay readable in the line.
    pub(crate) head: usize,
    /// Deepest JSON written as such; deeper is written as a string that holds it.
    pub(crate) depth: usize,
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

impl Limits {
    pub(crate) const NONE: Self = Self {
        inline: usize::MAX,
        value: usize::MAX,
        head: usize::MAX,
        depth: usize::MAX,
    };

    /// Whether a text of this length has to leave the line.
    pub(super) fn exceeded_by(&self, length: usize) -> bool {
        length > self.inline || length > self.value
    }
}

/// Where texts too large for a line go, under the SHA-256 of their bytes.
pub(crate) trait Store {
    /// Keeps `bytes`, whose SHA-256 is `sha256` in lower-case hexadecimal.
    ///
    /// # Errors
    ///
    /// If they could not be kept; the line then marks them as lost.
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed>;
}

/// Keeps nothing: for values that belong to no session and have to stay in their line.
pub(crate) struct NoStore;

impl Store for NoStore {
    fn put(&mut self, _: &str, _: &[u8]) -> Result<(), StoreFailed> {
        Err(StoreFailed)
    }
}

/// A store could not keep what it was given.
pub(crate) struct StoreFailed;

/// Where redacted values are written.
pub(crate) struct Output<'a> {
    /// The line, to which values are appended as JSON.
    pub(crate) line: &'a mut Vec<u8>,
    /// What fits into the line.
    pub(crate) limits: &'a Limits,
    /// Takes what does not.
    pub(crate) store: &'a mut dyn Store,
    /// Counts what was masked and cut.
    pub(crate) tally: &'a mut Tally,
}

/// The media types of what is moved.
const TEXT: &str = "text/plain";
pub(super) const JSON: &str = "application/json";

impl Output<'_> {
    /// Writes a redacted text as a string, or what stands for it if it is too long.
    pub(crate) fn write_text(&mut self, clean: &str) {
        if self.limits.exceeded_by(clean.len()) {
            self.write_moved(clean, TEXT);
        } else {
            write_string(clean, self.line);
        }
    }

    /// Writes redacted JSON, or what stands for it if it is too long.
    pub(crate) fn write_redacted_json(&mut self, clean: &str) {
        if self.limits.exceeded_by(clean.len()) {
            self.write_moved(clean, JSON);
        } else {
            self.push(clean);
        }
    }

    /// Writes the object that stands for a text moved to the store, or cut.
    pub(super) fn write_moved(&mut self, text: &str, media_type: &str) {
        let kept = front(text, self.limits.value);
        let cut = &text[kept.len()..];
        let sha256 = hex_digest(kept.as_bytes());
        self.line.push(b'{');
        if kept.is_empty() || self.store.put(&sha256, kept.as_bytes()).is_err() {
            let rule = match kept.is_empty() {
                true => "value-limit",
                false => "blob-failed",
            };
            self.write_cut(text, rule);
            self.write_head(text);
        } else {
            // Half a JSON text is only text.
            let media_type = if cut.is_empty() { media_type } else { TEXT };
            let length = kept.len();
            self.push(&format!(
                r#""$blob":"{sha256}","bytes":{length},"media_type":"{media_type}""#
            ));
            if media_type == TEXT {
                self.write_head(text);
            }
            if !cut.is_empty() {
                self.line.push(b',');
                self.write_cut(cut, "value-limit");
            }
        }
        self.line.push(b'}');
    }

    fn write_cut(&mut self, cut: &str, rule: &str) {
        let (length, sha256) = (cut.len(), hex_digest(cut.as_bytes()));
        self.push(&format!(
            r#""$cut":{{"bytes":{length},"sha256":"{sha256}","rule":"{rule}"}}"#
        ));
        self.tally.cut += 1;
    }

    fn write_head(&mut self, text: &str) {
        self.push(r#","head":"#);
        write_string(front(text, self.limits.head), self.line);
    }

    fn push(&mut self, text: &str) {
        self.line.extend_from_slice(text.as_bytes());
    }
}

/// At most the first `longest` bytes, up to a character's end.
fn front(text: &str, longest: usize) -> &str {
    &text[..floor_char(text, longest)]
}
