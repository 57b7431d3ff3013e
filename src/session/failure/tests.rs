use super::*;

fn chain(json: &str) -> ErrorChain {
    ErrorChain::of(RawValue::new(json))
}

#[test]
fn context_wraps_the_error_it_was_added_to() {
    let inner = chain(r#"{"error_type":"io::Error","message":"no route","source":["timed out"]}"#);
    let outer = chain(r#"{"message":"turn 3","source":["no route","timed out"]}"#);
    assert!(outer.wraps(&inner) && inner.wraps(&inner));
    assert!(!inner.wraps(&outer));
    assert!(!outer.wraps(&chain(r#"{"message":"no route"}"#)));
}

#[test]
fn type_stands_for_a_missing_message() {
    let error = chain(r#"{"error_type":"Timeout"}"#);
    assert!(error.wraps(&chain(r#"{"error_type":"Timeout"}"#)));
    assert!(!error.wraps(&chain("{}")));
}

#[test]
fn only_failures_inside_the_span_are_its_own() {
    let failure = |text: &str| Failure {
        chain: ErrorChain(vec![text.to_owned()]),
        origin: Address { seg: 1, seq: 2 },
    };
    let mut open = OpenFailures::default();
    open.add("a", failure("x"));
    let x = failure("x").chain;
    assert!(open.close("b", Some(&x)).is_none());
    assert!(open.close("a", Some(&x)).is_some());
    assert!(open.close("a", Some(&x)).is_none());
}
