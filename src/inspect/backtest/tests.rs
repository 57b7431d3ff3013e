use super::*;

#[test]
fn suggested_limit_is_round_and_leaves_room() {
    let limit = |p95: f64| {
        Spread {
            p95,
            ..Spread::default()
        }
        .limit()
    };
    assert_eq!((limit(0.0), limit(5.0), limit(41.0)), (1.0, 6.0, 50.0));
    assert_eq!(
        (limit(100.0), limit(101.0), limit(123_456.0)),
        (120.0, 130.0, 150_000.0)
    );
    let spread = Spread {
        p95: 1.23,
        ..Spread::default()
    };
    assert_eq!(spread.cents(), 1.5);
}

#[test]
fn spread_has_the_middle_and_the_end() {
    let spread = Spread::of((1..=100).map(f64::from).collect());
    assert_eq!(
        (spread.median, spread.p95, spread.most),
        (50.0, 95.0, 100.0)
    );
    assert_eq!(
        Spread::of(vec![7.0]),
        Spread {
            median: 7.0,
            p95: 7.0,
            most: 7.0
        }
    );
}
