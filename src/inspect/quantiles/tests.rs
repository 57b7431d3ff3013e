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
