use super::*;

#[test]
fn call_after_the_last_allowed_one_is_refused() {
    let limits = Limits::new().tool_calls(2).model_calls(1);
    let counts = |tool_calls, model_calls| Counts {
        tool_calls,
        model_calls,
        ..Counts::default()
    };
    assert_eq!(limits.exceeded(SpanKind::Tool, &counts(2, 5)), None);
    let stop = limits.exceeded(SpanKind::Tool, &counts(3, 0)).unwrap();
    assert_eq!(
        stop.to_string(),
        "the limit max_tool_calls is 2, and this is tool call 3"
    );
    // A limit on tool calls leaves the model its last words.
    assert_eq!(limits.exceeded(SpanKind::Model, &counts(3, 1)), None);
    assert!(limits.exceeded(SpanKind::Model, &counts(0, 2)).is_some());
}

#[test]
fn budget_is_used_up_when_it_is_reached() {
    let limits = Limits::new().tokens(100).cost_usd(0.5);
    let counts = |tokens, cost_usd| Counts {
        tokens,
        cost_usd,
        ..Counts::default()
    };
    assert_eq!(limits.exceeded(SpanKind::Model, &counts(99, 0.49)), None);
    for used in [counts(100, 0.0), counts(0, 0.5)] {
        assert!(limits.exceeded(SpanKind::Tool, &used).is_some(), "{used:?}");
    }
}

#[test]
fn own_limits_win_over_others() {
    let own = Limits::new().tool_calls(1);
    let merged = own.or(Limits::new().tool_calls(9).turns(2).volatile("ts"));
    assert_eq!(merged, Limits::new().tool_calls(1).turns(2).volatile("ts"));
}
