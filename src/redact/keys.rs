//! Which names announce a secret.
//!
//! A name is split into lower-case words whatever its case style, and is sensitive if its words
//! hold an entry of a table, unless the words around the entry say that the value only describes
//! a secret (`password_policy`) or is something else altogether (`max_tokens`, `page_token`).

use super::bytes::{self, ALPHA, UPPER};
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
    "recovery", "backup", "cvv", "sas",
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
    "changed", "chars", "check", "class", "column", "consent", "cost", "count", "counts",
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

/// Longest part of a name that is looked at; its end is what matters most.
const LONGEST: usize = 96;
const MOST_WORDS: usize = 24;

/// The lower-case words of a name, kept on the stack.
pub(super) struct Words {
    letters: [u8; LONGEST],
    /// Start and end of each word in `letters`.
    spans: [(u8, u8); MOST_WORDS],
    count: usize,
}

impl Words {
    /// Splits at anything but letters, before a capital that follows a small letter, and before
    /// the last capital of several when a small letter follows it (`HTTPAuth` is `http auth`).
    pub(super) fn of(name: &str) -> Self {
        let all = name.as_bytes();
        let name = &all[all.len().saturating_sub(LONGEST)..];
        let mut words = Self {
            letters: [0; LONGEST],
            spans: [(0, 0); MOST_WORDS],
            count: 0,
        };
        let mut at = 0;
        let mut start = 0;
        for (i, &byte) in name.iter().enumerate() {
            if !bytes::is(ALPHA, byte) {
                words.close(&mut start, at);
                continue;
            }
            let upper = bytes::is(UPPER, byte);
            let after_small = i > 0 && name[i - 1].is_ascii_lowercase();
            let before_small = i > 0
                && name[i - 1].is_ascii_uppercase()
                && name.get(i + 1).is_some_and(u8::is_ascii_lowercase)
                // Only a plural's `s` follows the capitals: `IDs`, `JWTs`.
                && !(name[i + 1] == b's' && name.get(i + 2).is_none_or(|b| !b.is_ascii_alphabetic()));
            if upper && (after_small || before_small) {
                words.close(&mut start, at);
            }
            words.letters[at] = byte.to_ascii_lowercase();
            at += 1;
        }
        words.close(&mut start, at);
        words
    }

    fn close(&mut self, start: &mut usize, end: usize) {
        if end > *start && self.count < MOST_WORDS {
            // Both fit: `LONGEST` is below 256.
            self.spans[self.count] = (*start as u8, end as u8);
            self.count += 1;
        }
        *start = end;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, index: usize) -> &str {
        if index >= self.count {
            return "";
        }
        let (start, end) = self.spans[index];
        std::str::from_utf8(&self.letters[usize::from(start)..usize::from(end)]).unwrap_or("")
    }

    /// Whether the words from `index` on start with those of `sequence` (parted by spaces).
    fn match_at(&self, index: usize, sequence: &str) -> Option<usize> {
        let mut at = index;
        for word in sequence.split(' ') {
            if self.get(at) != word {
                return None;
            }
            at += 1;
        }
        Some(at)
    }

    fn joined(&self) -> String {
        (0..self.count)
            .map(|i| self.get(i))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Decides about names: the built-in table and the user's additions.
pub(super) struct Keys {
    stems: Literals<()>,
    /// The user's names, their words parted by spaces.
    more: Vec<String>,
    exempt: Vec<String>,
    /// Whether a name of the user's is too short to be looked for by stem.
    tiny: bool,
}

impl Keys {
    pub(super) fn new(more: &[String], exempt: &[String]) -> Self {
        let words = |names: &[String]| -> Vec<String> {
            names
                .iter()
                .map(|n| Words::of(n).joined())
                .filter(|n| !n.is_empty())
                .collect()
        };
        let more = words(more);
        let stems = STEMS
            .iter()
            .chain(NAME_ONLY_STEMS)
            .copied()
            .chain(more.iter().map(|n| longest(n)));
        let stems = Literals::new(stems.map(|stem| (stem.to_owned(), Case::Any, ())));
        let tiny = more
            .iter()
            .any(|name| longest(name).len() < literals::SHORTEST);
        Self {
            stems,
            more,
            exempt: words(exempt),
            tiny,
        }
    }

    /// Whether the user has a name that is too short to be looked for by stem.
    pub(super) fn has_tiny(&self) -> bool {
        self.tiny
    }

    /// Whether the user has names of their own.
    pub(super) fn has_own(&self) -> bool {
        !self.more.is_empty()
    }

    /// Words of the user's keys that running text is searched for, beside the built-in stems.
    pub(super) fn more_stems(&self) -> impl Iterator<Item = &str> {
        self.more.iter().map(|name| longest(name))
    }

    /// What the name announces, if anything.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        if !self.tiny && !self.stems.any(name.as_bytes()) {
            return None;
        }
        self.kind_of(&Words::of(name))
    }

    fn kind_of(&self, words: &Words) -> Option<Kind> {
        if !self.exempt.is_empty() && self.exempt.contains(&words.joined()) {
            return None;
        }
        for start in 0..words.len() {
            for name in &self.more {
                if words.match_at(start, name).is_some()
                    || words.get(start) == name.replace(' ', "")
                {
                    return Some(Kind::Password);
                }
            }
        }
        let (start, end, kind) = last_match(words)?;
        if start > 0 && listed(ASKS, words.get(0)) {
            return None;
        }
        if (end..words.len()).any(|i| listed(DESCRIBES, words.get(i))) {
            return None;
        }
        let before = if start > 0 { words.get(start - 1) } else { "" };
        if before == "public" || before == "publishable" {
            return None;
        }
        if words.get(start) == "token" && listed(OTHER_TOKENS, before) {
            return None;
        }
        Some(kind)
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
fn last_match(words: &Words) -> Option<(usize, usize, Kind)> {
    let mut best: Option<(usize, usize, Kind)> = None;
    let mut offer = |start: usize, end: usize, kind: Kind| {
        if best.is_none_or(|(_, best_end, _)| end > best_end) {
            best = Some((start, end, kind));
        }
    };
    for start in 0..words.len() {
        let word = words.get(start);
        if let Some(kind) = single(word) {
            offer(start, start + 1, kind);
        }
        if start + 1 < words.len() {
            let second = words.get(start + 1);
            if let Some((.., kind)) = PAIRS.iter().find(|p| p.0 == word && p.1 == second) {
                offer(start, start + 2, *kind);
            }
        }
        let owner = if start > 0 { words.get(start - 1) } else { "" };
        match word {
            "key" | "keys" if listed(KEY_OWNERS, owner) => offer(start - 1, start + 1, Kind::Token),
            "pass" | "pin" if listed(PASS_OWNERS, owner) => offer(start, start + 1, Kind::Password),
            "pass" => offer(start, start + 1, Kind::Weak),
            // A bare `pin` is a secret number; with other words it is mostly a connector's.
            "pin" if words.len() == 1 => offer(start, start + 1, Kind::Password),
            "pat" if listed(PASS_OWNERS, owner) => offer(start, start + 1, Kind::Token),
            _ if joined_password(word) => offer(start, start + 1, Kind::Password),
            _ => {}
        }
    }
    best
}

/// The longest word of a name; the name cannot be there without it.
fn longest(name: &str) -> &str {
    name.split(' ').max_by_key(|word| word.len()).unwrap_or("")
}

/// `pgpassword`, `dbpasswd`, `appsecret`: a password's name run together with its owner's.
fn joined_password(word: &str) -> bool {
    ["password", "passwd", "passphrase", "secret"]
        .iter()
        .any(|end| word.len() > end.len() && word.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_searched_by_halves_are_sorted() {
        for list in [KEY_OWNERS, PASS_OWNERS, DESCRIBES, OTHER_TOKENS, ASKS] {
            assert!(list.is_sorted(), "{list:?}");
        }
        assert!(SINGLES.is_sorted_by_key(|(word, _)| word));
    }

    #[test]
    fn a_name_is_split_whatever_its_style() {
        for (name, words) in [
            ("api_key", "api key"),
            ("apiKey", "api key"),
            ("X-Api-Key", "x api key"),
            ("HTTPAuthorization", "http authorization"),
            ("APIKEY", "apikey"),
            ("user.passwordHash2", "user password hash"),
            ("sessionIDs", "session ids"),
            ("", ""),
        ] {
            assert_eq!(Words::of(name).joined(), words);
        }
    }
}
