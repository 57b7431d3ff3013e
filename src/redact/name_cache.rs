//! Caches what is known of the names of fields, above all which announce a secret: a program has few names, and
//! uses them often. Looking up a cached name takes 30 ns, any other name 300.

use std::sync::OnceLock;

use super::names::Kind;
use super::redactor::Redactor;
use crate::trace::{FieldRole, SpanKind};

/// Longest name that is cached.
const LONGEST: usize = 32;

/// The first name that comes to a slot stays there.
pub(super) struct NameCache([OnceLock<Slot>; 256]);

struct Slot {
    /// The name as the start of a member: `"name":`.
    member: Box<str>,
    /// Whether it can be written so.
    clean: bool,
    kind: Option<Kind>,
    roles: [FieldRole; SpanKind::ALL.len()],
}

impl Slot {
    fn is(&self, name: &str) -> bool {
        self.member.as_bytes()[1..self.member.len() - 2] == *name.as_bytes()
    }
}

/// The name of a field, and what it announces about the value.
#[derive(Clone, Copy)]
pub(crate) struct FieldName<'a> {
    pub(super) text: &'a str,
    pub(super) kind: Option<Kind>,
    /// What is cached of it.
    slot: Option<&'a Slot>,
}

impl FieldName<'_> {
    /// The name as the start of a member (`"name":`), if it is known that nothing in it is masked or escaped.
    pub(crate) fn member(&self) -> Option<&str> {
        let slot = self.slot.filter(|slot| slot.clean)?;
        Some(&slot.member)
    }

    /// Whether the name announces a secret.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.kind.is_some()
    }

    /// When a field of this name is written, on a span of this kind.
    pub(crate) fn role(&self, span: SpanKind) -> FieldRole {
        match self.slot {
            Some(slot) => slot.roles[span as usize],
            None => span.role(self.text),
        }
    }
}

impl NameCache {
    pub(super) fn new() -> Self {
        Self([const { OnceLock::new() }; 256])
    }

    fn slot(&self, name: &str) -> &OnceLock<Slot> {
        let bytes = name.as_bytes();
        let key = match bytes {
            [first, .., last] => [bytes.len() as u8, *first, bytes[bytes.len() / 2], *last],
            _ => [0; 4],
        };
        // A multiplication mixes into the highest bits.
        let mixed = u32::from_le_bytes(key).wrapping_mul(0x9e37_79b9);
        &self.0[(mixed >> 24) as usize]
    }
}

impl Redactor {
    /// Looks up the name of a field.
    #[inline]
    pub(crate) fn field<'a>(&'a self, text: &'a str) -> FieldName<'a> {
        let slot = self.name_cache.slot(text);
        match slot.get().or_else(|| self.cache(text, slot)) {
            Some(slot) if slot.is(text) => FieldName {
                text,
                kind: slot.kind,
                slot: Some(slot),
            },
            _ => FieldName {
                text,
                kind: self.name_kind(text),
                slot: None,
            },
        }
    }

    #[cold]
    fn cache<'a>(&self, text: &str, slot: &'a OnceLock<Slot>) -> Option<&'a Slot> {
        // Only plain words are cached: no secret is kept for the life of the process, and
        // names with numbers in them would soon fill the cache.
        let is_word = |byte| matches!(byte, b'a'..=b'z' | b'_' | b'.');
        let is_cached = text.len() <= LONGEST && text.bytes().all(is_word);
        is_cached.then(|| {
            slot.get_or_init(|| Slot {
                member: format!("\"{text}\":").into(),
                clean: self.find(text).is_empty(),
                kind: self.name_kind(text),
                roles: SpanKind::ALL.map(|span| span.role(text)),
            })
        })
    }
}
