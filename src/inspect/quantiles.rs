//! Quantiles of many values in bounded memory.

use std::collections::BTreeMap;

/// Neighboring buckets differ by this factor, so a quantile is within 1 % of the true value.
const FACTOR: f64 = 1.02;

/// Values counted in buckets of equal ratio: at most a few thousand buckets, however many values.
///
/// ```
/// use spanledger::inspect::Quantiles;
/// let mut times = Quantiles::default();
/// (1..=1000).for_each(|ms| times.add(ms));
/// let median = times.at(0.5).unwrap();
/// assert!((495..=505).contains(&median));
/// assert_eq!((times.count(), times.max()), (1000, Some(1000)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// How many values each bucket has, by its exponent. The value 0 is in bucket 0.
    buckets: BTreeMap<u16, u64>,
    count: u64,
    least: Option<u64>,
    most: Option<u64>,
}

fn bucket(value: u64) -> u16 {
    match value {
        0 => 0,
        // At most 2241.
        _ => 1 + ((value as f64).ln() / FACTOR.ln()) as u16,
    }
}

/// The middle of a bucket.
fn middle(bucket: u16) -> u64 {
    match bucket {
        0 => 0,
        _ => (FACTOR.powi(i32::from(bucket) - 1) * FACTOR.sqrt()) as u64,
    }
}

impl Quantiles {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        *self.buckets.entry(bucket(value)).or_default() += 1;
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = self.most.max(Some(value));
        self.count += 1;
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.least = [self.least, other.least].into_iter().flatten().min();
        self.most = self.most.max(other.most);
        self.count += other.count;
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        self.most
    }

    /// The value that this part of all values, from 0 to 1, does not exceed: within 1 %. None without values.
    pub fn at(&self, part: f64) -> Option<u64> {
        let wanted = (part.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        Some(middle(*found?.0).clamp(self.least?, self.most?))
    }
}

#[cfg(test)]
mod tests;
