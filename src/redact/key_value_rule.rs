//! Secrets known by the name before them: `DB_PASSWORD=…`, `"api_key": "…"`, `--token …`.

use std::ops::Range;

use super::names::{Kind, SensitiveNames, is_listed, list};
use super::pattern::Pattern;
use super::placeholders;
use super::redactor::count_work;
use super::text::{
    ends_with_any_case, is_name, is_quote, run_end, run_start, starts_with_any_case, token_start,
};
use super::value::{self, Extent, Join, Value, quote_at};

/// Longest name either side of the stem that is looked at.
const LONGEST_NAME: usize = 80;
/// Blanks that may stand between a name, its separator and its value.
const MOST_BLANKS: usize = 16;

/// How far a value is read that is a secret only if it looks random.
const LONGEST_GUESS: usize = 128;

/// Where the name and its secret are.
type NameAndSecret = (Range<usize>, Range<usize>);

/// Reads the name around `stem` and the value after it. Where the name ends, since other stems
/// before that are part of the same name; and the name and the secret, if there is one.
pub(super) fn find(
    names: &SensitiveNames,
    text: &str,
    stem: Range<usize>,
) -> (usize, Option<NameAndSecret>) {
    let all = text.as_bytes();
    // Some stems are only searched for with their `=`.
    let stem = stem.start..stem.end - usize::from(all[stem.end - 1] == b'=');
    let start = token_start(all, stem.start, LONGEST_NAME, is_name);
    let mut end = run_end(all, stem.end, LONGEST_NAME, is_name);
    let name_end = end;
    // A sentence's full stop, a dash before a value or Markdown's `__` is not the name's.
    while end > stem.end && matches!(all[end - 1], b'.' | b'-' | b'_') {
        end -= 1;
    }
    (name_end, read_named(names, text, start..end))
}

/// The secret under the name at `name`, and where the name really starts.
fn read_named(names: &SensitiveNames, text: &str, name: Range<usize>) -> Option<NameAndSecret> {
    let all = text.as_bytes();
    // The cheapest test first: most words in prose are followed by a letter or a full stop.
    let (join, at) = separator(all, &name)?;
    let (start, kind) = known_name(names, text, &name)?;
    let name = start..name.end;
    let place = value_place(text, &name, kind, join, at)?;
    let (kind, at) = (place.kind, place.at);
    let read = |text: &[u8]| value::read(text, at, place.outer, join, place.extent);
    // A value that is no secret may hold further names: it is not read to its end for each of them.
    let near = match kind {
        Kind::Guess | Kind::Vendor => &all[..all.len().min(at + LONGEST_GUESS)],
        _ => all,
    };
    let mut value = read(near);
    let is_cut = value.range.end == near.len() && near.len() < all.len();
    if is_cut && placeholders::looks_random(kind, &near[value.range.clone()]) {
        value = read(all);
    }
    count_work(value.range.end - at.min(value.range.end));
    let is_secret = |value: &Value, join: Join| {
        let name = &text[name.clone()];
        let is_code = value.range.is_empty() || place.in_code && !value.quoted;
        !is_code && !placeholders::is_placeholder(all, value, name, kind, join)
    };
    if is_secret(&value, join) {
        let Range { start, end } = value.range;
        return Some((name, start..list_end(all, at, end).unwrap_or(end)));
    }
    // `password: str = "…"`, `password = env("X") or "…"`: neither the type nor the reference is
    // a secret, but what follows it may be.
    let start = value.range.start;
    let typed = (join == Join::Colon).then(|| after_type(all, start));
    let later = typed.flatten().or_else(|| after_reference(all, start))?;
    let later = skip_wrapper(all, later);
    let value = value::read(all, later, None, Join::Spaced, Extent::Word);
    (value.quoted && is_secret(&value, Join::Spaced)).then_some((name, value.range))
}

/// Where a value starts, and how it is read.
struct Place {
    at: usize,
    kind: Kind,
    extent: Extent,
    /// The quote that the name is directly inside of.
    outer: Option<u8>,
    /// A program declares or compares the name: a value without quotes is code.
    in_code: bool,
}

/// Where the value of a name is that `join` ties to `at`, if a value can stand there.
fn value_place(
    text: &str,
    name: &Range<usize>,
    mut kind: Kind,
    join: Join,
    at: usize,
) -> Option<Place> {
    let all = text.as_bytes();
    let before = before(all, name.start);
    let separator = all[..at].trim_ascii_end();
    let is_compared = separator.ends_with(b"==") || separator.ends_with(b"!=");
    let closed = quote_at(all, name.end).is_some();
    // `Error::Token => "…"`: a pattern, and what it stands for. `cookie: *mut u8`: a pointer.
    let matched = !closed
        && separator.ends_with(b"=>")
        && (is_camel_case(&text[name.clone()]) || all.get(name.end) == Some(&b')'));
    let pointer = kind == Kind::Header && matches!(all.get(at), Some(b'*' | b'&'));
    let word = word_before(all, name.start);
    // `case TOKEN:` and `--- PASS: …` of a test.
    let label = word == b"case" || all[..name.start].ends_with(b"--- ");
    if matched || pointer || label {
        return None;
    }
    let mut outer = before.filter(|b| is_quote(*b) && !closed);
    let (at, mut extent) = next_line(all, join, at);
    let mut at = skip_wrapper(all, at);
    // `readonly DB_PASSWORD=…` is a shell's.
    let in_shell = join == Join::Tight && !text[name.clone()].contains(|c: char| c.is_lowercase());
    let is_declared = !closed && !in_shell && DECLARES.is_match(word);
    if join == Join::Tight && matches!(before, Some(b'?' | b'&')) {
        extent = Extent::Query;
    } else if is_declared && join == Join::Colon {
        // `pub token: u32`, `const TOKEN: &str = "…"`: a type comes before the value, if there is one.
        at = skip_wrapper(all, after_type(all, at)?);
    } else if kind == Kind::Header && join != Join::Flag {
        extent = Extent::Line;
        if ends_with_any_case(&all[name.clone()], b"authorization") {
            (at, kind, extent) = skip_scheme(all, at);
            // The quotes of parameters do not end the line, unless it is all in quotes.
            if extent == Extent::Line {
                outer = outer.or(Some(b'\n'));
            }
        }
    }
    Some(Place {
        at,
        kind,
        extent,
        outer,
        in_code: is_declared || is_compared,
    })
}

/// The words that declare a name with its type.
static DECLARES: Pattern = Pattern::new(r"(?:pub|const|static|let|mut|var|val|readonly|trait)$");

/// The word before the blank that ends at `at`.
fn word_before(all: &[u8], at: usize) -> &[u8] {
    let Some(end) = at.checked_sub(1).filter(|end| all[*end] == b' ') else {
        return &[];
    };
    &all[run_start(all, end, 12, |b| b.is_ascii_alphabetic())..end]
}

/// `ClientSecret`, as types and their variants are named.
fn is_camel_case(name: &str) -> bool {
    let name = name.rsplit(':').next().unwrap_or_default();
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().any(|b| b.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn before(all: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).map(|i| all[i])
}

/// The name's kind; a name of two words with a blank between them is tried as well.
fn known_name(names: &SensitiveNames, text: &str, name: &Range<usize>) -> Option<(usize, Kind)> {
    let all = text.as_bytes();
    let (start, word) = (name.start, &text[name.clone()]);
    if let Some(kind) = names.kind(word) {
        let parser = word.eq_ignore_ascii_case("token") && follows_parser_word(&all[..start]);
        return Some((start, if parser { Kind::Weak } else { kind }));
    }
    let lower = word.to_ascii_lowercase();
    let parameter = matches!(before(all, start), Some(b'?' | b'&' | b';'));
    if parameter && is_listed(&lower, "query_names") {
        return Some((start, Kind::Weak));
    }
    let second = !names.user.is_empty() || is_listed(&lower, "second_words");
    if second && before(all, start) == Some(b' ') {
        let first = run_start(all, start - 1, 24, |b| b.is_ascii_alphabetic());
        if first < start - 1 {
            let kind = names.kind(&text[first..name.end])?;
            return Some((first, kind));
        }
    }
    None
}

/// `unexpected token: "x"` is what a parser writes.
fn follows_parser_word(before: &[u8]) -> bool {
    let before = &before[..before.len().saturating_sub(1)];
    let mut words = list("parser_words").iter();
    words.any(|word| ends_with_any_case(before, word.as_bytes()))
}

/// How the name at `name` is joined to a value, and where that may start.
fn separator(all: &[u8], name: &Range<usize>) -> Option<(Join, usize)> {
    let Range { start, end } = *name;
    let quote = quote_at(all, end);
    let after_quote = quote.map_or(end, |quote| quote.end);
    // `char password[] = …`.
    let array = all[after_quote..].starts_with(b"[] ");
    let after_quote = after_quote + if array { 2 } else { 0 };
    // `"password"]`, `password)`, `**Password**`.
    let closed = run_end(all, after_quote, 8, |b| {
        matches!(b, b']' | b')' | b'*' | b'_')
    });
    let at = skip_blanks(all, closed);
    let spaced = at > closed;
    let rest = &all[at..];
    let flag = all.get(start) == Some(&b'-');
    // `input[type=password]:focus`, `Password::new`.
    let code = all.get(after_quote.wrapping_sub(1)) == Some(&b'`');
    let selector = (quote.is_none() || code) && all[closed - 1] == b']' && rest.starts_with(b":");
    if selector || rest.starts_with(b"::") {
        return None;
    }
    if rest.first().is_some_and(|b| b"=:?+!%\\".contains(b))
        && let Some((join, value)) = separator_at(all, at)
    {
        let tight = rest[0] == b'=' && !spaced && !is_blank(all[value - 1]);
        return Some((if tight { Join::Tight } else { join }, value));
    }
    if let Some(value) = element_content(all, start, end).or_else(|| default_value(all, at)) {
        return Some((Join::Tight, value));
    }
    let followed = |join: Join, length: usize| Some((join, skip_blanks(all, at + length)));
    match rest {
        [b'(', ..] if quote_at(all, at + 1).is_some() && SETTER.is_match(&all[start..end]) => {
            Some((Join::Spaced, at + 1))
        }
        // A table's row.
        [b'|', ..] if spaced && all[..start].trim_ascii_end().ends_with(b"|") => {
            followed(Join::Comma, 1)
        }
        [b'-', ..] if flag => None,
        [b'i', b's', b' ', ..] if spaced => followed(Join::Prose, 3),
        _ => match paired_value(all, after_quote) {
            Some(value) => Some((Join::Spaced, value)),
            None if rest.starts_with(b",") && quote.is_some() => {
                let (join, value) = followed(if flag { Join::Flag } else { Join::Comma }, 1)?;
                quote_at(all, value).map(|_| (join, value))
            }
            None => {
                let login = end - start == 8 && follows_login(&all[..start]);
                let word = spaced && quote.is_none() && !rest.is_empty();
                (word && (flag || login)).then_some((Join::Flag, at))
            }
        },
    }
}

/// The separator at `at`, and where the value after it may start.
fn separator_at(all: &[u8], at: usize) -> Option<(Join, usize)> {
    /// With the blanks after them, and what closes an emphasized label: `**Password:** …`.
    #[rustfmt::skip]
    static SEPARATORS: [(Join, Pattern); 6] = [
        (Join::Spaced, Pattern::new(r"=[=>]{0,16}[ \t]{0,16}")),
        (Join::Spaced, Pattern::new(r":=[ \t]{0,16}")),
        (Join::Colon, Pattern::new(r":(?:(?:\*{1,3}|_{1,3}|</\w{1,9}>)[ \t]+|[ \t]{0,16})")),
        (Join::Spaced, Pattern::new(r"[?+!]={1,17}[ \t]{0,16}")),
        (Join::Colon, Pattern::new(r"[?+!]:={0,16}[ \t]{0,16}")),
        (Join::Tight, Pattern::new(r"(?i)(?:%3d|\\u003d)")),
    ];
    let mut separators = SEPARATORS.iter();
    separators.find_map(|(join, pattern)| Some((*join, pattern.end(all, at)?)))
}

/// `setPassword("…")`, `with_api_key('…')`, `builder.password("…")`.
static SETTER: Pattern = Pattern::new(concat!(
    r"(?:[\w.-]*\.)?(?:set|with|use|put|add|PASSWORD$)",
    r"|[\w.-]*\.(?i:password|passwd|passphrase|(?:client_?)?secret|api_?key|(?:access|auth)_?token)$",
));

/// `name: DB_PASSWORD`, and then `value: …` in the same or the next line.
static VALUE_LABEL: Pattern =
    Pattern::new(r#"(?i)[\\"'`]*[,;]?\s*-?\s*[\\"'`]*val(?:ue)?[\\"'`]*\s*[:=]\s*"#);

/// Where the value of a pair starts whose name ends at `end`.
fn paired_value(all: &[u8], end: usize) -> Option<usize> {
    // The pattern is slow for what follows each stem in a text.
    let label = run_end(all, end, 48, |b| b",; \t\r\n\\\"'-".contains(&b));
    starts_with_any_case(&all[label..], b"val")
        .then(|| VALUE_LABEL.end(all, end))
        .flatten()
}

/// Where the content of the element starts whose name is at `start..end`: `<db:password type="x">…</…>`.
fn element_content(all: &[u8], start: usize, end: usize) -> Option<usize> {
    static CONTENT: Pattern = Pattern::new(
        r#"(?:\s{1,64}[\w:.-]{1,64}=(?:"[^"<>\n]*"|'[^'<>\n]*')){0,8}\s{0,16}>\s{0,64}(?:<!\[CDATA\[)?([^<\s])[^<\n]*\s{0,64}</"#,
    );
    let tag = match before(all, start)? {
        b':' => run_start(all, start - 1, 24, |b| b.is_ascii_alphanumeric()),
        _ => start,
    };
    let opens = before(all, tag) == Some(b'<') && paired_value(all, end).is_none();
    let (_, content) = opens.then(|| CONTENT.find(&all[end..])).flatten()?;
    Some(end + content.start)
}

/// Where the value starts that stands in for a variable: `env::var("DB_PASSWORD").unwrap_or("…")`; or that R assigns
/// to one: `password <- "…"`.
fn default_value(all: &[u8], at: usize) -> Option<usize> {
    static OR_ELSE: Pattern = Pattern::new(
        r#"(?:\.(?:unwrap_or|unwrap_or_else|or_else|orElse|getOrElse)\((?:\|_?\|)?|<-)[ \t]*["'`]"#,
    );
    let end = matches!(all.get(at), Some(b'.' | b'<'))
        .then(|| OR_ELSE.end(all, at))
        .flatten()?;
    Some(end - 1)
}

fn skip_blanks(all: &[u8], from: usize) -> usize {
    run_end(all, from, MOST_BLANKS, is_blank)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Where a value starts that is not on the line of its name: `password: |`, `password:`.
fn next_line(all: &[u8], join: Join, at: usize) -> (usize, Extent) {
    static BLOCK: Pattern = Pattern::new(r"[|>][+-]?\d?[ \t]*\r?\n[ \t]+");
    static NEXT_LINE: Pattern = Pattern::new(r"\r?\n[ \t]+");
    // What a class of this name is for.
    static DOCSTRING: Pattern = Pattern::new(r#"[rbu]?(?:"""|''')"#);
    let is_value = |start: &usize| !DOCSTRING.is_match(&all[*start..]);
    let joined = matches!(join, Join::Tight | Join::Spaced | Join::Colon);
    let (start, extent) = match all.get(at).filter(|_| joined) {
        Some(b'|' | b'>') => (BLOCK.end(all, at), Extent::Block),
        Some(b'\r' | b'\n') => (NEXT_LINE.end(all, at).filter(is_value), Extent::OwnLine),
        _ => (None, Extent::Word),
    };
    start.map_or((at, Extent::Word), |start| (start, extent))
}

/// `Some("…")`, `String::from("…")`, `["…"]`, the letter of `b"…"`, `r#` of `r#"…"#`: what may stand before a quote.
static WRAPPER: Pattern = Pattern::new(
    r#"((?:Some\(|Ok\(|(?:Secret)?String::from\(|Secret(?:Str)?\(|\(|\[\s*)*(?:[bBRfu$]|b?r#{0,3})?)\\{0,64}["'`]"#,
);

fn skip_wrapper(all: &[u8], at: usize) -> usize {
    // Almost no value starts with one of these letters.
    let may = all.get(at).is_some_and(|b| b"SO([bBrRfu$".contains(b));
    let found = may.then(|| WRAPPER.find(&all[at..])).flatten();
    found.map_or(at, |(_, wrapper)| at + wrapper.end)
}

/// Where the last text of a list ends, of which the first is the value between `start` and `end`: `api_keys = ["…", "…"]`.
fn list_end(all: &[u8], start: usize, end: usize) -> Option<usize> {
    static MORE: Pattern = Pattern::new(r#"["'](?:\s{0,64},\s{0,64}["'][^"'\n]{8,256}["'])+"#);
    let listed = all[..start].trim_ascii_end().ends_with(b"[") || all[start..end].starts_with(b"[");
    let more = listed.then(|| MORE.end(all, end)).flatten()?;
    Some(more - 1)
}

/// Where the value after a type starts: `str = "…"`, `Option<String> = "…"`.
fn after_type(all: &[u8], from: usize) -> Option<usize> {
    let end = run_end(all, from, 60, |b| is_name(b) || b" <>[]|?&*:'".contains(&b));
    let assigns = all.get(end) == Some(&b'=') && all.get(end + 1) != Some(&b'=');
    assigns.then(|| skip_blanks(all, end + 1))
}

/// Where the value starts that stands in for a reference: `env("X") or "…"`, `process.env.X || '…'`.
fn after_reference(all: &[u8], from: usize) -> Option<usize> {
    static DEFAULT: Pattern = Pattern::new(concat!(
        r#"[\w.:&!]{1,64}(?:[(\[][^()\[\]\n]{0,64}[)\]])?[ \t]*(?:or|\|\||\?\?|\?:)[ \t]+["'`]"#,
        r#"|(?i:[\w.:]{0,40}env[\w.:]{0,24})\(["'][^"'\n]{0,64}["'],[ \t]*(?:default[ \t]*=[ \t]*)?["'`]"#,
    ));
    DEFAULT.end(all, from).map(|end| end - 1)
}

/// Skips the scheme of an `Authorization` header, which stays readable, with the quote before it.
/// How much the scheme says about the secret after it, and how far that reaches.
fn skip_scheme(all: &[u8], at: usize) -> (usize, Kind, Extent) {
    #[rustfmt::skip]
    static SCHEMES: [(Kind, Extent, Pattern); 4] = [
        (Kind::Token, Extent::Word, Pattern::new(r#"(?i)\\{0,64}["'`]?(?:bearer|basic|token|apikey|bot|negotiate|key)[ \t]{1,16}"#)),
        // Parameters follow, up to the end of the line.
        (Kind::Header, Extent::Line, Pattern::new(r"(?i)(?:digest|aws4-hmac-sha256|oauth|hawk|signature)[ \t]{1,16}")),
        // A word that is no word of a language (`SSWS`, `GenieKey`), or one before a long last word.
        (Kind::Password, Extent::Word, Pattern::new(r#"\\{0,64}["'`]?(?:(?:[A-Z]{2,16}|[A-Z][a-z]+[A-Z][A-Za-z]*)[ \t]{1,16}()[\w.~+/=-]{8,256}|[A-Za-z][A-Za-z-]{1,30}[ \t]{1,16}()[\w.~+/=-]{16,256})(?:["'`\\]|[ \t]*(?:[\r\n]|$))"#)),
        // Any other word may be prose.
        (Kind::Weak, Extent::Word, Pattern::new(r#"\\{0,64}["'`]?[A-Za-z][A-Za-z-]{1,30}[ \t]{1,16}"#)),
    ];
    let mut schemes = SCHEMES.iter();
    let scheme = schemes.find_map(|(kind, extent, scheme)| {
        let (_, before_secret) = scheme.find(&all[at..])?;
        Some((skip_wrapper(all, at + before_secret.end), *kind, *extent))
    });
    scheme.unwrap_or((skip_wrapper(all, at), Kind::Header, Extent::Word))
}

/// `login ann password …`, as in a `.netrc`, which may name an account in between.
fn follows_login(before: &[u8]) -> bool {
    static LOGIN: Pattern = Pattern::new(r"(?:(?s:.*)\s)?login\s+\S+(?:\s+account\s+\S+)?\s*$");
    LOGIN.is_match(&before[before.len().saturating_sub(80)..])
}
