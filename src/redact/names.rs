//! Which names announce a secret.
//!
//! A name in any case style is split into lower-case words, and is sensitive if its words
//! hold an entry of `names.toml`, unless the words around the entry say that the value only
//! describes a secret (`password_policy`) or is something else altogether (`max_tokens`,
//! `page_token`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::literals::{self, Case, Literals};
use super::toml;

/// The lists of `names.toml`, by their names there.
static LISTS: LazyLock<BTreeMap<&str, Vec<&str>>> =
    LazyLock::new(|| toml::read(include_str!("names.toml")).into_iter().collect());

/// The list of `names.toml` called `name`.
pub(super) fn list(name: &str) -> &'static [&'static str] {
    LISTS.get(name).map_or(&[], Vec::as_slice)
}

/// Whether the sorted list called `list` holds the word.
pub(super) fn is_listed(word: &str, list_name: &str) -> bool {
    list(list_name).binary_search(&word).is_ok()
}

/// What one word (with nothing after it), or two in sequence, announce by themselves.
static ANNOUNCED: LazyLock<BTreeMap<(&str, &str), Kind>> = LazyLock::new(|| {
    let kinds = [
        ("password", Kind::Password),
        ("token", Kind::Token),
        ("weak", Kind::Weak),
        ("header", Kind::Header),
    ];
    let words = |entry: &&'static str| entry.split_once(' ').unwrap_or((*entry, ""));
    let of_kind = |(name, kind)| list(name).iter().map(move |entry| (words(entry), kind));
    kinds.into_iter().flat_map(of_kind).collect()
});

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
    /// Names of services (`datadog = …`): only a value that looks like a key is masked.
    Vendor,
    /// Whole header lines: the value runs to the end of the line.
    Header,
}

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
    /// The user's names, their words separated by blanks.
    pub(super) user: Vec<String>,
    exempt: Vec<String>,
    /// Whether a name of the user's is too short to be searched for by stem.
    pub(super) tiny: bool,
}

impl SensitiveNames {
    pub(super) fn new(user: &[String], exempt: &[String]) -> Self {
        let words = |names: &[String]| -> Vec<String> {
            let names = names.iter().map(|name| words_of(name));
            names.filter(|name| !name.is_empty()).collect()
        };
        let (user, exempt) = (words(user), words(exempt));
        let is_tiny = |name: &String| longest_word(name).len() < literals::SHORTEST;
        let tiny = user.iter().any(is_tiny);
        Self { user, exempt, tiny }
    }

    /// Words of the user's names that running text is searched for, beside the built-in stems.
    pub(super) fn user_stems(&self) -> impl Iterator<Item = &str> {
        self.user.iter().map(|name| longest_word(name))
    }

    /// What a name with a stem in it announces, if anything.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        // `token.rs` is a file.
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if is_listed(extension, "code_files") {
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
        let (start, end, kind) = match last_match(&words) {
            None | Some((_, _, Kind::Guess)) if names_vendor(name) => return Some(Kind::Vendor),
            found => found?,
        };
        let before = if start > 0 { words[start - 1] } else { "" };
        let asks = start > 0 && is_listed(words[0], "asks");
        let describes = words[end..].iter().any(|word| is_listed(word, "describes"));
        let public = matches!(before, "public" | "publishable" | "allow");
        let other = words[start] == "token" && is_listed(before, "other_tokens");
        (!asks && !describes && !public && !other).then_some(kind)
    }
}

/// Whether a name has a vendor in it, and nothing that describes something else of theirs.
fn names_vendor(name: &str) -> bool {
    let hits = VENDORS.hits(name.as_bytes());
    let first = hits.min_by_key(|hit| hit.what);
    first.is_some_and(|vendor| {
        let rest = name[vendor.literal.end..].to_ascii_lowercase();
        let mut words = rest.split(|c: char| !c.is_ascii_alphabetic());
        !words.any(|word| is_listed(word, "describes"))
    })
}

/// The vendors, with their places in the list. Searching for one after the other took a third of an import's time.
static VENDORS: LazyLock<Literals<usize>> = LazyLock::new(|| {
    let vendors = list("vendors").iter().enumerate();
    Literals::new(vendors.map(|(at, vendor)| (*vendor, Case::Any, at)))
});

/// The match that ends last, as start, end and kind.
fn last_match(words: &[&str]) -> Option<(usize, usize, Kind)> {
    let mut best: Option<(usize, usize, Kind)> = None;
    let mut offer = |start: usize, end: usize, kind: Kind| {
        if best.is_none_or(|(_, best_end, _)| end > best_end) {
            best = Some((start, end, kind));
        }
    };
    for (start, &word) in words.iter().enumerate() {
        let pair = words.get(start + 1).map(|second| (*second, start + 2));
        for (second, end) in [("", start + 1)].into_iter().chain(pair) {
            if let Some(kind) = ANNOUNCED.get(&(word, second)) {
                offer(start, end, *kind);
            }
        }
        let owner = if start > 0 { words[start - 1] } else { "" };
        match word {
            "key" | "keys" if is_listed(owner, "key_owners") => {
                offer(start - 1, start + 1, Kind::Token)
            }
            "pass" | "pin" | "pw" if is_listed(owner, "pass_owners") => {
                offer(start, start + 1, Kind::Password)
            }
            "pass" => offer(start, start + 1, Kind::Weak),
            // A bare `pin` is a secret number; with other words it is mostly a connector's.
            "pin" if words.len() == 1 => offer(start, start + 1, Kind::Password),
            "pat" if is_listed(owner, "pass_owners") => offer(start, start + 1, Kind::Token),
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
