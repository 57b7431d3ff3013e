//! Strings that gitleaks' own rules describe are masked.
//!
//! The rules are read from gitleaks' source, which `.ci/install` finds: they are not part of this repository.

use std::collections::BTreeMap;

use fastrand::Rng;
use regex::{Match, Regex, RegexBuilder};
use regex_syntax::hir::{Class, Dot, Hir, HirKind};
use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};

use crate::support::skipped::skipped;

/// How many strings are made of each rule.
const STRINGS: usize = 20;

/// The id, the pattern and a keyword of each rule in the text of `gitleaks.toml`.
fn rules(toml: &str) -> Vec<(String, String, String)> {
    let between = |text: &str, open: &str, close: &str| {
        let (inside, _) = text.split_once(open)?.1.split_once(close)?;
        Some(inside.to_owned())
    };
    let tables = toml.split("[[rules]]").skip(1);
    let rule = |table: &str| {
        let id = between(table, "id = \"", "\"")?;
        let keywords = between(table, "\nkeywords = [", "]").unwrap_or_default();
        let keyword = keywords
            .split('"')
            .skip(1)
            .step_by(2)
            .max_by_key(|word| word.len());
        let keyword = keyword.unwrap_or_default().to_owned();
        Some((id, between(table, "\nregex = '''", "'''")?, keyword))
    };
    tables.filter_map(rule).collect()
}

/// What stands between a keyword and a secret in the rules that need a keyword.
const OPERATOR: &str = r#"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"#;
/// What such a rule allows around its keyword.
const AROUND: [&str; 5] = [
    r"(?i)[\w.-]{0,50}?",
    r"[\w.-]{0,50}?(?i:[\w.-]{0,50}?",
    r#"(?:[ \t\w.-]{0,20})[\s'"]{0,3})"#,
    r#"(?:[ \t\w.-]{0,20})[\s'"]{0,3}"#,
    r#"(?:[\x60'"\s;]|\\[nr]|$)"#,
];

/// A text with a secret of the rule in it, as one writes it.
fn text(pattern: &str, n: usize, rng: &mut Rng) -> String {
    // As the pattern spells it: no program writes `nPm_`.
    let mut spelled = |pattern: &str| {
        let pattern = pattern.replace("(?i)", "").replace("(?i:", "(?:");
        generate(&regex_syntax::parse(&pattern).expect("a pattern"), rng)
    };
    let Some((keyword, secret)) = pattern.split_once(OPERATOR) else {
        let secret = spelled(pattern);
        return match n % 4 {
            0 => secret,
            1 => format!("use {secret} now"),
            2 => format!("the answer was \"{secret}\"."),
            _ => format!("id: {secret}\n"),
        };
    };
    let [keyword, secret] = [keyword, secret].map(|part| {
        let part = AROUND
            .iter()
            .fold(part.to_owned(), |part, around| part.replace(around, ""));
        spelled(&part)
    });
    let (keyword, secret) = (keyword.trim_matches(','), secret.trim_matches('"'));
    match n % 5 {
        0 => format!("{keyword} = \"{secret}\""),
        1 => format!("{keyword}_key: {secret}\n"),
        2 => format!("{{\"{keyword}-token\": \"{secret}\"}}"),
        3 => format!("export {}_SECRET={secret}\n", keyword.to_uppercase()),
        _ => format!("{keyword}: '{secret}'"),
    }
}

/// A string that matches, except for the places that `\b` and its like ask for.
fn generate(hir: &Hir, rng: &mut Rng) -> String {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).into_owned(),
        // A dot that should have been escaped.
        HirKind::Class(_) if hir == &Hir::dot(Dot::AnyCharExceptLF) => ".".to_owned(),
        HirKind::Class(class) => character(class, rng).to_string(),
        HirKind::Capture(capture) => generate(&capture.sub, rng),
        HirKind::Concat(parts) => parts.iter().map(|part| generate(part, rng)).collect(),
        HirKind::Alternation(parts) => generate(&parts[rng.usize(..parts.len())], rng),
        HirKind::Repetition(repetition) => {
            // Anything at all may stand there: a line's end, or nothing.
            match &*repetition.sub {
                any if repetition.min == 0 && *any == Hir::dot(Dot::AnyChar) => {
                    return "\n".to_owned();
                }
                any if repetition.min == 0 && *any == Hir::dot(Dot::AnyCharExceptLF) => {
                    return String::new();
                }
                _ => {}
            }
            let most = repetition.max.unwrap_or(u32::MAX).min(repetition.min + 8);
            let count = rng.u32(repetition.min..=most);
            let class = |rng: &mut Rng| match repetition.sub.kind() {
                HirKind::Class(class) => character(class, rng).to_string(),
                _ => generate(&repetition.sub, rng),
            };
            (0..count).map(|_| class(rng)).collect()
        }
    }
}

fn character(class: &Class, rng: &mut Rng) -> char {
    let holds = |c: char| match class {
        Class::Unicode(class) => class
            .ranges()
            .iter()
            .any(|r| (r.start()..=r.end()).contains(&c)),
        Class::Bytes(class) => {
            let byte = c as u8;
            class
                .ranges()
                .iter()
                .any(|r| (r.start()..=r.end()).contains(&byte))
        }
    };
    // A class that leaves out some characters is one of letters and digits.
    let excludes = holds('a') && holds('!') && holds('(');
    let usual = |c: &char| holds(*c) && (!excludes || c.is_ascii_alphanumeric());
    let printable: Vec<char> = (' '..='~').filter(usual).collect();
    rng.choice(printable).unwrap_or('\n')
}

/// The secret that a rule finds in a text.
fn secret<'a>(regex: &Regex, text: &'a str) -> Option<&'a str> {
    let groups = regex.captures(text)?;
    let letters = |text: &str| text.bytes().filter(u8::is_ascii_alphanumeric).count();
    let long = |group: &Match<'_>| letters(group.as_str()) >= 8;
    let mut found = groups.iter().skip(1).flatten().find(long);
    Some(found.take().or(groups.get(0).filter(long))?.as_str())
}

/// Of each rule how many strings were made of it, and those that stayed readable.
fn leaks(toml: &str) -> BTreeMap<String, (usize, Vec<String>)> {
    let redactor = Redactor::new(&Redaction::new(), MaskKey::new([7; 32])).unwrap();
    let mut results = BTreeMap::new();
    for (id, pattern, keyword) in rules(toml) {
        let regex = RegexBuilder::new(&pattern)
            .size_limit(1 << 30)
            .build()
            .unwrap();
        let mut rng = Rng::with_seed(18);
        let (made, leaked): &mut (usize, Vec<String>) = results.entry(id).or_default();
        for n in 0..10 * STRINGS {
            let mut text = text(&pattern, n, &mut rng);
            // Without its keyword the rule is not tried.
            if !text.to_lowercase().contains(&keyword) && !pattern.contains(OPERATOR) {
                let secret = self::text(&pattern, 0, &mut rng);
                text = format!("{keyword} = \"{secret}\"");
            }
            let Some(secret) = secret(&regex, &text).filter(|_| *made < STRINGS) else {
                continue;
            };
            *made += 1;
            // The beginning of a secret may be a host or a name, which stays.
            let half = secret.chars().skip(secret.chars().count() / 2);
            let clean = redactor.text(&text, &mut Tally::default());
            if clean.contains(&half.collect::<String>()) {
                leaked.push(text);
            }
        }
    }
    results
}

#[test]
fn strings_of_gitleaks_rules_are_masked() {
    let Some(path) = std::env::var_os("SPANLEDGER_GITLEAKS_RULES") else {
        return skipped("SPANLEDGER_GITLEAKS_RULES is not set");
    };
    let results = leaks(&std::fs::read_to_string(path).unwrap());
    let made: usize = results.values().map(|(made, _)| made).sum();
    let leaked: usize = results.values().map(|(_, leaked)| leaked.len()).sum();
    for (id, (made, leaked)) in &results {
        if *made < STRINGS || !leaked.is_empty() {
            println!("{id}: {} of {made} leaked: {leaked:?}", leaked.len());
        }
    }
    assert!(made > 200 * STRINGS, "{made} strings");
    assert!(leaked * 100 <= made, "{leaked} of {made} strings leaked");
}
