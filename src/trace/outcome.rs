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
    /// It did not end within its time limit. An error.
    TimedOut,
    /// It was given up before it ended: a dropped future, an abort.
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
            "timed_out" => Self::TimedOut,
            "cancelled" => Self::Cancelled,
            "interrupted" => Self::Interrupted,
            "unset" => Self::Unset,
            _ => return None,
        })
    }

    /// Whether it counts as an error: `error` and `timed_out`.
    ///
    /// ```
    /// use spanledger::Outcome;
    /// assert!(Outcome::TimedOut.is_error() && !Outcome::Denied.is_error());
    /// ```
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::TimedOut)
    }

    /// The word that stands in the trace.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::TimedOut => "timed_out",
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
