//! Rules that find a secret at a literal: an anchored pattern and a check.
//!
//! One pass over a text finds the literals of all rules (see [`literals`](super::literals)); a
//! rule's pattern is tried only at its literal, and is compiled when that happens for the first
//! time. [`VENDOR_RULES`](super::vendor_rules::VENDOR_RULES) and
//! [`CONTEXT_RULES`](super::context_rules::CONTEXT_RULES) are the tables.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use super::mask::{is_masked, touches_mask};
use super::text::{Mix, is_alnum, is_url64, is_varied, is_word, opens, token_start};

/// A regular expression over bytes, anchored at its start, compiled when it is first used. In it,
/// `\w`, `\d` and `\s` stand for ASCII only.
pub(super) struct Pattern {
    text: &'static str,
    regex: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(super) const fn new(text: &'static str) -> Self {
        let regex = OnceLock::new();
        Self { text, regex }
    }

    /// `None` only if the pattern does not compile; tests compile them all.
    pub(super) fn regex(&self) -> Option<&Regex> {
        let compile = || {
            let anchored = format!("^(?:{})", self.text);
            RegexBuilder::new(&anchored).unicode(false).build().ok()
        };
        self.regex.get_or_init(compile).as_ref()
    }

    pub(super) fn is_match(&self, bytes: &[u8]) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(bytes))
    }

    /// The bytes from the start that match, and of those the first group that took part.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<(usize, Range<usize>)> {
        let regex = self.regex()?;
        if regex.captures_len() == 1 {
            let end = regex.find(bytes)?.end();
            return Some((end, 0..end));
        }
        let groups = regex.captures(bytes)?;
        let secret = groups.iter().skip(1).flatten().next()?.range();
        Some((groups.get(0)?.end(), secret))
    }
}

/// One row of a table of rules.
pub(super) struct Rule {
    /// The name in masks.
    pub(super) name: &'static str,
    /// Texts that must be there, separated by `|`. `[abc]` is one character of several.
    literals: &'static str,
    /// What must be found at the literal. Its first group that takes part is the secret, or else
    /// all of it.
    pattern: Pattern,
    /// A last look at the secret.
    check: fn(&[u8]) -> bool,
    /// The bytes right before the literal that the pattern starts at.
    lead: fn(u8) -> bool,
    pub(super) kind: RuleKind,
    /// A text with a secret of this rule, and one without. `{36}` stands for that many random
    /// letters and digits; see the tests.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) examples: (&'static str, &'static str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// A secret known by its own shape.
    Shape,
    /// The same, where the literal counts only if nothing of the secret's alphabet is before it,
    /// so that each run is read once and can be read in full.
    WholeRun,
    /// A secret known by what stands before it. Another rule may name it better.
    Context,
    /// A program whose arguments may be secrets: the pattern is tried at each option.
    Command,
}

/// A text is read this far before a rule is certain of a secret. It bounds the work at each of
/// many literals within one run.
const WINDOW: usize = 192;
/// As far for a secret that stands further from the literal.
const CONTEXT_WINDOW: usize = 1024;
/// Longest part of a secret before its literal.
const LONGEST_LEAD: usize = 80;

/// A row: name, literals, pattern, check, a text that matches and one that does not.
pub(super) const fn rule(
    name: &'static str,
    literals: &'static str,
    pattern: &'static str,
    check: fn(&[u8]) -> bool,
    matches: &'static str,
    ignores: &'static str,
) -> Rule {
    Rule {
        name,
        literals,
        pattern: Pattern::new(pattern),
        check,
        lead: |_| false,
        kind: RuleKind::Shape,
        examples: (matches, ignores),
    }
}

impl Rule {
    /// Starts the pattern before the literal, at the first byte of a run of `lead`.
    pub(super) const fn lead(mut self, lead: fn(u8) -> bool) -> Self {
        self.lead = lead;
        self
    }

    pub(super) const fn kind(mut self, kind: RuleKind) -> Self {
        self.kind = kind;
        self
    }

    /// Whether the secret is known by itself, whatever stands before it.
    pub(super) fn is_shape(&self) -> bool {
        matches!(self.kind, RuleKind::Shape | RuleKind::WholeRun)
    }

    /// The literals, each spelled out.
    pub(super) fn literals(&self) -> impl Iterator<Item = String> {
        self.literals.split('|').flat_map(expand)
    }

    /// The secret whose literal is at `literal`, with the context before it, and by itself.
    pub(super) fn find(&self, text: &[u8], literal: Range<usize>) -> Option<Place> {
        let start = token_start(text, literal.start, LONGEST_LEAD, self.lead);
        // A short literal inside a name (`task_sk_…`) is mostly part of that name.
        let begins = match self.kind {
            _ if !is_alnum(text[literal.start]) => true,
            RuleKind::WholeRun => opens(text, start, is_url64),
            RuleKind::Shape if literal.len() < 4 => opens(text, start, is_word),
            _ => opens(text, start, is_alnum),
        };
        if !begins {
            return None;
        }
        let window = match self.kind {
            RuleKind::Shape => WINDOW,
            RuleKind::WholeRun => usize::MAX,
            RuleKind::Context | RuleKind::Command => CONTEXT_WINDOW,
        };
        let near = &text[start..text.len().min(start.saturating_add(window))];
        let (end, mut secret) = self.pattern.find(near)?;
        let body = &near[(literal.end - start).min(end)..end];
        let filler = self.kind != RuleKind::Context && body.len() >= 8 && !is_varied(body, 5);
        if filler || !(self.check)(&near[secret.clone()]) {
            return None;
        }
        // Only now that it is one: the rest of a long run.
        if end == near.len() {
            secret = self.pattern.find(&text[start..])?.1;
        }
        let secret = start + secret.start..start + secret.end;
        let place = (start..secret.end, secret.clone());
        // What a mask says of a secret is none.
        let masked = match self.kind {
            RuleKind::Context => touches_mask(text, secret),
            _ => is_masked(text, secret),
        };
        (!masked).then_some(place)
    }

    /// The secrets among the arguments of the program whose name is at `program`, and where the
    /// command ends. `None` if that is no command.
    pub(super) fn find_arguments(
        &self,
        text: &[u8],
        program: Range<usize>,
    ) -> Option<(usize, Vec<Place>)> {
        let blank = |b: u8| matches!(b, b' ' | b'\t' | b'\n' | b'"' | b'\'' | b',' | b'[');
        let next = *text.get(program.end)?;
        if !opens(text, program.start, is_alnum) || !blank(next) || next == b',' {
            return None;
        }
        let end = command_end(text, program.end);
        let mut found: Vec<Place> = Vec::new();
        for dash in memchr::memchr_iter(b'-', &text[program.end..end]) {
            let at = program.end + dash;
            let done = found.last().map_or(0, |place| place.1.end);
            if at < done || !blank(text[at - 1]) {
                continue;
            }
            if let Some((_, secret)) = self.pattern.find(&text[at..end])
                && (self.check)(&text[at..][secret.clone()])
            {
                let secret = at + secret.start..at + secret.end;
                if !is_masked(text, secret.clone()) {
                    found.push((program.start..secret.end, secret));
                }
            }
        }
        Some((end, found))
    }
}

/// A secret with the context on its left, and the secret itself.
pub(super) type Place = (Range<usize>, Range<usize>);

/// Where the command that `from` is inside of ends: its line, unless that is continued.
fn command_end(text: &[u8], from: usize) -> usize {
    let limit = text.len().min(from + 2048);
    let ends = |at: &usize| match text[*at] {
        b'\n' => text[at - 1] != b'\\',
        b'|' | b'&' => text[at - 1] == b' ' && matches!(text.get(at + 1), Some(b' ' | b'&' | b'|')),
        _ => false,
    };
    let end = (from..limit).find(ends).unwrap_or(limit);
    // Cut on an ASCII byte, so that ranges stay on character boundaries.
    let whole = |at: &usize| text.get(*at).is_none_or(u8::is_ascii);
    (from..=end).rev().find(whole).unwrap_or(from)
}

/// `gh[op]_` as `gho_` and `ghp_`.
fn expand(literal: &str) -> Vec<String> {
    let Some((before, (class, after))) = literal
        .split_once('[')
        .and_then(|(before, rest)| Some((before, rest.split_once(']')?)))
    else {
        return vec![literal.to_owned()];
    };
    let rest = expand(after);
    let each = |c: char| rest.iter().map(move |rest| format!("{before}{c}{rest}"));
    class.chars().flat_map(each).collect()
}

/// A secret of any bytes.
pub(super) fn any(_: &[u8]) -> bool {
    true
}

/// Letters and digits both.
pub(super) fn mixed(secret: &[u8]) -> bool {
    let mix = Mix::of(secret);
    mix.digit > 0 && mix.letters() > 0
}

/// Surely no word: at least eight bytes, with letters and digits.
pub(super) fn strong(secret: &[u8]) -> bool {
    secret.len() >= 8 && mixed(secret)
}

/// Not words joined by dashes: some stretch between them is long and holds a digit, or mixes
/// cases as random text does.
pub(super) fn random(secret: &[u8]) -> bool {
    secret.split(|&b| b == b'-' || b == b'_').any(|part| {
        let mix = Mix::of(part);
        part.len() >= 12 && (mix.digit > 0 || (mix.lower > 2 && mix.upper > 2))
    })
}
