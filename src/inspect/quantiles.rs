//! Quantiles of many values in bounded memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

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

    /// As JSON: `{count, p50, p95, max}`, in the unit of the values.
    pub fn to_json(&self) -> Value {
        json!({
            "count": self.count,
            "p50": self.at(0.5),
            "p95": self.at(0.95),
            "max": self.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        for scale in [1_u64, 1_000, 1_000_000_007] {
            let mut all = Quantiles::default();
            let mut exact: Vec<u64> = (1..=999).map(|n: u64| n * n * scale).collect();
            exact.iter().for_each(|value| all.add(*value));
            exact.sort_unstable();
            for part in [0.0, 0.5, 0.95, 1.0] {
                let rank = ((part * 999.0_f64).ceil() as usize).max(1) - 1;
                let (true_value, found) = (exact[rank] as f64, all.at(part).unwrap() as f64);
                let off = (found - true_value).abs() / true_value;
                assert!(
                    off <= 0.0101 || (found - true_value).abs() <= 1.0,
                    "{part}: {off}"
                );
            }
        }
    }

    #[test]
    fn one_value_is_exact() {
        let mut one = Quantiles::default();
        one.add(12_345_678);
        assert_eq!(one.at(0.5), Some(12_345_678));
        assert_eq!(Quantiles::default().at(0.5), None);
    }

    #[test]
    fn merged_is_the_same_as_added() {
        let values = [0, 3, 17, u64::MAX, 5, 1_000_000];
        let mut whole = Quantiles::default();
        let mut parts = [Quantiles::default(), Quantiles::default()];
        for (at, value) in values.into_iter().enumerate() {
            whole.add(value);
            parts[at % 2].add(value);
        }
        let mut merged = Quantiles::default();
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged, whole);
    }

    #[test]
    fn memory_does_not_grow_with_the_values() {
        let mut all = Quantiles::default();
        (0..200_000_u64).for_each(|n| all.add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        assert!(all.buckets.len() < 2_500, "{}", all.buckets.len());
    }
}
