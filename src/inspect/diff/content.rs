//! Texts as a comparison keeps them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::request;
use crate::trace::{RawValue, floor_char};

/// The longest text that is kept of a message, of arguments or of a result, in bytes.
const MAX_TEXT: usize = 4096;

/// The longest text that a detail quotes, in characters.
const MAX_QUOTED: usize = 60;

/// A text, and a hash of all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub hash: u64,
    pub text: String,
}

impl Content {
    pub fn new(whole: &str) -> Self {
        Self {
            hash: hash(whole),
            text: shortened(whole),
        }
    }

    /// A value as it is, or by the digest of its blob.
    pub fn of(value: RawValue<'_>) -> Self {
        if let Some(marker) = value.marker()
            && let Some(blob) = &marker.blob
        {
            return Self {
                hash: hash(blob),
                text: marker.head.map(|head| shortened(&head)).unwrap_or_default(),
            };
        }
        match value.text() {
            Some(text) => Self::new(&text),
            None => match value.value() {
                Some(value) => Self::new(&request::canonical(&value)),
                None => Self::new(value.json()),
            },
        }
    }

    pub fn add(&mut self, other: Self) {
        if self.hash == 0 && self.text.is_empty() {
            *self = other;
            return;
        }
        self.hash = hash(&(self.hash, other.hash));
        if self.text.len() < MAX_TEXT {
            self.text.push('\n');
            self.text.push_str(&other.text);
        }
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn shortened(text: &str) -> String {
    match text.len() > MAX_TEXT {
        true => format!("{}…", &text[..floor_char(text, MAX_TEXT)]),
        false => text.to_owned(),
    }
}

/// A short quotation.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("“{}…”", &text[..end]),
        None => format!("“{text}”"),
    }
}

/// Two short quotations, from a little before the place where the texts begin to differ.
pub(super) fn quotes(a: &str, b: &str) -> (String, String) {
    let same = a
        .chars()
        .zip(b.chars())
        .take_while(|(one, other)| one == other);
    let skip = same.count().saturating_sub(MAX_QUOTED / 3);
    let from = |text: &str| match text.char_indices().nth(skip) {
        Some((at, _)) if skip > 0 => quote(&format!("…{}", &text[at..])),
        _ => quote(text),
    };
    (from(a), from(b))
}
