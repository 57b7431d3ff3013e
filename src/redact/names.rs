//! What is known of the names that fields mostly have: a program has few, and says them often.

use std::sync::OnceLock;

use super::keys::Kind;
use super::scan::Redactor;

const SLOTS: usize = 128;
/// Longest name that is remembered.
const LONGEST: usize = 32;

/// The first name that came to a slot stays there.
pub(super) struct Names(Box<[OnceLock<Known>]>);

struct Known {
    name: Box<str>,
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

impl Names {
    pub(super) fn new() -> Self {
        Self((0..SLOTS).map(|_| OnceLock::new()).collect())
    }

    fn slot(&self, name: &str) -> Option<&OnceLock<Known>> {
        let bytes = name.as_bytes();
        let (&first, &last) = (bytes.first()?, bytes.last()?);
        let mix = |sum: usize, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
        let sum = mix(mix(mix(bytes.len(), first), bytes[bytes.len() / 2]), last);
        self.0.get(sum % SLOTS)
    }
}

impl Redactor {
    /// Looks a field's name up, or remembers it. Only plain words are: no secret is kept for the
    /// life of the process, and names with numbers in them would soon take all the room.
    fn known(&self, name: &str) -> Option<&Known> {
        let slot = self.names.slot(name)?;
        if let Some(known) = slot.get() {
            return (*known.name == *name).then_some(known);
        }
        let plain = |byte| matches!(byte, b'a'..=b'z' | b'_' | b'.');
        if name.len() > LONGEST || !name.bytes().all(plain) {
            return None;
        }
        let known = slot.get_or_init(|| Known {
            name: name.into(),
            kind: self.keys.kind(name),
            clean: self.find(name).is_empty(),
        });
        (*known.name == *name).then_some(known)
    }

    /// Looks at the name of a field.
    pub(crate) fn field<'a>(&self, name: &'a str) -> FieldName<'a> {
        match self.known(name) {
            Some(known) => FieldName {
                text: name,
                kind: known.kind,
                plain: known.clean,
            },
            None => FieldName {
                text: name,
                kind: self.keys.kind(name),
                plain: false,
            },
        }
    }
}
