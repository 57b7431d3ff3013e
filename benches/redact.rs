//! How much ordinary source code redaction masks by mistake.
//!
//! ```text
//! cargo bench --bench redact                  masks per MB over all the code there is, and by rule
//! cargo bench --bench redact -- --list        the rule and the line of every mask
//! cargo bench --bench redact -- --quick       about 50 MB of it
//! ```
//!
//! The code is that of the packages in the local cargo registry. There are almost no secrets in
//! it, so nearly every mask is a false one. Nothing is asserted: the target is printed beside what was measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};

const MB: usize = 1_000_000;
const QUICK: usize = 50 * MB;
const TARGET: f64 = 1.0;

fn main() {
    let flag = |name: &str| std::env::args().any(|arg| arg == name);
    let redactor = Redactor::new(&Redaction::new(), MaskKey::new([7; 32]))
        .expect("there are no patterns to compile");
    let mut texts = Vec::new();
    read_texts(&registry(), &mut texts);
    let total: usize = texts.iter().map(|(_, text)| text.len()).sum();
    // Files from all packages alike, rather than all files of the first ones.
    let every = if flag("--quick") {
        (total / QUICK).max(1)
    } else {
        1
    };
    let (mut bytes, mut masks) = (0, BTreeMap::<String, usize>::new());
    for (path, text) in texts.iter().step_by(every) {
        bytes += text.len();
        let clean = redactor.text(text, &mut Tally::default());
        for (rule, start) in masked(&clean) {
            if flag("--list") {
                let begins = text[..start].rfind('\n').map_or(0, |end| end + 1);
                let line = text[begins..].lines().next().unwrap_or_default();
                println!("{rule}\t{}\t{:.200}", path.display(), line.trim());
            }
            *masks.entry(rule).or_default() += 1;
        }
    }
    let megabytes = bytes as f64 / MB as f64;
    let count: usize = masks.values().sum();
    let per_mb = count as f64 / megabytes;
    println!("{count} masks in {megabytes:.1} MB: {per_mb:.2} per MB (target: at most {TARGET})");
    let mut by_count: Vec<_> = masks.into_iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (rule, count) in by_count {
        println!("{count:6}  {rule}");
    }
}

/// The rule of each mask in a text, and where in the text before it the secret stood.
fn masked(clean: &str) -> Vec<(String, usize)> {
    let mut parts = clean.split("[masked rule=");
    let mut start = parts.next().map_or(0, str::len);
    let mask = |part: &str| {
        let (mask, rest) = part.split_once(']')?;
        let (rule, mask) = mask.split_once(" bytes=")?;
        let length: usize = mask.split(' ').next()?.parse().ok()?;
        let found = (rule.to_owned(), start);
        start += length + rest.len();
        Some(found)
    };
    parts.filter_map(mask).collect()
}

/// Where cargo keeps the sources of packages.
fn registry() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    home.unwrap_or_default().join("registry/src")
}

/// Adds the texts below `dir`, in the order of their names.
fn read_texts(dir: &Path, texts: &mut Vec<(PathBuf, String)>) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_texts(&path, texts);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            texts.push((path, text));
        }
    }
}
