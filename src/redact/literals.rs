//! Finds many short literals in one pass.
//!
//! Every two bytes are looked up in a table of 8 KB, which says of which byte before them and of which byte after them
//! they make the first three of a literal. Only there literals are compared, which is at few places of ordinary text. An
//! `aho-corasick` DFA takes more than twice as long a byte, 3 ms to build and 640 KB.

use std::ops::Range;

/// Literals, each with what it stands for.
pub(super) struct Literals<T> {
    literals: Vec<Literal<T>>,
    /// For each two bytes, cut to five bits, a bit for each byte before them and for each byte after them with which
    /// they start a literal.
    starts: Box<[[u32; 2]; 1 << 10]>,
    /// For each three bytes, cut to five bits, one past the index of the bucket of the literals that they start, or 0.
    bucket_of: Box<[u16; 1 << 15]>,
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
    /// Its [`head`], as far as `mask` says that it has one: most candidates are ruled out by that alone.
    head: u32,
    mask: u32,
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

/// Three bytes cut to five bits each, which folds the case of letters.
fn cut(three: [u8; 3]) -> usize {
    let [first, second, third] = three.map(|byte| usize::from(byte & 31));
    first | second << 5 | third << 10
}

/// The first four bytes, without the bit that differs between capitals and small letters. After the end come zeros.
fn head(text: &[u8]) -> u32 {
    let mut four = [0; 4];
    match text.first_chunk() {
        Some(first) => four = *first,
        None => four[..text.len()].copy_from_slice(text),
    }
    u32::from_le_bytes(four) | 0x2020_2020
}

impl<T: Copy> Literals<T> {
    /// Literals shorter than [`SHORTEST`] are left out.
    pub(super) fn new<'a>(literals: impl Iterator<Item = (&'a str, Case, T)>) -> Self {
        let mut all = Self {
            literals: Vec::new(),
            starts: Box::new([[0; 2]; 1 << 10]),
            bucket_of: Box::new([0; 1 << 15]),
            buckets: Vec::new(),
        };
        for (literal, case, what) in literals {
            all.add(literal.as_bytes(), case, what);
        }
        all
    }

    fn add(&mut self, literal: &[u8], case: Case, what: T) {
        let Some(three) = literal.first_chunk() else {
            return;
        };
        let [first, second, third] = *three;
        self.starts[cut([second, third, 0])][0] |= 1 << (first & 31);
        self.starts[cut([first, second, 0])][1] |= 1 << (third & 31);
        let number = &mut self.bucket_of[cut(*three)];
        if *number == 0 {
            self.buckets.push(Vec::new());
            // There are some hundred literals.
            *number = self.buckets.len() as u16;
        }
        let mask = u32::MAX >> (8 * 4usize.saturating_sub(literal.len()));
        self.buckets[usize::from(*number) - 1].push(Candidate {
            index: self.literals.len() as u16,
            head: head(literal) & mask,
            mask,
        });
        self.literals.push(Literal {
            bytes: literal.into(),
            case,
            what,
        });
    }

    /// All literals in `text`, overlapping or not, in the order in which they start.
    pub(super) fn hits<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Hit<T>> + 'a {
        let mut next = 0;
        let places = std::iter::from_fn(move || {
            let place = self.next_place(text, next)?;
            next = place + 1;
            Some(place)
        });
        places.flat_map(move |start| {
            let rest = &text[start..];
            let head = head(rest);
            let may_be = move |it: &&Candidate| head & it.mask == it.head;
            self.bucket(rest)
                .iter()
                .filter(may_be)
                .filter_map(move |it| {
                    let literal = &self.literals[usize::from(it.index)];
                    let found = rest.get(..literal.bytes.len())?;
                    let same = match literal.case {
                        Case::Exact => *found == *literal.bytes,
                        Case::Any => found.eq_ignore_ascii_case(&literal.bytes),
                    };
                    let (literal, what) = (start..start + found.len(), literal.what);
                    same.then_some(Hit { literal, what })
                })
        })
    }

    /// The literals that may be at the start of a text.
    fn bucket(&self, text: &[u8]) -> &[Candidate] {
        let number = text
            .first_chunk()
            .map_or(0, |three| self.bucket_of[cut(*three)]);
        match usize::from(number).checked_sub(1) {
            Some(index) => &self.buckets[index],
            None => &[],
        }
    }

    /// The first place from `from` on where a literal may start. Not inlined, so that all the loop needs is in
    /// registers.
    #[inline(never)]
    fn next_place(&self, text: &[u8], from: usize) -> Option<usize> {
        let mut rest = text.get(from..)?;
        while let Some(ten) = rest.first_chunk() {
            if let Some(found) = self.start_in(ten) {
                return Some(text.len() - rest.len() + found);
            }
            rest = &rest[8..];
        }
        let starts = |three: &[u8]| self.bucket_of[cut([three[0], three[1], three[2]])] != 0;
        let found = rest.windows(SHORTEST).position(starts)?;
        Some(text.len() - rest.len() + found)
    }

    /// The first of eight places where a literal may start.
    #[inline]
    fn start_in(&self, ten: &[u8; 10]) -> Option<usize> {
        // The bytes between the first and the last by twos, cut to five bits each and moved together.
        let [_, eight @ .., _] = *ten;
        let eight = u64::from_le_bytes(eight);
        let pairs = eight & 0x001f_001f_001f_001f | eight >> 3 & 0x03e0_03e0_03e0_03e0;
        let has = |bits: u32, byte: u8| bits.wrapping_shr(byte.into()) & 1 == 1;
        for n in 0..4 {
            let [before, after] = self.starts[(pairs >> (16 * n)) as usize & 1023];
            if has(before, ten[2 * n]) {
                return Some(2 * n);
            }
            if has(after, ten[2 * n + 3]) {
                return Some(2 * n + 1);
            }
        }
        None
    }
}
