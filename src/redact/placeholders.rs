//! Tells secrets from what stands in their place: variables, types, placeholders, prose.

use super::mask::{self, contains_mask, is_masked};
use super::names::{Kind, is_listed, list};
use super::pattern::Pattern;
use super::text::{
    Mix, class_changes, ends_with_any_case, is_base64, is_name, is_strong, is_url64,
    starts_with_any_case,
};
use super::value::{Join, Value};

/// Longest text taken for a placeholder. Whatever is longer is masked, and then not searched for
/// further names, which keeps the search linear.
pub(super) const LONGEST: usize = 64;
/// The same for a call, which is not read again for each of many names.
const LONGEST_CALL: usize = 256;

/// `$VAR`, `${…}`, `%VAR%`, `{{…}}`, `<…>`, `%s`, `:name`, `os.environ`, ….
static REFERENCE: Pattern = Pattern::new(concat!(
    r"\$[{(]|<|\{[{}]|\{.*\}$|%\{|%.*%$|%.{0,2}$",
    r"|[$:@&*{](?:[A-Za-z_]+|[A-Z_][A-Z0-9_]*)[^\w\]]*$|&[A-Za-z_.]+$",
    r"|(?i:your[-_]|os\.environ|os\.getenv|process\.env|env[.:]|std::env|secrets\.|vault:|arn:",
    r"|ssm:|op://|var\.|local\.|data\.)",
    // The arguments of a shell's function or of a query, `?message` of `${NAME:?message}`, `.*` of a
    // regular expression, the name of a header.
    r"|\$[0-9]{1,2}$|\?[A-Za-z_]*[ }]?$|\.[*+]|X(?:-[A-Z][a-z]+){1,4}$",
    // `$crate::private::Name`, and `1*tchar` of a grammar.
    r"|\$\w+::|[0-9]*\*[a-z]+$",
    // `\w{20}` of a regular expression.
    r"|\\{1,2}[wWdDsS](?:[+*{]|$)",
    // A color, and `changeme`, `insert-key-here`, `my-secret-token`.
    r"|#[0-9A-Fa-f]{3,8}$",
    r"|(?i:(?:change|replace|insert|enter|put|dummy|fake|sample|placeholder)[a-z_-]*",
    r"|my[_-]?(?:secret|password|token|api|key)[a-z_-]*|[a-z_-]*[_-]here)$",
    // `sk-ant-...`, `ghp_xxxxxxxx`, `xoxb-your-token`.
    r"|(?:[A-Za-z0-9]{1,8}[-_]){0,3}(?:[xX]{4,}|\.{3}|\*{3,}|your[-_][a-z_-]*)$",
    // The keys that AWS uses in its documentation.
    r"|AKIA\w{9}EXAMPLE$|wJalrXUtnFEMI/K7MDENG/|je7MtGbClwBF/2Zp9Utk/",
));
/// `get_token(…`, `env[…`, `Token{…`, `[]byte{…`: an identifier or path right before a parenthesis, bracket or brace.
static CALL: Pattern = Pattern::new(r"(?:::)?[A-Za-z_&][\w.:&!]*[(\[{]|\[\]\w+[({]");
/// `poly1305::Context`, `ConvertTo-SecureString`.
static PATH: Pattern = Pattern::new(
    r"(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+(?:::)?$|(?:Get|Read|New|ConvertTo)-[A-Z][A-Za-z]+$",
);
/// `MAX_TOKEN_SIZE`.
static CONSTANT: Pattern = Pattern::new(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$");
/// The beginning of `frame->token`.
static POINTER: Pattern = Pattern::new(r"[A-Za-z_][\w.\[\]()]*-$");
/// `mem3.szKeyBlk`, `Fts5HashEntry.nKey`.
static DOTTED_IDENTIFIERS: Pattern =
    Pattern::new(r"(?:[A-Z]?[a-z]+[0-9]?|[a-z])+(?:\.(?:[A-Z]?[a-z]+[0-9]?|[a-z])+)+$");
static IDENTIFIER: Pattern = Pattern::new(r"[A-Za-z_]\w*$");
/// `self.password`, `req.body.token`: names joined by dots.
static DOTTED_NAMES: Pattern = Pattern::new(r"[A-Za-z][^.]*(?:\.[A-Za-z][^.]*)+$");
/// `Utf8SuffixKey`, `resourceStatusesValue`.
static CAMEL_CASE: Pattern = Pattern::new(r"(?:[A-Z][a-z]+[0-9]*)+$|[a-z]{2,}(?:[A-Z][a-z]{2,})+$");
/// The first of the names and values of a cookie.
static COOKIE: Pattern = Pattern::new(r"[^\s=;,]+=[^\s=]");
static IDENTIFIERS: Pattern = Pattern::new(r"[A-Za-z_.?:,;]+$");
static NUMBER: Pattern = Pattern::new(r"[0-9.,%-]+$");
/// A number as programs write it, with its type.
static TYPED_NUMBER: Pattern = Pattern::new(
    r"-?(?:0[xX][0-9A-Fa-f_]{1,16}|[0-9][0-9_.]{0,19})(?:[iu](?:8|16|32|64|128|size)|f32|f64|[uUlL]{1,3})?;?$",
);
static TYPE_NAME: Pattern = Pattern::new(
    r"(?:&?[iu](?:8|16|32|64)|[A-Z]|[A-Z][a-z]+[0-9]|[A-Z]{0,4}[a-z]{1,11}(?:[A-Z][a-z]{1,11}){0,2})$",
);
static WORD: Pattern = Pattern::new(r"[A-Za-z.,'-]+$");

/// Whether a text is a reference, or a word that stands for a secret.
pub(super) fn stands_for_secret(bytes: &[u8]) -> bool {
    let word = String::from_utf8_lossy(trim_end(bytes)).to_ascii_lowercase();
    REFERENCE.is_match(bytes) || is_listed(&word, "placeholders")
}

/// Whether `value` is a reference, placeholder, type or word rather than a secret.
pub(super) fn is_placeholder(
    text: &[u8],
    value: &Value,
    name: &str,
    kind: Kind,
    join: Join,
) -> bool {
    let bytes = &text[value.range.clone()];
    if is_masked(text, value.range.clone()) || !looks_random(kind, bytes) {
        return true;
    }
    let begins_like_mask = bytes.starts_with(mask::OPENING.as_bytes());
    if begins_like_mask || contains_mask(bytes) {
        return false;
    }
    if bytes.len() > LONGEST {
        return !value.quoted && bytes.len() <= LONGEST_CALL && CALL.is_match(bytes);
    }
    let mix = Mix::of(bytes);
    if stands_for_secret(bytes) || repeats_name(trim_end(bytes), name) || is_trivial(bytes, &mix) {
        return true;
    }
    if mix.letters() == 0 && NUMBER.is_match(bytes) {
        let shortest = if kind == Kind::Password { 4 } else { 16 };
        return mix.digit < shortest;
    }
    // A cookie has a name and a value; a token is neither a word nor a type.
    let spaced = matches!(join, Join::Colon | Join::Spaced) && !value.quoted;
    match kind {
        Kind::Weak if !is_strong(bytes) => return true,
        Kind::Header
            if !name.ends_with("ion")
                && (!COOKIE.is_match(bytes) || spaced && join == Join::Spaced) =>
        {
            return spaced || !is_strong(bytes);
        }
        Kind::Token if spaced && TYPE_NAME.is_match(bytes) => return true,
        _ => {}
    }
    match join {
        Join::Comma => {
            !is_strong(bytes)
                || first_word(bytes).is_some_and(|word| first_word(name.as_bytes()) == Some(word))
        }
        Join::Prose => {
            let mixed_case = mix.upper > 0 && mix.lower > 0;
            !(is_strong(bytes) && (mixed_case || bytes.len() >= 16))
        }
        _ if value.quoted => {
            let is_rest = bytes.first().is_some_and(|b| b",;) }".contains(b));
            is_rest || kind == Kind::Token && is_words(bytes)
        }
        _ if bytes.starts_with(b",") => true,
        _ => is_code(text, value, name, kind, join) || is_expression(text, value, name, join),
    }
}

/// Whether a value is signs alone, a path, a number with its type, or one character over and over.
fn is_trivial(bytes: &[u8], mix: &Mix) -> bool {
    mix.letters() + mix.digit == 0 && bytes.is_ascii()
        || is_path(bytes)
        || mix.letters() > 0 && TYPED_NUMBER.is_match(bytes)
        || bytes.len() >= 3 && bytes.iter().all(|b| *b == bytes[0])
        || bytes.len() == 1
}

/// Whether a text is words of a language, or the name of a token: no token is.
fn is_words(bytes: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphabetic() || b" _-.,:'".contains(b);
    let is_word = bytes.len() <= 10 && bytes.iter().all(u8::is_ascii_lowercase);
    bytes.iter().all(is_part) && (is_word || bytes.contains(&b' ') || has_stem(bytes))
}

/// Whether the name of a secret is in a text.
fn has_stem(bytes: &[u8]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let in_text = |stem: &&str| memchr::memmem::find(&lower, stem.as_bytes()).is_some();
    list("stems").iter().any(in_text)
}

/// Whether a value without quotes is a name in a program, by what follows it.
fn is_code(text: &[u8], value: &Value, name: &str, kind: Kind, join: Join) -> bool {
    let bytes = &text[value.range.clone()];
    let is_type = || Mix::of(bytes).upper > 1 && TYPE_NAME.is_match(bytes);
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_named_so = ends_with_any_case(bytes, last.as_bytes()) && IDENTIFIER.is_match(bytes);
    PATH.is_match(bytes)
        || kind == Kind::Token && is_named_so && matches!(join, Join::Colon | Join::Spaced)
        || match (text.get(value.range.end), join) {
            (Some(b'>'), _) => POINTER.is_match(bytes),
            (Some(b','), Join::Colon) => {
                is_type() || bytes.len() <= 2 || ends_with_any_case(bytes, name.as_bytes())
            }
            (Some(b';'), Join::Spaced) => {
                let is_name = kind == Kind::Token || IDENTIFIER.is_match(bytes);
                is_name && !is_generated(bytes) || CONSTANT.is_match(bytes)
            }
            _ => false,
        }
}

/// Whether a value is as random as it has to be to be a secret under a name of this kind.
pub(super) fn looks_random(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::Guess => is_generated(bytes),
        Kind::Vendor => is_key(bytes),
        _ => true,
    }
}

/// Whether a value looks like a service's key: one word, with a part that is no word of a language.
fn is_key(bytes: &[u8]) -> bool {
    let escape = bytes.strip_suffix(b"\\n").or(bytes.strip_suffix(b"\\r"));
    let bytes = escape.unwrap_or(bytes).trim_ascii_end();
    let one_word = bytes.iter().all(|b| is_base64(*b) || b"_-.:%|".contains(b));
    let is_url = memchr::memmem::find(bytes, b"://").is_some();
    let random = |part: &[u8]| {
        let mix = Mix::of(part);
        let mixed = mix.letters() > 0 && mix.digit > 0 || mix.lower > 2 && mix.upper > 2;
        part.len() >= 8 && mixed || mix.digit >= 15
    };
    let mut parts = bytes.split(|b| !b.is_ascii_alphanumeric());
    let is_random = parts.any(random) || class_changes(bytes) > 4;
    bytes.len() >= 14 && one_word && !is_url && is_random
}

/// Whether a value looks like the output of a random generator: one word, in which small letters, capitals and digits
/// change often. Hexadecimal digits alone are mostly a digest or an id.
pub(super) fn is_generated(bytes: &[u8]) -> bool {
    let mix = Mix::of(bytes);
    let least = mix.lower.min(mix.upper).min(mix.digit);
    let one_word = bytes.iter().all(|b| is_base64(*b) || is_name(*b));
    let hex = bytes.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    let mixed = bytes.len() >= 16 && least >= 2 && bytes.iter().all(|b| is_url64(*b) || *b == b'=');
    let changes = bytes.len() >= 12 && one_word && !hex && class_changes(bytes) > 2;
    (mixed || changes) && !CAMEL_CASE.is_match(bytes) && !DOTTED_IDENTIFIERS.is_match(bytes)
}

/// Whether a value without quotes is code or prose.
fn is_expression(text: &[u8], value: &Value, name: &str, join: Join) -> bool {
    let bytes = &text[value.range.clone()];
    let next = &text[value.range.end..];
    let generic = next.starts_with(b"<") && bytes.iter().all(u8::is_ascii_alphabetic);
    let operator = bytes.first().is_some_and(|b| b"[{(|!=,/".contains(b));
    let in_parentheses = bytes.starts_with(b"(") && join == Join::Spaced;
    let env_name = join == Join::Tight && !name.bytes().any(|b| b.is_ascii_lowercase());
    let call = !env_name && CALL.is_match(bytes);
    if generic || in_parentheses || operator && !is_strong(bytes) || call {
        return true;
    }
    if !env_name && join != Join::Flag && IDENTIFIERS.is_match(bytes) {
        let joined = memchr::memchr3(b'.', b'_', b':', bytes).is_some();
        if joined && join != Join::Tight || has_stem(bytes) || DOTTED_NAMES.is_match(bytes) {
            return true;
        }
    }
    // A word with further words after it is prose; alone it is a poor password.
    let prose = matches!(next, [b' ', b, ..] if b.is_ascii_alphanumeric() || *b == b'{');
    prose && matches!(join, Join::Colon | Join::Spaced) && WORD.is_match(bytes)
}

/// Whether the value only repeats the name, its end, or some words of its beginning.
fn repeats_name(value: &[u8], name: &str) -> bool {
    let name = name.trim_start_matches('-').as_bytes();
    let last = value
        .rsplit(|b| matches!(b, b'.' | b':'))
        .next()
        .unwrap_or_default();
    let field = last.len() < value.len() && last.len() >= 3 && name.ends_with(last);
    let beginning = value.contains(&b'_') && name.starts_with(value);
    let more = value.get(name.len()..).unwrap_or_default();
    let goes_on = starts_with_any_case(value, name) && more.iter().all(u8::is_ascii_alphabetic);
    field
        || beginning
        || goes_on
        || ends_with_any_case(name, value) && (value.len() >= 3 || value.len() == name.len())
}

/// `Win32` of `Win32_Security`.
fn first_word(name: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'_', name)?;
    (end > 2).then_some(&name[..end])
}

static ROOTED: Pattern = Pattern::new(r"(?:/|\.{1,2}/|~/|[A-Za-z]:\\)");

/// A file's path: short plain parts, none of which looks random.
pub(super) fn is_path(bytes: &[u8]) -> bool {
    let plain = |part: &[u8]| {
        let mix = Mix::of(part);
        let random = mix.digit > 0 && mix.lower > 0 && mix.upper > 0;
        let usual = |b: &u8| is_name(*b) || matches!(b, b'~' | b':' | b' ');
        part.len() <= 40 && !random && part.iter().all(usual)
    };
    bytes.len() > 2
        && ROOTED.is_match(bytes)
        && bytes.split(|&b| b == b'/' || b == b'\\').all(plain)
}

/// Without the punctuation after it.
fn trim_end(bytes: &[u8]) -> &[u8] {
    let kept = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b']' | b'_');
    &bytes[..bytes.iter().rposition(kept).map_or(0, |last| last + 1)]
}
