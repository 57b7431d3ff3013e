//! The rules of `rules.toml`: a literal, an anchored pattern and a check each.
//!
//! One pass over a text finds the literals of all rules (see [`literals`](super::literals)); a
//! rule's pattern is tried only at its literal, and is compiled when that happens for the first
//! time.

use std::ops::Range;
use std::sync::LazyLock;

use super::checks::{self, Check};
use super::found::{BY_CONTEXT, BY_SHAPE, Found};
use super::mask::{is_masked, touches_mask};
use super::pattern::Pattern;
use super::text::{is_alnum, is_url64, is_varied, is_word, opens, token_start};
use super::toml;

pub(super) const RULES_TOML: &str = include_str!("rules.toml");

/// The rules in the order of the file.
pub(super) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let mut rules: Vec<Rule> = Vec::new();
    for (key, values) in toml::read(RULES_TOML) {
        if key == "[[rule]]" {
            rules.push(Rule::default());
        } else if let Some(rule) = rules.last_mut() {
            rule.set(key, &values);
        }
    }
    rules
});

/// One rule. The head of `rules.toml` explains the fields.
#[derive(Default)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    /// Without classes: `gh[op]_` as `gho_` and `ghp_`.
    pub(super) literals: Vec<String>,
    pattern: Pattern,
    checks: Vec<Check>,
    lead: &'static str,
    pub(super) kind: RuleKind,
    /// Whether the case of the literals does not matter, although the rule knows a shape.
    pub(super) any_case: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RuleKind {
    /// A secret known by its own shape.
    #[default]
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
/// Longest name of a program.
const LONGEST_PROGRAM: usize = 16;
/// Longest command that is searched for arguments.
const LONGEST_COMMAND: usize = 2048;

impl Rule {
    fn set(&mut self, key: &str, values: &[&'static str]) {
        let value = values.first().copied().unwrap_or_default();
        match key {
            "name" => self.name = value,
            "literals" => self.literals = values.iter().flat_map(|l| expand(l)).collect(),
            "pattern" => self.pattern = Pattern::new(value),
            "lead" => self.lead = value,
            "case" => self.any_case = value == "any",
            "check" => self.checks = values.iter().filter_map(|c| checks::named(c)).collect(),
            "kind" => {
                self.kind = match value {
                    "whole-run" => RuleKind::WholeRun,
                    "context" => RuleKind::Context,
                    "command" => RuleKind::Command,
                    _ => RuleKind::Shape,
                }
            }
            // The examples, which are for the tests.
            _ => {}
        }
    }

    /// Whether the secret is known by its own shape.
    pub(super) fn is_shape(&self) -> bool {
        matches!(self.kind, RuleKind::Shape | RuleKind::WholeRun)
    }

    fn accepts(&self, secret: &[u8]) -> bool {
        self.checks.iter().all(|check| check(secret))
    }

    /// The secret whose literal is at `literal`.
    pub(super) fn find(&self, text: &[u8], literal: Range<usize>) -> Option<Found> {
        let in_lead = |byte| in_class(self.lead.as_bytes(), byte);
        let start = token_start(text, literal.start, LONGEST_LEAD, in_lead);
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
        let (window, rank) = match self.kind {
            // The shape with the longer literal is the more telling.
            RuleKind::Shape => (WINDOW, BY_SHAPE - literal.len().min(99) as u8),
            RuleKind::WholeRun => (usize::MAX, BY_SHAPE - literal.len().min(99) as u8),
            RuleKind::Context | RuleKind::Command => (CONTEXT_WINDOW, BY_CONTEXT),
        };
        let near = &text[start..text.len().min(start.saturating_add(window))];
        let (end, mut secret) = self.pattern.find(near)?;
        let body = &near[(literal.end - start).min(end)..end];
        let filler = self.kind != RuleKind::Context && body.len() >= 8 && !is_varied(body, 5);
        if filler || !self.accepts(&near[secret.clone()]) {
            return None;
        }
        // Only now that it is one: the rest of a long run.
        if end == near.len() {
            secret = self.pattern.find(&text[start..])?.1;
        }
        let secret = start + secret.start..start + secret.end;
        // A mask's description of a secret is no secret.
        let masked = match self.kind {
            RuleKind::Context => touches_mask(text, secret.clone()),
            _ => is_masked(text, secret.clone()),
        };
        (!masked).then(|| Found::new(self.name, rank, start, secret))
    }

    /// The secrets among the arguments of the program whose name is at `program`, and where the
    /// command ends. `None` if that is no command.
    pub(super) fn find_arguments(
        &self,
        text: &[u8],
        program: Range<usize>,
    ) -> Option<(usize, Vec<Found>)> {
        let blank = |b: u8| b" \t\r\n\"',[".contains(&b);
        let next = *text.get(program.end)?;
        if !opens(text, program.start, is_alnum) || !blank(next) || next == b',' {
            return None;
        }
        let end = command_end(text, program.end);
        let mut found: Vec<Found> = Vec::new();
        for dash in memchr::memchr_iter(b'-', &text[program.end..end]) {
            let at = program.end + dash;
            let done = found.last().map_or(0, |found| found.secret.end);
            if at < done || !blank(text[at - 1]) {
                continue;
            }
            if let Some((_, secret)) = self.pattern.find(&text[at..end])
                && self.accepts(&text[at..][secret.clone()])
            {
                let secret = at + secret.start..at + secret.end;
                if !is_masked(text, secret.clone()) {
                    found.push(Found::new(self.name, BY_CONTEXT, program.start, secret));
                }
            }
        }
        Some((end, found))
    }
}

/// Whether a program takes passwords as arguments, by its name.
pub(super) fn is_program(name: &str) -> bool {
    let commands = RULES.iter().filter(|rule| rule.kind == RuleKind::Command);
    let mut programs = commands.flat_map(|rule| &rule.literals);
    name.len() <= LONGEST_PROGRAM && programs.any(|p| p.split(' ').next() == Some(name))
}

/// An option in a line of its own, as in a folded block of YAML.
static OPTION: Pattern = Pattern::new(r#"\s{1,16}["']?-(?:\w|-[\w-]+)[ \t="']"#);

/// Where the command that `from` is inside of ends: its line, unless that is continued.
fn command_end(text: &[u8], from: usize) -> usize {
    let limit = text.len().min(from + LONGEST_COMMAND);
    let ends = |at: &usize| match text[*at] {
        b'\n' => text[at - 1] != b'\\' && !OPTION.is_match(&text[*at..]),
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
    let Some((before, rest)) = literal.split_once('[') else {
        return vec![literal.to_owned()];
    };
    let (class, after) = rest.split_once(']').unwrap_or((rest, ""));
    let rest = expand(after);
    let each = |c: char| rest.iter().map(move |rest| format!("{before}{c}{rest}"));
    class.chars().flat_map(each).collect()
}

/// Whether `byte` is one of a class such as `A-Za-z0-9+.-`.
fn in_class(class: &[u8], byte: u8) -> bool {
    match class {
        [first, b'-', last, rest @ ..] => (*first..=*last).contains(&byte) || in_class(rest, byte),
        [one, rest @ ..] => *one == byte || in_class(rest, byte),
        [] => false,
    }
}
