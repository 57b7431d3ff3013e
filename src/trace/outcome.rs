//! How a span ended.

use super::named_enum;

named_enum! {
    /// How a span ended.
    ///
    /// `Unset` is the outcome of a span that was dropped without one; it is not a success. An agent never sets
    /// `Interrupted`: recovery writes it for a span whose process died.
    ///
    /// ```
    /// assert_eq!(spanledger::Outcome::Denied.as_str(), "denied");
    /// ```
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Outcome {
        /// It did what it was asked to do.
        Ok = "ok",
        /// It failed; the close line has the `error`.
        Error = "error",
        /// A permission rule or a person denied it. Not an error.
        Denied = "denied",
        /// It did not end within its time limit. An error.
        TimedOut = "timed_out",
        /// It was given up before it ended: a dropped future, an abort.
        Cancelled = "cancelled",
        /// Its process died or was shut down while it was open.
        Interrupted = "interrupted",
        /// None was recorded.
        #[default]
        Unset = "unset",
    }
}

impl Outcome {
    /// Whether it counts as an error: `error` and `timed_out`.
    ///
    /// ```
    /// use spanledger::Outcome;
    /// assert!(Outcome::TimedOut.is_error() && !Outcome::Denied.is_error());
    /// ```
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::TimedOut)
    }
}
