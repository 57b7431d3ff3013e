//! Headers of segments, as origins.

use super::*;
use crate::mirror::otlp::any_value::Value;

fn origin(payload: &str) -> Result<Origin, HeaderError> {
    let line = format!(
        r#"{{"v":1,"seg":1,"seq":1,"ts":"2026-11-16T00:31:05.123456Z","kind":"segment","session_id":"s","payload":{payload}}}"#
    );
    Origin::parse(&RawLine::parse(line.as_bytes()).unwrap())
}

#[test]
fn without_a_mirror_member_content_stays_here_and_nothing_is_cut() {
    let origin = origin(r#"{"resource":null,"scope":{"name":"x","version":"1"}}"#).unwrap();
    assert_eq!(origin.policy(), &Policy::default());
    assert!(!origin.policy().content);
    assert_eq!(origin.scope().name, "x");
    assert_eq!(origin.scope().version, "1");
}

#[test]
fn the_policy_is_read_as_it_was_logged() {
    let origin = origin(
        r#"{"mirror":{"endpoint":"http://h:4317","content":true,"limits":{"attribute_length":64,"attribute_count":9,"event_count":null},"mapping":1}}"#,
    );
    let policy = origin.unwrap().policy;
    assert_eq!(policy.endpoint.as_deref(), Some("http://h:4317"));
    assert!(policy.content);
    assert_eq!(policy.limits.attribute_length, Some(64));
    assert_eq!(policy.limits.attribute_count, Some(9));
    assert_eq!(policy.limits.event_count, None);
}

#[test]
fn a_mapping_of_another_version_is_left_to_others() {
    let found = origin(r#"{"mirror":{"mapping":3}}"#).unwrap_err();
    assert_eq!(found, HeaderError::OtherMapping(3));
    assert!(found.to_string().contains("export format 3"));
}

#[test]
fn resource_attributes_are_sorted_typed_and_always_name_the_service() {
    let origin = origin(
        r#"{"process":{"exe":"/opt/bin/planner"},"resource":{"z":true,"a":3,"list":["x","y"],"f":0.5,"big":18446744073709551615,"none":null}}"#,
    );
    let attributes = origin.unwrap().resource.attributes;
    let keys: Vec<_> = attributes.iter().map(|a| a.key.as_str()).collect();
    assert_eq!(keys, ["a", "big", "f", "list", "service.name", "z"]);
    let value = |at: usize| attributes[at].value.clone().unwrap().value.unwrap();
    assert_eq!(value(0), Value::IntValue(3));
    assert_eq!(value(1), Value::StringValue(u64::MAX.to_string()));
    assert_eq!(value(2), Value::DoubleValue(0.5));
    assert!(matches!(value(3), Value::ArrayValue(list) if list.values.len() == 2));
    let service = Value::StringValue("unknown_service:planner".into());
    assert_eq!(value(4), service);
    assert_eq!(value(5), Value::BoolValue(true));
}

#[test]
fn origins_that_differ_in_their_policy_only_send_as_one() {
    let a = origin(r#"{"resource":{"a":1,"b":2}}"#).unwrap();
    let b = origin(r#"{"resource":{"b":2,"a":1},"mirror":{"content":true}}"#).unwrap();
    let c = origin(r#"{"resource":{"a":1,"b":3}}"#).unwrap();
    assert!(a.sends_as(&b));
    assert!(!a.sends_as(&c));
}
