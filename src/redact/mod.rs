//! Masks secrets in everything before it touches the disk.
//!
//! A secret is known in one of four ways: by the name of the field it is in (`api_key`), by its
//! own shape (`ghp_…`), by the name or place before it in running text (`--password …`,
//! `https://user:…@host`), or by a pattern of the user's. Shapes and places are listed in
//! `rules.toml`, names in `names.toml`. A mask with the rule, the length and a keyed hash replaces
//! the secret:
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
//! Nothing here panics on any input or recurses as deep as the input is nested, and all searches
//! are linear in its length.

mod checks;
mod config;
mod found;
mod json;
mod json_file;
mod json_stream;
mod json_walk;
mod key_value_rule;
mod limits;
mod literals;
mod manifests;
mod mask;
mod name_cache;
mod names;
mod pattern;
mod placeholders;
mod private_keys;
mod redactor;
mod root_key;
mod rules;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod toml;
mod value;

pub use crate::error::PatternError;
pub use config::Redaction;
pub use mask::MaskKey;
pub use redactor::{Redactor, Tally};

pub(crate) use json_file::JsonFile;
pub(crate) use limits::{Limits, NoStore, Output, Store, StoreFailed};
pub(crate) use name_cache::FieldName;
pub(crate) use root_key::load_or_create as load_or_create_key;
pub(crate) use stream::StreamState;
