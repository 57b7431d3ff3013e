use super::*;

#[test]
fn every_name_parses_to_its_kind() {
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.as_str()), *kind);
    }
    for unknown in ["", "x", "other", "tool_cal", "tool_calls", "Tool_call", "Γ"] {
        assert_eq!(Kind::parse(unknown), Kind::Other, "{unknown}");
    }
}

#[test]
fn users_events_never_get_the_recorders_kinds() {
    assert_eq!(event_kind("cache_hit"), "cache_hit");
    assert_eq!(event_kind("message_user"), "message_user");
    assert_eq!(event_kind("Cache Hit"), "cache_hit");
    assert_eq!(event_kind(""), "custom");
    for own in [
        "checkpoint",
        "tool_result",
        "interrupted",
        "Segment",
        "span_update",
        "gap",
    ] {
        assert_eq!(event_kind(own), format!("custom.{}", own.to_lowercase()));
    }
}
