//! Finding many short literals at once, each as it is or whatever its ASCII case.
//!
//! Three bytes, cut to five bits each (which also folds case), are looked up in a table of 32,768
//! bits that fits the innermost cache. It tells of a literal that starts at the first of them or
//! one place before, so that only every other place is looked at. Only where the bit is set are
//! the literals that start so compared. Most texts have few such places, so that this takes a
//! few bytes per nanosecond and never allocates.

/// Literals, each with what it stands for.
pub(super) struct Literals<T> {
    /// Which cut triples are the first or the second to fourth byte of a literal.
    bits: Box<[u64; 512]>,
    /// For each cut triple one past the index of the bucket of the literals that start so, or 0.
    bucket_of: Box<[u16; 0x8000]>,
    buckets: Vec<Vec<Literal<T>>>,
}

struct Literal<T> {
    /// The first three bytes, in lower case where case is nothing.
    head: u32,
    /// The bits that make a text's first three bytes lower case, where case is nothing.
    fold: u32,
    /// The bytes after those.
    rest: Box<[u8]>,
    case: Case,
    what: T,
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

fn cut(triple: &[u8]) -> usize {
    usize::from(triple[0] & 31)
        | usize::from(triple[1] & 31) << 5
        | usize::from(triple[2] & 31) << 10
}

fn word(triple: &[u8]) -> u32 {
    u32::from_le_bytes([triple[0], triple[1], triple[2], 0])
}

impl<T> Literal<T> {
    fn new(literal: &[u8], case: Case, what: T) -> Self {
        let (head, rest) = literal.split_at(SHORTEST);
        let upper_bit = |byte: &u8| match case {
            Case::Any if byte.is_ascii_alphabetic() => 0x20,
            _ => 0,
        };
        let fold: Vec<u8> = head.iter().map(upper_bit).collect();
        let (head, fold) = (word(head), word(&fold));
        Self {
            head: head | fold,
            fold,
            rest: rest.into(),
            case,
            what,
        }
    }

    /// Where it ends in `text`, if that is `at` behind its first three bytes, which were `head`.
    fn end(&self, head: u32, text: &[u8], at: usize) -> Option<usize> {
        if head | self.fold != self.head {
            return None;
        }
        let end = at + self.rest.len();
        let rest = text.get(at..end)?;
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
            bits: Box::new([0; 512]),
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
            all.mark(index);
            match literal.as_bytes().get(1..=SHORTEST) {
                Some(triple) => all.mark(cut(triple)),
                None => (0..32).for_each(|any| all.mark(cut(&[triple[1], triple[2], any]))),
            }
            let bucket = usize::from(all.bucket_of[index]) - 1;
            all.buckets[bucket].push(Literal::new(literal.as_bytes(), case, what));
        }
        all
    }

    fn mark(&mut self, index: usize) {
        self.bits[index >> 6] |= 1 << (index & 63);
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
    /// The three bytes there.
    head: u32,
    bucket: &'a [Literal<T>],
    /// Where to look on when the bucket is done.
    next: usize,
}

impl<T> Literals<T> {
    /// Where in `text` the first literal may start, and the index of the bucket it would be in.
    fn find(&self, text: &[u8]) -> Option<(usize, usize)> {
        // The bytes at hand are cut to five bits each, the first one lowest.
        let hot = |bytes: u64| {
            let index = (bytes >> 5 & 0x7fff) as usize;
            self.bits[index >> 6] >> (index & 63) & 1 == 1
        };
        let bucket = |bytes: u64| self.bucket_of[(bytes & 0x7fff) as usize].checked_sub(1);
        let place = |at: usize, bytes: u64| match bucket(bytes) {
            Some(found) => Some((at, found.into())),
            None => bucket(bytes >> 5).map(|found| (at + 1, found.into())),
        };
        let (first, rest) = text.split_first_chunk::<2>()?;
        let mut bytes = cut(&[first[0], first[1], 0]) as u64;
        let (eights, rest) = rest.as_chunks::<8>();
        for (n, eight) in eights.iter().enumerate() {
            bytes |= cut_eight(eight) << 10;
            for pair in 0..4 {
                if hot(bytes >> (10 * pair))
                    && let Some(found) = place(8 * n + 2 * pair, bytes >> (10 * pair))
                {
                    return Some(found);
                }
            }
            bytes >>= 40;
        }
        let (pairs, odd) = rest.as_chunks::<2>();
        let at = 8 * eights.len();
        for (n, [one, two]) in pairs.iter().enumerate() {
            bytes |= (cut(&[*one, *two, 0]) << 10) as u64;
            if hot(bytes)
                && let Some(found) = place(at + 2 * n, bytes)
            {
                return Some(found);
            }
            bytes >>= 10;
        }
        bytes |= u64::from(odd.first()? & 31) << 10;
        bucket(bytes).map(|found| (at + 2 * pairs.len(), found.into()))
    }
}

impl<T> Hits<'_, T> {
    /// Goes to the next place where a literal may start.
    fn next_place(&mut self) -> Option<()> {
        let rest = self.text.get(self.next..)?;
        let (skipped, bucket) = self.literals.find(rest)?;
        self.bucket = &self.literals.buckets[bucket];
        self.head = word(&rest[skipped..]);
        self.at = self.next + skipped;
        self.next = self.at + 1;
        Some(())
    }
}

/// Eight bytes cut to five bits each, the first one lowest.
fn cut_eight(bytes: &[u8; 8]) -> u64 {
    let x = u64::from_le_bytes(*bytes);
    let x = x & 0x001f_001f_001f_001f | x >> 3 & 0x03e0_03e0_03e0_03e0;
    let x = x & 0x0000_03ff_0000_03ff | x >> 6 & 0x000f_fc00_000f_fc00;
    x & 0x000f_ffff | x >> 12 & 0xff_fff0_0000
}

impl<T: Copy> Iterator for Hits<'_, T> {
    type Item = Hit<T>;

    fn next(&mut self) -> Option<Hit<T>> {
        loop {
            while let Some((literal, rest)) = self.bucket.split_first() {
                self.bucket = rest;
                if let Some(end) = literal.end(self.head, self.text, self.at + SHORTEST) {
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

    const WORDS: [(&str, Case); 6] = [
        ("abc", Case::Any),
        ("bca", Case::AsIs),
        ("cA0", Case::AsIs),
        ("ab_c", Case::Any),
        ("aab~caba0", Case::Any),
        ("B00", Case::AsIs),
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
        fn every_literal_is_found_wherever_it_stands(text in "[a-cA-C_~0]{0,60}") {
            let words = (0..).zip(WORDS).map(|(n, (word, case))| (word.to_owned(), case, n));
            let literals = Literals::new(words);
            let hits = literals.hits(text.as_bytes());
            let found: Vec<_> = hits.map(|hit| (hit.start, hit.end, hit.what)).collect();
            prop_assert_eq!(found, naive(&text));
        }
    }
}
