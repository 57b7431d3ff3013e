//! Secrets known by the name before them: `DB_PASSWORD=…`, `"api_key": "…"`, `--token …`.

use std::ops::Range;

use super::bytes::{self, ALNUM, ALPHA, IDENT, opens, starts_with_any_case};
use super::keys::{Keys, Kind};
use super::value::{self, Join, Value};

/// A value found under a name.
pub(super) struct Named {
    /// From the name's first byte to the value's last.
    pub(super) whole: Range<usize>,
    pub(super) secret: Range<usize>,
    pub(super) name: Range<usize>,
}

/// What looking at one name came to.
pub(super) struct Looked {
    /// Where the name ends: other stems before that are part of the same name.
    pub(super) name_end: usize,
    pub(super) found: Option<Named>,
}

/// Longest name either side of the stem that is looked at.
const LONGEST_NAME: usize = 80;
/// Spaces that may stand between a name, its separator and its value.
const MOST_SPACES: usize = 16;

/// Looks at the name around the stem `hit` and what follows it.
pub(super) fn look(keys: &Keys, text: &str, hit: Range<usize>) -> Looked {
    let all = text.as_bytes();
    // Some stems are only looked for with their `=`.
    let hit = hit.start..hit.end - usize::from(all[hit.end - 1] == b'=');
    let mut start = bytes::run_start(all, hit.start, IDENT, LONGEST_NAME);
    let mut end = bytes::run_end(all, hit.end, IDENT, LONGEST_NAME);
    let name_end = end;
    // The letter of an escape (`\npassword`) is not the name's.
    if start < hit.start && all[start].is_ascii_lowercase() && opens(all, start + 1, ALNUM) {
        start += 1;
    }
    // A sentence's full stop, or a dash before a value, is not the name's.
    while end > hit.end && matches!(all[end - 1], b'.' | b'-') {
        end -= 1;
    }
    let found = read_name(keys, text, start, end);
    Looked { name_end, found }
}

fn read_name(keys: &Keys, text: &str, start: usize, end: usize) -> Option<Named> {
    let all = text.as_bytes();
    // The cheapest test first: most words in prose are followed by a letter or a full stop.
    let (join, at) = separator(all, start, end)?;
    let (start, kind) = known_name(keys, text, start, end)?;
    let query = join == Join::Tight && matches!(before(all, start), Some(b'?' | b'&'));
    let outer = before(all, start).filter(|b| matches!(b, b'"' | b'\'' | b'`'));
    let closed = value::quote_at(all, end).is_some();
    let outer = if closed { None } else { outer };
    let line = kind == Kind::Header && join != Join::Flag;
    let name = &text[start..end];

    let at = wrapper(all, at);
    let (at, kind, parameters) = if line {
        scheme(all, at, kind)
    } else {
        (at, kind, false)
    };
    let line = line && kind == Kind::Header && (parameters || !is_authorization(name));
    // The quotes of parameters do not end the line, unless it is all in quotes.
    let outer = if parameters {
        outer.or(Some(b'\n'))
    } else {
        outer
    };
    let at = wrapper(all, at);
    let mut value = value::read(all, at, outer, line, query);
    trim_end(all, &mut value);
    if usable(all, &value, name, kind, join) {
        return Some(named(start..end, value));
    }
    // `password: str = "…"`: the type is no secret but what follows it may be.
    if join == Join::Colon
        && let Some(at) = after_type(all, value.range.start)
    {
        let value = value::read(all, wrapper(all, at), None, false, false);
        if value.quoted && usable(all, &value, name, kind, Join::Spaced) {
            return Some(named(start..end, value));
        }
    }
    None
}

fn named(name: Range<usize>, value: Value) -> Named {
    Named {
        whole: name.start..value.range.end,
        secret: value.range,
        name,
    }
}

fn usable(all: &[u8], value: &Value, name: &str, kind: Kind, join: Join) -> bool {
    !value.range.is_empty() && !value::is_stand_in(all, value, name, kind, join)
}

fn before(all: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).map(|i| all[i])
}

/// The name's kind; a name of two words with a space between them is tried as well.
fn known_name(keys: &Keys, text: &str, start: usize, end: usize) -> Option<(usize, Kind)> {
    let all = text.as_bytes();
    let name = &text[start..end];
    if let Some(kind) = keys.kind(name) {
        let parser_word = name.eq_ignore_ascii_case("token") && follows_parser_word(all, start);
        return Some((start, if parser_word { Kind::Weak } else { kind }));
    }
    let parameter = matches!(before(all, start), Some(b'?' | b'&' | b';'));
    if parameter && QUERY_NAMES.iter().any(|n| n.eq_ignore_ascii_case(name)) {
        return Some((start, Kind::Weak));
    }
    // Only these need a word before them to mean anything.
    let second = keys.has_own()
        || ["key", "keys", "phrase"]
            .iter()
            .any(|n| n.eq_ignore_ascii_case(name));
    if second && before(all, start) == Some(b' ') {
        let first = bytes::run_start(all, start - 1, ALPHA, 24);
        if first < start - 1 {
            return keys.kind(&text[first..end]).map(|kind| (first, kind));
        }
    }
    None
}

/// Names that are sensitive as a URL's parameters only.
const QUERY_NAMES: &[&str] = &[
    "key",
    "sig",
    "signature",
    "x-amz-signature",
    "x-goog-signature",
    "hmac",
];

/// `unexpected token: "x"` is a parser speaking.
fn follows_parser_word(all: &[u8], start: usize) -> bool {
    const WORDS: [&str; 9] = [
        "unexpected",
        "invalid",
        "unknown",
        "expected",
        "bad",
        "illegal",
        "next",
        "unrecognized",
        "stray",
    ];
    WORDS.iter().any(|word| {
        start
            .checked_sub(word.len() + 1)
            .is_some_and(|at| starts_with_any_case(&all[at..], word.as_bytes()))
    })
}

/// How the name at `start..end` is joined to a value, and where that may start.
fn separator(all: &[u8], start: usize, end: usize) -> Option<(Join, usize)> {
    let mut at = end;
    let quote = value::quote_at(all, at);
    if let Some((after, ..)) = quote {
        at = after;
    }
    while matches!(all.get(at), Some(b']' | b')')) && at < end + 8 {
        at += 1;
    }
    let spaces_from = at;
    at = spaces(all, at);
    let spaced = at > spaces_from;
    let flag = all.get(start) == Some(&b'-');
    match *all.get(at)? {
        b'=' => {
            at += 1;
            while matches!(all.get(at), Some(b'=' | b'>' | b'~')) && at < end + 24 {
                at += 1;
            }
            let value = spaces(all, at);
            let join = if spaced || value > at {
                Join::Spaced
            } else {
                Join::Tight
            };
            Some((join, value))
        }
        b':' => {
            at += 1;
            if all.get(at) == Some(&b':') {
                return None;
            }
            let tight = all.get(at) == Some(&b'=');
            if tight {
                at += 1;
            }
            Some((
                if tight { Join::Spaced } else { Join::Colon },
                spaces(all, at),
            ))
        }
        b'?' | b'+' | b'!' if matches!(all.get(at + 1), Some(b'=' | b':')) => {
            let join = if all[at + 1] == b':' {
                Join::Colon
            } else {
                Join::Spaced
            };
            at += 2;
            while all.get(at) == Some(&b'=') && at < end + 24 {
                at += 1;
            }
            Some((join, spaces(all, at)))
        }
        b'%' if starts_with_any_case(&all[at..], b"%3d") => Some((Join::Tight, at + 3)),
        b'\\' if starts_with_any_case(&all[at..], b"\\u003d") => Some((Join::Tight, at + 6)),
        b'>' if before(all, start) == Some(b'<') => {
            element(all, at + 1).map(|at| (Join::Tight, at))
        }
        b',' if quote.is_some() => {
            let value = spaces(all, at + 1);
            value::quote_at(all, value)
                .map(|_| (if flag { Join::Flag } else { Join::Comma }, value))
        }
        b'-' if flag => None,
        b'i' if spaced && all[at..].starts_with(b"is ") => Some((Join::Prose, spaces(all, at + 3))),
        _ if spaced
            && quote.is_none()
            && (flag || (end - start == 8 && follows_login(all, start))) =>
        {
            Some((Join::Flag, at))
        }
        _ => None,
    }
}

/// The content of `<password>…</password>`, if an end tag closes it on the same line.
fn element(all: &[u8], at: usize) -> Option<usize> {
    let close = memchr::memchr2(b'<', b'\n', &all[at..])? + at;
    all[close..].starts_with(b"</").then_some(at)
}

fn spaces(all: &[u8], from: usize) -> usize {
    let limit = all.len().min(from + MOST_SPACES);
    let mut at = from;
    while at < limit && (all[at] == b' ' || all[at] == b'\t') {
        at += 1;
    }
    at
}

/// Steps into `Some("…")`, `String::from("…")` and over the letter of `b"…"`.
fn wrapper(all: &[u8], at: usize) -> usize {
    const CALLS: [&[u8]; 6] = [
        b"Some(",
        b"Ok(",
        b"String::from(",
        b"SecretString::from(",
        b"Secret(",
        b"SecretStr(",
    ];
    let mut at = at;
    for call in CALLS {
        if all[at..].starts_with(call) && value::quote_at(all, at + call.len()).is_some() {
            at += call.len();
        }
    }
    let letter = matches!(
        all.get(at),
        Some(b'b' | b'B' | b'r' | b'R' | b'f' | b'u' | b'$')
    );
    if letter && matches!(all.get(at + 1), Some(b'"' | b'\'')) {
        at + 1
    } else {
        at
    }
}

/// Where the value after a type starts: `str = "…"`, `Option<String> = "…"`.
fn after_type(all: &[u8], from: usize) -> Option<usize> {
    let limit = all.len().min(from + 60);
    for at in from..limit {
        match all[at] {
            b'=' if all.get(at + 1) != Some(&b'=') => return Some(spaces(all, at + 1)),
            b if bytes::is(IDENT, b) || b" <>[]|?&*:'".contains(&b) => {}
            _ => return None,
        }
    }
    None
}

fn is_authorization(name: &str) -> bool {
    let end = name.len().saturating_sub("authorization".len());
    name.is_char_boundary(end) && name[end..].eq_ignore_ascii_case("authorization")
}

/// Steps over the scheme of an `Authorization` header, which stays readable. Tells also whether
/// parameters follow, up to the end of the line, instead of one token.
fn scheme(all: &[u8], at: usize, kind: Kind) -> (usize, Kind, bool) {
    const TOKEN: [&[u8]; 7] = [
        b"bearer ",
        b"basic ",
        b"token ",
        b"apikey ",
        b"bot ",
        b"negotiate ",
        b"key ",
    ];
    const PARAMETERS: [&[u8]; 5] = [
        b"digest ",
        b"aws4-hmac-sha256 ",
        b"oauth ",
        b"hawk ",
        b"signature ",
    ];
    // `"Authorization": "Bearer …"`: the scheme is inside the quotes.
    let inside = value::quote_at(all, at).map_or(at, |q| q.0);
    let after = |scheme: &&[u8]| {
        starts_with_any_case(&all[inside..], scheme).then(|| spaces(all, inside + scheme.len() - 1))
    };
    if let Some(at) = TOKEN.iter().find_map(after) {
        return (at, Kind::Token, false);
    }
    match PARAMETERS.iter().find_map(after) {
        // Inside quotes of its own, the whole quoted value is taken.
        Some(at) if inside < at && value::quote_at(all, inside).is_none() => (at, kind, true),
        _ => (at, kind, false),
    }
}

/// `login ann password …`, as in a `.netrc`.
fn follows_login(all: &[u8], start: usize) -> bool {
    let user_end = start.saturating_sub(1);
    let line = &all[user_end.saturating_sub(80)..user_end];
    let mut words = line.rsplit(|b| b.is_ascii_whitespace());
    words.next().is_some_and(|user| !user.is_empty()) && words.next() == Some(b"login")
}

/// Punctuation that ends a sentence or an item is not an unquoted value's.
fn trim_end(all: &[u8], value: &mut Value) {
    if !value.quoted {
        while value.range.end > value.range.start && matches!(all[value.range.end - 1], b',' | b';')
        {
            value.range.end -= 1;
        }
    }
}
