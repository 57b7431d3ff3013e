//! Redaction of a text that arrives piece by piece, such as a streamed message.
//!
//! The end of what has arrived is held back until it is certain that no secret reaches beyond it.
//! A search takes as long as the text searched is, so a text of which much is held back is not
//! searched for each piece: only once a word more is there, and only once what is held back has
//! grown by a part of itself. However a text is cut, that is linear in its length.

use std::collections::VecDeque;
use std::ops::Range;

use super::found::Found;
use super::json::MOST_NESTED;
use super::json_stream::JsonStream;
use super::manifests;
use super::mask::{self, LONGEST_MASK};
use super::private_keys::{self, LONGEST_KEY, OpenBlocks};
use super::redactor::{Redactor, Tally, count_work};
use super::text::{is_quote, run_start};
use super::value::MOST_BACKSLASHES;
use crate::trace::floor_char;

/// Beyond this much without a place to cut, it is cut anyway. No less than the longest quoted
/// value, which is a secret as a whole only once its quote is closed.
pub(super) const MAX_HELD: usize = 64 * 1024;
/// How many words are held back, the last of which may not be complete.
const HELD_WORDS: usize = 3;
/// As many with patterns of the user's, which may match over any number of words.
const HELD_FOR_USER_RULES: usize = 12;
/// How much of what has been written already is searched again: what gives a secret away may
/// stand well before it, as a program's name does.
const CONTEXT: usize = 2048;
/// The part of itself by which much held text has to grow before it is searched again.
const GROWTH: usize = 8;
/// Of a secret too long to be held, this much is masked at a time.
pub(super) const MASKED_AT_ONCE: usize = 4096;

/// The next part of a text that may be written, redacted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which part of the text it stands for.
    pub(crate) range: Range<usize>,
    pub(crate) redacted: String,
    /// How many masks are in it.
    pub(crate) masked: u64,
}

/// How much of a text that arrives piece by piece has been written.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    /// Up to here it was written.
    written: usize,
    /// Up to here it was read for words and key blocks.
    read: usize,
    words: LastWords,
    blocks: OpenBlocks,
    /// What is before this gives nothing away: it is part of a secret that was masked in parts.
    floor: usize,
    /// Where it might have been cut when it was last searched.
    tried: usize,
    /// How long it has to be to be searched again.
    search_at: usize,
    long_secret: Option<LongSecret>,
    form: Form,
}

/// What a text is redacted as.
#[derive(Debug, Default)]
enum Form {
    /// There is nothing but white space so far.
    #[default]
    Unknown,
    Text,
    Json(Box<JsonStream>),
}

/// A secret too long to be held, of which the beginning was masked.
#[derive(Debug)]
struct LongSecret {
    rule: String,
    /// Up to here it is known to be one.
    known: usize,
    /// Which byte ends it. When in doubt it goes on: rather too much is masked. `None` for a key,
    /// which ends with its END, or before a line that can't be a key's.
    ends_at: Option<fn(u8) -> bool>,
}

impl Redactor {
    /// Masks a text that arrives in chunks, as a recorded stream does: all that is written of it.
    #[must_use]
    pub fn stream(&self, chunks: impl IntoIterator<Item = impl AsRef<str>>) -> String {
        let (mut state, mut text, mut written) =
            (StreamState::default(), String::new(), String::new());
        let mut take = |text: &str, last: bool| {
            while let Some(piece) = self.next_piece(&mut state, text, last) {
                written += &piece.redacted;
            }
        };
        for chunk in chunks {
            text += chunk.as_ref();
            take(&text, false);
        }
        take(&text, true);
        written
    }

    /// The next piece of `text` that may be written without knowing what comes next; all of it if
    /// this is the `last`. To be called until there is none.
    pub(crate) fn next_piece(
        &self,
        state: &mut StreamState,
        text: &str,
        last: bool,
    ) -> Option<Piece> {
        self.piece(state, text, last, 1)
    }

    /// The same for a text that `nested` strings are around, plus one.
    pub(super) fn piece(
        &self,
        state: &mut StreamState,
        text: &str,
        last: bool,
        nested: usize,
    ) -> Option<Piece> {
        state.learn_form(text, nested);
        if let Form::Json(json) = &mut state.form {
            let (piece, is_json) = json.next_piece(self, text, state.written, last);
            if !is_json {
                state.form = Form::Text;
            }
            if let Some(piece) = piece {
                state.written = piece.range.end;
                return Some(piece);
            }
            if is_json {
                return None;
            }
        }
        self.text_piece(state, text, last)
    }

    fn text_piece(&self, state: &mut StreamState, text: &str, last: bool) -> Option<Piece> {
        let fresh = state.read..text.len();
        if !fresh.is_empty() {
            let words = match self.user_rules.is_empty() {
                true => HELD_WORDS,
                false => HELD_FOR_USER_RULES,
            };
            state.words.read(text, fresh.start, words);
            state.blocks.read(text.as_bytes(), fresh.start);
            state.read = text.len();
            count_work(fresh.len());
        }
        let masked = self.next_mask(state, text, fresh, last);
        if masked.is_some() || state.long_secret.is_some() {
            return masked;
        }
        let cut = match last {
            true => text.len(),
            false => self.safe_end(state, text),
        };
        if cut <= state.written {
            return self.next_mask(state, text, 0..0, last);
        }
        let range = state.written..cut;
        let context = state.context(text);
        state.written = cut;
        let within = range.start - context..range.end - context;
        let mut tally = Tally::default();
        let redacted = self.text_part(&text[context..], within, &mut tally);
        Some(Piece {
            range,
            redacted: redacted.into_owned(),
            masked: tally.masked,
        })
    }

    /// Up to where `text` may be written.
    fn safe_end(&self, state: &mut StreamState, text: &str) -> usize {
        let written = state.written;
        let Some(wanted) = state.wanted_cut(text) else {
            return written;
        };
        state.tried = wanted;
        let context = state.context(text);
        let undecided = manifests::undecided(&text.as_bytes()[context..]);
        let wanted = undecided.map_or(wanted, |start| wanted.min(context + start));
        let mut secrets = self.find_open(text, context);
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
        state.search_at = text.len() + wait;
        state.long_secret = too_long
            .filter(|(start, _)| *start == cut)
            .map(|(_, found)| LongSecret::new(text, found));
        cut
    }

    /// The secrets in `text[from..]`, also those that are none until a quote is closed.
    fn find_open(&self, text: &str, from: usize) -> Vec<Found> {
        let mut secrets = self.find_from(from, &text[from..]);
        let line = memchr::memrchr(b'\n', &text.as_bytes()[from..]).map_or(from, |n| from + n + 1);
        // A quote that is still open may turn out to hold a secret of many words.
        for quote in open_quotes(&text[line..]) {
            let mut more = self.find_from(line, &format!("{}{quote}", &text[line..]));
            // A pattern of the user's may match the quote, which isn't there.
            for Found { whole, secret, .. } in &mut more {
                whole.end = whole.end.min(text.len());
                secret.end = secret.end.min(text.len());
            }
            secrets.append(&mut more);
        }
        secrets
    }

    /// The secrets in the part of a text that starts at `from`, by where they are in the whole.
    fn find_from(&self, from: usize, part: &str) -> Vec<Found> {
        let mut secrets = self.find(part);
        for Found { whole, secret, .. } in &mut secrets {
            *whole = whole.start + from..whole.end + from;
            *secret = secret.start + from..secret.end + from;
        }
        secrets
    }

    /// The next part of the secret that was too long to be held, which may end in `fresh`.
    fn next_mask(
        &self,
        state: &mut StreamState,
        text: &str,
        fresh: Range<usize>,
        last: bool,
    ) -> Option<Piece> {
        let secret = state.long_secret.as_ref()?;
        let length = text.len() - state.written;
        let ended = match secret.ends_at {
            None => state.blocks.ended(state.written),
            Some(ends) => text.as_bytes()[fresh].iter().any(|b| ends(*b)),
        };
        if !last && !ended && secret.known <= state.written && length < MASKED_AT_ONCE {
            return None;
        }
        count_work(length);
        let from = state.written.max(secret.known);
        let (end, over) = secret.rest(text.as_bytes(), from, last);
        let range = state.written..end;
        let redacted = self.mask(&secret.rule, &text[range.clone()]);
        if over {
            state.long_secret = None;
            (state.floor, state.tried, state.search_at) = (end, 0, 0);
        }
        state.written = end;
        (!range.is_empty()).then_some(Piece {
            range,
            redacted,
            masked: 1,
        })
    }
}

impl StreamState {
    /// Looks at what a text starts with, once that is there.
    fn learn_form(&mut self, text: &str, nested: usize) {
        let Form::Unknown = self.form else { return };
        let start = text[self.read..].find(|c: char| !c.is_ascii_whitespace());
        let Some(at) = start.map(|start| self.read + start) else {
            return;
        };
        self.form = match text.as_bytes()[at] {
            b'{' | b'[' if nested <= MOST_NESTED => {
                Form::Json(Box::new(JsonStream::new(at, nested)))
            }
            _ => Form::Text,
        };
    }

    /// Where the text begins that is searched for what comes next.
    fn context(&self, text: &str) -> usize {
        floor_char(text, self.written.saturating_sub(CONTEXT)).max(self.floor)
    }

    /// Where the text could be cut if no secret is there, if it is time to search for any.
    fn wanted_cut(&self, text: &str) -> Option<usize> {
        let mut cut = self.words.start().max(self.written);
        if text.len() - self.written > MAX_HELD {
            cut = cut.max(floor_char(text, text.len() - MAX_HELD / 2));
        }
        // A block that has begun and not ended is held whole.
        if let Some(open) = self.blocks.first_open(self.written, text.len()) {
            cut = cut.min(open);
        }
        (cut > self.written && cut != self.tried && text.len() >= self.search_at).then_some(cut)
    }
}

impl LongSecret {
    fn new(text: &str, found: &Found) -> Self {
        let secret = &text.as_bytes()[found.secret.clone()];
        let mut known = found.secret.end;
        let ends_at: Option<fn(u8) -> bool> = if is_key(text, found) {
            if known == text.len() {
                known = private_keys::whole_lines(text.as_bytes(), found.secret.clone());
            }
            None
        } else if secret.iter().any(|&b| ends_line(b)) {
            // A pattern of the user's that goes over lines: it never ends.
            Some(|_| false)
        } else if secret.iter().any(|&b| ends_word(b)) {
            Some(ends_line)
        } else {
            Some(ends_word)
        };
        Self {
            rule: found.rule().to_owned(),
            known,
            ends_at,
        }
    }

    /// Where it ends, and whether nothing that follows can be part of it.
    fn rest(&self, text: &[u8], from: usize, last: bool) -> (usize, bool) {
        let Some(ends) = self.ends_at else {
            return private_keys::rest_of_key(text, from, last);
        };
        let found = text[from..].iter().position(|b| ends(*b));
        (found.map_or(text.len(), |n| from + n), found.is_some())
    }
}

fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || is_quote(byte)
}

/// Whether a secret that has not ended is too long to be held from `start` on.
fn is_too_long(text: &str, start: usize, found: &Found) -> bool {
    let length = text.len() - start;
    length > MAX_HELD || length > LONGEST_KEY && is_key(text, found)
}

/// Whether it is a key of many lines, or holds one.
fn is_key(text: &str, found: &Found) -> bool {
    private_keys::has_block(&text.as_bytes()[found.whole.clone()])
}

/// The ways quotes are written in `line`, any of which may still be open.
fn open_quotes(line: &str) -> Vec<&str> {
    let bytes = line.as_bytes();
    let mut quotes: Vec<&str> = Vec::new();
    for (at, _) in bytes.iter().enumerate().filter(|(_, b)| is_quote(**b)) {
        let quote = &line[run_start(bytes, at, MOST_BACKSLASHES, |b| b == b'\\')..=at];
        if !quotes.contains(&quote) && quotes.len() < 6 {
            quotes.push(quote);
        }
    }
    quotes
}

/// Where the last few words of a text begin, as it grows.
#[derive(Debug, Default)]
struct LastWords {
    /// As many as are held back, the first of them first; zeros before there are as many.
    starts: VecDeque<usize>,
    last: Option<char>,
}

impl LastWords {
    /// Reads `text` from `from` on. Scripts that put no spaces between words, and the members of
    /// JSON written without any, have places to cut all the same.
    fn read(&mut self, text: &str, from: usize, held: usize) {
        self.starts.resize(held, 0);
        let east_asian = |c: char| c >= '\u{2e80}' && !c.is_whitespace();
        for (at, next) in text[from..].char_indices() {
            let Some(c) = self.last.replace(next) else {
                continue;
            };
            let begins = c.is_whitespace() && !next.is_whitespace()
                || east_asian(c) && !next.is_whitespace()
                || east_asian(next)
                || c == ',' && matches!(next, '"' | '{' | '[');
            if begins {
                self.starts.pop_front();
                self.starts.push_back(from + at);
            }
        }
    }

    /// Where the words begin that are held back.
    fn start(&self) -> usize {
        self.starts.front().copied().unwrap_or(0)
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
