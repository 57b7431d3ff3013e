use serde_json::{Value, json};

use super::*;
use crate::session::{Action, Item, Turns};
use crate::trace::{RawLine, RawValue};

/// A turn of these lines: kind, span, parent and payload.
fn turn(lines: &[(&str, u64, u64, Value)]) -> Turn {
    let mut turns = Turns::default();
    for (at, (kind, span, parent, payload)) in lines.iter().enumerate() {
        let line = json!({
            "v": 1, "seg": 1, "seq": at + 1, "ts": format!("2026-11-16T00:31:{at:02}Z"),
            "kind": kind, "session_id": "s", "turn": 1, "trace_id": "0".repeat(32),
            "span_id": format!("{span:016x}"), "parent_span_id": format!("{parent:016x}"),
            "payload": payload,
        });
        turns.take(&RawLine::parse(line.to_string().as_bytes()).unwrap());
    }
    turns.finish().remove(0)
}

#[test]
fn tool_call_has_its_permission_and_the_answer() {
    let turn = turn(&[
        ("tool_call", 1, 0, json!({"tool_id": "edit"})),
        ("permission_request", 2, 1, json!({"tool_id": "edit"})),
        ("hitl_request", 2, 0, json!({"interrupt_id": "i"})),
        (
            "hitl_response",
            2,
            0,
            json!({"decision": "once", "decided_by": "ada"}),
        ),
        (
            "permission_evaluate",
            2,
            1,
            json!({"tool_id": "edit", "action": "ask"}),
        ),
        (
            "tool_result",
            1,
            0,
            json!({"tool_id": "edit", "result": "done"}),
        ),
    ]);
    let steps = turn.steps();
    assert_eq!(steps.len(), 1);
    let Item::ToolCall(call) = steps[0].node.item() else {
        panic!("{steps:?}");
    };
    assert_eq!(call.result().unwrap().text().as_deref(), Some("done"));
    let decisions: Vec<_> = steps[0].permissions().collect();
    let [decision] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    assert_eq!(decision.action(), Some(Action::Ask));
    assert!(decision.is_asked() && decision.request.is_some());
    assert_eq!(decision.answer().unwrap().text().as_deref(), Some("once"));
    assert_eq!(decision.decided_by().as_deref(), Some("ada"));
}

#[test]
fn every_node_is_in_the_tree_once() {
    // Two spans that contain each other, one that contains itself, and a deep chain.
    let tool = |id, parent| ("tool_call", id, parent, json!({}));
    let mut lines = vec![tool(1, 2), tool(2, 1), tool(3, 3)];
    lines.extend((4..60).map(|id| tool(id, if id == 4 { 0 } else { id - 1 })));
    let turn = turn(&lines);
    fn count(steps: &[Step<'_>]) -> usize {
        let inside = steps.iter().map(|step| count(&step.inside));
        steps.len() + inside.sum::<usize>()
    }
    assert_eq!(count(&turn.steps()), lines.len());
}

#[test]
fn usage_is_the_calls_sum_or_the_turns_own() {
    let call = |id, usage| ("model_result", id, 0, json!({"usage": usage}));
    let calls = [
        call(1, json!({"input_tokens": 3, "output_tokens": 1})),
        call(2, json!({"input_tokens": 4, "cost_usd": 0.5})),
    ];
    let usage = turn(&calls).usage();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(7), Some(1))
    );
    let own = json!({"usage": {"input_tokens": 9, "cost_usd": 2.0}});
    let lines = [
        ("turn_start", 9, 0, json!({})),
        call(2, json!({"cost_usd": 0.5})),
        ("turn_end", 9, 0, own),
    ];
    let usage = turn(&lines).usage();
    assert_eq!((usage.input_tokens, usage.cost_usd), (Some(9), Some(0.5)));
}

#[test]
fn unknown_actions_are_kept() {
    let action = |word: &str| {
        let payload = json!({"action": word}).to_string();
        Action::of(&RawValue::new(&payload).into())
    };
    assert_eq!(action("allow"), Some(Action::Allow));
    assert_eq!((action("later"), action("")), (Some(Action::Other), None));
}
