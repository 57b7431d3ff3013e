//! Recognizes one failure in the errors of several spans.

use std::borrow::Cow;

use super::RawValue;
use super::typed::ErrorInfo;

/// The messages of an error and of its causes, the outermost first. An error without a message has its
/// type. Where `?` passes an error to the spans around, their chains end with the same messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorChain(Vec<String>);

impl ErrorChain {
    pub fn of(error: RawValue<'_>) -> Self {
        let info = ErrorInfo::from(error);
        let message = info.message().and_then(|message| message.text());
        let message = message
            .or_else(|| info.error_type())
            .or_else(|| error.text());
        let causes = info.source().into_iter().flat_map(|causes| causes.items());
        let causes = causes.filter_map(|cause| cause.text());
        let chain = message.into_iter().chain(causes);
        Self(chain.map(Cow::into_owned).collect())
    }

    /// Whether this is an error with `inner` as its last causes, or the same.
    pub fn wraps(&self, inner: &Self) -> bool {
        !inner.0.is_empty() && self.0.ends_with(&inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(json: &str) -> ErrorChain {
        ErrorChain::of(RawValue::new(json))
    }

    #[test]
    fn context_wraps_the_error_it_was_added_to() {
        let inner =
            chain(r#"{"error_type":"io::Error","message":"no route","source":["timed out"]}"#);
        let outer = chain(r#"{"message":"turn 3","source":["no route","timed out"]}"#);
        assert!(outer.wraps(&inner) && inner.wraps(&inner));
        assert!(!inner.wraps(&outer));
        assert!(!outer.wraps(&chain(r#"{"message":"no route"}"#)));
    }

    #[test]
    fn type_stands_for_a_missing_message() {
        let error = chain(r#"{"error_type":"Timeout"}"#);
        assert!(error.wraps(&chain(r#"{"error_type":"Timeout"}"#)));
        assert!(!error.wraps(&chain("{}")));
    }
}
