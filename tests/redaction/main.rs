//! Redaction through the real layer: whichever way a secret gets in, no byte of it reaches the
//! disk; what only looks like one is recorded as it was; and masks say what they say truly.

mod masks;
mod rules;
#[path = "../support/secrets.rs"]
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod ways;
