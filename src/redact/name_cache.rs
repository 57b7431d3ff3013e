//! Caches which names of fields announce a secret: a program has few names, and uses them often.
//! Looking up a cached name takes 30 ns, any other name 300.

use std::sync::OnceLock;

use super::names::Kind;
use super::redactor::Redactor;

/// Longest name that is cached.
const LONGEST: usize = 32;

/// The first name that comes to a slot stays there.
pub(super) struct NameCache([OnceLock<Slot>; 256]);

/// A name, what it announces, and whether it can be written as it is.
type Slot = (Box<str>, Option<Kind>, bool);

/// The name of a field, and what it announces about the value.
#[derive(Clone, Copy)]
pub(crate) struct FieldName<'a> {
    pub(super) text: &'a str,
    pub(super) kind: Option<Kind>,
    plain: bool,
}

impl FieldName<'_> {
    /// Whether the name can be written as it is: nothing in it has to be masked or escaped.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether the name announces a secret.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.kind.is_some()
    }
}

impl NameCache {
    pub(super) fn new() -> Self {
        Self([const { OnceLock::new() }; 256])
    }

    fn slot(&self, name: &str) -> &OnceLock<Slot> {
        let byte = |at: usize| name.as_bytes().get(at).copied().unwrap_or(0);
        let last = name.len().saturating_sub(1);
        let key = [name.len() as u8, byte(0), byte(last / 2), byte(last)];
        // A multiplication mixes into the highest bits.
        let mixed = u32::from_le_bytes(key).wrapping_mul(0x9e37_79b9);
        &self.0[(mixed >> 24) as usize]
    }
}

impl Redactor {
    /// Looks up the name of a field.
    pub(crate) fn field<'a>(&self, text: &'a str) -> FieldName<'a> {
        let slot = self.name_cache.slot(text);
        // Only plain words are cached: no secret is kept for the life of the process, and
        // names with numbers in them would soon fill the cache.
        let is_word = |byte| matches!(byte, b'a'..=b'z' | b'_' | b'.');
        if slot.get().is_none() && text.len() <= LONGEST && text.bytes().all(is_word) {
            let clean = self.find(text).is_empty();
            slot.get_or_init(|| (text.into(), self.name_kind(text), clean));
        }
        let (kind, plain) = match slot.get() {
            Some((known, kind, clean)) if **known == *text => (*kind, *clean),
            _ => (self.name_kind(text), false),
        };
        FieldName { text, kind, plain }
    }
}
