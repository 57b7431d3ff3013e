//! What is held back of a text that arrives piece by piece, and what of it may be written.
//!
//! Looking for secrets takes as long as the text looked at is, so a text that keeps much held back
//! is not looked at for each piece: only once a word more is there, and only once what is held has
//! grown by a part of itself. However a text is cut, that is linear in its length.

use std::collections::VecDeque;
use std::ops::Range;

use super::counted::count;
use super::mask;
use super::piece::{CONTEXT, context_start, floor_char, open_quotes};
use super::private::{self, Blocks, LONGEST_KEY, Rest};
use super::scan::{Found, Redactor};

/// Beyond this much without a place to cut, it is cut anyway. No less than the longest quoted
/// value, which is a secret as a whole only once its quote is closed.
const MAX_HELD: usize = 64 * 1024;
/// How many words are held back, the last of which may not be complete.
const HELD_WORDS: usize = 3;
/// As many with patterns of the user's, which may match over any number of words.
const HELD_FOR_RULES: usize = 12;
/// The part of itself by which much held text has to grow before it is looked at again.
const GROWTH: usize = 8;
/// Of a secret too long to be held, this much is masked at a time.
const MASKED_AT_ONCE: usize = 4096;
/// Longest mask, and then some.
const LONGEST_MASK: usize = 192;

/// The next part of a text that may be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) range: Range<usize>,
    pub(crate) seen_as: SeenAs,
}

/// What a piece is to be taken for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SeenAs {
    /// Text, to be seen in the light of what stands around it, from here on.
    Text { from: usize },
    /// A part of a secret too long to be held, and by which rule.
    Secret(String),
}

/// Where a text that arrives piece by piece stands.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Up to here it was written.
    written: usize,
    /// Up to here it was gone over, for words and blocks.
    seen: usize,
    words: Words,
    blocks: Blocks,
    /// What is before this gives nothing away: it is a secret's that was masked in parts.
    floor: usize,
    /// Where it might have been cut when it was last looked at.
    tried: usize,
    /// How long it has to be to be looked at again.
    look_at: usize,
    inside: Option<Inside>,
}

/// A secret too long to be held, of which the beginning was masked.
#[derive(Debug)]
struct Inside {
    rule: String,
    /// Up to here it is known to be one.
    known: usize,
    until: Until,
}

/// What ends a secret too long to be held. When in doubt it goes on: rather too much is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// A key's END, or a line that can't be a key's.
    Key,
    /// The first blank or quote: it has had none so far.
    Word,
    /// The end of the line.
    Line,
    /// Nothing: a pattern of the user's that goes over lines.
    End,
}

impl Redactor {
    /// The next piece of `text` that may be written without knowing what comes next; all of it if
    /// this is the `last`. To be asked until there is none.
    pub(crate) fn next_piece(&self, held: &mut Held, text: &str, last: bool) -> Option<Piece> {
        let fresh = held.seen..text.len();
        if !fresh.is_empty() {
            let words = match self.has_rules() {
                true => HELD_FOR_RULES,
                false => HELD_WORDS,
            };
            held.words.advance(text, fresh.start, words);
            held.blocks.advance(text.as_bytes(), fresh.start);
            held.seen = text.len();
            count(fresh.len());
        }
        if let Some(piece) = held.masked(text, fresh, last) {
            return Some(piece);
        }
        if held.inside.is_some() {
            return None;
        }
        let cut = if last {
            text.len()
        } else {
            self.safe_end(held, text)
        };
        if cut <= held.written {
            return held.masked(text, 0..0, last);
        }
        let range = held.written..cut;
        let from = held.context(text);
        held.written = cut;
        Some(Piece {
            range,
            seen_as: SeenAs::Text { from },
        })
    }

    /// Up to where `text` may be written.
    fn safe_end(&self, held: &mut Held, text: &str) -> usize {
        let written = held.written;
        let Some(wanted) = held.wanted(text) else {
            return written;
        };
        held.tried = wanted;
        let mut secrets = self.secrets(text, held.context(text));
        // From the last on, as a cut that moves back may meet one that starts earlier.
        secrets.sort_unstable_by_key(|found| found.secret.start);
        let mut cut = wanted;
        let mut too_long = None;
        loop {
            let before = cut;
            for found in secrets.iter().rev() {
                let Range { start, end } = found.secret;
                if start < cut && cut < end {
                    cut = start.max(written);
                    if is_too_long(text, cut, found) {
                        too_long = Some((cut, found));
                    }
                }
            }
            cut = before_mask(text, cut).max(written);
            if cut == before {
                break;
            }
        }
        let left = text.len() - cut;
        let wait = if left > CONTEXT { left / GROWTH } else { 0 };
        held.look_at = text.len() + wait;
        held.inside = too_long
            .filter(|(start, _)| *start == cut)
            .map(|(_, found)| Inside::new(text, found));
        cut
    }

    /// The secrets in `text[from..]`, also those that are none until a quote is closed.
    fn secrets(&self, text: &str, from: usize) -> Vec<Found> {
        let mut secrets = self.find(&text[from..]);
        shift(&mut secrets, from);
        let line = memchr::memrchr(b'\n', &text.as_bytes()[from..]).map_or(from, |n| from + n + 1);
        // A quote that is still open may turn out to hold a secret of many words.
        for quote in open_quotes(&text[line..]) {
            let mut more = self.find(&format!("{}{quote}", &text[line..]));
            shift(&mut more, line);
            // A pattern of the user's may take in the quote, which isn't there.
            for Found { whole, secret, .. } in &mut more {
                whole.end = whole.end.min(text.len());
                secret.end = secret.end.min(text.len());
            }
            secrets.append(&mut more);
        }
        secrets
    }
}

impl Held {
    /// Where the text begins in whose light what is next is seen.
    fn context(&self, text: &str) -> usize {
        context_start(text, self.written).max(self.floor)
    }

    /// Where the text could be cut if no secret is there, if it is time to look for any.
    fn wanted(&self, text: &str) -> Option<usize> {
        let mut cut = self.words.start().max(self.written);
        if text.len() - self.written > MAX_HELD {
            cut = cut.max(floor_char(text, text.len() - MAX_HELD / 2));
        }
        // A block that has begun and not ended is held whole.
        if let Some(open) = self.blocks.open(self.written, text.len()) {
            cut = cut.min(open);
        }
        (cut > self.written && cut != self.tried && text.len() >= self.look_at).then_some(cut)
    }

    /// The next part of the secret that was too long to be held, which may end in `fresh`.
    fn masked(&mut self, text: &str, fresh: Range<usize>, last: bool) -> Option<Piece> {
        let inside = self.inside.as_ref()?;
        let length = text.len() - self.written;
        let due = last
            || inside.known > self.written
            || length >= MASKED_AT_ONCE
            || inside.ends_in(&text.as_bytes()[fresh])
            || inside.until == Until::Key && self.blocks.ended(self.written);
        if !due {
            return None;
        }
        count(length);
        let from = self.written.max(inside.known);
        let Rest { end, over } = inside.rest(text.as_bytes(), from, last);
        let rule = inside.rule.clone();
        if over {
            self.inside = None;
            (self.floor, self.tried, self.look_at) = (end, 0, 0);
        }
        let range = self.written..end;
        self.written = end;
        (!range.is_empty()).then_some(Piece {
            range,
            seen_as: SeenAs::Secret(rule),
        })
    }
}

impl Inside {
    fn new(text: &str, found: &Found) -> Self {
        let secret = &text.as_bytes()[found.secret.clone()];
        let until = if is_key(text, found) {
            Until::Key
        } else if memchr::memchr2(b'\n', b'\r', secret).is_some() {
            Until::End
        } else if secret.iter().any(|&b| ends_word(b)) {
            Until::Line
        } else {
            Until::Word
        };
        let mut known = found.secret.end;
        if until == Until::Key && known == text.len() {
            known = private::whole_lines(text.as_bytes(), found.secret.clone());
        }
        Self {
            rule: found.rule().to_owned(),
            known,
            until,
        }
    }

    fn ends(&self, byte: u8) -> bool {
        match self.until {
            Until::Word => ends_word(byte),
            Until::Line => matches!(byte, b'\n' | b'\r'),
            Until::Key | Until::End => false,
        }
    }

    fn ends_in(&self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&b| self.ends(b))
    }

    fn rest(&self, text: &[u8], from: usize, last: bool) -> Rest {
        if self.until == Until::Key {
            return private::rest_of_key(text, from, last);
        }
        let found = text[from..].iter().position(|&b| self.ends(b));
        Rest {
            end: found.map_or(text.len(), |n| from + n),
            over: found.is_some(),
        }
    }
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`')
}

/// Whether a secret that has not ended is too long to be held from `start` on.
fn is_too_long(text: &str, start: usize, found: &Found) -> bool {
    let length = text.len() - start;
    length > MAX_HELD || length > LONGEST_KEY && is_key(text, found)
}

/// Whether it is a key of many lines, or holds one.
fn is_key(text: &str, found: &Found) -> bool {
    private::has_block(&text.as_bytes()[found.whole.clone()])
}

fn shift(found: &mut [Found], by: usize) {
    for Found { whole, secret, .. } in found {
        *whole = whole.start + by..whole.end + by;
        *secret = secret.start + by..secret.end + by;
    }
}

/// Where the last few words of a text begin, as it grows.
#[derive(Debug, Default)]
struct Words {
    starts: VecDeque<usize>,
    last: Option<char>,
    held: usize,
}

impl Words {
    /// Goes over `text` from `seen` on. Scripts that put no spaces between words, and the members
    /// of JSON written without any, have places to cut all the same.
    fn advance(&mut self, text: &str, seen: usize, held: usize) {
        self.held = held;
        let east_asian = |c: char| c >= '\u{2e80}' && !c.is_whitespace();
        for (at, next) in text[seen..].char_indices() {
            let Some(c) = self.last.replace(next) else {
                continue;
            };
            let begins = c.is_whitespace() && !next.is_whitespace()
                || east_asian(c) && !next.is_whitespace()
                || east_asian(next)
                || c == ',' && matches!(next, '"' | '{' | '[');
            if begins {
                if self.starts.len() == held {
                    self.starts.pop_front();
                }
                self.starts.push_back(seen + at);
            }
        }
    }

    /// Where those begin that are held back.
    fn start(&self) -> usize {
        match self.starts.front() {
            Some(start) if self.starts.len() == self.held => *start,
            _ => 0,
        }
    }
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
