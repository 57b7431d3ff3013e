//! Finding every secret in a text.
//!
//! One pass looking for all literals and name stems says where a secret could be; only there does
//! anything else run. Each check reads forward from its hit and stops at the first byte that does
//! not fit, and a stretch once found is not searched for names again, so the whole stays linear.

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;

use super::assign;
use super::config::{PatternError, Redaction};
use super::counted::count;
use super::keys::{Keys, NAME_ONLY_STEMS, STEMS};
use super::literals::{self, Case, Hit, Hits, Literals};
use super::mask::{self, MaskKey};
use super::names::Names;
use super::places::{self, PROGRAMS};
use super::private;
use super::shapes;
use super::value;
use super::vendors::SHAPES;

/// A secret found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The secret with the context on its left that gives it away, such as `--password `.
    pub whole: Range<usize>,
    /// The bytes that are masked.
    pub secret: Range<usize>,
    rule: Cow<'static, str>,
    rank: u8,
}

impl Found {
    /// The name of the rule, as masks give it.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

/// How many values were masked and how many were cut.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Masks written.
    pub masked: u64,
    /// Values of which bytes were given up.
    pub cut: u64,
}

/// Of secrets found at the same place, the more telling rule names the mask.
const BY_RULE: u8 = 0;
const BY_SHAPE: u8 = 100;
const BY_PLACE: u8 = 101;
const BY_NAME: u8 = 102;

/// No secret that anything here recognises is shorter with its context.
const SHORTEST: usize = 6;
/// How often a text is looked at again; in practice twice.
pub(super) const MOST_ROUNDS: usize = 8;
/// Longest part of a key that a mask names.
const LONGEST_KEY: usize = 40;

/// Looked for in running text only: names of several words, and names of URLs' parameters.
const MORE_STEMS: &[&str] = &[
    "connection string",
    "recovery code",
    "backup code",
    "webhook url",
    "set cookie",
    "sig=",
    "signature=",
    "hmac=",
];

/// What a literal found calls for.
#[derive(Clone, Copy)]
enum Action {
    Shape(usize),
    Stem,
    /// A stem that means nothing in running text, but does in the names of JSON members.
    NameOnly,
    Mask,
    PrivateKey,
    PuttyKey,
    Url,
    Bearer,
    Basic,
    BotToken,
    Program(usize),
}

/// The compiled rules. Cheap to share between threads; finding and masking need no lock.
pub struct Redactor {
    literals: Literals<Action>,
    pub(super) keys: Keys,
    pub(super) names: Names,
    rules: Vec<(String, Regex)>,
    shapes: bool,
    pub(super) mask_key: MaskKey,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor")
            .field("mask_key", &self.mask_key)
            .finish_non_exhaustive()
    }
}

impl Redactor {
    /// Compiles the user's patterns and readies the built-in rules.
    ///
    /// # Errors
    ///
    /// If one of the user's patterns is no regular expression.
    pub fn new(config: &Redaction, key: MaskKey) -> Result<Self, PatternError> {
        let mut rules = Vec::with_capacity(config.rules.len());
        for (name, pattern) in &config.rules {
            let regex = Regex::new(pattern).map_err(|source| PatternError {
                rule: name.clone(),
                pattern: pattern.clone(),
                source,
            })?;
            rules.push((mask::rule_name(name, LONGEST_KEY), regex));
        }
        let keys = Keys::new(&config.keys, &config.exempt);
        let literals = literals(&keys);
        Ok(Self {
            literals,
            keys,
            names: Names::new(),
            rules,
            shapes: config.shapes,
            mask_key: key,
        })
    }

    /// Whether the name of a field says that its value is a secret.
    #[must_use]
    pub fn is_sensitive(&self, key: &str) -> bool {
        self.field(key).is_sensitive()
    }

    /// Whether nothing in a JSON text could even begin to be a secret, names of members and
    /// strings in it included: most are done with here. `pat` is no name inside `path`: the short
    /// ones count only where no small letter follows. `backslashes` says whether it has any.
    pub(super) fn is_clear_json(&self, json: &str, backslashes: bool) -> bool {
        let bytes = json.as_bytes();
        let tells = |hit: Hit<Action>| match hit.what {
            Action::NameOnly => !bytes.get(hit.end).is_some_and(u8::is_ascii_lowercase),
            _ => true,
        };
        self.rules.is_empty()
            && !self.keys.has_tiny()
            && !self.literals.hits(bytes).any(tells)
            && (!backslashes || !spells_letters(bytes))
    }

    /// Whether the user has patterns of their own.
    pub(super) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// All secrets in `text`, sorted, no two overlapping in what is masked.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Found> {
        let mut hits = self.literals.hits(text.as_bytes());
        let first = self.first_hit(text, &mut hits);
        self.find_from(text, first, hits)
    }

    /// The first of `hits` in a text in which there may be a secret at all.
    #[inline]
    fn first_hit(&self, text: &str, hits: &mut Hits<'_, Action>) -> Option<Hit<Action>> {
        count(text.len());
        if self.shapes && text.len() >= SHORTEST {
            hits.next()
        } else {
            None
        }
    }

    fn find_from(
        &self,
        text: &str,
        first: Option<Hit<Action>>,
        rest: Hits<'_, Action>,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        if let Some(first) = first {
            self.scan(text, std::iter::once(first).chain(rest), &mut found);
        }
        if !self.rules.is_empty() {
            self.user_rules(text, &mut found);
        }
        if found.len() > 1 {
            found = settle(found);
        }
        found
    }

    /// Masks a plain text. Borrowed if there was nothing to mask.
    ///
    /// What a mask replaced may have hidden where the next secret starts, so the result is looked
    /// at again until nothing more is found: masking it once more never changes anything.
    #[must_use]
    #[inline]
    pub fn text<'a>(&self, text: &'a str, tally: &mut Tally) -> Cow<'a, str> {
        let mut hits = self.literals.hits(text.as_bytes());
        let first = self.first_hit(text, &mut hits);
        // Most texts are done with here.
        if first.is_none() && self.rules.is_empty() {
            return Cow::Borrowed(text);
        }
        self.masked(text, self.find_from(text, first, hits), tally)
    }

    fn masked<'a>(&self, text: &'a str, mut found: Vec<Found>, tally: &mut Tally) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for _ in 0..MOST_ROUNDS {
            if found.is_empty() {
                break;
            }
            tally.masked += found.len() as u64;
            clean = Cow::Owned(self.replaced(&clean, &found));
            found = self.find(&clean);
        }
        clean
    }

    fn replaced(&self, text: &str, found: &[Found]) -> String {
        let mut clean = String::with_capacity(text.len() + found.len() * 64);
        let mut at = 0;
        for secret in found {
            clean.push_str(&text[at..secret.secret.start]);
            clean.push_str(&self.mask(&secret.rule, &text[secret.secret.clone()]));
            at = secret.secret.end;
        }
        clean.push_str(&text[at..]);
        clean
    }

    /// A digest under the root's key: what it is of can't be guessed from it.
    pub(crate) fn keyed_digest(&self, bytes: &[u8]) -> u128 {
        self.mask_key.digest(bytes)
    }

    /// The mask for `secret`, for callers that put texts together themselves.
    #[must_use]
    pub fn mask(&self, rule: &str, secret: &str) -> String {
        self.mask_key.mask(rule, secret.as_bytes())
    }

    /// The rule name of a mask made because of the name `key`. A name that is a secret, or holds
    /// one, is not repeated.
    pub(super) fn key_rule(&self, key: &str) -> String {
        if self.has_shape(key) || !self.find(key).is_empty() {
            return "key:masked".to_owned();
        }
        let key = key.trim_matches('-');
        format!("key:{}", mask::rule_name(key, LONGEST_KEY))
    }

    /// Whether a name has a secret's own shape, also where values are not looked at.
    fn has_shape(&self, name: &str) -> bool {
        let bytes = name.as_bytes();
        bytes.len() >= 12
            && self.literals.hits(bytes).any(|hit| match hit.what {
                Action::Shape(i) => SHAPES[i].matches_hit(bytes, hit.start).is_some(),
                Action::BotToken => shapes::bot_token(bytes, hit.start).is_some(),
                _ => false,
            })
    }

    fn scan(&self, text: &str, hits: impl Iterator<Item = Hit<Action>>, found: &mut Vec<Found>) {
        let bytes = text.as_bytes();
        // Up to where names were dealt with, commands' arguments read, and shapes found.
        let mut names_done = 0;
        let mut command_done = 0;
        let mut shapes_done = 0;
        let mut shape_start = 0;
        let add = |found: &mut Vec<Found>, rule: Cow<'static, str>, rank, (whole, secret)| {
            found.push(Found {
                whole,
                secret,
                rule,
                rank,
            });
        };
        for hit in hits {
            let (start, end) = (hit.start, hit.end);
            match hit.what {
                Action::Stem if start >= names_done => {
                    let looked = assign::look(&self.keys, text, start..end);
                    names_done = names_done.max(looked.name_end);
                    if let Some(named) = looked.found {
                        // A short value may be a name itself: `--token 'api_key': …`.
                        if named.secret.len() > value::LONGEST_STAND_IN {
                            names_done = names_done.max(named.secret.end);
                        }
                        let rule = Cow::Owned(self.key_rule(&text[named.name]));
                        add(found, rule, BY_NAME, (named.whole, named.secret));
                    }
                }
                Action::Stem | Action::NameOnly => {}
                Action::Shape(i) => {
                    // `sk-` is found before `sk-ant-` at the same place, which names it better.
                    if (start >= shapes_done || start == shape_start)
                        && let Some((whole, secret)) = SHAPES[i].matches_hit(bytes, start)
                    {
                        shape_start = start;
                        shapes_done = shapes_done.max(secret.end);
                        if SHAPES[i].rule == "aws-access-key"
                            && let Some(near) = shapes::secret_near_id(bytes, secret.end)
                        {
                            add(
                                found,
                                "aws-secret-key".into(),
                                BY_RULE,
                                (whole.start..near.end, near),
                            );
                        }
                        let longer = SHAPES[i].literal.len().min(99) as u8;
                        add(
                            found,
                            SHAPES[i].rule.into(),
                            BY_SHAPE - longer,
                            (whole, secret),
                        );
                    }
                }
                Action::Mask => {
                    if let Some(end) = mask::mask_end(bytes, start) {
                        names_done = names_done.max(end);
                    }
                }
                Action::PrivateKey => {
                    if start >= shapes_done
                        && let Some(block) = private::private_key(bytes, start)
                    {
                        shapes_done = block.end;
                        names_done = names_done.max(block.end);
                        add(found, "private-key".into(), BY_RULE, (block.clone(), block));
                    }
                }
                Action::PuttyKey => {
                    if let Some(secret) = private::putty_key(bytes, start) {
                        names_done = names_done.max(secret.end);
                        add(
                            found,
                            "putty-private-key".into(),
                            BY_RULE,
                            (start..secret.end, secret),
                        );
                    }
                }
                Action::Url => {
                    if let Some(place) = places::url_password(bytes, start)
                        && !value::meets_mask(bytes, &place.1)
                    {
                        add(found, "url-password".into(), BY_PLACE, place);
                    }
                }
                Action::Bearer => {
                    if let Some(secret) = places::bearer(bytes, start, end) {
                        add(
                            found,
                            "bearer".into(),
                            BY_PLACE,
                            (start..secret.end, secret),
                        );
                    }
                }
                Action::Basic => {
                    if let Some(secret) = places::basic(bytes, start, end) {
                        add(
                            found,
                            "basic-auth".into(),
                            BY_PLACE,
                            (start..secret.end, secret),
                        );
                    }
                }
                Action::BotToken => {
                    if let Some(secret) = shapes::bot_token(bytes, start) {
                        add(
                            found,
                            "discord-bot-token".into(),
                            BY_RULE,
                            (secret.clone(), secret),
                        );
                    }
                }
                Action::Program(i) => {
                    if start >= command_done {
                        let (done, places) = places::arguments(&PROGRAMS[i], bytes, start, end);
                        command_done = done;
                        for place in places {
                            add(found, "password-argument".into(), BY_PLACE, place);
                        }
                    }
                }
            }
        }
    }

    fn user_rules(&self, text: &str, found: &mut Vec<Found>) {
        for (name, regex) in &self.rules {
            let has_group = regex
                .capture_names()
                .flatten()
                .any(|group| group == "secret");
            let mut add = |whole: Range<usize>, secret: Range<usize>| {
                // What is masked already stays as it is, whatever the pattern makes of masks.
                if !secret.is_empty() && !touches_mask(text.as_bytes(), &secret) {
                    let whole = whole.start..secret.end;
                    found.push(Found {
                        whole,
                        secret,
                        rule: name.clone().into(),
                        rank: BY_RULE,
                    });
                }
            };
            if has_group {
                for groups in regex.captures_iter(text) {
                    if let (Some(whole), Some(secret)) = (groups.get(0), groups.name("secret")) {
                        add(whole.range(), secret.range());
                    }
                }
            } else {
                for whole in regex.find_iter(text) {
                    add(whole.range(), whole.range());
                }
            }
        }
    }
}

/// Whether a JSON text spells a character by its number: `\u0070assword` could hide anything.
fn spells_letters(json: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', json).any(|at| json.get(at + 1) == Some(&b'u'))
}

/// Whether a mask starts in `range` or reaches into it.
fn touches_mask(text: &[u8], range: &Range<usize>) -> bool {
    // A mask is no longer than this, so nothing further left can reach the range.
    let from = range.start.saturating_sub(192);
    let mut at = from;
    while let Some(found) = memchr::memmem::find(&text[at..range.end], mask::OPENING.as_bytes()) {
        at += found;
        if mask::mask_end(text, at).is_some_and(|end| end > range.start) {
            return true;
        }
        at += mask::OPENING.len();
    }
    // The opening itself may be cut by the range's end.
    let tail = range.end.saturating_sub(mask::OPENING.len()).max(from);
    (tail..range.end).any(|at| mask::mask_end(text, at).is_some())
}

/// Sorts, and joins what overlaps: nothing that any rule found is left standing.
fn settle(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|f| (f.secret.start, std::cmp::Reverse(f.secret.end), f.rank));
    let mut settled: Vec<Found> = Vec::with_capacity(found.len());
    for next in found {
        match settled.last_mut() {
            Some(last) if next.secret.start < last.secret.end => {
                last.whole =
                    last.whole.start.min(next.whole.start)..last.whole.end.max(next.whole.end);
                if next.secret.end > last.secret.end {
                    if next.secret.len() > last.secret.len() {
                        last.rule = next.rule;
                    }
                    last.secret.end = next.secret.end;
                }
            }
            _ => settled.push(next),
        }
    }
    settled
}

/// The literals searched for and what each calls for.
fn literals(keys: &Keys) -> Literals<Action> {
    let mut all: Vec<(String, Case, Action)> = Vec::new();
    for (i, shape) in SHAPES.iter().enumerate() {
        let case = match shape.literal.len() {
            0..literals::SHORTEST => Case::Any,
            _ => Case::AsIs,
        };
        all.extend(shape.triggers().map(|t| (t, case, Action::Shape(i))));
    }
    all.extend(shapes::bot_token_starts().map(|t| (t, Case::AsIs, Action::BotToken)));
    let stems = STEMS.iter().chain(MORE_STEMS).copied();
    let words = stems
        .chain(keys.more_stems())
        .map(|stem| (stem, Action::Stem))
        .chain(NAME_ONLY_STEMS.iter().map(|s| (*s, Action::NameOnly)))
        .chain([
            (mask::OPENING, Action::Mask),
            ("-----BEGIN ", Action::PrivateKey),
            (private::LINES, Action::PuttyKey),
            ("://", Action::Url),
            ("bearer ", Action::Bearer),
            ("basic ", Action::Basic),
        ])
        .chain(
            (0..)
                .zip(PROGRAMS)
                .map(|(i, p)| (p.name, Action::Program(i))),
        );
    all.extend(words.map(|(word, action)| (word.to_owned(), Case::Any, action)));
    Literals::new(all)
}
