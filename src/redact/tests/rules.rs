//! Every row of the tables of rules against its examples.

use super::super::context_rules::CONTEXT_RULES;
use super::super::literals::{Case, Literals};
use super::super::rules::Rule;
use super::super::vendor_rules::VENDOR_RULES;
use super::*;

fn rules() -> impl Iterator<Item = &'static Rule> {
    VENDOR_RULES.iter().chain(&CONTEXT_RULES)
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

#[test]
fn every_rule_finds_its_example() {
    for rule in rules() {
        let example = spell(rule.examples.0);
        for text in [
            example.clone(),
            format!("use {example} now"),
            format!("\"{example}\""),
            format!("line\\n{example}\\n"),
        ] {
            assert!(
                found(&text).iter().any(|name| name == rule.name),
                "{}: {text}: {:?}",
                rule.name,
                found(&text)
            );
        }
    }
}

#[test]
fn every_rule_ignores_its_counterexample() {
    for rule in rules() {
        assert!(!rule.examples.1.is_empty(), "{}", rule.name);
        let text = spell(rule.examples.1);
        let names = found(&format!("use {text} now"));
        assert!(
            !names.contains(&rule.name.to_owned()),
            "{}: {text}",
            rule.name
        );
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
        let words = (0..).zip(WORDS).map(|(n, (word, case))| (word.to_owned(), case, n));
        let literals = Literals::new(words);
        let hits = literals.hits(text.as_bytes());
        let found: Vec<_> = hits.map(|hit| (hit.start, hit.end, hit.what)).collect();
        proptest::prop_assert_eq!(found, naive_hits(&text));
    }
}
