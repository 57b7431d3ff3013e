//! Reads the tables of this module, `rules.toml` and `names.toml`.
//!
//! They are TOML without what they do not need: values are strings or lists of strings, strings
//! have no escapes, comments stand on their own lines. A `toml` crate would be a dependency of
//! every user's program, for two files that never change at run time.

/// Each `key = value` with its strings, in order. A table's header (`[[rule]]`) is a key without
/// strings.
pub(super) fn read(toml: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut entries: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in toml.lines().map(str::trim).filter(|l| !l.starts_with('#')) {
        let mut values = line;
        if line.starts_with("[[") {
            entries.push((line, Vec::new()));
        } else if line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            entries.push((key.trim(), Vec::new()));
            values = value;
        }
        // A list may go on over many lines.
        if let Some((_, strings)) = entries.last_mut() {
            push_strings(values, strings);
        }
    }
    entries
}

/// Adds what stands in quotes.
fn push_strings(mut text: &'static str, strings: &mut Vec<&'static str>) {
    while let Some(start) = text.find(['"', '\'']) {
        let rest = &text[start..];
        let quote = if rest.starts_with("'''") { 3 } else { 1 };
        let (quote, rest) = rest.split_at(quote);
        let Some((string, after)) = rest.split_once(quote) else {
            return;
        };
        strings.push(string);
        text = after;
    }
}
