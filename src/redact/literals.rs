//! Finds many short literals in one pass.
//!
//! A table says which three bytes a literal has at its first or second byte; every other place of the text is looked
//! up in it, and literals are compared only where it has an entry, which is at few places of ordinary text. An
//! `aho-corasick` DFA takes more than twice as long a byte, 3 ms to build and 640 KB.

use std::ops::Range;

/// How many keys there are.
const KEYS: usize = 1 << 15;

/// Literals, each with what it stands for.
pub(super) struct Literals<T> {
    literals: Vec<Literal<T>>,
    /// For each key one past the index of its bucket, or 0.
    bucket_of: Box<[u16; KEYS]>,
    buckets: Vec<Vec<Candidate>>,
}

struct Literal<T> {
    bytes: Box<[u8]>,
    case: Case,
    what: T,
}

/// A literal that may be at a place.
#[derive(Clone, Copy)]
struct Candidate {
    index: u16,
    /// It starts one byte before the place.
    before: bool,
}

/// Whether the case of letters matters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Any,
    Exact,
}

/// A literal found.
pub(super) struct Hit<T> {
    pub(super) literal: Range<usize>,
    pub(super) what: T,
}

/// The shortest literal that can be searched for.
pub(super) const SHORTEST: usize = 3;

/// The key of three bytes, the first of which is the lowest: each is cut to five bits, which folds the case of
/// letters. Hardly two have the same key.
fn key(three: u32) -> usize {
    ((three & 0x1f_1f1f).wrapping_mul(0x0802_0010) >> 17) as usize
}

fn key_of(bytes: [u8; 3]) -> usize {
    key(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
}

impl<T: Copy> Literals<T> {
    /// Literals shorter than [`SHORTEST`] are left out.
    pub(super) fn new<'a>(literals: impl Iterator<Item = (&'a str, Case, T)>) -> Self {
        let long_enough = literals.filter(|(literal, ..)| literal.len() >= SHORTEST);
        let mut all = Self {
            literals: long_enough
                .map(|(literal, case, what)| Literal {
                    bytes: literal.as_bytes().into(),
                    case,
                    what,
                })
                .collect(),
            bucket_of: Box::new([0; KEYS]),
            buckets: Vec::new(),
        };
        // In each bucket those that start earlier come first.
        for before in [true, false] {
            for index in 0..all.literals.len() {
                let bytes = &all.literals[index].bytes[usize::from(before)..];
                let keys: Vec<_> = match *bytes {
                    [first, second, third, ..] => vec![key_of([first, second, third])],
                    [first, second] => (0..32).map(|any| key_of([first, second, any])).collect(),
                    _ => Vec::new(),
                };
                // There are some hundred literals.
                let index = index as u16;
                keys.into_iter()
                    .for_each(|key| all.add(key, Candidate { index, before }));
            }
        }
        all
    }

    fn add(&mut self, key: usize, candidate: Candidate) {
        let number = &mut self.bucket_of[key];
        if *number == 0 {
            self.buckets.push(Vec::new());
            // There are no more than 32,768 keys.
            *number = self.buckets.len() as u16;
        }
        self.buckets[usize::from(*number) - 1].push(candidate);
    }

    /// All literals in `text`, overlapping or not, in the order in which they start.
    pub(super) fn hits<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Hit<T>> + 'a {
        let mut next = 0;
        let places = std::iter::from_fn(move || {
            let (place, bucket) = self.next_place(text, next)?;
            next = place + 2;
            Some((place, bucket))
        });
        places.flat_map(move |(place, bucket)| {
            bucket.iter().filter_map(move |candidate| {
                let literal = &self.literals[usize::from(candidate.index)];
                let start = place.checked_sub(usize::from(candidate.before))?;
                let end = start + literal.bytes.len();
                let found = text.get(start..end)?;
                let same = match literal.case {
                    Case::Exact => *found == *literal.bytes,
                    Case::Any => found.eq_ignore_ascii_case(&literal.bytes),
                };
                let (literal, what) = (start..end, literal.what);
                same.then_some(Hit { literal, what })
            })
        })
    }

    /// The first place from `from` on, in steps of two, that has candidates, and those. Not inlined, so that all
    /// the loop needs is in registers.
    #[inline(never)]
    fn next_place(&self, text: &[u8], from: usize) -> Option<(usize, &[Candidate])> {
        let mut at = from;
        // Four places at a time.
        while let Some(ten) = text.get(at..).and_then(|rest| rest.first_chunk::<10>()) {
            let word = |from: usize| {
                u32::from_le_bytes([ten[from], ten[from + 1], ten[from + 2], ten[from + 3]])
            };
            let keys = [word(0), word(2), word(4), word(6)].map(key);
            if let Some(found) = keys.iter().position(|key| self.bucket_of[*key] != 0) {
                return Some((at + 2 * found, self.bucket(keys[found])?));
            }
            at += 8;
        }
        loop {
            let key = match *text.get(at..)? {
                [first, second, third, ..] => key_of([first, second, third]),
                // The end of a literal of three bytes.
                [first, second] => key_of([first, second, 0]),
                _ => return None,
            };
            if let Some(bucket) = self.bucket(key) {
                return Some((at, bucket));
            }
            at += 2;
        }
    }

    fn bucket(&self, key: usize) -> Option<&[Candidate]> {
        let index = usize::from(self.bucket_of[key]).checked_sub(1)?;
        Some(&self.buckets[index])
    }
}
