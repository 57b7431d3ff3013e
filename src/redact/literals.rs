//! Finding many short literals at once, whatever their ASCII case.
//!
//! Each position's three bytes, cut to five bits each (which also folds case), are looked up in a
//! table of 32,768 bits that fits the innermost cache. Only where the bit is set are the literals
//! that start so compared. Most texts have few such places, so that this takes about a byte per
//! nanosecond or better and never allocates.

/// Literals, each with what it stands for.
pub(super) struct Literals<T> {
    /// Which cut triples start a literal.
    bits: Box<[u64; 512]>,
    /// For each cut triple one past the index of its bucket, or 0.
    bucket_of: Box<[u16]>,
    buckets: Vec<Vec<(Box<[u8]>, T)>>,
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
    usize::from(triple[0] & 31) << 10
        | usize::from(triple[1] & 31) << 5
        | usize::from(triple[2] & 31)
}

impl<T: Copy> Literals<T> {
    /// Literals shorter than [`SHORTEST`] are left out.
    pub(super) fn new(literals: impl IntoIterator<Item = (String, T)>) -> Self {
        let mut all = Self {
            bits: Box::new([0; 512]),
            bucket_of: vec![0; 32 * 32 * 32].into(),
            buckets: Vec::new(),
        };
        for (literal, what) in literals {
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
            all.bits[index >> 6] |= 1 << (index & 63);
            let bucket = usize::from(all.bucket_of[index]) - 1;
            all.buckets[bucket].push((literal.into_bytes().into(), what));
        }
        all
    }

    /// All literals in `text`, overlapping or not, in the order in which they start.
    pub(super) fn hits<'a>(&'a self, text: &'a [u8]) -> Hits<'a, T> {
        Hits {
            literals: self,
            text,
            at: 0,
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
    bucket: &'a [(Box<[u8]>, T)],
    /// Where to look on when the bucket is done.
    next: usize,
}

impl<T: Copy> Iterator for Hits<'_, T> {
    type Item = Hit<T>;

    fn next(&mut self) -> Option<Hit<T>> {
        loop {
            while let Some(((literal, what), rest)) = self.bucket.split_first() {
                self.bucket = rest;
                let end = self.at + literal.len();
                if self
                    .text
                    .get(self.at..end)
                    .is_some_and(|t| t.eq_ignore_ascii_case(literal))
                {
                    return Some(Hit {
                        start: self.at,
                        end,
                        what: *what,
                    });
                }
            }
            let bits = &*self.literals.bits;
            let hot = |triple: &[u8]| {
                let index = cut(triple);
                bits[index >> 6] >> (index & 63) & 1 == 1
            };
            let rest = &self.text[self.next..];
            let skip = rest.windows(SHORTEST).position(hot)?;
            self.at = self.next + skip;
            self.next = self.at + 1;
            let bucket = usize::from(self.literals.bucket_of[cut(&rest[skip..skip + SHORTEST])]);
            self.bucket = bucket
                .checked_sub(1)
                .map_or(&[], |i| self.literals.buckets[i].as_slice());
        }
    }
}
