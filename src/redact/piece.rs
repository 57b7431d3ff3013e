//! Masking a piece of a text in the light of what stands around it.

use std::borrow::Cow;
use std::ops::Range;

use super::scan::{Found, MOST_ROUNDS, Redactor, Tally};
use super::value::quote_at;

/// How much of what has been written already is looked at again: what gives a secret away may
/// stand well before it, as a program's name does.
pub(crate) const CONTEXT: usize = 2048;
impl Redactor {
    /// Masks `piece` of `text`: what is a secret there, seen together with what is around it. Of
    /// a secret that reaches beyond the piece, the part inside.
    pub(crate) fn piece<'a>(
        &self,
        text: &'a str,
        piece: Range<usize>,
        tally: &mut Tally,
    ) -> Cow<'a, str> {
        let mut piece = piece;
        let mut clean: Option<String> = None;
        for _ in 0..MOST_ROUNDS {
            let seen = clean.as_deref().unwrap_or(text);
            let found = self.find(seen);
            if found.is_empty() {
                break;
            }
            let mut out = String::with_capacity(seen.len() + found.len() * 64);
            self.mask_part(seen, 0..piece.start, &found, &mut out);
            let start = out.len();
            tally.masked += self.mask_part(seen, piece.clone(), &found, &mut out);
            let end = out.len();
            self.mask_part(seen, piece.end..seen.len(), &found, &mut out);
            piece = start..end;
            clean = Some(out);
        }
        match clean {
            Some(clean) => Cow::Owned(clean[piece].to_owned()),
            None => Cow::Borrowed(&text[piece]),
        }
    }

    /// Appends `part` of `text`, masked. How many masks that took.
    fn mask_part(&self, text: &str, part: Range<usize>, found: &[Found], out: &mut String) -> u64 {
        let mut at = part.start;
        let mut masked = 0;
        for found in found {
            let secret = found.secret.start.max(part.start)..found.secret.end.min(part.end);
            if !secret.is_empty() {
                out.push_str(&text[at..secret.start]);
                out.push_str(&self.mask(found.rule(), &text[secret.clone()]));
                at = secret.end;
                masked += 1;
            }
        }
        out.push_str(&text[at..part.end]);
        masked
    }
}

/// Where the text begins in whose light a piece that starts at `written` is seen.
pub(crate) fn context_start(text: &str, written: usize) -> usize {
    floor_char(text, written.saturating_sub(CONTEXT))
}

/// The ways quotes are written in `line`, any of which may still be open.
pub(super) fn open_quotes(line: &str) -> Vec<&str> {
    let bytes = line.as_bytes();
    let mut quotes: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes[at..]
        .iter()
        .position(|b| matches!(b, b'\\' | b'"' | b'\'' | b'`'))
    {
        at += found;
        let end = quote_at(bytes, at).map_or(at + 1, |(end, ..)| {
            if !quotes.contains(&&line[at..end]) && quotes.len() < 6 {
                quotes.push(&line[at..end]);
            }
            end
        });
        at = end;
    }
    quotes
}

pub(super) fn floor_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
