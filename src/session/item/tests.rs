use super::*;

#[test]
fn every_kind_has_its_item() {
    for kind in Kind::ALL {
        let item = Item::new(*kind, Fields::newest_first([r#"{"mine":1}"#]));
        assert!(!matches!(item, Item::Unknown(_)), "{kind}");
        assert!(item.all_fields().get("mine").is_some(), "{kind}");
    }
}

#[test]
fn interrupted_line_is_the_span_that_it_closes() {
    let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05Z","kind":"interrupted","session_id":"s","payload":{"closes":"tool_result","tool_id":"bash"}}"#;
    let item = Item::of(&RawLine::parse(bytes).unwrap());
    assert!(matches!(&item, Item::ToolCall(_)), "{item:?}");
    assert_eq!(item.name().as_deref(), Some("bash"));
}
