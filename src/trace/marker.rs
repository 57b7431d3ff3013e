//! Markers: they replace a value that was moved to a blob, cut, or not UTF-8.

use std::borrow::Cow;

use super::RawValue;

/// The replacement of a value that is not in the line as it was given.
///
/// ```
/// use spanledger::trace::RawLine;
/// let line = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_result","session_id":"s","payload":{"result":{"$blob":"ab12","bytes":70000,"media_type":"text/plain","head":"total 4"}}}"#;
/// let line = RawLine::parse(line)?;
/// let marker = line.payload().get("result").and_then(|result| result.marker()).unwrap();
/// assert_eq!((marker.blob.as_deref(), marker.bytes), (Some("ab12"), Some(70000)));
/// # Ok::<(), spanledger::trace::LineError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Marker<'a> {
    /// The SHA-256 of the blob that holds the value.
    pub blob: Option<Cow<'a, str>>,
    /// The size of the blob, or of the bytes that are not UTF-8.
    pub bytes: Option<u64>,
    /// How the value begins; the whole text with replacement characters where it is not UTF-8.
    pub head: Option<Cow<'a, str>>,
    /// The part that was cut off.
    pub cut: Option<Cut<'a>>,
    /// The value is not UTF-8.
    pub lossy: bool,
}

/// A part of a value that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut<'a> {
    /// How long it was.
    pub bytes: Option<u64>,
    /// Its SHA-256.
    pub sha256: Option<Cow<'a, str>>,
    /// The rule that applied.
    pub rule: Option<Cow<'a, str>>,
}

impl<'a> RawValue<'a> {
    /// The marker that stands in place of the value.
    pub fn marker(&self) -> Option<Marker<'a>> {
        // The first bytes are enough for nearly every value.
        let inside = self.json().trim_ascii_start().strip_prefix('{')?;
        if !inside.trim_ascii_start().starts_with("\"$") {
            return None;
        }
        let mut marker = Marker::default();
        for (index, (name, value)) in self.members().enumerate() {
            match name {
                "$blob" => marker.blob = value.text(),
                "$cut" => {
                    marker.cut = Some(Cut {
                        bytes: value.get("bytes").and_then(|v| v.u64()),
                        sha256: value.get("sha256").and_then(|v| v.text()),
                        rule: value.get("rule").and_then(|v| v.text()),
                    });
                }
                "$lossy" => {
                    marker.lossy = true;
                    marker.bytes = value.get("bytes").and_then(|v| v.u64());
                }
                _ if index == 0 => return None,
                "bytes" => marker.bytes = value.u64(),
                "head" | "text" => marker.head = value.text(),
                _ => {}
            }
        }
        Some(marker)
    }
}

#[cfg(test)]
mod tests;
