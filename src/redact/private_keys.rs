//! Private keys of many lines: PEM blocks, and the private part of PuTTY's key files.

use std::ops::Range;

use super::pattern::Pattern;
use super::text::{is_alnum, is_base64, run_end};

/// More than any real key takes: one of RSA with 16,384 bits is 13 KB of PEM, and twice that with
/// a prefix to each line, as in a log. A block that goes on for longer is not waited for.
pub(super) const LONGEST_KEY: usize = 32 * 1024;

pub(super) const BEGIN: &str = "-----BEGIN ";
const END: &[u8] = b"-----END ";
/// The line before the private part of a PuTTY key file, and the one after it.
pub(super) const PUTTY_LINES: &str = "Private-Lines: ";
const MAC: &[u8] = b"Private-MAC: ";
/// No line that ends a key is longer, a title with its dashes included.
const LONGEST_TITLE: usize = 80;
/// Shortest first line of a PuTTY key's private part. Real ones are 64 bytes long, or as long as
/// the whole part is: 48 with ed25519.
const SHORTEST_LINE: usize = 16;

/// The private key block that starts at `at` with its five dashes.
///
/// An END line is looked for up to the next BEGIN; without one, the block runs as far as lines
/// look like the inside of a key. Line ends may be escaped, any number of times.
pub(super) fn pem_block(text: &[u8], at: usize) -> Option<Range<usize>> {
    let title = text.get(at..)?.strip_prefix(BEGIN.as_bytes())?;
    let title_at = text.len() - title.len();
    let title_end = title_line(text, title_at)?;
    let title = &text[title_at..title_end];
    memchr::memmem::find(title, b"PRIVATE KEY")?;
    let body = title_end + 5;
    let next = next_begin(text, body);
    if let Some(found) = memchr::memmem::find(&text[body..next], END) {
        let end_title = body + found + END.len();
        if let Some(end) = title_line(text, end_title) {
            return Some(at..end + 5);
        }
    }
    Some(at..key_lines(text, body, next))
}

fn next_begin(text: &[u8], from: usize) -> usize {
    memchr::memmem::find(&text[from..], BEGIN.as_bytes()).map_or(text.len(), |n| from + n)
}

/// What is known of a key of which the rest was given up for masked.
pub(super) struct KeyRest {
    /// Up to here it is the key's.
    pub(super) end: usize,
    /// Nothing that may follow is.
    pub(super) over: bool,
}

/// How far the key that `from` is inside of goes on: to its END, or as far as lines look like a
/// key's. What is undecided until more comes is not part of it, unless this is the `last`.
pub(super) fn rest_of_key(text: &[u8], from: usize, last: bool) -> KeyRest {
    let next = next_begin(text, from);
    if let Some(found) = memchr::memmem::find(&text[from..next], END) {
        let title = from + found + END.len();
        if let Some(end) = title_line(text, title) {
            return KeyRest {
                end: end + 5,
                over: true,
            };
        }
        if !last && next - title < LONGEST_TITLE {
            return KeyRest {
                end: from + found,
                over: false,
            };
        }
    }
    let end = key_lines(text, from, next);
    let rest = &text[end..next];
    let start = rest.iter().take_while(|&&b| ends_line(b)).count();
    let decided = next < text.len()
        || rest.len() > LONGEST_TITLE
        || rest[start..].iter().any(|&b| matches!(b, b'\n' | b'\r'));
    if end < text.len() || last {
        return KeyRest {
            end,
            over: last || decided,
        };
    }
    let end = whole_lines(text, from..end);
    KeyRest { end, over: false }
}

/// Where in a key, of which `part` is there, the line begins that more may belong to. How long a
/// line is tells keys from prose, so none is cut but those that are too long to be prose.
pub(super) fn whole_lines(text: &[u8], part: Range<usize>) -> usize {
    let Range { start, end } = part;
    let near = start.max(end.saturating_sub(LONGEST_TITLE));
    if memchr::memmem::find(&text[near..end], END).is_some() {
        return end;
    }
    let line = text[near..end].iter().rposition(|&b| ends_line(b));
    line.map_or(if near == start { start } else { end }, |n| near + n)
}

/// The end of a title such as `RSA PRIVATE KEY` that five dashes follow.
fn title_line(text: &[u8], from: usize) -> Option<usize> {
    let end = text[from..].iter().take(64).position(|&b| b == b'-')? + from;
    let plain = text[from..end].iter().all(|&b| b == b' ' || is_alnum(b));
    (plain && text[end..].starts_with(b"-----")).then_some(end)
}

/// Whether a line of a key may end with `byte`, be it escaped, quoted or all in one line.
fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\\' | b' ' | b'"' | b'\'')
}

/// How far lines look like a key's: base64, headers (`Proc-Type: 4,ENCRYPTED`), nothing. What
/// stands before the base64 of the first line, such as a line number, may stand before all.
fn key_lines(text: &[u8], from: usize, to: usize) -> usize {
    static PREFIX: Pattern = Pattern::new(r"([^\n]{0,80}?)[A-Za-z0-9+/=]{20}");
    let text = &text[..to];
    let mut prefix: Option<&[u8]> = None;
    let mut at = from;
    loop {
        let may_end = |b: &u8| matches!(b, b'\n' | b'\r' | b'\\' | b'"' | b'\'');
        let mut ends = (at..to).filter(|at| may_end(&text[*at]));
        let line_break = ends.find_map(|end| Some((end, line_break(text, end)?)));
        let (end, next) = line_break.unwrap_or((to, to));
        let line = &text[at..end];
        if prefix.is_none() {
            prefix = PREFIX.find(line).map(|(_, prefix)| &line[prefix]);
        }
        let key = key_part(line, prefix.unwrap_or_default());
        if key < line.len() {
            return at + key;
        }
        if next == to {
            return end;
        }
        at = next;
    }
}

/// How many bytes of a line are a key's, if something like `prefix` stands before the base64.
fn key_part(line: &[u8], prefix: &[u8]) -> usize {
    static HEADER: Pattern = Pattern::new(r"[A-Z][\w-]{2,30}: |4,ENCRYPTED");
    static CONCATENATED: Pattern = Pattern::new(r#"[A-Za-z0-9+/=]+["'][ \t]*[+,;.)]*[ \t]*$"#);
    // Numbers and times differ from line to line, words do not.
    let same = |(a, b): (&u8, &u8)| {
        let numbers = a.is_ascii_hexdigit() && b.is_ascii_hexdigit();
        let words = a.is_ascii_alphabetic() || b.is_ascii_alphabetic();
        a == b || numbers || !words
    };
    if !line.iter().zip(prefix).all(same) {
        return 0;
    }
    let prefix = prefix.len().min(line.len());
    let rest = &line[prefix..];
    let blank = !rest.iter().any(u8::is_ascii_alphanumeric);
    if blank || HEADER.is_match(rest) || CONCATENATED.is_match(rest) {
        return line.len();
    }
    // Blanks part the lines of a key pasted into one line.
    let mut at = prefix;
    for word in rest.split(|&b| b == b' ') {
        let end = at + word.len();
        let base64 = run_end(line, at, word.len(), is_base64);
        if base64 < end {
            // A cut last line still holds key bytes before whatever broke it.
            return if base64 > at { base64 } else { at.min(prefix) };
        }
        // Prose after a cut key: no line of a key is as short as most words.
        if (1..16).contains(&word.len()) && end < line.len() {
            return end;
        }
        at = end + 1;
    }
    line.len()
}

/// Behind the line end at `at`: a newline, an escaped one, or the quotes between the elements of a
/// list.
fn line_break(text: &[u8], at: usize) -> Option<usize> {
    static ELEMENT: Pattern = Pattern::new(r#"(["'],\s*["'])[A-Za-z0-9+/=]{16}"#);
    match text[at] {
        b'\n' | b'\r' => Some(at + 1),
        b'\\' => escaped_line_end(text, at, text.len()),
        _ => ELEMENT.find(&text[at..]).map(|(_, quotes)| at + quotes.end),
    }
}

/// Behind the `\n` or `\r` at `at`, escaped any number of times.
fn escaped_line_end(text: &[u8], at: usize, to: usize) -> Option<usize> {
    let mut at = at;
    while at < to && text[at] == b'\\' {
        at += 1;
    }
    matches!(text.get(at), Some(b'n' | b'r')).then_some(at + 1)
}

/// The private part, and what vouches for it, of the PuTTY key file whose `Private-Lines: ` is at
/// `at`. What stands before that is public.
pub(super) fn putty_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?.strip_prefix(PUTTY_LINES.as_bytes())?;
    let number = text.len() - rest.len();
    let count = run_end(text, number, 4, |b| b.is_ascii_digit());
    if count == number {
        return None;
    }
    let mut body = count;
    loop {
        body = match text.get(body)? {
            b'\n' | b'\r' | b' ' => body + 1,
            b'\\' => escaped_line_end(text, body, text.len())?,
            _ => break,
        };
    }
    let first = run_end(text, body, SHORTEST_LINE, is_base64);
    if body == count || first - body < SHORTEST_LINE {
        return None;
    }
    let next = memchr::memmem::find(&text[body..], PUTTY_LINES.as_bytes())
        .map_or(text.len(), |n| body + n);
    if let Some(found) = memchr::memmem::find(&text[body..next], MAC) {
        let mac = body + found + MAC.len();
        return Some(body..run_end(text, mac, usize::MAX, |b| b.is_ascii_hexdigit()));
    }
    Some(body..key_lines(text, body, next))
}

/// Whether a key of many lines begins in `text`.
pub(super) fn has_block(text: &[u8]) -> bool {
    [BEGIN, PUTTY_LINES]
        .iter()
        .any(|mark| memchr::memmem::find(text, mark.as_bytes()).is_some())
}

/// The blocks of a text as it arrives that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct OpenBlocks {
    pem: Option<usize>,
    putty: Option<usize>,
    /// Where the last PEM block ended.
    ended: Option<usize>,
}

impl OpenBlocks {
    /// Takes note of `text` from `seen` on. A mark may have begun before that.
    pub(super) fn read(&mut self, text: &[u8], seen: usize) {
        const LONGEST_MARK: usize = PUTTY_LINES.len();
        let from = seen.saturating_sub(LONGEST_MARK - 1);
        // All marks have one, and most texts have none.
        if memchr::memchr(b'-', &text[from..]).is_none() {
            return;
        }
        // A mark that had ended by then was noted then.
        let last = |mark: &[u8]| {
            let from = seen.saturating_sub(mark.len() - 1);
            memchr::memmem::rfind(&text[from..], mark).map(|at| from + at)
        };
        self.pem = last(b"-----BEGIN").or(self.pem);
        if let Some(end) = last(b"-----END") {
            self.pem = self.pem.filter(|begun| *begun > end);
            self.ended = Some(end);
        }
        self.putty = last(PUTTY_LINES.as_bytes()).or(self.putty);
        if let Some(end) = last(MAC) {
            self.putty = self.putty.filter(|begun| *begun > end);
        }
    }

    /// The start of the first block in `text[from..]` that is still open and not too long.
    pub(super) fn first_open(&self, from: usize, len: usize) -> Option<usize> {
        let begun = [self.pem, self.putty].into_iter().flatten();
        begun
            .filter(|at| *at >= from && len - at <= LONGEST_KEY)
            .min()
    }

    /// Whether a block ended in `text[from..]`.
    pub(super) fn ended(&self, from: usize) -> bool {
        self.ended.is_some_and(|at| at >= from)
    }
}
