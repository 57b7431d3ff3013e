//! What is known of the names that fields mostly have: a program has few, and says them often.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::keys::Kind;
use super::scan::{Redactor, Tally};

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

    /// What the name of a field announces, if anything.
    pub(super) fn field_kind(&self, name: &str) -> Option<Kind> {
        match self.known(name) {
            Some(known) => known.kind,
            None => self.keys.kind(name),
        }
    }

    /// The name of a field as it may be written.
    pub(crate) fn field_name<'a>(&self, name: &'a str, tally: &mut Tally) -> Cow<'a, str> {
        match self.known(name) {
            Some(known) if known.clean => Cow::Borrowed(name),
            _ => self.text(name, tally),
        }
    }
}
