use super::*;
use crate::trace::Failure;

fn chain(json: &str) -> ErrorChain {
    ErrorChain::of(RawValue::new(json))
}

#[test]
fn context_wraps_the_error_it_was_added_to() {
    let inner = chain(r#"{"error_type":"io::Error","message":"no route","source":["timed out"]}"#);
    let outer = chain(r#"{"message":"turn 3","source":["no route","timed out"]}"#);
    assert!(outer.wraps(&inner) && inner.wraps(&inner));
    assert!(!inner.wraps(&outer));
    assert!(!chain(r#"{"message":"turn 3"}"#).wraps(&inner));
}

#[test]
fn quoted_error_is_the_same() {
    let inner = chain(r#"{"error_type":"panic","message":"index 7"}"#);
    let join = chain(r#"{"message":"task 3 panicked with message \"index 7\""}"#);
    assert!(join.wraps(&inner));
    assert!(!inner.wraps(&join));
    assert!(!join.wraps(&chain(r#"{"message":"3"}"#)));
}

#[test]
fn type_stands_for_a_missing_message() {
    let error = chain(r#"{"error_type":"Timeout"}"#);
    assert!(error.wraps(&chain(r#"{"error_type":"Timeout"}"#)));
    assert!(!error.wraps(&chain("{}")));
}

#[test]
fn error_that_the_recorder_wrote_may_be_any() {
    let outer = chain(r#"{"message":"deadline has elapsed"}"#);
    for failure in [Failure::nested("io::Error"), Failure::time_limit(5)] {
        let inner = chain(&failure.to_json());
        assert!(inner.is_vague() && outer.wraps(&inner));
        assert!(!inner.wraps(&outer));
    }
    assert!(!outer.is_vague());
    assert!(!chain(&Failure::nested("io::Error").to_json()).has_text());
}
