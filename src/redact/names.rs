//! What is known of the names that fields mostly have: a program has few, and says them often.

use std::sync::OnceLock;

use super::escape::first_word;
use super::keys::Kind;
use super::scan::Redactor;

const SLOTS: usize = 256;
/// Longest name that is remembered.
const LONGEST: usize = 32;

/// The first name that came to a slot stays there.
pub(super) struct Names(Box<[OnceLock<Known>]>);

struct Known {
    name: Box<str>,
    ends: Ends,
    kind: Option<Kind>,
    /// It holds no secret itself.
    clean: bool,
}

/// The name of a field, and what it says about the value.
#[derive(Clone, Copy)]
pub(crate) struct FieldName<'a> {
    pub(super) text: &'a str,
    pub(super) kind: Option<Kind>,
    plain: bool,
}

impl FieldName<'_> {
    /// Whether it can be written as it is: nothing in it has to be masked or escaped.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether it says that the value is a secret.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.kind.is_some()
    }
}

/// The first and the last eight bytes of a name, or the whole of a shorter one twice: for most
/// names that, with the length, is all there is to compare.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends(u64, u64);

impl Ends {
    #[inline]
    fn of(name: &str) -> Self {
        let first = first_word(name.as_bytes());
        match name.as_bytes().last_chunk() {
            Some(last) => Self(first, u64::from_le_bytes(*last)),
            None => Self(first, first),
        }
    }
}

impl Known {
    #[inline]
    fn is(&self, name: &str, ends: Ends) -> bool {
        self.name.len() == name.len()
            && self.ends == ends
            && (name.len() <= 16 || *self.name == *name)
    }
}

impl Names {
    pub(super) fn new() -> Self {
        Self((0..SLOTS).map(|_| OnceLock::new()).collect())
    }

    #[inline]
    fn slot(&self, ends: Ends) -> Option<&OnceLock<Known>> {
        // A multiplication mixes into the highest bits, which say which slot.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (ends.0 ^ ends.1.rotate_left(7)).wrapping_mul(ODD);
        self.0.get((mixed >> 56) as usize % SLOTS)
    }
}

impl Redactor {
    /// Looks a field's name up, or remembers it.
    #[inline]
    fn known(&self, name: &str) -> Option<&Known> {
        let ends = Ends::of(name);
        let slot = self.names.slot(ends)?;
        match slot.get() {
            Some(known) => known.is(name, ends).then_some(known),
            None => self.learn(slot, name, ends),
        }
    }

    /// Only plain words are remembered: no secret is kept for the life of the process, and names
    /// with numbers in them would soon take all the room.
    #[cold]
    fn learn<'a>(&self, slot: &'a OnceLock<Known>, name: &str, ends: Ends) -> Option<&'a Known> {
        let plain = |byte| matches!(byte, b'a'..=b'z' | b'_' | b'.');
        if name.len() > LONGEST || !name.bytes().all(plain) {
            return None;
        }
        let known = slot.get_or_init(|| Known {
            name: name.into(),
            ends,
            kind: self.keys.kind(name),
            clean: self.find(name).is_empty(),
        });
        known.is(name, ends).then_some(known)
    }

    /// Looks at the name of a field.
    pub(crate) fn field<'a>(&self, name: &'a str) -> FieldName<'a> {
        let (kind, plain) = match self.known(name) {
            Some(known) => (known.kind, known.clean),
            None => (self.keys.kind(name), false),
        };
        FieldName {
            text: name,
            kind,
            plain,
        }
    }
}
