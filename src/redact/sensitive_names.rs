//! Which names announce a secret.
//!
//! A name is split into lower-case words whatever its case style, and is sensitive if its words
//! hold an entry of a table, unless the words around the entry say that the value only describes
//! a secret (`password_policy`) or is something else altogether (`max_tokens`, `page_token`).

use super::literals::{self, Case, Literals};

/// How much a sensitive name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Passwords and their like: a number is masked too.
    Password,
    /// Tokens, keys and their like: numbers under such names are counters, not secrets.
    Token,
    /// Names with other everyday meanings (`auth`, `pass`): in running text only a value that
    /// looks random is masked.
    Weak,
    /// Names that some secrets have among much else (`…_KEY`): only a value that is surely random
    /// is masked.
    Guess,
    /// Whole header lines: the value runs to the end of the line.
    Header,
}

impl Kind {
    /// Whether a number under such a name is masked.
    pub(super) fn masks_numbers(self) -> bool {
        self == Self::Password
    }
}

/// Every sensitive name contains one of these; most names contain none and are done with here.
#[rustfmt::skip]
pub(super) const STEMS: &[&str] = &[
    "pass", "pwd", "secret", "token", "auth", "cookie", "credential", "creds", "key", "bearer",
    "jwt", "otp", "connection", "connstr", "dsn", "webhook", "mnemonic", "phrase", "_pat",
    "recovery", "backup", "cvv", "sas", "_pw",
];
/// Stems that only matter in names of structured data, being too common inside other words.
pub(super) const NAME_ONLY_STEMS: &[&str] = &["pin", "cvc", "pat"];

/// Words that announce a secret by themselves, sorted.
#[rustfmt::skip]
const SINGLES: &[(&str, Kind)] = &[
    ("accesskey", Kind::Token), ("accesstoken", Kind::Token), ("accountkey", Kind::Token),
    ("apikey", Kind::Token), ("apikeys", Kind::Token), ("apitoken", Kind::Token),
    ("auth", Kind::Weak), ("authkey", Kind::Token), ("authorization", Kind::Header),
    ("authtoken", Kind::Token), ("bearer", Kind::Token), ("bottoken", Kind::Token),
    ("clientsecret", Kind::Token), ("connectionstring", Kind::Token), ("connstr", Kind::Token),
    ("cookie", Kind::Header), ("cookies", Kind::Header), ("credential", Kind::Token),
    ("credentials", Kind::Token), ("creds", Kind::Token), ("cvc", Kind::Password),
    ("cvv", Kind::Password), ("dsn", Kind::Token), ("hapikey", Kind::Token),
    ("idtoken", Kind::Token), ("jwt", Kind::Token), ("keypass", Kind::Password),
    ("mnemonic", Kind::Weak), ("otp", Kind::Password), ("passcode", Kind::Password),
    ("passin", Kind::Password), ("passout", Kind::Password), ("passphrase", Kind::Password),
    ("passwd", Kind::Password), ("password", Kind::Password), ("passwords", Kind::Password),
    ("privatekey", Kind::Token), ("pwd", Kind::Password), ("refreshtoken", Kind::Token),
    ("sas", Kind::Weak), ("secret", Kind::Password), ("secretkey", Kind::Token),
    ("secrets", Kind::Password), ("sessiontoken", Kind::Token), ("sshpass", Kind::Password),
    ("storepass", Kind::Password), ("token", Kind::Token), ("userpwd", Kind::Password),
    ("usertoken", Kind::Token),
];
/// Two words that together announce a secret.
const PAIRS: &[(&str, &str, Kind)] = &[
    ("pass", "phrase", Kind::Password),
    ("recovery", "code", Kind::Password),
    ("recovery", "codes", Kind::Password),
    ("backup", "code", Kind::Password),
    ("backup", "codes", Kind::Password),
    ("seed", "phrase", Kind::Password),
    ("secret", "phrase", Kind::Password),
    ("recovery", "phrase", Kind::Password),
    ("access", "tokens", Kind::Token),
    ("api", "tokens", Kind::Token),
    ("auth", "tokens", Kind::Token),
    ("refresh", "tokens", Kind::Token),
    ("bearer", "tokens", Kind::Token),
    ("session", "tokens", Kind::Token),
    ("connection", "string", Kind::Token),
    ("conn", "string", Kind::Token),
    ("webhook", "url", Kind::Token),
    ("webhook", "uri", Kind::Token),
];

/// A `key` or `keys` is only sensitive after one of these.
#[rustfmt::skip]
const KEY_OWNERS: &[&str] = &[
    "access", "account", "admin", "aes", "anthropic", "api", "app", "application", "auth",
    "authentication", "bot", "client", "decryption", "deploy", "encryption", "hmac", "ingest",
    "integration", "license", "master", "openai", "private", "root", "rsa", "secret", "service",
    "session", "shared", "signing", "ssh", "storage", "stripe", "subscription", "webhook", "write",
];
/// A `pass`, `pin` or `pat` is a secret for certain only after one of these.
#[rustfmt::skip]
const PASS_OWNERS: &[&str] = &[
    "access", "admin", "ado", "app", "auth", "azure", "card", "database", "db", "devops", "email",
    "ftp", "gh", "github", "gitlab", "http", "imap", "key", "ldap", "login", "mail", "mongo", "my",
    "mysql", "pg", "postgres", "proxy", "rabbitmq", "redis", "root", "security", "smtp", "ssh",
    "store", "sudo", "user", "wifi",
];
/// After a sensitive word, these say that the value describes a secret without being one.
#[rustfmt::skip]
const DESCRIBES: &[&str] = &[
    "age", "alg", "algorithm", "arn", "at", "audience", "backend", "banner", "budget", "bytes",
    "changed", "chars", "check", "class", "color", "colour", "column", "consent", "cost", "count", "counts",
    "created", "date", "description", "details", "dir", "disabled", "domain", "enabled",
    "encoding", "endpoint", "engine", "env", "error", "errors", "estimate", "estimator", "exists",
    "expiration", "expired", "expires", "expiry", "family", "field", "fields", "file", "filename",
    "fingerprint", "flow", "format", "handler", "help", "hint", "id", "ids", "in", "index",
    "input", "interval", "invalid", "issuer", "kind", "label", "latency", "len", "length", "level",
    "limit", "limits", "location", "manager", "masked", "max", "method", "min", "missing", "mode",
    "module", "name", "names", "needed", "num", "number", "options", "parser", "path", "paths",
    "pattern", "per", "placeholder", "policies", "policy", "position", "prefix", "present",
    "price", "prompt", "provider", "rate", "ratio", "redacted", "ref", "reference", "regex",
    "remaining", "request", "required", "reset", "response", "rotation", "rules", "schema",
    "scheme", "scope", "scopes", "server", "set", "settings", "size", "source", "speed", "state",
    "stats", "status", "store", "strategy", "strength", "suffix", "threshold", "time", "timestamp",
    "title", "total", "ttl", "type", "types", "updated", "uri", "url", "usage", "used", "valid",
    "validator", "var", "variable", "version", "visible", "window",
];
/// Before `token`, these make it a cursor, a unit of text or a parser's word.
#[rustfmt::skip]
const OTHER_TOKENS: &[&str] = &[
    "audio", "bos", "by", "cached", "cancel", "cancellation", "cls", "completion", "continuation",
    "cursor", "design", "end", "eos", "expected", "first", "image", "input", "invalid", "last",
    "marker", "mask", "max", "min", "next", "num", "output", "pad", "page", "per", "prev",
    "previous", "prompt", "public", "reasoning", "resume", "sep", "special", "start", "stop",
    "sync", "syntax", "text", "total", "unexpected", "unk", "unknown", "watermark",
];
/// As the first word, these make a name a question or a quantity.
#[rustfmt::skip]
const ASKS: &[&str] = &[
    "allow", "count", "enable", "forgot", "has", "hide", "invalid", "is", "max", "min", "missing",
    "needs", "num", "require", "requires", "show", "total",
];

/// After a dot, these make a name that of a file.
#[rustfmt::skip]
const CODE_FILES: &[&str] = &[
    "c", "cc", "cfg", "conf", "cpp", "cs", "css", "ex", "go", "h", "hpp", "hs", "html", "java", "js",
    "json", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "ml", "php", "pl", "proto", "py", "rb",
    "rs", "scala", "scss", "sh", "sql", "svelte", "swift", "toml", "ts", "tsx", "txt", "vue", "xml",
    "yaml", "yml", "zig",
];

/// Longest part of a name that is looked at; its end is what matters most.
const LONGEST: usize = 96;

/// The lower-case words of a name, separated by blanks. It is split at anything but letters, before
/// a capital that follows a small letter, and before the last capital of several when a small
/// letter follows it (`HTTPAuth` is `http auth`).
fn words_of(name: &str) -> String {
    let name = name.as_bytes();
    let name = &name[name.len().saturating_sub(LONGEST)..];
    let mut words = String::with_capacity(name.len() + 8);
    for (i, &byte) in name.iter().enumerate() {
        let before = i.checked_sub(1).map_or(0, |before| name[before]);
        // A plural's `s` makes no word of the capital before it: `IDs`, `JWTs`.
        let before_small = match &name[i + 1..] {
            [b's'] | [b's', ..=b'@' | b'['..=b'`' | b'{'.., ..] => false,
            rest => rest.first().is_some_and(u8::is_ascii_lowercase),
        };
        let starts = before.is_ascii_lowercase() || before.is_ascii_uppercase() && before_small;
        let letter = byte.is_ascii_alphabetic();
        if (!letter || byte.is_ascii_uppercase() && starts) && !words.ends_with([' ']) {
            words.push(' ');
        }
        if letter {
            words.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    words.trim().to_owned()
}

/// Decides about names: the built-in table and the user's additions.
pub(super) struct SensitiveNames {
    stems: Literals<()>,
    /// The user's names, their words separated by blanks.
    user: Vec<String>,
    exempt: Vec<String>,
    /// Whether a name of the user's is too short to be searched for by stem.
    tiny: bool,
}

impl SensitiveNames {
    pub(super) fn new(user: &[String], exempt: &[String]) -> Self {
        let words = |names: &[String]| -> Vec<String> {
            let names = names.iter().map(|name| words_of(name));
            names.filter(|name| !name.is_empty()).collect()
        };
        let (user, exempt) = (words(user), words(exempt));
        let stems = STEMS.iter().chain(NAME_ONLY_STEMS).copied();
        let stems = stems.chain(user.iter().map(|name| longest_word(name)));
        let stems = Literals::new(stems.map(|stem| (stem.to_owned(), Case::Any, ())));
        let tiny = user
            .iter()
            .any(|name| longest_word(name).len() < literals::SHORTEST);
        Self {
            stems,
            user,
            exempt,
            tiny,
        }
    }

    /// Whether the user has a name that is too short to be searched for by stem.
    pub(super) fn has_tiny(&self) -> bool {
        self.tiny
    }

    /// Whether the user has names of their own.
    pub(super) fn has_user_names(&self) -> bool {
        !self.user.is_empty()
    }

    /// Words of the user's names that running text is searched for, beside the built-in stems.
    pub(super) fn user_stems(&self) -> impl Iterator<Item = &str> {
        self.user.iter().map(|name| longest_word(name))
    }

    /// What the name announces, if anything.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        if !self.tiny && self.stems.hits(name.as_bytes()).next().is_none() {
            return None;
        }
        // `token.rs` is a file.
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if listed(CODE_FILES, extension) {
            return None;
        }
        let joined = words_of(name);
        if self.exempt.contains(&joined) {
            return None;
        }
        let words: Vec<&str> = joined.split(' ').collect();
        let is_user = |name: &String| {
            let sequence: Vec<&str> = name.split(' ').collect();
            words.contains(&&*sequence.concat())
                || words.windows(sequence.len()).any(|part| part == sequence)
        };
        if self.user.iter().any(is_user) {
            return Some(Kind::Password);
        }
        let (start, end, kind) = last_match(&words)?;
        let before = if start > 0 { words[start - 1] } else { "" };
        let asks = start > 0 && listed(ASKS, words[0]);
        let describes = words[end..].iter().any(|word| listed(DESCRIBES, word));
        let public = before == "public" || before == "publishable";
        let other = words[start] == "token" && listed(OTHER_TOKENS, before);
        (!asks && !describes && !public && !other).then_some(kind)
    }
}

/// Whether a sorted list holds the word.
fn listed(list: &[&str], word: &str) -> bool {
    list.binary_search(&word).is_ok()
}

/// What a single word announces.
fn single(word: &str) -> Option<Kind> {
    SINGLES
        .binary_search_by_key(&word, |(single, _)| single)
        .ok()
        .map(|i| SINGLES[i].1)
}

/// The match that ends last, as start, end and kind.
fn last_match(words: &[&str]) -> Option<(usize, usize, Kind)> {
    let mut best: Option<(usize, usize, Kind)> = None;
    let mut offer = |start: usize, end: usize, kind: Kind| {
        if best.is_none_or(|(_, best_end, _)| end > best_end) {
            best = Some((start, end, kind));
        }
    };
    for (start, &word) in words.iter().enumerate() {
        if let Some(kind) = single(word) {
            offer(start, start + 1, kind);
        }
        let second = words.get(start + 1).copied().unwrap_or_default();
        if let Some((.., kind)) = PAIRS.iter().find(|p| p.0 == word && p.1 == second) {
            offer(start, start + 2, *kind);
        }
        let owner = if start > 0 { words[start - 1] } else { "" };
        match word {
            "key" | "keys" if listed(KEY_OWNERS, owner) => offer(start - 1, start + 1, Kind::Token),
            "pass" | "pin" if listed(PASS_OWNERS, owner) => offer(start, start + 1, Kind::Password),
            "pass" => offer(start, start + 1, Kind::Weak),
            // A bare `pin` is a secret number; with other words it is mostly a connector's.
            "pin" if words.len() == 1 => offer(start, start + 1, Kind::Password),
            "pat" if listed(PASS_OWNERS, owner) => offer(start, start + 1, Kind::Token),
            _ if joined_password(word) => offer(start, start + 1, Kind::Password),
            "key" | "pw" | "pat" if start > 0 => offer(start, start + 1, Kind::Guess),
            _ => {}
        }
    }
    best
}

/// The longest word of a name; the name cannot be there without it.
fn longest_word(name: &str) -> &str {
    name.split(' ').max_by_key(|word| word.len()).unwrap_or("")
}

/// `pgpassword`, `dbpasswd`, `appsecret`: a password's name run together with its owner's.
fn joined_password(word: &str) -> bool {
    ["password", "passwd", "passphrase", "secret"]
        .iter()
        .any(|end| word.len() > end.len() && word.ends_with(end))
}

#[cfg(test)]
mod tests;
