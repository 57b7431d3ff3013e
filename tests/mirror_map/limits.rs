//! Attributes are cut only where a limit was set, and then it is said.

use serde_json::json;

use crate::scene::{attributes, one};

#[test]
fn without_a_limit_nothing_is_cut() {
    let long = "é".repeat(100_000);
    let span = one(json!({}), "tool_result", json!({"note": long})).unwrap();
    assert_eq!(attributes(&span.attributes)["agent.note"], long);
    assert_eq!(span.dropped_attributes_count, 0);
}

#[test]
fn a_long_text_is_cut_at_a_characters_end_and_the_cut_is_told() {
    let policy = json!({"limits": {"attribute_length": 30}});
    let payload = json!({"note": "é".repeat(20), "error": {"source": ["y".repeat(31), "z"]},
        "events": [{"ts": "2026-11-16T00:31:05.123456Z", "name": "log", "message": "m".repeat(40)}]});
    let span = one(policy, "tool_result", payload).unwrap();
    let said = attributes(&span.attributes);
    assert_eq!(said["agent.note"], "é".repeat(15));
    assert_eq!(said["agent.cut.agent.note"], 10);
    assert_eq!(said["agent.error.source"], json!(["y".repeat(30), "z"]));
    assert_eq!(said["agent.cut.agent.error.source"], 1);
    assert_eq!(said.get("agent.cut.agent.span"), None);
    let event = attributes(&span.events[0].attributes);
    assert_eq!(event["agent.message"], "m".repeat(30));
    assert_eq!(event["agent.cut.agent.message"], 10);
}

#[test]
fn a_character_that_does_not_fit_is_left_out_whole() {
    let policy = json!({"limits": {"attribute_length": 3}});
    let span = one(policy, "tool_result", json!({"note": "aé漢"})).unwrap();
    let said = attributes(&span.attributes);
    assert_eq!(said["agent.note"], "aé");
    assert_eq!(said["agent.cut.agent.note"], 3);
}

#[test]
fn attributes_beyond_the_count_are_named_and_counted() {
    let policy = json!({"limits": {"attribute_count": 8}});
    let payload = json!({"tool_id": "bash", "tool_call_id": "c1", "a": 1, "b": 2, "c": 3});
    let span = one(policy, "tool_result", payload).unwrap();
    let said = attributes(&span.attributes);
    assert_eq!(said["gen_ai.tool.name"], "bash");
    assert_eq!(said["agent.dropped"], json!(["agent.b", "agent.c"]));
    assert_eq!(span.dropped_attributes_count, 2);
    assert_eq!(span.attributes.len(), 8 + 1);
}

#[test]
fn events_and_links_beyond_their_counts_are_counted() {
    let policy = json!({"limits": {"event_count": 1, "link_count": 0}});
    let event = json!({"ts": "2026-11-16T00:31:05.123456Z", "name": "log"});
    let link =
        json!({"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"});
    let payload = json!({"events": [event, event], "events_dropped": 4, "links": [link]});
    let span = one(policy, "tool_result", payload).unwrap();
    assert_eq!((span.events.len(), span.dropped_events_count), (1, 5));
    assert_eq!((span.links.len(), span.dropped_links_count), (0, 1));
}

#[test]
fn fields_with_the_names_of_ours_are_kept_under_another() {
    let payload =
        json!({"span": "a", "custom.span": "b", "tokens.input": 1, "usage": {"input_tokens": 2}});
    let span = one(json!({}), "turn_end", payload).unwrap();
    let said = attributes(&span.attributes);
    assert_eq!(said["agent.span"], "session.turn");
    assert_eq!(said["agent.custom.custom.span"], "a");
    assert_eq!(said["agent.custom.span"], "b");
    assert_eq!(said["agent.tokens.input"], 2);
    assert_eq!(said["agent.custom.tokens.input"], 1);
}

#[test]
fn thousands_of_fields_are_named_apart_as_well() {
    let mut fields = serde_json::Map::new();
    for n in 0..20_000 {
        fields.insert(format!("f{n}"), n.into());
    }
    fields.insert("outcome".into(), "ok".into());
    fields.insert("span".into(), "mine".into());
    let span = one(json!({}), "tool_result", fields.into()).unwrap();
    let said = attributes(&span.attributes);
    assert_eq!(said["agent.f19999"], 19_999);
    assert_eq!(said["agent.custom.span"], "mine");
}
