//! Redaction of a file of JSON that is read piece by piece.

use super::json_stream::JsonStream;
use super::redactor::Redactor;

/// The rule that masks what is no JSON: it has no names by which a secret could be known.
const NOT_JSON: &str = "not-json";

/// A file of JSON values, one behind the other: a document, or lines.
#[derive(Debug, Default)]
pub(crate) struct JsonFile {
    /// What was read and is not written yet.
    text: String,
    /// The value that has begun and not ended.
    value: Option<JsonStream>,
    /// Where JSON was expected is something else.
    is_broken: bool,
}

impl JsonFile {
    /// What can be written, redacted, now that `piece` was read.
    pub(crate) fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        if self.value.is_none()
            && self.text.is_empty()
            && !self.is_broken
            && let Some(line) = redactor.json_line(piece)
        {
            return line.into_owned();
        }
        self.text += piece;
        self.redact(redactor, false)
    }

    /// The rest, redacted, at the end of the file. Of a value that has not ended, all that was held back is masked.
    pub(crate) fn finish(mut self, redactor: &Redactor) -> String {
        let held = self.text.clone();
        let written = self.redact(redactor, true);
        let is_torn = self.value.is_some() || self.is_broken;
        match is_torn && !held.is_empty() {
            true => redactor.mask(NOT_JSON, &held),
            false => written,
        }
    }

    fn redact(&mut self, redactor: &Redactor, last: bool) -> String {
        let (mut written, mut from) = (String::new(), 0);
        while !self.is_broken {
            let value = match &mut self.value {
                Some(value) => value,
                None => {
                    let is_blank = |c: char| c.is_ascii_whitespace() || c == '\u{feff}';
                    let blank = &self.text[from..];
                    let blank = &blank[..blank.len() - blank.trim_start_matches(is_blank).len()];
                    written += blank;
                    from += blank.len();
                    if from == self.text.len() {
                        break;
                    }
                    self.value.insert(JsonStream::new(from, 1))
                }
            };
            let (piece, is_json) = value.next_piece(redactor, &self.text, from, last);
            if let Some(piece) = piece {
                written += &piece.redacted;
                from = piece.range.end;
            }
            let is_over = value.is_over();
            self.is_broken = !is_json && !is_over;
            if is_over || self.is_broken {
                self.value = None;
            }
            if is_json {
                break;
            }
        }
        if self.is_broken && from < self.text.len() {
            written += &redactor.mask(NOT_JSON, &self.text[from..]);
            from = self.text.len();
        }
        self.text.drain(..from);
        if let Some(value) = &mut self.value {
            value.drop_front(from);
        }
        written
    }
}
