//! The settings of redaction.

/// Which secrets are masked. Starts with all built-in rules on.
///
/// ```
/// use spanledger::redact::Redaction;
///
/// let redaction = Redaction::new()
///     .rule("badge", r"BADGE-(?<secret>\d{6})")
///     .key("door code")
///     .exempt_key("team_token");
/// # let _ = redaction;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    pub(super) rules: Vec<(String, String)>,
    pub(super) keys: Vec<String>,
    pub(super) exempt: Vec<String>,
    pub(super) keys_only: bool,
}

impl Redaction {
    /// All built-in rules, nothing of the user's.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a regular expression. What its group named `secret` matches is masked, or the whole
    /// match if it has no such group. The pattern is compiled when the redactor is made.
    #[must_use]
    pub fn rule(mut self, name: &str, pattern: &str) -> Self {
        self.rules.push((name.to_owned(), pattern.to_owned()));
        self
    }

    /// Adds a sensitive key, matched on its words like the built-in ones: `door code` also
    /// covers `doorCode`, `DOOR_CODE` and `front-door-code`.
    #[must_use]
    pub fn key(mut self, name: &str) -> Self {
        self.keys.push(name.to_owned());
        self
    }

    /// Never masks by key under this name, in any case style. Secrets known
    /// by their own shape are still masked there.
    #[must_use]
    pub fn exempt_key(mut self, name: &str) -> Self {
        self.exempt.push(name.to_owned());
        self
    }

    /// Turns off everything that looks at values: only keys of structured data, and the user's
    /// own rules, mask anything.
    #[must_use]
    pub fn without_value_shapes(mut self) -> Self {
        self.keys_only = true;
        self
    }
}
