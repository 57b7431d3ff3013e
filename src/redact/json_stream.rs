//! Redaction of JSON that arrives piece by piece, such as a streamed tool input.
//!
//! The same walk as over JSON that is there at once, one token at a time. What has to be whole is
//! held back until it is: names, short strings, and values under a sensitive name. The text of a
//! longer string is a stream of its own, which may hold JSON again. Where the text turns out not to
//! be JSON, the rest of it is redacted as text.

use super::json::into_text;
use super::json_walk::{KIND_BEHIND, LONGEST_COMMAND, Walk, WalkState, is_command};
use super::limits::{Limits, NoStore, Output};
use super::redactor::{Redactor, Tally, count_work};
use super::stream::{MASKED_AT_ONCE, MAX_HELD, Piece, StreamState};
use crate::trace::{is_json, unescape_lossy, write_string};

/// Longest string that is held back until it is whole, and longest number.
const SHORT: usize = 512;

/// A JSON text as it arrives.
#[derive(Debug)]
pub(super) struct JsonStream {
    state: WalkState,
    /// Up to here it was walked over.
    at: usize,
    previous: Token,
    /// How many strings are around it, plus one.
    nested: usize,
    /// The value at `at` as far as it was read, if it has to be whole.
    value: Option<ValueEnd>,
    /// The rule that masks the value at hand in parts, as it is too long to be held.
    masked_by: Option<String>,
    string: Option<Box<OpenString>>,
}

/// What stands before the next token, which decides what that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Start,
    Open,
    Name,
    Colon,
    Comma,
    Value,
}

/// How a step ended.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    /// More has to come first.
    Waits,
    NotJson,
}

/// The text so far, and where it is written.
struct Arrived<'a> {
    redactor: &'a Redactor,
    text: &'a str,
    last: bool,
    written: Vec<u8>,
    tally: Tally,
}

impl JsonStream {
    /// A stream of the JSON that starts at `at`.
    pub(super) fn new(at: usize, nested: usize) -> Self {
        Self {
            state: WalkState::default(),
            at,
            previous: Token::Start,
            nested,
            value: None,
            masked_by: None,
            string: None,
        }
    }

    /// The part of `text` from `from` on that may be written, if there is any; and whether the
    /// text can still be JSON.
    pub(super) fn next_piece(
        &mut self,
        redactor: &Redactor,
        text: &str,
        from: usize,
        last: bool,
    ) -> (Option<Piece>, bool) {
        let blanks = text.get(from..self.at).unwrap_or_default();
        let mut arrived = Arrived {
            redactor,
            text,
            last,
            written: blanks.as_bytes().to_vec(),
            tally: Tally::default(),
        };
        let step = loop {
            match self.step(&mut arrived) {
                Step::Done => {}
                end => break end,
            }
        };
        let piece = Piece {
            range: from..self.at,
            redacted: into_text(arrived.written),
            masked: arrived.tally.masked,
        };
        let is_json = step == Step::Waits && (!last || self.at == text.len());
        ((self.at > from).then_some(piece), is_json)
    }

    /// Whether the value has ended. Behind it is nothing, or what is no part of it.
    pub(super) fn is_over(&self) -> bool {
        self.previous == Token::Value && !self.state.is_inside()
    }

    /// The text is that behind the first `length` bytes, which were written.
    pub(super) fn drop_front(&mut self, length: usize) {
        self.at -= length;
        if let Some(value) = &mut self.value {
            value.at -= length;
        }
        if let Some(string) = &mut self.string {
            string.read -= length;
        }
    }

    fn step(&mut self, arrived: &mut Arrived<'_>) -> Step {
        if self.string.is_some() {
            return self.stream_string(arrived);
        }
        if let Some(rule) = self.masked_by.take() {
            return self.mask_in_parts(rule, arrived);
        }
        let rest = &arrived.text[self.at..];
        let Some(&byte) = rest.as_bytes().first() else {
            return Step::Waits;
        };
        if !byte.is_ascii_whitespace() && !self.may_follow(byte) {
            return Step::NotJson;
        }
        match byte {
            b'"' | b'{' | b'[' => self.value(byte, arrived),
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'}' | b']' => self.walk(arrived),
            _ => {
                let ends = |b: &u8| b",]} \t\r\n".contains(b);
                match rest.as_bytes().iter().take(SHORT).position(ends) {
                    Some(end) if is_json(&rest[..end]) => self.walk(arrived),
                    None if rest.len() < SHORT => Step::Waits,
                    _ => Step::NotJson,
                }
            }
        }
    }

    fn may_follow(&self, byte: u8) -> bool {
        let in_object = self.state.in_object();
        let ends = matches!(self.previous, Token::Open | Token::Value) && self.state.is_inside();
        match (byte, self.previous) {
            (b':', previous) => previous == Token::Name,
            (b',', previous) => previous == Token::Value && self.state.is_inside(),
            (b'}', _) => ends && in_object,
            (b']', _) => ends && !in_object,
            (_, Token::Start | Token::Colon) => true,
            (byte, Token::Open | Token::Comma) => !in_object || byte == b'"',
            (_, Token::Name | Token::Value) => false,
        }
    }

    /// Walks over the token that is next.
    fn walk(&mut self, arrived: &mut Arrived<'_>) -> Step {
        let byte = arrived.text.as_bytes()[self.at];
        let is_name = self.state.expects_name;
        let mut walk = Walk {
            redactor: arrived.redactor,
            json: arrived.text,
            nested: self.nested,
            output: &mut Output {
                line: &mut arrived.written,
                limits: &Limits::NONE,
                store: &mut NoStore,
                tally: &mut arrived.tally,
            },
            state: &mut self.state,
        };
        let Some(next) = walk.step(self.at) else {
            return Step::Waits;
        };
        self.previous = match byte {
            b'{' | b'[' if next == self.at + 1 => Token::Open,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' if is_name => Token::Name,
            b' ' | b'\t' | b'\n' | b'\r' => self.previous,
            _ => Token::Value,
        };
        self.at = next;
        Step::Done
    }

    /// A string, an object or an array: held until it is whole where that is needed.
    fn value(&mut self, byte: u8, arrived: &mut Arrived<'_>) -> Step {
        let rest = &arrived.text[self.at..];
        let is_name = self.state.expects_name;
        let secret = match byte {
            b'"' => self.state.string_name().filter(|_| !is_name),
            _ => self.state.container_name(),
        };
        let is_data = byte == b'{' && self.state.is_data();
        let longest = match byte {
            _ if is_name || secret.is_some() => MAX_HELD,
            b'"' => SHORT,
            _ if is_data || is_command(rest) => LONGEST_COMMAND,
            _ => 0,
        };
        let value = self.value.get_or_insert(ValueEnd::new(self.at));
        let near = match longest {
            0 => &[],
            // What is inside is looked at again: each time only so far.
            LONGEST_COMMAND => {
                let end = arrived.text.len().min(self.at + LONGEST_COMMAND);
                &arrived.text.as_bytes()[..end]
            }
            _ => arrived.text.as_bytes(),
        };
        let end = value.find(near);
        let behind = if is_data { KIND_BEHIND } else { 0 };
        let is_decided = end.is_some_and(|end| arrived.text.len() >= end + behind);
        if !is_decided && rest.len() <= longest && !arrived.last {
            return Step::Waits;
        }
        if let (None, Some(name)) = (end, secret) {
            let rule = arrived.redactor.key_rule(name);
            arrived.written.push(b'"');
            return self.mask_in_parts(rule, arrived);
        }
        self.value = None;
        match end {
            Some(end) if !is_json(&arrived.text[self.at..end]) => Step::NotJson,
            None if is_name => Step::NotJson,
            None if byte == b'"' => {
                self.string = Some(Box::new(OpenString::new(self.at + 1)));
                self.at += 1;
                arrived.written.push(b'"');
                Step::Done
            }
            _ => self.walk(arrived),
        }
    }

    /// Masks what has arrived of a value that is too long to be held.
    fn mask_in_parts(&mut self, rule: String, arrived: &mut Arrived<'_>) -> Step {
        let end = self
            .value
            .as_mut()
            .and_then(|value| value.find(arrived.text.as_bytes()));
        let part = &arrived.text[self.at..end.unwrap_or(arrived.text.len())];
        if end.is_none() && part.len() < MASKED_AT_ONCE && !arrived.last {
            self.masked_by = Some(rule);
            return Step::Waits;
        }
        if !part.is_empty() {
            let mask = arrived.redactor.mask(&rule, part);
            arrived.written.extend_from_slice(mask.as_bytes());
            arrived.tally.masked += 1;
        }
        self.at += part.len();
        if end.is_none() && !arrived.last {
            self.masked_by = Some(rule);
            return Step::Waits;
        }
        arrived.written.push(b'"');
        self.value = None;
        self.state.skip_value();
        self.previous = Token::Value;
        Step::Done
    }

    /// Writes what may be written of a long string.
    fn stream_string(&mut self, arrived: &mut Arrived<'_>) -> Step {
        let Some(string) = &mut self.string else {
            return Step::Waits;
        };
        let Some(closed) = string.read(arrived.text) else {
            return Step::NotJson;
        };
        let OpenString { text, stream, .. } = &mut **string;
        let last = closed || arrived.last;
        while let Some(piece) = arrived.redactor.piece(stream, text, last, self.nested + 1) {
            let raw = &arrived.text[self.at..];
            let raw = &raw[..raw_length(raw, piece.range.len())];
            self.at += raw.len();
            if piece.redacted == text[piece.range] {
                arrived.written.extend_from_slice(raw.as_bytes());
            } else {
                let mut quoted = Vec::new();
                write_string(&piece.redacted, &mut quoted);
                arrived
                    .written
                    .extend_from_slice(&quoted[1..quoted.len() - 1]);
            }
            arrived.tally.masked += piece.masked;
        }
        if !closed {
            return Step::Waits;
        }
        arrived.written.push(b'"');
        self.at += 1;
        self.string = None;
        self.state.skip_value();
        self.previous = Token::Value;
        Step::Done
    }
}

/// A string that is redacted as it arrives.
#[derive(Debug)]
struct OpenString {
    /// Its text so far, without escapes.
    text: String,
    /// Up to where in the JSON that is.
    read: usize,
    stream: StreamState,
}

impl OpenString {
    fn new(read: usize) -> Self {
        Self {
            text: String::new(),
            read,
            stream: StreamState::default(),
        }
    }

    /// Reads what has arrived up to the closing quote. Whether that is there; `None` if this is no
    /// JSON string.
    fn read(&mut self, json: &str) -> Option<bool> {
        let bytes = json.as_bytes();
        let mut end = self.read;
        let closed = loop {
            match memchr::memchr2(b'"', b'\\', &bytes[end..]) {
                Some(found) if bytes[end + found] == b'"' => break Some(end + found),
                Some(found) => match escape_length(&bytes[end + found..]) {
                    Some(length) => end += found + length,
                    None => {
                        end += found;
                        break None;
                    }
                },
                None => {
                    end = bytes.len();
                    break None;
                }
            }
        };
        let quoted = format!("\"{}\"", json.get(self.read..closed.unwrap_or(end))?);
        if !is_json(&quoted) {
            return None;
        }
        self.text.push_str(&unescape_lossy(&quoted).0);
        self.read = closed.unwrap_or(end);
        Some(closed.is_some())
    }
}

/// How long the escape is that `bytes` starts with, two that stand for one character together.
/// `None` if more has to come.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    let length = match bytes.get(1)? {
        b'u' => match (bytes.get(2..4)?, bytes.get(6..8)) {
            ([b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'], Some(b"\\u")) => 12,
            ([b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'], None) => return None,
            _ => 6,
        },
        _ => 2,
    };
    (bytes.len() >= length).then_some(length)
}

/// How many bytes of the inside of a JSON string spell `length` bytes of its text.
fn raw_length(json: &str, mut length: usize) -> usize {
    let mut at = 0;
    while length > 0 {
        let rest = &json[at..];
        let plain = memchr::memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        if plain >= length {
            return at + length;
        }
        let escape = escape_length(&rest.as_bytes()[plain..]).unwrap_or(0);
        let spelled = match rest.get(plain..plain + escape) {
            Some(escape) if escape.len() > 2 => unescape_lossy(&format!("\"{escape}\"")).0.len(),
            _ => 1,
        };
        at += plain + escape;
        length = length.saturating_sub(plain + spelled);
    }
    at
}

/// Finds the end of a string, an object or an array as it arrives.
#[derive(Debug)]
struct ValueEnd {
    /// Up to here it was read.
    at: usize,
    depth: usize,
    in_string: bool,
    is_over: bool,
}

impl ValueEnd {
    fn new(at: usize) -> Self {
        Self {
            at,
            depth: 0,
            in_string: false,
            is_over: false,
        }
    }

    /// Where it ends in JSON that begins with `bytes`.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let from = self.at;
        while let Some(&byte) = bytes.get(self.at).filter(|_| !self.is_over) {
            self.at += 1;
            match byte {
                b'\\' if self.in_string => self.at += 1,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => continue,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            self.is_over = self.depth == 0 && !self.in_string;
        }
        count_work(self.at - from);
        self.is_over.then_some(self.at)
    }
}
