use std::fmt;

/// How a span ended.
///
/// `Unset` is the outcome of a span that was dropped without one; it is not a success. An agent never sets
/// `Interrupted`: recovery writes it for a span whose process died.
///
/// ```
/// assert_eq!(spanledger::Outcome::Denied.as_str(), "denied");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Outcome {
    /// It did what it was asked to do.
    Ok,
    /// It failed; the close line has the `error`.
    Error,
    /// A permission rule or a person denied it. Not an error.
    Denied,
    /// It was given up before it ended: a dropped future, a timeout, an abort.
    Cancelled,
    /// Its process died or was shut down while it was open.
    Interrupted,
    /// None was recorded.
    #[default]
    Unset,
}

impl Outcome {
    /// The outcome with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "ok" => Self::Ok,
            "error" => Self::Error,
            "denied" => Self::Denied,
            "cancelled" => Self::Cancelled,
            "interrupted" => Self::Interrupted,
            "unset" => Self::Unset,
            _ => return None,
        })
    }

    /// The word that stands in the trace.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Unset => "unset",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
