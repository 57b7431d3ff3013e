use super::*;
use crate::trace::RawValue;

#[test]
fn only_failures_inside_the_span_are_its_own() {
    let failure = |text: &str| KnownFailure {
        chain: ErrorChain::of(RawValue::new(&format!("\"{text}\""))),
        origin: Address { seg: 1, seq: 2 },
    };
    let mut open = OpenFailures::default();
    open.add("a", failure("x"));
    let x = failure("x").chain;
    assert!(open.close("b", Some(&x)).is_none());
    assert!(open.close("a", Some(&x)).is_some());
    assert!(open.close("a", Some(&x)).is_none());
}
