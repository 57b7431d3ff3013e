//! Masks secrets in everything before it touches the disk.
//!
//! A secret is known in one of four ways: by the name of the field it is in (`api_key`), by its
//! own shape (`ghp_…`), by the name or place before it in running text (`--password …`,
//! `https://user:…@host`), or by a pattern of the user's. What is found is replaced by a mask
//! that tells the rule, the length and a keyed hash:
//!
//! ```
//! use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};
//!
//! let redactor = Redactor::new(&Redaction::new(), MaskKey::new([7; 32]))?;
//! let mut tally = Tally::default();
//! let clean = redactor.text("login --password correct-horse", &mut tally);
//! assert!(clean.starts_with("login --password [masked rule=key:password bytes=13 hmac="));
//! assert_eq!(tally.masked, 1);
//! # Ok::<(), spanledger::redact::PatternError>(())
//! ```
//!
//! Nothing here panics on any input or recurses as deep as the input says, and all searches are
//! linear in its length.

mod assign;
mod bytes;
mod check;
mod config;
mod counted;
mod escape;
mod held;
mod json;
mod keys;
mod literals;
mod mask;
mod names;
mod piece;
mod places;
mod private;
mod scan;
mod shapes;
mod sizes;
#[cfg(test)]
mod tests;
mod value;
mod vendors;

pub use config::{PatternError, Redaction};
pub use json::NotJson;
pub use mask::MaskKey;
pub use scan::{Found, Redactor, Tally};
pub use sizes::{Limits, Store, StoreFailed};

pub(crate) use escape::{unescape, write_string};
pub(crate) use held::{Held, Piece, SeenAs};
pub(crate) use names::FieldName;
