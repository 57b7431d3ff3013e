//! Redaction through the real layer: no byte of a secret reaches the disk, look-alikes are recorded
//! unchanged, and masks are correct.
//! disk; what only looks like one is recorded as it was; and masks say what they say truly.

mod inputs;
mod masks;
mod rules;
