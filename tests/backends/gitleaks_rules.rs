//! Strings that gitleaks' own rules describe are masked.
//!
//! The rules are read from gitleaks' source, which `.ci/install` finds: they are not part of this repository. Strings
//! are made of each rule's pattern, and gitleaks itself decides which of them count: those that it reports by that rule.

use std::collections::BTreeMap;
use std::path::Path;

use fastrand::Rng;
use regex_syntax::hir::{Class, Dot, Hir, HirKind};
use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};
use tempfile::TempDir;

use crate::secret_scanners::{gitleaks_report, program};
use crate::support::skipped::skipped;

/// How many strings of each rule are looked at for each seed.
const STRINGS: usize = 20;
/// How many are made for that: gitleaks leaves out those that are not random enough, or are placeholders.
const MADE: usize = 3 * STRINGS;
/// Where chance begins. `SPANLEDGER_SEEDS=7,8,9` tries others.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Of the strings of each rule at most one in so many may stay readable, and of all strings one in [`IN_ALL`].
const OF_EACH: usize = 20;
const IN_ALL: usize = 100;

/// A rule of gitleaks.
struct Rule {
    id: String,
    pattern: String,
    /// Without it the rule is not tried.
    keyword: String,
    /// How the name of a file ends in which the rule is tried.
    suffix: String,
}

/// The rules in the text of `gitleaks.toml`.
fn rules(toml: &str) -> Vec<Rule> {
    let between = |text: &str, open: &str, close: &str| {
        let (inside, _) = text.split_once(open)?.1.split_once(close)?;
        Some(inside.to_owned())
    };
    let tables = toml.split("[[rules]]").skip(1);
    let rule = |table: &str| {
        let keywords = between(table, "\nkeywords = [", "]").unwrap_or_default();
        let keywords = keywords.split('"').skip(1).step_by(2);
        let path = between(table, "\npath = '''", "'''");
        let suffix = path.map(|path| spell(&path, &mut Rng::with_seed(0)));
        Some(Rule {
            id: between(table, "id = \"", "\"")?,
            pattern: between(table, "\nregex = '''", "'''")?,
            keyword: keywords
                .max_by_key(|word| word.len())
                .unwrap_or_default()
                .to_owned(),
            suffix: suffix.unwrap_or_else(|| ".txt".to_owned()),
        })
    };
    tables.filter_map(rule).collect()
}

/// What stands between a keyword and a secret in the rules that need a keyword.
const OPERATOR: &str = r#"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"#;
/// What such a rule allows around its keyword, and any rule behind its secret.
const AROUND: [&str; 5] = [
    r"(?i)[\w.-]{0,50}?",
    r"[\w.-]{0,50}?(?i:[\w.-]{0,50}?",
    r#"(?:[ \t\w.-]{0,20})[\s'"]{0,3})"#,
    r#"(?:[ \t\w.-]{0,20})[\s'"]{0,3}"#,
    r#"(?:[\x60'"\s;]|\\[nr]|$)"#,
];

/// A text with a secret of the rule in it, as one writes it.
fn text(rule: &Rule, n: usize, rng: &mut Rng) -> String {
    let mut spelled = |part: &str| {
        let around = AROUND.iter();
        let part = around.fold(part.to_owned(), |part, around| part.replace(around, ""));
        spell(&part, rng)
    };
    if let Some((keyword, secret)) = rule.pattern.split_once(OPERATOR) {
        let [keyword, secret] = [keyword, secret].map(&mut spelled);
        let (keyword, secret) = (keyword.trim_matches(','), secret.trim_matches('"'));
        return match n % 5 {
            0 => format!("{keyword} = \"{secret}\""),
            1 => format!("{keyword}_key: {secret}\n"),
            2 => format!("{{\"{keyword}-token\": \"{secret}\"}}"),
            3 => format!("export {}_SECRET={secret}\n", keyword.to_uppercase()),
            _ => format!("{keyword}: '{secret}'"),
        };
    }
    let secret = spelled(&rule.pattern);
    if !secret.to_lowercase().contains(&rule.keyword) {
        return format!("{} = \"{secret}\"", rule.keyword);
    }
    let is_document = rule.suffix != ".txt";
    match n % 4 {
        0 => secret,
        1 if is_document => format!("$ cat file\n{secret}\n$"),
        2 if is_document => format!("```\n{secret}\n```\n"),
        1 => format!("use {secret} now"),
        2 => format!("the answer was \"{secret}\"."),
        _ if is_document => format!("\n{secret}\n"),
        _ => format!("id: {secret}\n"),
    }
}

/// A string of a pattern, in the case in which the pattern is written: no program writes `nPm_`.
fn spell(pattern: &str, rng: &mut Rng) -> String {
    let pattern = pattern.replace("(?i)", "").replace("(?i:", "(?:");
    generate(&regex_syntax::parse(&pattern).expect("a pattern"), rng)
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

/// The strings of each rule, in which gitleaks finds a secret by that rule, with those secrets.
fn strings(rules: &[Rule], seed: u64) -> BTreeMap<&str, Vec<(String, Vec<String>)>> {
    let dir = TempDir::new().unwrap();
    let file = |rule: &Rule, n: usize| format!("{}/{n}{}", rule.id, rule.suffix);
    let mut made = BTreeMap::new();
    for rule in rules {
        std::fs::create_dir(dir.path().join(&rule.id)).unwrap();
        let mut rng = Rng::with_seed(seed);
        for n in 0..MADE {
            let (file, text) = (file(rule, n), text(rule, n, &mut rng));
            std::fs::write(dir.path().join(&file), &text).unwrap();
            made.insert(file, (text, Vec::new()));
        }
    }
    let gitleaks = program("SPANLEDGER_GITLEAKS", "gitleaks").expect("gitleaks");
    for [id, path, secret] in gitleaks_report(&gitleaks, dir.path()) {
        let file = Path::new(&path).strip_prefix(dir.path()).unwrap();
        let (directory, _) = file.to_str().unwrap().split_once('/').unwrap();
        if directory == id {
            made.get_mut(file.to_str().unwrap()).unwrap().1.push(secret);
        }
    }
    let of_rule = |rule| {
        let all = (0..MADE).map(|n| made[&file(rule, n)].clone());
        let reported = all.filter(|(_, secrets)| !secrets.is_empty());
        (&*rule.id, reported.take(STRINGS).collect())
    };
    rules.iter().map(of_rule).collect()
}

/// Whether a part of eight characters from the second half of a secret is in the text. What a secret begins with may be
/// a host or a name, which stays.
fn is_readable(secret: &str, text: &str) -> bool {
    let chars: Vec<char> = secret.trim_end_matches(['"', '\'', '=']).chars().collect();
    let half = &chars[chars.len() / 2..];
    let mut parts = half.windows(half.len().min(8));
    parts.any(|part| !part.contains(&' ') && text.contains(&part.iter().collect::<String>()))
}

#[test]
fn strings_of_gitleaks_rules_are_masked() {
    let Some(path) = std::env::var_os("SPANLEDGER_GITLEAKS_RULES") else {
        return skipped("SPANLEDGER_GITLEAKS_RULES is not set");
    };
    if program("SPANLEDGER_GITLEAKS", "gitleaks").is_none() {
        return;
    }
    let rules = rules(&std::fs::read_to_string(path).unwrap());
    let redactor = Redactor::new(&Redaction::new(), MaskKey::new([7; 32])).unwrap();
    let seeds = std::env::var("SPANLEDGER_SEEDS").map_or(SEEDS.to_vec(), |seeds| {
        seeds.split(',').map(|seed| seed.parse().unwrap()).collect()
    });
    let mut results = BTreeMap::<String, (usize, Vec<String>)>::new();
    for seed in &seeds {
        for (id, strings) in strings(&rules, *seed) {
            let (made, readable) = results.entry(id.to_owned()).or_default();
            *made += strings.len();
            for (text, secrets) in strings {
                let whole = redactor.text(&text, &mut Tally::default());
                if secrets.iter().any(|secret| is_readable(secret, &whole)) {
                    readable.push(text);
                }
            }
        }
    }
    let made: usize = results.values().map(|(made, _)| made).sum();
    let readable: usize = results.values().map(|(_, readable)| readable.len()).sum();
    println!(
        "{readable} of {made} strings of {} rules stay readable",
        results.len()
    );
    let mut wrong = Vec::new();
    for (id, (made, readable)) in &results {
        if *made < STRINGS * seeds.len() || !readable.is_empty() {
            println!("{id}: {} of {made}: {readable:#?}", readable.len());
        }
        if readable.len() * OF_EACH > *made || *made < STRINGS {
            wrong.push(id);
        }
    }
    assert!(results.len() > 200, "{} rules", results.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(readable * IN_ALL <= made, "{readable} of {made} strings");
}
