//! Private keys of many lines: PEM blocks, and the private part of PuTTY's key files.

use std::ops::Range;

use super::pattern::Pattern;
use super::text::{is_base64, run_end};

/// More than any real key takes: one of RSA with 16,384 bits is 13 KB of PEM, and twice that with
/// a prefix to each line, as in a log. A block that goes on for longer is not waited for.
pub(super) const LONGEST_KEY: usize = 32 * 1024;

pub(super) const BEGIN: &str = "-----BEGIN";
const END: &[u8] = b"-----END ";
/// The line before the private part of a PuTTY key file, and the one after it.
pub(super) const PUTTY_LINES: &str = "Private-Lines: ";
const MAC: &[u8] = b"Private-MAC: ";
/// No line that ends a key is longer, a title with its dashes included.
const LONGEST_TITLE: usize = 80;

static BEGIN_LINE: Pattern = Pattern::new("(?i)-----BEGIN[ A-Z0-9_-]{0,120}?-----");
static END_LINE: Pattern = Pattern::new("-----END [ A-Za-z0-9]{0,63}-----");
/// What ends a color on a terminal, also spelled out.
static COLOR: Pattern = Pattern::new(r"(?:\x1b|\\+(?:u001b|x1b|033))\[[0-9;]{0,8}m");

/// The private key block that starts at `at` with its five dashes.
///
/// An END line is looked for up to the next BEGIN; without one, the block runs as far as lines
/// look like the inside of a key. Line ends may be escaped, any number of times.
pub(super) fn pem_block(text: &[u8], at: usize) -> Option<Range<usize>> {
    let title_end = BEGIN_LINE.end(text, at)?;
    let title = text[at..title_end].to_ascii_uppercase();
    memchr::memmem::find(&title, b"PRIVATE KEY")?;
    let body = COLOR.end(text, title_end).unwrap_or(title_end);
    let next = find_before(text, body, text.len(), BEGIN.as_bytes()).unwrap_or(text.len());
    let end = find_before(text, body, next, END).and_then(|end| END_LINE.end(text, end));
    // What is left of an END line that lost its beginning.
    let near = next.min(body + LONGEST_KEY);
    let torn = || find_before(text, body, near, b"KEY-----").map(|at| at + 8);
    let end = end.or_else(torn);
    Some(at..end.unwrap_or_else(|| key_lines(text, body, next)))
}

/// Where `mark` first stands in `text[from..to]`.
fn find_before(text: &[u8], from: usize, to: usize, mark: &[u8]) -> Option<usize> {
    memchr::memmem::find(&text[from..to], mark).map(|at| from + at)
}

/// Where the key that `from` is inside of ends: with its END, or as far as lines look like a key's;
/// and whether nothing that follows can be part of it. Lines that are undecided until more comes
/// are not part of it, unless this is the `last` of the text.
pub(super) fn rest_of_key(text: &[u8], from: usize, last: bool) -> (usize, bool) {
    let next = find_before(text, from, text.len(), BEGIN.as_bytes()).unwrap_or(text.len());
    if let Some(mark) = find_before(text, from, next, END) {
        if let Some(end) = END_LINE.end(text, mark) {
            return (end, true);
        }
        if !last && next - mark < LONGEST_TITLE + END.len() {
            return (mark, false);
        }
    }
    let end = key_lines(text, from, next);
    if end == text.len() && !last {
        return (whole_lines(text, from..end), false);
    }
    let rest = &text[end..next];
    let start = rest.iter().take_while(|&&b| ends_line(b)).count();
    let decided = next < text.len()
        || rest.len() > LONGEST_TITLE
        || rest[start..].iter().any(|&b| matches!(b, b'\n' | b'\r'));
    (end, last || decided)
}

/// Where in a key, of which `part` is there, the line begins that more may belong to. Keys
/// differ from prose by the length of their lines, so only lines too long for prose are cut.
pub(super) fn whole_lines(text: &[u8], part: Range<usize>) -> usize {
    let Range { start, end } = part;
    let near = start.max(end.saturating_sub(LONGEST_TITLE));
    if memchr::memmem::find(&text[near..end], END).is_some() {
        return end;
    }
    let line = text[near..end].iter().rposition(|&b| ends_line(b));
    line.map_or(if near == start { start } else { end }, |n| near + n)
}

/// Whether a line of a key may end with `byte`, be it escaped, quoted or all in one line.
fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\\' | b' ' | b'"' | b'\'')
}

/// How far lines look like a key's: base64, headers (`Proc-Type: 4,ENCRYPTED`), nothing. What
/// stands before the base64 of the first line, such as a line number, may stand before all.
fn key_lines(text: &[u8], from: usize, to: usize) -> usize {
    static PREFIX: Pattern = Pattern::new(r"([^\n]{0,80}?)[A-Za-z0-9+/=]{20}");
    static HEADER: Pattern =
        Pattern::new(r"[^\n]{0,80}?(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ");
    let text = &text[..to];
    let mut prefix: Option<&[u8]> = None;
    let mut at = from;
    loop {
        let line_break = (at..to).find_map(|end| Some((end, line_break(text, at, end)?)));
        let (end, next) = line_break.unwrap_or((to, to));
        let line = &text[at..end];
        if prefix.is_none() && HEADER.is_match(line) && next < to {
            at = next;
            continue;
        }
        prefix = prefix.or_else(|| PREFIX.find(line).map(|(_, prefix)| &line[prefix]));
        let length = key_part(line, prefix.unwrap_or_default());
        if length < line.len() || next == to {
            return at + length;
        }
        at = next;
    }
}

/// Behind the line end at `at`, of a line that starts at `start`: a newline, a newline escaped any
/// number of times, or the quotes between the elements of a list.
fn line_break(text: &[u8], start: usize, at: usize) -> Option<usize> {
    static ESCAPED: Pattern = Pattern::new(r"\\+[nr]");
    static ELEMENT: Pattern = Pattern::new(r#"(["'],\s*["'])[A-Za-z0-9+/=]{16}"#);
    match text[at] {
        b'\n' | b'\r' => Some(at + 1),
        // Many backslashes are read once, from the first of them on.
        b'\\' if at > start && text[at - 1] == b'\\' => None,
        b'\\' => ESCAPED.end(text, at),
        b'"' | b'\'' => ELEMENT.find(&text[at..]).map(|(_, quotes)| at + quotes.end),
        _ => None,
    }
}

/// How many bytes of a line are a key's, if something like `prefix` stands before the base64.
fn key_part(line: &[u8], prefix: &[u8]) -> usize {
    static HEADER: Pattern = Pattern::new(r"[A-Z][\w-]{2,30}: |4,ENCRYPTED");
    static CONCATENATED: Pattern = Pattern::new(r"[A-Za-z0-9+/=]+[\x22'][ \t]*[+,;.)]*[ \t]*$");
    if !line.iter().zip(prefix).all(is_same_prefix) {
        return 0;
    }
    let prefix = prefix.len().min(line.len());
    let rest = &line[prefix..];
    let blank = !rest.iter().any(u8::is_ascii_alphanumeric);
    match blank || HEADER.is_match(rest) || CONCATENATED.is_match(rest) {
        true => line.len(),
        false => prefix + base64_words(rest),
    }
}

/// Whether two bytes may stand at the same place of two lines' prefixes: numbers and times differ
/// from line to line, words do not. Nor do other characters, of which a prefix must not end inside.
fn is_same_prefix((a, b): (&u8, &u8)) -> bool {
    let numbers = a.is_ascii_hexdigit() && b.is_ascii_hexdigit();
    let mark = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphabetic();
    a == b || numbers || mark(a) && mark(b)
}

/// How many bytes are base64 in words, as blanks part the lines of a key pasted into one line.
fn base64_words(line: &[u8]) -> usize {
    let mut at = 0;
    for word in line.split(|&b| b == b' ') {
        let end = at + word.len();
        let base64 = run_end(line, at, word.len(), is_base64);
        if base64 < end {
            // A cut last line still holds key bytes before the byte that broke it.
            return if base64 > at { base64 } else { 0 };
        }
        // Prose after a cut key: no line of a key is as short as most words.
        if (1..16).contains(&word.len()) && end < line.len() {
            return end;
        }
        at = end + 1;
    }
    line.len()
}

/// The private part and its MAC of the PuTTY key file whose `Private-Lines: ` is at
/// `at`. What stands before that is public.
pub(super) fn putty_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    // Real first lines are 64 bytes long, or as long as the whole part is: 48 with ed25519.
    static FIRST_LINE: Pattern =
        Pattern::new(r"Private-Lines: \d{1,4}(?:[\n\r ]|\\+[nr])+([A-Za-z0-9+/=]{16})");
    let body = at + FIRST_LINE.find(&text[at..])?.1.start;
    let next = find_before(text, body, text.len(), PUTTY_LINES.as_bytes()).unwrap_or(text.len());
    let end = match find_before(text, body, next, MAC) {
        Some(mac) => run_end(text, mac + MAC.len(), usize::MAX, |b| b.is_ascii_hexdigit()),
        None => key_lines(text, body, next),
    };
    (end > body).then_some(body..end)
}

/// Whether a private key has begun and not ended behind `text`, a line of several. `open` says so of the line before.
pub(super) fn stays_open(text: &str, open: bool) -> bool {
    let begun = text.rfind(BEGIN);
    match (begun, text.rfind("-----END")) {
        (Some(begun), Some(end)) => begun > end,
        (Some(begun), None) => text[begun..].contains("PRIVATE KEY"),
        (None, Some(_)) => false,
        (None, None) => open,
    }
}

/// Whether a text looks like a line of a key.
pub(super) fn is_line(text: &str) -> bool {
    let line = text.trim_ascii_end().as_bytes();
    !line.is_empty() && key_lines(line, 0, line.len()) == line.len()
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
        const LONGEST_END: usize = LONGEST_TITLE + END.len();
        let before = self.pem.map_or(LONGEST_MARK - 1, |_| LONGEST_END);
        let from = seen.saturating_sub(before);
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
        // An END counts once its line is there: of some keys nothing else says where they are over.
        let end = memchr::memmem::rfind(&text[from..], b"-----END").map(|at| from + at);
        let is_whole =
            |end: &usize| END_LINE.is_match(&text[*end..]) || text.len() - end > LONGEST_END;
        if let Some(end) = end.filter(is_whole) {
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
        let is_held = |at: &usize| *at >= from && len - at <= LONGEST_KEY;
        begun.filter(is_held).min()
    }

    /// Whether a block ended in `text[from..]`.
    pub(super) fn ended(&self, from: usize) -> bool {
        self.ended.is_some_and(|at| at >= from)
    }
}
