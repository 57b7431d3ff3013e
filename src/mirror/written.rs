//! Attributes that are written as they come.

use prost::encoding::decode_varint;

use super::attributes::FEW;
use super::wire::{Key, Val, put_attribute};

/// Attributes behind something else in a buffer, as long as their names are apart.
pub(super) struct Written {
    out: Vec<u8>,
    /// Where they begin in it.
    start: usize,
    /// Which field of their message they are.
    number: u8,
    count: usize,
    /// Whether only we gave names so far.
    ours: bool,
    /// Which lengths and ends of names there are, one bit each: most names are new by that.
    met: u64,
    apart: bool,
}

impl Written {
    pub fn behind(out: Vec<u8>, number: u8) -> Self {
        Self {
            start: out.len(),
            out,
            number,
            count: 0,
            ours: true,
            met: 0,
            apart: true,
        }
    }

    /// From here on names come from the line.
    pub fn ours_end(&mut self) {
        self.ours = false;
    }

    pub fn put(&mut self, key: &Key<'_>, value: &Val<'_>) {
        let mark = key.mark();
        let maybe_twice = !self.ours && self.met & mark != 0;
        self.count += 1;
        // Source so many, comparing each with all before it is not the way.
        self.apart &= self.count <= FEW
            && !(maybe_twice && names(&self.out[self.start..]).any(|name| key.is(name)));
        if self.apart {
            self.met |= mark;
            put_attribute(self.number, key, value, &mut self.out);
        }
    }

    /// Gives the buffer back, with them in it if they are apart. Whether they are.
    pub fn end(mut self, out: &mut Vec<u8>) -> bool {
        if !self.apart {
            self.out.truncate(self.start);
        }
        *out = self.out;
        self.apart
    }
}

/// The names of attributes that were written one behind the other.
fn names(mut attributes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (_, rest) = attributes.split_first()?;
        let (mut attribute, rest) = sized(rest)?;
        attributes = rest;
        // No name at all is left out.
        if attribute.first() != Some(&(1 << 3 | 2)) {
            return Some(&[][..]);
        }
        attribute = &attribute[1..];
        Some(sized(attribute)?.0)
    })
}

/// Bytes behind their length, and what follows them.
fn sized(mut from: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = decode_varint(&mut from).ok()?;
    from.split_at_checked(usize::try_from(len).ok()?)
}
