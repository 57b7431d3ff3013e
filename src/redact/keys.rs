//! Which names announce a secret.
//!
//! A name is split into lower-case words whatever its case style, and is sensitive if its words
//! hold an entry of a table, unless the words around the entry say that the value only describes
//! a secret (`password_policy`) or is something else altogether (`max_tokens`, `page_token`).

use aho_corasick::AhoCorasick;

use super::bytes::{self, ALPHA, UPPER};

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
pub(super) const STEMS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "auth",
    "cookie",
    "credential",
    "creds",
    "key",
    "bearer",
    "jwt",
    "otp",
    "connection",
    "connstr",
    "dsn",
    "webhook",
    "mnemonic",
    "phrase",
    "_pat",
    "recovery",
    "backup",
    "cvv",
    "sas",
];
/// Stems that only matter in names of structured data, being too common inside other words.
const NAME_ONLY_STEMS: &[&str] = &["pin", "cvc", "pat"];

/// Word sequences and what they announce. Of several matches the one ending last counts.
const TABLE: &[(&str, Kind)] = &[
    ("password", Kind::Password),
    ("passwords", Kind::Password),
    ("passwd", Kind::Password),
    ("pwd", Kind::Password),
    ("passphrase", Kind::Password),
    ("pass phrase", Kind::Password),
    ("passcode", Kind::Password),
    ("passin", Kind::Password),
    ("passout", Kind::Password),
    ("sshpass", Kind::Password),
    ("storepass", Kind::Password),
    ("keypass", Kind::Password),
    ("secret", Kind::Password),
    ("secrets", Kind::Password),
    ("otp", Kind::Password),
    ("cvv", Kind::Password),
    ("cvc", Kind::Password),
    ("recovery code", Kind::Password),
    ("recovery codes", Kind::Password),
    ("backup code", Kind::Password),
    ("backup codes", Kind::Password),
    ("mnemonic", Kind::Weak),
    ("seed phrase", Kind::Password),
    ("secret phrase", Kind::Password),
    ("recovery phrase", Kind::Password),
    ("token", Kind::Token),
    ("access tokens", Kind::Token),
    ("api tokens", Kind::Token),
    ("auth tokens", Kind::Token),
    ("refresh tokens", Kind::Token),
    ("bearer tokens", Kind::Token),
    ("session tokens", Kind::Token),
    ("authtoken", Kind::Token),
    ("accesstoken", Kind::Token),
    ("apitoken", Kind::Token),
    ("refreshtoken", Kind::Token),
    ("sessiontoken", Kind::Token),
    ("idtoken", Kind::Token),
    ("bottoken", Kind::Token),
    ("usertoken", Kind::Token),
    ("authorization", Kind::Header),
    ("cookie", Kind::Header),
    ("cookies", Kind::Header),
    ("credential", Kind::Token),
    ("credentials", Kind::Token),
    ("creds", Kind::Token),
    ("bearer", Kind::Token),
    ("jwt", Kind::Token),
    ("apikey", Kind::Token),
    ("apikeys", Kind::Token),
    ("accesskey", Kind::Token),
    ("secretkey", Kind::Token),
    ("privatekey", Kind::Token),
    ("accountkey", Kind::Token),
    ("authkey", Kind::Token),
    ("hapikey", Kind::Token),
    ("clientsecret", Kind::Token),
    ("connectionstring", Kind::Token),
    ("connection string", Kind::Token),
    ("conn string", Kind::Token),
    ("connstr", Kind::Token),
    ("dsn", Kind::Token),
    ("sas", Kind::Weak),
    ("webhook url", Kind::Token),
    ("webhook uri", Kind::Token),
    ("auth", Kind::Weak),
    ("userpwd", Kind::Password),
];

/// A `key` or `keys` is only sensitive after one of these.
const KEY_OWNERS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "decryption",
    "account",
    "master",
    "service",
    "storage",
    "ssh",
    "auth",
    "authentication",
    "shared",
    "subscription",
    "admin",
    "deploy",
    "app",
    "application",
    "hmac",
    "webhook",
    "client",
    "write",
    "license",
    "session",
    "root",
    "aes",
    "rsa",
    "openai",
    "anthropic",
    "stripe",
    "bot",
    "ingest",
    "integration",
];
/// A `pass`, `pin` or `pat` is a secret for certain only after one of these.
const PASS_OWNERS: &[&str] = &[
    "db", "database", "smtp", "mysql", "pg", "postgres", "user", "mail", "email", "ftp", "redis",
    "admin", "root", "ssh", "my", "http", "proxy", "auth", "login", "key", "store", "card",
    "security", "access", "sudo", "ldap", "imap", "rabbitmq", "mongo", "app", "wifi", "github",
    "gitlab", "azure", "devops", "gh", "ado",
];
/// After a sensitive word, these say that the value describes a secret without being one.
const DESCRIBES: &[&str] = &[
    "name",
    "names",
    "id",
    "ids",
    "policy",
    "policies",
    "type",
    "types",
    "count",
    "counts",
    "limit",
    "limits",
    "usage",
    "length",
    "len",
    "size",
    "expiry",
    "expires",
    "expiration",
    "expired",
    "ttl",
    "hint",
    "url",
    "uri",
    "endpoint",
    "path",
    "paths",
    "file",
    "filename",
    "dir",
    "arn",
    "ref",
    "reference",
    "version",
    "rotation",
    "required",
    "enabled",
    "disabled",
    "field",
    "fields",
    "label",
    "prompt",
    "strength",
    "min",
    "max",
    "budget",
    "per",
    "rate",
    "cost",
    "price",
    "index",
    "position",
    "store",
    "manager",
    "provider",
    "source",
    "format",
    "pattern",
    "regex",
    "algorithm",
    "alg",
    "mode",
    "status",
    "state",
    "error",
    "errors",
    "at",
    "in",
    "created",
    "updated",
    "date",
    "time",
    "timestamp",
    "age",
    "domain",
    "consent",
    "banner",
    "class",
    "handler",
    "validator",
    "kind",
    "scheme",
    "method",
    "schema",
    "parser",
    "scope",
    "scopes",
    "audience",
    "issuer",
    "valid",
    "invalid",
    "missing",
    "present",
    "exists",
    "used",
    "remaining",
    "total",
    "details",
    "encoding",
    "description",
    "help",
    "env",
    "var",
    "variable",
    "title",
    "placeholder",
    "input",
    "changed",
    "reset",
    "column",
    "bytes",
    "num",
    "number",
    "stats",
    "threshold",
    "window",
    "estimate",
    "estimator",
    "chars",
    "ratio",
    "speed",
    "latency",
    "interval",
    "level",
    "rules",
    "check",
    "flow",
    "server",
    "response",
    "request",
    "settings",
    "options",
    "strategy",
    "backend",
    "module",
    "needed",
    "family",
    "location",
    "fingerprint",
    "prefix",
    "suffix",
    "redacted",
    "masked",
    "set",
    "engine",
    "visible",
];
/// Before `token`, these make it a cursor, a unit of text or a parser's word.
const OTHER_TOKENS: &[&str] = &[
    "page",
    "next",
    "continuation",
    "cancellation",
    "cancel",
    "stop",
    "eos",
    "bos",
    "pad",
    "unk",
    "mask",
    "special",
    "first",
    "last",
    "per",
    "max",
    "min",
    "num",
    "prev",
    "previous",
    "cursor",
    "start",
    "end",
    "prompt",
    "input",
    "output",
    "completion",
    "cached",
    "reasoning",
    "total",
    "unexpected",
    "expected",
    "syntax",
    "marker",
    "sep",
    "cls",
    "image",
    "audio",
    "text",
    "public",
    "sync",
    "resume",
    "watermark",
    "design",
    "by",
    "invalid",
    "unknown",
];
/// As the first word, these make a name a question or a quantity.
const ASKS: &[&str] = &[
    "is", "has", "requires", "require", "needs", "allow", "show", "hide", "enable", "forgot",
    "num", "count", "total", "max", "min", "missing", "invalid",
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
    stems: AhoCorasick,
    more: Vec<String>,
    exempt: Vec<String>,
}

impl Keys {
    pub(super) fn new(
        more: &[String],
        exempt: &[String],
    ) -> Result<Self, aho_corasick::BuildError> {
        let words = |names: &[String]| -> Vec<String> {
            names
                .iter()
                .map(|n| Words::of(n).joined())
                .filter(|n| !n.is_empty())
                .collect()
        };
        let more = words(more);
        let mut stems: Vec<&str> = STEMS.iter().chain(NAME_ONLY_STEMS).copied().collect();
        stems.extend(more.iter().filter_map(|name| name.split(' ').next()));
        let stems = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(aho_corasick::AhoCorasickKind::DFA))
            .build(stems)?;
        Ok(Self {
            stems,
            more,
            exempt: words(exempt),
        })
    }

    /// Words of the user's keys that running text is searched for, beside the built-in stems.
    pub(super) fn more_stems(&self) -> impl Iterator<Item = &str> {
        self.more.iter().filter_map(|name| name.rsplit(' ').next())
    }

    /// What the name announces, if anything.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        if name.len() < 3 || !self.stems.is_match(name) {
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
        if start > 0 && ASKS.contains(&words.get(0)) {
            return None;
        }
        if (end..words.len()).any(|i| DESCRIBES.contains(&words.get(i))) {
            return None;
        }
        let before = if start > 0 { words.get(start - 1) } else { "" };
        if before == "public" || before == "publishable" {
            return None;
        }
        if words.get(start) == "token" && OTHER_TOKENS.contains(&before) {
            return None;
        }
        Some(kind)
    }
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
        for &(sequence, kind) in TABLE {
            if let Some(end) = words.match_at(start, sequence) {
                offer(start, end, kind);
            }
        }
        let owner = if start > 0 { words.get(start - 1) } else { "" };
        match word {
            "key" | "keys" if KEY_OWNERS.contains(&owner) => {
                offer(start - 1, start + 1, Kind::Token)
            }
            "pass" | "pin" if PASS_OWNERS.contains(&owner) => {
                offer(start, start + 1, Kind::Password)
            }
            "pass" => offer(start, start + 1, Kind::Weak),
            // A bare `pin` is a secret number; with other words it is mostly a connector's.
            "pin" if words.len() == 1 => offer(start, start + 1, Kind::Password),
            "pat" if PASS_OWNERS.contains(&owner) => offer(start, start + 1, Kind::Token),
            _ if joined_password(word) => offer(start, start + 1, Kind::Password),
            _ => {}
        }
    }
    best
}

/// `pgpassword`, `dbpasswd`, `appsecret`: a password's name run together with its owner's.
fn joined_password(word: &str) -> bool {
    ["password", "passwd", "passphrase", "secret"]
        .iter()
        .any(|end| word.len() > end.len() && word.ends_with(end))
}
