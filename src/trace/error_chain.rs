//! Recognizes one failure in the errors of several spans.

use std::borrow::Cow;

use super::RawValue;
use super::failure::{TIME_LIMIT, UNKNOWN_TEXT};
use super::typed::ErrorInfo;

/// An inner message that is shorter than this is not looked for inside an outer one.
const SHORTEST_PART: usize = 4;

/// The messages of an error and of its causes, the outermost first. An error without a message has its
/// type. Where `?` passes an error to the spans around, their chains end with the same messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorChain {
    texts: Vec<String>,
    is_vague: bool,
}

impl ErrorChain {
    pub fn of(error: RawValue<'_>) -> Self {
        let info = ErrorInfo::from(error);
        let message = info.message().and_then(|message| message.text());
        let is = |test: fn(&str) -> bool| message.as_deref().is_some_and(test);
        let is_unknown = is(|text| text == UNKNOWN_TEXT);
        let is_vague = is_unknown || is(|text| text.starts_with(TIME_LIMIT));
        let message = message
            .or_else(|| info.error_type())
            .or_else(|| error.text());
        let message = message.filter(|_| !is_unknown);
        let causes = info.source().into_iter().flat_map(|causes| causes.items());
        let causes = causes.filter_map(|cause| cause.text());
        let chain = message.into_iter().chain(causes);
        Self {
            texts: chain.map(Cow::into_owned).collect(),
            is_vague,
        }
    }

    /// Whether the recorder wrote the error, because it does not have the one that the program gets: that of
    /// `Ok(Err(_))`, or of a time limit. If the span around fails next, that is the same failure.
    pub fn is_vague(&self) -> bool {
        self.is_vague
    }

    /// Whether it says anything.
    pub fn has_text(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Whether this is an error with `inner` as its last causes, or the same, or one that quotes it: the text of
    /// a panic is part of the error of its task. A vague error may be any.
    pub fn wraps(&self, inner: &Self) -> bool {
        let Some(first) = inner.texts.first() else {
            return inner.is_vague;
        };
        let quotes = |text: &String| first.len() >= SHORTEST_PART && text.contains(first);
        inner.is_vague || self.texts.ends_with(&inner.texts) || self.texts.iter().any(quotes)
    }
}

#[cfg(test)]
mod tests;
