//! Attributes are truncated only by a configured limit, with a marker.

use serde_json::json;

use crate::map::setup::{attributes, one};

#[test]
fn without_limit_nothing_is_truncated() {
    let long = "é".repeat(100_000);
    let span = one(
        json!({"content": true}),
        "tool_result",
        json!({"note": long}),
    )
    .unwrap();
    assert_eq!(attributes(&span.attributes)["agent.note"], long);
    assert_eq!(span.dropped_attributes_count, 0);
}

#[test]
fn long_text_is_truncated_at_a_character() {
    let policy = json!({"content": true, "limits": {"attribute_length": 30}});
    let payload = json!({"note": "é".repeat(20), "tags": ["y".repeat(31), "z"],
        "events": [{"ts": "2026-11-16T00:31:05.123456Z", "name": "log", "message": "m".repeat(40)}]});
    let span = one(policy, "tool_result", payload).unwrap();
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["agent.note"], "é".repeat(15));
    assert_eq!(sent_attributes["agent.cut.agent.note"], 10);
    assert_eq!(sent_attributes["agent.tags"], json!(["y".repeat(30), "z"]));
    assert_eq!(sent_attributes["agent.cut.agent.tags"], 1);
    assert_eq!(sent_attributes.get("agent.cut.agent.span"), None);
    let event = attributes(&span.events[0].attributes);
    assert_eq!(event["agent.message"], "m".repeat(30));
    assert_eq!(event["agent.cut.agent.message"], 10);
}

#[test]
fn character_that_does_not_fit_is_omitted() {
    let policy = json!({"content": true, "limits": {"attribute_length": 3}});
    let span = one(policy, "tool_result", json!({"note": "aé漢"})).unwrap();
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["agent.note"], "aé");
    assert_eq!(sent_attributes["agent.cut.agent.note"], 3);
}

#[test]
fn excess_attributes_are_named_and_counted() {
    let policy = json!({"content": true, "limits": {"attribute_count": 8}});
    let payload = json!({"tool_id": "bash", "tool_call_id": "c1", "a": 1, "b": 2, "c": 3});
    let span = one(policy, "tool_result", payload).unwrap();
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["gen_ai.tool.name"], "bash");
    assert_eq!(
        sent_attributes["agent.dropped"],
        json!(["agent.b", "agent.c"])
    );
    assert_eq!(span.dropped_attributes_count, 2);
    assert_eq!(span.attributes.len(), 8 + 1);
}

#[test]
fn excess_events_and_links_are_counted() {
    let policy = json!({"content": true, "limits": {"event_count": 1, "link_count": 0}});
    let event = json!({"ts": "2026-11-16T00:31:05.123456Z", "name": "log"});
    let link =
        json!({"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"});
    let payload = json!({"events": [event, event], "events_dropped": 4, "links": [link]});
    let span = one(policy, "tool_result", payload).unwrap();
    assert_eq!((span.events.len(), span.dropped_events_count), (1, 5));
    assert_eq!((span.links.len(), span.dropped_links_count), (0, 1));
}

#[test]
fn colliding_field_names_are_renamed() {
    let payload =
        json!({"span": "a", "custom.span": "b", "tokens.input": 1, "usage": {"input_tokens": 2}});
    let span = one(json!({"content": true}), "turn_end", payload).unwrap();
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["agent.span"], "session.turn");
    assert_eq!(sent_attributes["agent.custom.custom.span"], "a");
    assert_eq!(sent_attributes["agent.custom.span"], "b");
    assert_eq!(sent_attributes["agent.tokens.input"], 2);
    assert_eq!(sent_attributes["agent.custom.tokens.input"], 1);
}

#[test]
fn thousands_of_colliding_fields_stay_distinct() {
    let mut fields = serde_json::Map::new();
    for n in 0..20_000 {
        fields.insert(format!("f{n}"), n.into());
    }
    fields.insert("outcome".into(), "ok".into());
    fields.insert("span".into(), "mine".into());
    let span = one(json!({"content": true}), "tool_result", fields.into()).unwrap();
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["agent.f19999"], 19_999);
    assert_eq!(sent_attributes["agent.custom.span"], "mine");
}
