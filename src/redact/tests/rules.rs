//! Every rule of `rules.toml` against its examples.

use super::super::checks;
use super::super::literals::{Case, Literals};
use super::super::rules::{RULES, RULES_TOML, Rule, RuleKind};
use super::super::toml;
use super::*;

/// The examples of each rule, in the order of the file: its name, the texts that must match and
/// those that must not.
fn examples() -> Vec<(&'static str, Vec<String>, Vec<String>)> {
    let spelled = |texts: &[&str]| texts.iter().map(|text| spell(text)).collect();
    let mut rules = Vec::new();
    for (key, values) in toml::read(RULES_TOML) {
        match key {
            "name" => rules.push((values[0], Vec::new(), Vec::new())),
            "matches" => rules.last_mut().expect("a rule").1 = spelled(&values),
            "ignores" => rules.last_mut().expect("a rule").2 = spelled(&values),
            _ => {}
        }
    }
    rules
}

/// An example with each `{36}` replaced by that many random letters and digits: `{h36}` by
/// hexadecimal digits, `{d36}` by decimal ones, `{U36}` by capitals and digits, `{l36}` by small
/// letters and digits, `{u36}` by URL-safe base64. Spelled out, the examples would be reported by
/// every secret scanner.
fn spell(example: &str) -> String {
    let holes = regex::Regex::new(r"\{([hdUlu]?)(\d+)\}").expect("the pattern compiles");
    let mut holes_met = 0;
    let random = |groups: &regex::Captures<'_>| {
        holes_met += 1;
        let length = groups[2].parse().expect("a number");
        random(&groups[1], length, holes_met)
    };
    holes.replace_all(example, random).into_owned()
}

fn random(kind: &str, length: usize, seed: u64) -> String {
    let letters = match kind {
        "h" => "0123456789abcdef",
        "d" => "123456789",
        "U" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "l" => "abcdefghijklmnopqrstuvwxyz0123456789",
        "u" => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
        _ => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    };
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters.as_bytes()[(state >> 33) as usize % letters.len()])
    };
    (0..length).map(|_| next()).collect()
}

/// The rules that find something in `text`.
fn found(text: &str) -> Vec<String> {
    let found = redactor().find(text).into_iter();
    found.map(|found| found.rule().to_owned()).collect()
}

/// Whether a rule by itself finds something in `text`: others have the same name.
fn finds(rule: &Rule, text: &str) -> bool {
    let finds_at = |literal: std::ops::Range<usize>| match rule.kind {
        RuleKind::Command => {
            let found = rule.find_arguments(text.as_bytes(), literal);
            found.is_some_and(|(_, found)| !found.is_empty())
        }
        _ => rule.find(text.as_bytes(), literal).is_some(),
    };
    let mut literals = rule.literals.iter();
    literals.any(|literal| {
        let places = (0..text.len()).map(|at| at..at + literal.len());
        let is_literal = |place: &std::ops::Range<usize>| {
            let part = text.get(place.clone());
            part.is_some_and(|part| part.eq_ignore_ascii_case(literal))
        };
        places.filter(is_literal).any(finds_at)
    })
}

#[test]
fn the_file_says_nothing_that_is_not_understood() {
    for (key, values) in toml::read(RULES_TOML) {
        let known = match key {
            "[[rule]]" => values.is_empty(),
            "name" | "pattern" | "lead" => values.len() == 1,
            "case" => values == ["any"],
            "literals" | "matches" | "ignores" => !values.is_empty(),
            "check" => values.iter().all(|name| checks::named(name).is_some()),
            "kind" => ["whole-run", "context", "command"].contains(&values[0]),
            _ => false,
        };
        assert!(known, "{key} = {values:?}");
    }
    assert_eq!(RULES.len(), examples().len());
}

/// Rules with more literals than this have one of many characters in them.
const FEW_LITERALS: usize = 8;

#[test]
fn every_literal_has_an_example() {
    for (rule, (name, matches, _)) in RULES.iter().zip(examples()) {
        let examples = matches.join(" ").to_lowercase();
        for literal in &rule.literals {
            let found = examples.contains(&literal.to_lowercase());
            assert!(
                found || rule.literals.len() > FEW_LITERALS,
                "{name}: {literal}"
            );
        }
    }
}

#[test]
fn every_rule_finds_its_examples() {
    for (rule, (name, matches, _)) in RULES.iter().zip(examples()) {
        assert!(!matches.is_empty(), "{name}");
        for example in matches {
            for text in [
                example.clone(),
                format!("use {example} now"),
                format!("\"{example}\""),
                format!("line\\n{example}\\n"),
            ] {
                let found = found(&text);
                assert!(
                    finds(rule, &text) && found.iter().any(|rule| rule == name),
                    "{name}: {text}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn every_rule_ignores_its_counterexamples() {
    for (rule, (name, _, ignores)) in RULES.iter().zip(examples()) {
        assert!(!ignores.is_empty(), "{name}");
        for text in ignores {
            let text = format!("use {text} now");
            let found = found(&text);
            assert!(
                !finds(rule, &text) && !found.iter().any(|rule| rule == name),
                "{name}: {text}"
            );
        }
    }
}

const WORDS: [(&str, Case); 8] = [
    ("abc", Case::Any),
    ("bca", Case::Exact),
    ("cA0", Case::Exact),
    ("ab_c", Case::Any),
    ("aab~caba0", Case::Any),
    ("B00", Case::Exact),
    // Cut, these end in zeros.
    ("a@ ", Case::Exact),
    ("0@ `", Case::Any),
];

fn naive_hits(text: &str) -> Vec<(usize, usize, usize)> {
    let same = |part: &str, word: &str, case| match case {
        Case::Exact => part == word,
        Case::Any => part.eq_ignore_ascii_case(word),
    };
    let mut all = Vec::new();
    for start in 0..text.len() {
        for (n, (word, case)) in WORDS.iter().enumerate() {
            let end = start + word.len();
            if text.get(start..end).is_some_and(|p| same(p, word, *case)) {
                all.push((start, end, n));
            }
        }
    }
    all
}

proptest::proptest! {
    #[test]
    fn every_literal_is_found_wherever_it_stands(text in "[a-cA-C_~0@ `]{0,60}") {
        let words = (0..).zip(WORDS).map(|(n, (word, case))| (word, case, n));
        let literals = Literals::new(words);
        let hits = literals.hits(text.as_bytes());
        let found: Vec<_> = hits.map(|hit| (hit.literal.start, hit.literal.end, hit.what)).collect();
        proptest::prop_assert_eq!(found, naive_hits(&text));
    }
}
