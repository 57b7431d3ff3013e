//! Reading the value that follows a sensitive name, and telling secrets from what stands in
//! their place: variables, types, placeholders, prose.

use std::ops::Range;

use super::bytes::{self, ALNUM, DIGIT, IDENT, Mix, WORD, starts_with_any_case};
use super::keys::{Kind, STEMS};
use super::mask;

/// How a name and its value are joined, which tells how to read the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// `NAME=value`: shells, URLs, keyword arguments.
    Tight,
    /// `name = value`: configuration, code.
    Spaced,
    /// `name: value`: headers, YAML, prose, types.
    Colon,
    /// `--name value`.
    Flag,
    /// `"name", "value"`.
    Comma,
    /// `name is value`.
    Prose,
}

/// A value and the quotes it stands in.
pub(super) struct Value {
    pub(super) range: Range<usize>,
    pub(super) quoted: bool,
}

/// Longest text taken to stand in for a value. Whatever is longer is masked, and then not searched
/// for further names, which keeps the search linear.
pub(super) const LONGEST_STAND_IN: usize = 64;
/// Longest value in which a mask is looked for.
const LONGEST_MASKED: usize = 512;
/// Longest quoted value; a quote without partner that near is taken to be no quote.
const LONGEST_QUOTED: usize = 64 * 1024;

/// A run of backslashes and the quote after it: its end, the quote, how many backslashes.
pub(super) fn quote_at(text: &[u8], at: usize) -> Option<(usize, u8, usize)> {
    let mut end = at;
    while end < text.len() && text[end] == b'\\' && end - at < 64 {
        end += 1;
    }
    match text.get(end) {
        Some(&quote @ (b'"' | b'\'' | b'`')) => Some((end + 1, quote, end - at)),
        _ => None,
    }
}

/// Reads the value at `at`. `outer` is the quote the name itself is directly inside of, as in
/// `-H 'Cookie: …'`; `line` says that an unquoted value runs to the end of its line; `query` that
/// it is a URL's parameter.
pub(super) fn read(text: &[u8], at: usize, outer: Option<u8>, line: bool, query: bool) -> Value {
    if let Some((start, quote, slashes)) =
        quote_at(text, at).filter(|q| Some(q.1) != outer || q.2 > 0)
        && let Some(end) = closing(text, start, quote, slashes)
    {
        return Value {
            range: start..end,
            quoted: true,
        };
    }
    let start = quote_at(text, at).map_or(at, |q| q.0);
    // What starts like a mask without being one hides nothing: its line is all value.
    let false_mask = text[start..].starts_with(mask::OPENING.as_bytes())
        && mask::mask_end(text, start).is_none();
    let end = if line || false_mask {
        line_end(text, start, outer)
    } else {
        bare_end(text, start, query)
    };
    Value {
        range: start..end,
        quoted: false,
    }
}

/// The end of a quoted value: its quote again with as many backslashes, on the same line.
fn closing(text: &[u8], start: usize, quote: u8, slashes: usize) -> Option<usize> {
    let limit = text.len().min(start + LONGEST_QUOTED);
    let mut at = start;
    while let Some(found) = memchr::memchr3(quote, b'\n', b'\\', &text[at..limit]) {
        at += found;
        match text[at] {
            b'\n' => return None,
            b'\\' => {
                let mut run = at;
                while run < limit && text[run] == b'\\' {
                    run += 1;
                }
                let count = run - at;
                let is_quote = run < limit && text[run] == quote;
                // With no backslashes on the opening quote, an odd number escapes this one; with
                // some, as many or fewer close it and more belong to a nested quote.
                let closes = if slashes == 0 {
                    count.is_multiple_of(2)
                } else {
                    count <= slashes
                };
                if is_quote && closes {
                    return Some(if slashes == 0 { run } else { at });
                }
                at = if is_quote { run + 1 } else { run };
            }
            _ => return Some(at),
        }
    }
    None
}

fn line_end(text: &[u8], start: usize, outer: Option<u8>) -> usize {
    let stops = |b: u8| match outer {
        Some(quote) => b == b'\n' || b == b'\r' || b == quote,
        None => matches!(b, b'\n' | b'\r' | b'"' | b'\'' | b'`'),
    };
    let end = text[start..]
        .iter()
        .position(|&b| stops(b))
        .map_or(text.len(), |n| start + n);
    // The backslashes of an escaped quote or line end are not the value's.
    let mut end = escaped_line_end(text, start, end);
    while end > start && matches!(text[end - 1], b'\\' | b' ' | b'\t') {
        end -= 1;
    }
    end
}

fn escaped_line_end(text: &[u8], start: usize, end: usize) -> usize {
    memchr::memmem::find(&text[start..end], b"\\r\\n")
        .or_else(|| memchr::memmem::find(&text[start..end], b"\\n"))
        .map_or(end, |n| start + n)
}

/// The end of a value without quotes. Separators end it only where something follows that looks
/// like the next item, as a password may hold any of them.
fn bare_end(text: &[u8], start: usize, query: bool) -> usize {
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'<' | b'>' => break,
            b'&' | b'#' if query => break,
            b'\\'
                if matches!(
                    text.get(at + 1),
                    Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\')
                ) =>
            {
                break;
            }
            b'%' if query && starts_with_any_case(&text[at..], b"%26") => break,
            b',' | b';' | b'&' | b'|' if ends_item(text, at + 1) => break,
            b')' | b']' | b'}' if only_closers(text, at) => break,
            _ => at += 1,
        }
    }
    at
}

/// Whether what follows a separator is the next item: nothing, a space, or `name=`, `name:`.
fn ends_item(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        None
        | Some(
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'&' | b'|' | b'\\' | b')' | b'}' | b']',
        ) => true,
        _ => {
            let end = bytes::run_end(text, at, IDENT, 40);
            end > at && matches!(text.get(end), Some(b'=' | b':'))
        }
    }
}

/// Whether from `at` on there are only closing marks up to the next space or quote.
fn only_closers(text: &[u8], at: usize) -> bool {
    for &byte in text[at..].iter().take(16) {
        match byte {
            b')' | b']' | b'}' | b',' | b';' | b'.' | b':' | b'?' | b'!' => {}
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'\\' | b'<' => return true,
            _ => return false,
        }
    }
    true
}

/// Words that stand where a value would without being one.
#[rustfmt::skip]
const NO_VALUES: &[&str] = &[
    "null", "none", "nil", "undefined", "true", "false", "yes", "no", "on", "off", "str", "string",
    "int", "integer", "bool", "boolean", "byte", "bytes", "any", "object", "number", "text",
    "char", "optional", "required", "redacted", "masked", "hidden", "option", "vec", "box", "arc",
    "cow", "self", "this", "unknown", "invalid", "missing", "expired", "empty", "unset", "set",
    "default", "include", "omit", "same-origin", "varchar", "dict", "list", "array", "map",
    "float", "double", "usize", "basic", "bearer", "digest", "negotiate", "oauth", "oauth2",
    "stdin", "prompt", "not", "value", "example", "placeholder", "todo", "n/a", "na", "see", "the",
    "a", "an", "is", "was", "must", "should", "can", "will", "for", "to", "and", "or", "in", "if",
    "from", "with", "as", "of", "when", "flag", "option", "argument", "parameter", "instead", "u8",
    "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "f32", "f64", "int32", "int64",
    "uint64", "char[]", "ok", "error", "failed", "passed", "auto", "ignore", "await", "async",
    "new", "return", "lambda", "password", "passwd", "secret", "token", "credentials", "apikey",
    "api_key",
];

/// A value that is surely no word: at least eight bytes with letters and digits.
pub(super) fn strong(value: &[u8]) -> bool {
    let mix = Mix::of(value);
    value.len() >= 8 && mix.digit > 0 && mix.letters() > 0
}

/// Whether `value` is a reference, placeholder, type or word rather than a secret.
pub(super) fn is_stand_in(text: &[u8], value: &Value, name: &str, kind: Kind, join: Join) -> bool {
    let bytes = &text[value.range.clone()];
    if bytes.len() <= LONGEST_MASKED && meets_mask(text, &value.range) {
        return true;
    }
    if bytes.len() > LONGEST_STAND_IN || bytes.starts_with(mask::OPENING.as_bytes()) {
        return false;
    }
    let mix = Mix::of(bytes);
    if mix.letters() + mix.digit == 0 && bytes.is_ascii() {
        return true;
    }
    if placeholder(bytes) {
        return true;
    }
    let trimmed = trim(bytes);
    if NO_VALUES
        .iter()
        .any(|word| word.as_bytes().eq_ignore_ascii_case(trimmed))
    {
        return true;
    }
    if names_itself(trimmed, name) || path(bytes) || !varied_letters(bytes) {
        return true;
    }
    if mix.letters() == 0
        && bytes
            .iter()
            .all(|&b| matches!(b, b'0'..=b'9' | b'.' | b',' | b'%' | b'-'))
    {
        let least = if kind.masks_numbers() { 4 } else { 16 };
        return mix.digit < least;
    }
    if kind == Kind::Weak && !strong(bytes) {
        return true;
    }
    match join {
        Join::Comma => return !strong(bytes),
        Join::Prose => {
            return !(strong(bytes) && mix.upper > 0 && mix.lower > 0
                || strong(bytes) && bytes.len() >= 16);
        }
        _ => {}
    }
    if value.quoted {
        return bytes
            .first()
            .is_some_and(|b| matches!(b, b',' | b';' | b')' | b' ' | b'}'));
    }
    bare_stand_in(text, value, name, join, mix)
}

/// The part of [`is_stand_in`] about values without quotes, which in code are expressions.
fn bare_stand_in(text: &[u8], value: &Value, name: &str, join: Join, mix: Mix) -> bool {
    let bytes = &text[value.range.clone()];
    let next = text.get(value.range.end);
    if is_call(bytes) || (matches!(next, Some(b'<')) && mix.only_letters()) {
        return true;
    }
    if matches!(
        bytes.first(),
        Some(b'[' | b'{' | b'(' | b'|' | b'!' | b'=' | b',' | b'/')
    ) && !strong(bytes)
    {
        return true;
    }
    let env_name = name.bytes().all(|b| !b.is_ascii_lowercase());
    let code_name = bytes.iter().all(|&b| {
        bytes::is(WORD | bytes::DOT, b) || b == b'?' || b == b':' || b == b',' || b == b';'
    });
    if code_name && mix.digit == 0 && !(env_name && join == Join::Tight) && join != Join::Flag {
        let lower = bytes.to_ascii_lowercase();
        let stem = STEMS
            .iter()
            .any(|s| memchr::memmem::find(&lower, s.as_bytes()).is_some());
        let joined = memchr::memchr3(b'.', b'_', b':', bytes).is_some();
        if stem || (joined && join != Join::Tight) || dotted_path(bytes) {
            return true;
        }
    }
    let spelled = mix.digit == 0
        && bytes
            .iter()
            .all(|&b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'.' | b',' | b'\''));
    match join {
        // A word with further words after it is prose; alone it is a poor password.
        Join::Colon | Join::Spaced if spelled => next_is_word(text, value.range.end),
        _ => false,
    }
}

fn next_is_word(text: &[u8], at: usize) -> bool {
    text.get(at) == Some(&b' ') && text.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
}

/// `self.password`, `req.body.token`: names joined by dots.
fn dotted_path(bytes: &[u8]) -> bool {
    let mut parts = 0;
    for part in bytes.split(|&b| b == b'.') {
        if part.is_empty() || !part[0].is_ascii_alphabetic() {
            return false;
        }
        parts += 1;
    }
    parts >= 2
}

/// `get_token(…`, `env(…`: an identifier or path right before a parenthesis or bracket.
fn is_call(bytes: &[u8]) -> bool {
    let Some(open) = bytes.iter().position(|&b| b == b'(' || b == b'[') else {
        return false;
    };
    let name = &bytes[..open];
    name.first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_' || *b == b'&')
        && name
            .iter()
            .all(|&b| bytes::is(WORD | bytes::DOT | bytes::COLON, b) || b == b'&' || b == b'!')
}

/// `$VAR`, `${…}`, `%VAR%`, `{{…}}`, `<…>`, `%s`, `:name`, `os.environ`, ….
fn placeholder(bytes: &[u8]) -> bool {
    let rest = &bytes[1.min(bytes.len())..];
    let name = |b: &[u8]| !b.is_empty() && b.iter().all(|&c| bytes::is(WORD, c));
    let no_digit = |b: &[u8]| !b.iter().any(u8::is_ascii_digit);
    let shell = |b: &[u8]| {
        let b = trim(b);
        name(b) && !b[0].is_ascii_digit() && (no_digit(b) || !b.iter().any(u8::is_ascii_lowercase))
    };
    match bytes.first() {
        Some(b'$') => matches!(rest.first(), Some(b'{' | b'(')) || shell(rest),
        Some(b'%') => rest.ends_with(b"%") || rest.starts_with(b"{") || rest.len() <= 2,
        Some(b'{') => {
            bytes.ends_with(b"}")
                || rest.starts_with(b"{")
                || rest.first() == Some(&b'}')
                || shell(rest)
        }
        Some(b'<') => true,
        Some(b':' | b'@' | b'&' | b'*') => shell(rest),
        _ => [
            "your-",
            "your_",
            "os.environ",
            "os.getenv",
            "process.env",
            "env.",
            "env::",
            "std::env",
            "secrets.",
            "vault:",
            "env:",
            "arn:",
            "ssm:",
            "op://",
            "var.",
            "local.",
            "data.",
        ]
        .iter()
        .any(|start| starts_with_any_case(bytes, start.as_bytes())),
    }
}

/// Whether the value only repeats the name, or a word of it.
fn names_itself(value: &[u8], name: &str) -> bool {
    let name = name.trim_start_matches('-').as_bytes();
    value.eq_ignore_ascii_case(name)
        || (value.len() >= 3
            && name.len() >= value.len()
            && name[name.len() - value.len()..].eq_ignore_ascii_case(value))
}

/// A file's path: short plain parts, none of which looks random.
pub(super) fn path(bytes: &[u8]) -> bool {
    let rooted = [&b"/"[..], b"./", b"../", b"~/"]
        .iter()
        .any(|root| bytes.starts_with(root))
        || (bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && &bytes[1..3] == b":\\");
    rooted
        && bytes.len() > 2
        && bytes.split(|&b| b == b'/' || b == b'\\').all(|part| {
            let mix = Mix::of(part);
            let random = mix.digit > 0 && mix.lower > 0 && mix.upper > 0;
            part.len() <= 40
                && !random
                && part
                    .iter()
                    .all(|&b| bytes::is(IDENT, b) || matches!(b, b'~' | b':' | b' '))
        })
}

/// Fillers such as `xxxx` or `****` repeat one byte.
fn varied_letters(bytes: &[u8]) -> bool {
    bytes.len() < 3 || bytes.iter().any(|&b| b != bytes[0])
}

/// Without the punctuation after it.
fn trim(bytes: &[u8]) -> &[u8] {
    let keep = bytes
        .iter()
        .rposition(|&b| bytes::is(ALNUM | DIGIT, b) || matches!(b, b']' | b'_'))
        .map_or(0, |n| n + 1);
    &bytes[..keep]
}

/// Whether a complete mask starts inside `range` of `text`, even if it ends after it.
pub(super) fn meets_mask(text: &[u8], range: &Range<usize>) -> bool {
    let opening = mask::OPENING.as_bytes();
    let mut at = range.start;
    while let Some(found) = memchr::memchr(b'[', &text[at..range.end]) {
        at += found;
        if text[at..].starts_with(opening) && mask::mask_end(text, at).is_some() {
            return true;
        }
        at += 1;
    }
    false
}
