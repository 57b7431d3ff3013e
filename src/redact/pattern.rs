//! Anchored regular expressions that are compiled when they are first used.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

/// A regular expression over bytes, anchored at its start, compiled when it is first used. In it,
/// `\w`, `\d` and `\s` stand for ASCII only.
#[derive(Default)]
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
    fn regex(&self) -> Option<&Regex> {
        let compile = || {
            let anchored = format!("^(?:{})", self.text);
            RegexBuilder::new(&anchored).unicode(false).build().ok()
        };
        self.regex.get_or_init(compile).as_ref()
    }

    pub(super) fn is_match(&self, bytes: &[u8]) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(bytes))
    }

    /// Where the match that starts at `from` ends, if there is one.
    pub(super) fn end(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let found = self.regex()?.find(bytes.get(from..)?)?;
        Some(from + found.end())
    }

    /// The bytes from the start that match, and of those the first group that took part, or all
    /// of them if the pattern has no groups.
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
