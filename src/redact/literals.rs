//! Finding many short literals at once, each as it is or whatever its ASCII case.
//!
//! Every two bytes, cut to five bits each (which also folds case), are looked up in a table that
//! fits the innermost cache. It tells which bytes before them and which after them make three that
//! a literal starts with, one bit each, so that only every other place is looked at. Only where
//! such a bit is set are the literals that start so compared. Most texts have few such places, and
//! no others are stopped at: a loop that often goes on for nothing is one whose way the processor
//! can't foresee, and costs more than the second bit does. This takes about a byte per nanosecond
//! in texts never seen before and never allocates.

use super::escape::first_word;

/// Literals, each with what it stands for.
pub(super) struct Literals<T> {
    /// For each two cut bytes which third before them and which after them makes the start of a
    /// literal.
    bits: Box<[[u32; 2]; 1024]>,
    /// For each cut triple one past the index of the bucket of the literals that start so, or 0.
    bucket_of: Box<[u16; 0x8000]>,
    buckets: Vec<Vec<Literal<T>>>,
}

struct Literal<T> {
    /// The first four bytes, in lower case where case is nothing. The last is 0 if there are
    /// only three.
    head: u32,
    /// Which of a text's first four bytes count.
    mask: u32,
    /// The bits that make those lower case, where case is nothing.
    fold: u32,
    /// The bytes after those.
    rest: Box<[u8]>,
    case: Case,
    what: T,
    length: usize,
}

/// Whether case tells literals from other texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Any,
    AsIs,
}

/// A literal found.
pub(super) struct Hit<T> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) what: T,
}

/// The shortest literal that can be looked for.
pub(super) const SHORTEST: usize = 3;

#[inline]
fn cut(triple: &[u8]) -> usize {
    usize::from(triple[0] & 31)
        | usize::from(triple[1] & 31) << 5
        | usize::from(triple[2] & 31) << 10
}

impl<T> Literal<T> {
    fn new(literal: &[u8], case: Case, what: T) -> Self {
        let (head, rest) = literal.split_at(literal.len().min(4));
        let word = |byte_of: fn(u8, Case) -> u8| {
            let mut bytes = [0; 4];
            let pairs = bytes.iter_mut().zip(head);
            pairs.for_each(|(byte, of)| *byte = byte_of(*of, case));
            u32::from_le_bytes(bytes)
        };
        let fold = word(|byte, case| match case {
            Case::Any if byte.is_ascii_alphabetic() => 0x20,
            _ => 0,
        });
        Self {
            head: word(|byte, _| byte) | fold,
            mask: word(|_, _| 0xff),
            fold,
            rest: rest.into(),
            case,
            what,
            length: literal.len(),
        }
    }

    /// Where it ends in `text`, if it is at `at`, where the four bytes of `head` are.
    #[inline]
    fn end(&self, head: u32, text: &[u8], at: usize) -> Option<usize> {
        if head & self.mask | self.fold != self.head {
            return None;
        }
        let end = at + self.length;
        let rest = text.get(end - self.rest.len()..end)?;
        let same = match self.case {
            Case::AsIs => *rest == *self.rest,
            Case::Any => rest.eq_ignore_ascii_case(&self.rest),
        };
        same.then_some(end)
    }
}

impl<T: Copy> Literals<T> {
    /// Literals shorter than [`SHORTEST`] are left out.
    pub(super) fn new(literals: impl IntoIterator<Item = (String, Case, T)>) -> Self {
        let mut all = Self {
            bits: Box::new([[0; 2]; 1024]),
            bucket_of: Box::new([0; 0x8000]),
            buckets: Vec::new(),
        };
        for (literal, case, what) in literals {
            let Some(triple) = literal.as_bytes().get(..SHORTEST) else {
                continue;
            };
            let index = cut(triple);
            if all.bucket_of[index] == 0 {
                // A few hundred at most; were there ever too many, they would share the last.
                if let Ok(number) = u16::try_from(all.buckets.len() + 1) {
                    all.buckets.push(Vec::new());
                    all.bucket_of[index] = number;
                } else {
                    all.bucket_of[index] = u16::MAX;
                }
            }
            all.bits[index >> 5][0] |= 1 << (index & 31);
            all.bits[index & 1023][1] |= 1 << (index >> 10);
            let bucket = usize::from(all.bucket_of[index]) - 1;
            all.buckets[bucket].push(Literal::new(literal.as_bytes(), case, what));
        }
        all
    }

    /// All literals in `text`, overlapping or not, in the order in which they start.
    pub(super) fn hits<'a>(&'a self, text: &'a [u8]) -> Hits<'a, T> {
        Hits {
            literals: self,
            text,
            at: 0,
            head: 0,
            bucket: &[],
            next: 0,
        }
    }

    /// Whether any literal is in `text`.
    pub(super) fn any(&self, text: &[u8]) -> bool {
        self.hits(text).next().is_some()
    }
}

pub(super) struct Hits<'a, T> {
    literals: &'a Literals<T>,
    text: &'a [u8],
    /// Where the bucket at hand applies.
    at: usize,
    /// The four bytes there.
    head: u32,
    bucket: &'a [Literal<T>],
    /// Where to look on when the bucket is done.
    next: usize,
}

impl<T> Literals<T> {
    /// The first place in `text` where a literal may start, or how many bytes at its end were too
    /// few to be looked at. By itself, so that all the loop needs is in registers.
    #[inline(never)]
    fn find(&self, text: &[u8]) -> Result<usize, usize> {
        let mut rest = text;
        // Eight places at a time.
        while let Some((ten, _)) = rest.split_first_chunk::<10>() {
            // The bytes from the second on by twos, cut to five bits each and moved together.
            let eight = first_word(&ten[1..]);
            let pairs = eight & 0x001f_001f_001f_001f | eight >> 3 & 0x03e0_03e0_03e0_03e0;
            let has = |bits: u32, byte: u8| bits.wrapping_shr(byte.into()) & 1 == 1;
            for n in 0..4 {
                let [before, after] = self.bits[(pairs >> (16 * n)) as usize & 1023];
                if has(before, ten[2 * n]) {
                    return Ok(text.len() - rest.len() + 2 * n);
                }
                if has(after, ten[2 * n + 3]) {
                    return Ok(text.len() - rest.len() + 2 * n + 1);
                }
            }
            rest = &rest[8..];
        }
        Err(rest.len())
    }

    /// Whether a literal may start with these three bytes.
    #[inline]
    fn may_start(&self, triple: &[u8]) -> bool {
        let index = cut(triple);
        self.bits[index >> 5][0] >> (index & 31) & 1 == 1
    }
}

impl<T: Copy> Hits<'_, T> {
    /// Goes to the next place where a literal may start.
    #[inline]
    fn next_place(&mut self) -> Option<()> {
        let text = self.text;
        self.at = match self.literals.find(text.get(self.next..)?) {
            Ok(place) => self.next + place,
            Err(left) => {
                let at = text.len() - left;
                let mut last = text[at..].windows(SHORTEST);
                at + last.position(|triple| self.literals.may_start(triple))?
            }
        };
        self.next = self.at + 1;
        self.head = first_word(text.get(self.at..)?) as u32;
        let bucket = self.literals.bucket_of[cut(&self.head.to_le_bytes())].checked_sub(1)?;
        self.bucket = &self.literals.buckets[usize::from(bucket)];
        Some(())
    }
}

impl<T: Copy> Iterator for Hits<'_, T> {
    type Item = Hit<T>;

    fn next(&mut self) -> Option<Hit<T>> {
        loop {
            while let Some((literal, rest)) = self.bucket.split_first() {
                self.bucket = rest;
                if let Some(end) = literal.end(self.head, self.text, self.at) {
                    return Some(Hit {
                        start: self.at,
                        end,
                        what: literal.what,
                    });
                }
            }
            self.next_place()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORDS: [(&str, Case); 8] = [
        ("abc", Case::Any),
        ("bca", Case::AsIs),
        ("cA0", Case::AsIs),
        ("ab_c", Case::Any),
        ("aab~caba0", Case::Any),
        ("B00", Case::AsIs),
        // Cut, these end in zeros.
        ("a@ ", Case::AsIs),
        ("0@ `", Case::Any),
    ];

    fn naive(text: &str) -> Vec<(usize, usize, usize)> {
        let same = |part: &str, word: &str, case| match case {
            Case::AsIs => part == word,
            Case::Any => part.eq_ignore_ascii_case(word),
        };
        let mut all = Vec::new();
        for start in 0..text.len() {
            for (n, (word, case)) in WORDS.iter().enumerate() {
                let end = start + word.len();
                if text.get(start..end).is_some_and(|p| same(p, word, *case)) {
                    all.push((start, end, n));
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn every_literal_is_found_wherever_it_stands(text in "[a-cA-C_~0@ `]{0,60}") {
            let words = (0..).zip(WORDS).map(|(n, (word, case))| (word.to_owned(), case, n));
            let literals = Literals::new(words);
            let hits = literals.hits(text.as_bytes());
            let found: Vec<_> = hits.map(|hit| (hit.start, hit.end, hit.what)).collect();
            prop_assert_eq!(found, naive(&text));
        }
    }
}
