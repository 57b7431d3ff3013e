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
    bucket_of: Box<[u16]>,
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
            bucket_of: vec![0; 32 * 32 * 32].into(),
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

impl<T> Hits<'_, T> {
    /// Goes to the next place where a literal may start.
    fn next_place(&mut self) -> Option<()> {
        loop {
            let rest = self.text.get(self.next..).unwrap_or_default();
            let skipped = cold(&self.literals.bits, rest);
            let at = self.next + skipped;
            let triple = self.text.get(at..at + SHORTEST)?;
            if !self.starts(at, triple) {
                let triple = self.text.get(at + 1..=at + SHORTEST)?;
                if !self.starts(at + 1, triple) {
                    self.next = at + 2;
                    continue;
                }
            }
            return Some(());
        }
    }

    /// Whether a literal may start with the `triple` at `at`; then it is gone to.
    #[inline]
    fn starts(&mut self, at: usize, triple: &[u8]) -> bool {
        let Some(bucket) = self.literals.bucket_of[cut(triple)].checked_sub(1) else {
            return false;
        };
        self.bucket = &self.literals.buckets[usize::from(bucket)];
        self.head = word(triple);
        (self.at, self.next) = (at, at + 1);
        true
    }
}

/// How many bytes at the start of `text` begin no literal.
fn cold(bits: &[u64; 512], text: &[u8]) -> usize {
    let hot = |index: u64| bits[(index >> 6 & 511) as usize] >> (index & 63) & 1 == 1;
    let Some((first, rest)) = text.split_at_checked(SHORTEST - 1) else {
        return text.len();
    };
    let mut before = u64::from(first[1] & 31);
    let (eights, rest) = rest.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate() {
        let bytes = cut_eight(eight) << 5 | before;
        before = bytes >> 40;
        for pair in 0..4 {
            if hot(bytes >> (10 * pair) & 0x7fff) {
                return 8 * n + 2 * pair;
            }
        }
    }
    let (pairs, _) = rest.as_chunks::<2>();
    for (n, [one, two]) in pairs.iter().enumerate() {
        let index = cut(&[0, *one, *two]) as u64 | before;
        if hot(index) {
            return 8 * eights.len() + 2 * n;
        }
        before = index >> 10;
    }
    // What is left is the last triple of an odd number of bytes, or none.
    8 * eights.len() + 2 * pairs.len()
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
