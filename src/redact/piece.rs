//! Texts that arrive piece by piece: how much of one may be written before the rest is there, and
//! masking a piece in the light of what stands around it.

use std::borrow::Cow;
use std::ops::Range;

use super::mask;
use super::scan::{Found, MOST_ROUNDS, Redactor, Tally};
use super::value::quote_at;

/// How much of what has been written already is looked at again: what gives a secret away may
/// stand well before it, as a program's name does.
pub(crate) const CONTEXT: usize = 2048;
/// Beyond this much without a place to cut, it is cut anyway.
const MAX_HELD: usize = 64 * 1024;
/// How many words are held back, the last of which may not be complete.
const HELD_WORDS: usize = 3;
/// As many with patterns of the user's, which may match over any number of words.
const HELD_FOR_RULES: usize = 12;
/// Longest mask, and then some.
const LONGEST_MASK: usize = 192;

impl Redactor {
    /// Up to where `text` may be written as pieces without knowing what comes next, where up to
    /// `written` it has been.
    pub(crate) fn safe_end(&self, text: &str, written: usize) -> usize {
        let held = if self.has_rules() {
            HELD_FOR_RULES
        } else {
            HELD_WORDS
        };
        let mut cut = written + before_last_words(&text[written..], held);
        let over = text.len() - written > MAX_HELD;
        if over {
            cut = cut.max(floor_char(text, text.len() - MAX_HELD / 2));
        } else if let Some(begin) = memchr::memmem::rfind(&text.as_bytes()[written..], b"-----BEGIN")
            // A block that has begun and not ended is held whole.
            && !text[written + begin..].contains("-----END")
        {
            cut = cut.min(written + begin);
        }
        if cut == written {
            return cut;
        }
        let from = context_start(text, written);
        let line = memchr::memrchr(b'\n', &text.as_bytes()[from..]).map_or(from, |n| from + n + 1);
        let mut secrets = self.find(&text[from..]);
        shift(&mut secrets, from);
        // A quote that is still open may turn out to hold a secret of many words.
        for quote in open_quotes(&text[line..]) {
            let mut more = self.find(&format!("{}{quote}", &text[line..]));
            shift(&mut more, line);
            secrets.append(&mut more);
        }
        loop {
            let before = cut;
            for Found { secret, .. } in &secrets {
                if secret.start < cut && cut < secret.end {
                    cut = secret.start;
                }
            }
            cut = before_mask(text, cut);
            if cut == before {
                return cut.max(written);
            }
        }
    }
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

fn shift(found: &mut [Found], by: usize) {
    for Found { secret, .. } in found {
        *secret = secret.start + by..secret.end + by;
    }
}

/// Where the last few words begin. Scripts that put no spaces between words, and the members of
/// JSON written without any, have places to cut all the same.
fn before_last_words(text: &str, held: usize) -> usize {
    let east_asian = |c: char| c >= '\u{2e80}' && !c.is_whitespace();
    let mut words = 0;
    let mut after: Option<(usize, char)> = None;
    for (at, c) in text.char_indices().rev() {
        if let Some((start, next)) = after {
            let begins = c.is_whitespace() && !next.is_whitespace()
                || east_asian(c) && !next.is_whitespace()
                || east_asian(next)
                || c == ',' && matches!(next, '"' | '{' | '[');
            words += usize::from(begins);
            if words == held {
                return start;
            }
        }
        after = Some((at, c));
    }
    0
}

/// The ways quotes are written in `line`, any of which may still be open.
fn open_quotes(line: &str) -> Vec<&str> {
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

/// `cut`, or the start of the mask that it would cut in two. One that is not complete yet counts.
fn before_mask(text: &str, cut: usize) -> usize {
    let from = floor_char(text, cut.saturating_sub(LONGEST_MASK));
    let Some(found) = text[from..cut].rfind('[') else {
        return cut;
    };
    let (bytes, start) = (text.as_bytes(), from + found);
    let opening = mask::OPENING.as_bytes();
    let rest = &bytes[start..];
    let begun = rest.starts_with(opening) || opening.starts_with(rest);
    match mask::mask_end(bytes, start) {
        Some(end) if end > cut => start,
        None if begun && rest.len() < LONGEST_MASK => start,
        _ => cut,
    }
}

fn floor_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
