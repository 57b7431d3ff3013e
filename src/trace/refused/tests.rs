use super::*;
use crate::trace::AsFailure;

#[test]
fn failure_has_guardrail_of_a_stop_inside() {
    let stop = Refused::stopped("max_tool_calls", 50.0, 51.0, "this is tool call 51");
    let expected = r#"{"error_type":"Stopped","message":"the limit max_tool_calls is 50, and this is tool call 51","guardrail":"max_tool_calls","threshold":50,"actual":51}"#;
    assert_eq!(stop.as_failure().to_json(), expected);
    let outer = anyhow::Error::new(stop).context("turn 3");
    let failure = outer.as_failure().to_json();
    assert!(
        failure.contains(r#""guardrail":"max_tool_calls","threshold":50,"actual":51"#),
        "{failure}"
    );
}
