//! Secrets found in a text.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

/// A secret found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The secret with the context on its left that gives it away, such as `--password `.
    pub(super) whole: Range<usize>,
    /// The bytes that are masked.
    pub(super) secret: Range<usize>,
    rule: Cow<'static, str>,
    rank: u8,
}

/// Of secrets found at the same place, the rule of the lowest rank names the mask. Shapes have the
/// ranks between those of the user's rules and the context's.
pub(super) const BY_USER: u8 = 0;
pub(super) const BY_SHAPE: u8 = 100;
pub(super) const BY_CONTEXT: u8 = 101;
pub(super) const BY_NAME: u8 = 102;

impl Found {
    /// A secret whose context starts at `start`.
    pub(super) fn new(
        rule: impl Into<Cow<'static, str>>,
        rank: u8,
        start: usize,
        secret: Range<usize>,
    ) -> Self {
        Self {
            whole: start..secret.end,
            secret,
            rule: rule.into(),
            rank,
        }
    }

    /// The name of the rule, as masks give it.
    pub(super) fn rule(&self) -> &str {
        &self.rule
    }
}

/// Sorts, and joins what overlaps: nothing that any rule found stays readable.
pub(super) fn merge_overlaps(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|f| (f.secret.start, Reverse(f.secret.end), f.rank));
    let mut merged: Vec<Found> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.secret.start < last.secret.end => {
                last.whole.start = last.whole.start.min(next.whole.start);
                if next.secret.end > last.secret.end {
                    if next.secret.len() > last.secret.len() {
                        last.rule = next.rule;
                    }
                    last.secret.end = next.secret.end;
                    last.whole.end = next.secret.end;
                }
            }
            // A name that is itself part of a secret (`mysql -ptop-secret db`) is not repeated.
            Some(last) if next.rank == BY_NAME && next.whole.start < last.secret.end => {
                let rule = Cow::Borrowed("key:masked");
                merged.push(Found { rule, ..next });
            }
            _ => merged.push(next),
        }
    }
    merged
}
