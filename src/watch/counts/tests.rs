use super::*;

#[test]
fn few_models_without_a_price_are_held() {
    let mut unpriced = Unpriced::default();
    let new = (0..10_000).filter(|n| unpriced.add(&format!("model_{n}")));
    assert_eq!(new.count(), MOST_UNPRICED);
    assert_eq!(unpriced.0.len(), MOST_UNPRICED);
}
