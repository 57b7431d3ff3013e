//! Finds and masks every secret in a text.
//!
//! One pass for all literals and stems of names finds the places where a secret could be; all else
//! runs only there. Each rule reads forward from its hit and stops at the first byte that does
//! not fit, and a stretch once found is not searched for names again, so the whole stays linear.

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;

use super::config::Redaction;
use super::found::{BY_CONTEXT, BY_NAME, BY_USER, Found, merge_overlaps};
use super::key_value_rule;
use super::literals::{Case, Hit, Literals};
use super::manifests;
use super::mask::{self, MaskKey};
use super::name_cache::NameCache;
use super::names::{Kind, SensitiveNames, list};
use super::placeholders;
use super::private_keys;
use super::rules::{RULES, Rule, RuleKind};
use super::stream::StreamState;
use crate::error::PatternError;

/// How many values were masked and how many were cut.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Masks written.
    pub masked: u64,
    /// Values of which bytes were given up.
    pub cut: u64,
}

/// No secret that anything here recognizes is shorter with its context.
const SHORTEST: usize = 6;
/// How often a text is searched again; in practice twice.
const MOST_ROUNDS: usize = 8;
/// How many places of one value are looked at. Ordinary texts of 10 MB have fewer; one that is made
/// of nothing else would keep the agent's thread for minutes.
pub(super) const MOST_HITS: usize = if cfg!(test) { 1 << 14 } else { 1 << 20 };
/// Longest part of a key that a mask names.
const LONGEST_KEY: usize = 40;

/// What a literal found calls for.
#[derive(Clone, Copy)]
enum Action {
    Rule(&'static Rule),
    /// Part of a name whose value may be a secret.
    Stem,
    /// A stem that means nothing in running text, but does in the names of JSON members.
    NameOnlyStem,
    Mask,
    PrivateKey,
    PuttyKey,
    /// The kind of a Kubernetes object, which may be a secret.
    Manifest,
}

/// The compiled rules. Cheap to share between threads; finding and masking need no lock.
pub struct Redactor {
    literals: Literals<Action>,
    names: SensitiveNames,
    pub(super) name_cache: NameCache,
    pub(super) user_rules: Vec<(String, Regex)>,
    keys_only: bool,
    mask_key: MaskKey,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor")
            .field("mask_key", &self.mask_key)
            .finish_non_exhaustive()
    }
}

impl Redactor {
    /// Compiles the user's patterns and prepares the built-in rules.
    ///
    /// # Errors
    ///
    /// If one of the user's patterns is no regular expression.
    pub fn new(config: &Redaction, key: MaskKey) -> Result<Self, PatternError> {
        let compile = |(name, pattern): &(String, String)| match Regex::new(pattern) {
            Ok(regex) => Ok((mask::rule_name(name, LONGEST_KEY), regex)),
            Err(source) => Err(PatternError {
                rule: name.clone(),
                pattern: pattern.clone(),
                source,
            }),
        };
        let names = SensitiveNames::new(&config.keys, &config.exempt);
        Ok(Self {
            literals: literals(&names),
            names,
            name_cache: NameCache::new(),
            user_rules: config.rules.iter().map(compile).collect::<Result<_, _>>()?,
            keys_only: config.keys_only,
            mask_key: key,
        })
    }

    /// What a name announces, if anything. Most names contain no stem, and need no other test.
    pub(super) fn name_kind(&self, name: &str) -> Option<Kind> {
        let is_stem = |hit: Hit<Action>| matches!(hit.what, Action::Stem | Action::NameOnlyStem);
        let has_stem = self.names.tiny || self.literals.hits(name.as_bytes()).any(is_stem);
        has_stem.then(|| self.names.kind(name)).flatten()
    }

    /// Whether nothing in a JSON text could even begin to be a secret, names of members and
    /// strings in it included: true for most. `pat` is no name inside `path`: the short stems
    /// count only where no small letter follows. What has a secret's shape has it here too.
    pub(super) fn is_clear_json(&self, json: &str) -> bool {
        let bytes = json.as_bytes();
        let may_hide_a_secret = |hit: Hit<Action>| match hit.what {
            Action::NameOnlyStem => !bytes
                .get(hit.literal.end)
                .is_some_and(u8::is_ascii_lowercase),
            Action::Rule(rule) if rule.is_shape() => rule.find(bytes, hit.literal).is_some(),
            Action::Manifest => manifests::is_secret(bytes, &hit.literal),
            _ => true,
        };
        // `\u0070assword` could hide anything.
        let spells_letters =
            || memchr::memchr(b'\\', bytes).is_some_and(|at| json[at..].contains("\\u"));
        self.user_rules.is_empty()
            && !self.names.tiny
            && !self.literals.hits(bytes).any(may_hide_a_secret)
            && !spells_letters()
    }

    /// All secrets in `text`, sorted, no two overlapping in what is masked.
    pub(super) fn find(&self, text: &str) -> Vec<Found> {
        count_work(text.len());
        let mut found = Vec::new();
        if !self.keys_only && text.len() >= SHORTEST {
            let mut search = Search {
                redactor: self,
                text,
                found,
                names_done: 0,
                commands_done: 0,
                manifests_done: 0,
                shapes_done: 0,
                command_start: 0,
                shape_start: 0,
            };
            let hits = self.literals.hits(text.as_bytes());
            hits.for_each(|hit| search.look_at(hit));
            found = search.found;
        }
        self.find_user_rules(text, &mut found);
        if found.len() > 1 {
            found = merge_overlaps(found);
        }
        found
    }

    /// Masks a plain text. Borrowed if there was nothing to mask.
    ///
    /// What a mask replaced may have hidden where the next secret starts, so the result is
    /// searched again until nothing more is found: masking it once more never changes anything.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str, tally: &mut Tally) -> Cow<'a, str> {
        match self.redact_beginning(text, tally) {
            Some(redacted) => Cow::Owned(redacted),
            None => self.text_part(text, 0..text.len(), tally),
        }
    }

    /// A text or JSON text with more than [`MOST_HITS`] places where a secret could be: the
    /// beginning redacted, all the rest under one mask. `None` for any other text.
    pub(super) fn redact_beginning(&self, text: &str, tally: &mut Tally) -> Option<String> {
        if text.len() < MOST_HITS {
            return None;
        }
        let hit = self.literals.hits(text.as_bytes()).nth(MOST_HITS)?;
        let (beginning, rest) = text.split_at(hit.literal.start);
        let mut redacted = String::new();
        let mut state = StreamState::default();
        while let Some(piece) = self.next_piece(&mut state, beginning, true) {
            redacted += &piece.redacted;
            tally.masked += piece.masked;
        }
        tally.masked += 1;
        Some(redacted + &self.mask("work-limit", rest))
    }

    /// Masks `part` of `text`, searched together with what is around it. Of a secret that reaches
    /// beyond the part, what is inside is masked.
    pub(super) fn text_part<'a>(
        &self,
        text: &'a str,
        mut part: Range<usize>,
        tally: &mut Tally,
    ) -> Cow<'a, str> {
        let mut found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(&text[part]);
        }
        let mut clean = text.to_owned();
        for _ in 0..MOST_ROUNDS {
            let mut masked = String::with_capacity(clean.len() + found.len() * 64);
            self.mask_range(&clean, 0..part.start, &found, &mut masked);
            let start = masked.len();
            tally.masked += self.mask_range(&clean, part.clone(), &found, &mut masked);
            let end = masked.len();
            self.mask_range(&clean, part.end..clean.len(), &found, &mut masked);
            (part, clean) = (start..end, masked);
            found = self.find(&clean);
            if found.is_empty() {
                break;
            }
        }
        clean.truncate(part.end);
        clean.drain(..part.start);
        Cow::Owned(clean)
    }

    /// Appends `range` of `text` with everything that was found in it masked. How many masks that
    /// took.
    pub(super) fn mask_range(
        &self,
        text: &str,
        range: Range<usize>,
        found: &[Found],
        out: &mut String,
    ) -> u64 {
        let mut at = range.start;
        let mut masks = 0;
        for found in found {
            let secret = found.secret.start.max(range.start)..found.secret.end.min(range.end);
            if !secret.is_empty() {
                out.push_str(&text[at..secret.start]);
                out.push_str(&self.mask(found.rule(), &text[secret.clone()]));
                at = secret.end;
                masks += 1;
            }
        }
        out.push_str(&text[at..range.end]);
        masks
    }

    /// A digest under the root's key: what it is of can't be guessed from it.
    pub(crate) fn keyed_digest(&self, bytes: &[u8]) -> u128 {
        self.mask_key.digest(bytes)
    }

    /// The mask for `secret`.
    pub(super) fn mask(&self, rule: &str, secret: &str) -> String {
        self.mask_key.mask(rule, secret.as_bytes())
    }

    /// The rule name of a mask made because of the name `key`. A name that is a secret, or holds
    /// one, is not repeated.
    pub(super) fn key_rule(&self, key: &str) -> String {
        let name = mask::rule_name(key.trim_matches('-'), LONGEST_KEY);
        // The name is checked too: once cut, it can look like a secret that the whole key is not.
        let is_secret = |text: &str| self.has_shape(text) || !self.find(text).is_empty();
        if is_secret(key) || is_secret(&name) {
            return "key:masked".to_owned();
        }
        format!("key:{name}")
    }

    /// Whether a name has a secret's own shape, also where values are not searched.
    fn has_shape(&self, name: &str) -> bool {
        let bytes = name.as_bytes();
        self.literals.hits(bytes).any(|hit| match hit.what {
            Action::Rule(rule) => rule.find(bytes, hit.literal).is_some(),
            _ => false,
        })
    }

    fn find_user_rules(&self, text: &str, found: &mut Vec<Found>) {
        for (name, regex) in &self.user_rules {
            let group = regex.capture_names().position(|n| n == Some("secret"));
            for groups in regex.captures_iter(text) {
                let (Some(whole), Some(secret)) = (groups.get(0), groups.get(group.unwrap_or(0)))
                else {
                    continue;
                };
                let secret = secret.range();
                // Masks stay as they are, even if the pattern matches them.
                if !secret.is_empty() && !mask::touches_mask(text.as_bytes(), secret.clone()) {
                    found.push(Found::new(name.clone(), BY_USER, whole.start(), secret));
                }
            }
        }
    }
}

/// A search of one text for secrets.
struct Search<'a> {
    redactor: &'a Redactor,
    text: &'a str,
    found: Vec<Found>,
    /// Up to where names, commands' arguments and manifests were read, and shapes found.
    names_done: usize,
    commands_done: usize,
    manifests_done: usize,
    shapes_done: usize,
    /// Where the last command and the last shape start.
    command_start: usize,
    shape_start: usize,
}

impl Search<'_> {
    fn look_at(&mut self, hit: Hit<Action>) {
        let bytes = self.text.as_bytes();
        let start = hit.literal.start;
        match hit.what {
            Action::Rule(rule) => self.rule(rule, hit.literal),
            Action::Stem => self.stem(hit.literal),
            Action::NameOnlyStem => {}
            Action::Mask => self.no_names_before(mask::mask_end(bytes, start).unwrap_or(0)),
            Action::PrivateKey if start < self.shapes_done => {}
            Action::PrivateKey => {
                if let Some(block) = private_keys::pem_block(bytes, start) {
                    self.shapes_done = block.end;
                    self.no_names_before(block.end);
                    self.found
                        .push(Found::new("private-key", BY_USER, start, block));
                }
            }
            Action::Manifest if start < self.manifests_done => {}
            Action::Manifest => {
                if let Some((end, values)) = manifests::secret_values(bytes, hit.literal) {
                    self.manifests_done = end;
                    let found = |value: Range<usize>| {
                        Found::new("kubernetes-secret", BY_CONTEXT, value.start, value)
                    };
                    self.found.extend(values.into_iter().map(found));
                }
            }
            Action::PuttyKey => {
                if let Some(secret) = private_keys::putty_key(bytes, start) {
                    self.no_names_before(secret.end);
                    self.found
                        .push(Found::new("putty-private-key", BY_USER, start, secret));
                }
            }
        }
    }

    /// Skips stems of names up to `end`.
    fn no_names_before(&mut self, end: usize) {
        self.names_done = self.names_done.max(end);
    }

    fn rule(&mut self, rule: &'static Rule, literal: Range<usize>) {
        let bytes = self.text.as_bytes();
        let start = literal.start;
        match rule.kind {
            // Several rules may know the same program.
            RuleKind::Command if start < self.commands_done && start != self.command_start => {}
            RuleKind::Command => {
                if let Some((end, found)) = rule.find_arguments(bytes, literal) {
                    self.command_start = start;
                    self.commands_done = end;
                    self.found.extend(found);
                }
            }
            RuleKind::Context => self.found.extend(rule.find(bytes, literal)),
            // `sk-` is found before `sk-ant-` at the same place, which names it better.
            _ if start < self.shapes_done && start != self.shape_start => {}
            _ => {
                if let Some(found) = rule.find(bytes, literal) {
                    self.shape_start = start;
                    self.shapes_done = self.shapes_done.max(found.secret.end);
                    self.found.push(found);
                }
            }
        }
    }

    fn stem(&mut self, stem: Range<usize>) {
        if stem.start < self.names_done {
            return;
        }
        let (name_end, named) = key_value_rule::find(&self.redactor.names, self.text, stem);
        self.no_names_before(name_end);
        if let Some((name, secret)) = named {
            // A short value may be a name itself: `--token 'api_key': …`.
            if secret.len() > placeholders::LONGEST {
                self.no_names_before(secret.end);
            }
            let rule = self.redactor.key_rule(&self.text[name.clone()]);
            self.found
                .push(Found::new(rule, BY_NAME, name.start, secret));
        }
    }
}

/// Counts the bytes that are searched, for the tests of what a search takes.
pub(super) fn count_work(_bytes: usize) {
    #[cfg(test)]
    super::tests::count_work(_bytes);
}

/// The literals searched for and what each calls for.
fn literals(names: &SensitiveNames) -> Literals<Action> {
    let rules = RULES.iter().flat_map(|rule| {
        let case = match rule.is_shape() && !rule.any_case {
            true => Case::Exact,
            false => Case::Any,
        };
        let literals = rule.literals.iter();
        literals.map(move |literal| (&**literal, case, Action::Rule(rule)))
    });
    let words = |name: &str, action: Action| {
        let words = list(name).iter();
        words.map(move |word| (*word, Case::Any, action))
    };
    let marks = [
        (mask::OPENING, Case::Any, Action::Mask),
        (private_keys::BEGIN, Case::Any, Action::PrivateKey),
        (private_keys::PUTTY_LINES, Case::Any, Action::PuttyKey),
    ];
    let manifests = manifests::KINDS.map(|kind| (kind, Case::Any, Action::Manifest));
    let user_stems = names.user_stems();
    let all = rules
        .chain(words("stems", Action::Stem))
        .chain(words("vendors", Action::Stem))
        .chain(words("text_stems", Action::Stem))
        .chain(user_stems.map(|stem| (stem, Case::Any, Action::Stem)))
        .chain(words("name_only_stems", Action::NameOnlyStem))
        .chain(marks)
        .chain(manifests);
    Literals::new(all)
}
