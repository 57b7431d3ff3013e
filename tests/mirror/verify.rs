//! Comparing sent spans with the spans that a backend returns.

use std::sync::Arc;

use serde_json::{Value, json};
use spanledger::mirror::verify::{Expected, Finding, StoredSpan, What, compare};
use spanledger::mirror::{self, Origin};
use spanledger::trace::RawLine;

/// A tool call with an event and a link, as it would be sent.
fn expected(note: &str) -> Expected {
    let head = json!({"v": 1, "seg": 1, "seq": 1, "ts": "2026-11-16T00:31:05.123456Z",
        "kind": "segment", "session_id": "ses/1",
        "payload": {"resource": {"service.name": "agent"}, "scope": {"name": "spanledger", "version": "1"},
            "mirror": {"content": true}}});
    let head = head.to_string();
    let origin = Origin::parse(&RawLine::parse(head.as_bytes()).unwrap()).unwrap();
    let line = json!({"v": 1, "seg": 1, "seq": 17, "ts": "2026-11-16T00:31:06.5Z",
        "kind": "tool_result", "session_id": "ses/1", "turn": 1,
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331",
        "parent_span_id": "00f067aa0ba902b7",
        "payload": {"tool_id": "bash", "tool_call_id": "call_1", "note": note,
            "start": "2026-11-16T00:31:06Z", "duration_ns": 500_000_000, "outcome": "ok",
            "events": [{"ts": "2026-11-16T00:31:06.1Z", "name": "first", "n": 1},
                       {"ts": "2026-11-16T00:31:06.2Z", "name": "second"}],
            "links": [{"trace_id": "1af7651916cd43dd8448eb211c80319c", "span_id": "c7ad6b7169203331"}]}});
    let line = line.to_string();
    let line = RawLine::parse(line.as_bytes()).unwrap();
    let span = mirror::span(&origin, &line).unwrap();
    Expected::new(Arc::new(origin), span, "ses/1/1:17")
}

/// The same, as a backend that keeps everything has it.
fn held(expected: &Expected) -> StoredSpan {
    let origin = &expected.origin;
    let (resource, scope) = (origin.resource().clone(), origin.scope().clone());
    StoredSpan::new(resource, scope, expected.span.clone())
}

fn found(expected: &Expected, held: &[StoredSpan]) -> Vec<Finding> {
    compare("ses/1", std::slice::from_ref(expected), held, None)
}

/// The only field that differs when a held span was changed, with what was sent and what is held.
#[track_caller]
fn difference(change: impl FnOnce(&mut StoredSpan)) -> (String, Option<Value>, Option<Value>) {
    let expected = expected("short");
    let mut changed = held(&expected);
    change(&mut changed);
    let found = found(&expected, &[changed]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].span_id, "b7ad6b7169203331");
    assert_eq!(found[0].address.as_deref(), Some("ses/1/1:17"));
    match found.into_iter().next().unwrap().what {
        What::Differs { field, sent, held } => (field, sent, held),
        other => panic!("{other:?}"),
    }
}

#[test]
fn order_of_attributes_and_events_does_not_matter() {
    let expected = expected("short");
    let mut other = held(&expected);
    other.span.attributes.reverse();
    other.span.events.reverse();
    // Tempo's files don't have them.
    other.span.flags = 0;
    assert_eq!(found(&expected, &[other]), []);
}

#[test]
fn missing_span_has_its_reason() {
    let mut expected = expected("short");
    let what = |expected: &Expected| found(expected, &[])[0].what.clone();
    assert_eq!(what(&expected), What::Missing { why: None });
    expected.unsent = Some("it was not sent yet".into());
    assert!(what(&expected).to_string().contains("not sent yet"));
}

#[test]
fn duplicate_span_is_reported_and_compared() {
    let expected = expected("short");
    let mut twice = [held(&expected), held(&expected)];
    let found_copies = found(&expected, &twice);
    assert_eq!(found_copies.len(), 1, "{found_copies:?}");
    assert_eq!(found_copies[0].what, What::Copies { copies: 2 });
    assert!(found_copies[0].what.is_known());
    twice[1].span.name = "other".into();
    let found = found(&expected, &twice);
    assert_eq!(found.len(), 2);
    assert!(!found[1].what.is_known(), "{found:?}");
}

#[test]
fn unsent_span_of_this_session_is_extra() {
    let expected = expected("short");
    let mut extra = held(&expected);
    extra.span.span_id = vec![9; 8];
    let found_one = found(&expected, &[held(&expected), extra.clone()]);
    assert_eq!(found_one.len(), 1);
    assert_eq!(found_one[0].what, What::Extra);
    assert_eq!(found_one[0].span_id, "0909090909090909");
    // The same, of a session whose id begins like this one's.
    let list = &mut extra.span.attributes;
    list.retain(|attribute| attribute.key != "agent.trace.address");
    let other = held(&{
        let mut other = expected.clone();
        other.span.span_id = vec![8; 8];
        other
    });
    let found = compare(
        "ses",
        std::slice::from_ref(&expected),
        &[held(&expected), other, extra],
        None,
    );
    assert_eq!(found, []);
}

#[test]
fn every_part_of_a_span_is_compared() {
    let field = |change: fn(&mut StoredSpan)| difference(change).0;
    assert_eq!(field(|h| h.span.trace_id[0] ^= 1), "trace_id");
    assert_eq!(field(|h| h.span.parent_span_id.clear()), "parent_span_id");
    assert_eq!(field(|h| h.span.name.push('x')), "name");
    assert_eq!(field(|h| h.span.kind = 3), "kind");
    assert_eq!(field(|h| h.span.start_time_unix_nano += 1), "start");
    assert_eq!(field(|h| h.span.end_time_unix_nano -= 1), "end");
    assert_eq!(field(|h| h.span.trace_state.push('x')), "trace_state");
    let status = |h: &mut StoredSpan| h.span.status.as_mut().unwrap().code = 2;
    assert_eq!(field(status), "status.code");
    let message = |h: &mut StoredSpan| h.span.status.as_mut().unwrap().message = "x".into();
    assert_eq!(field(message), "status.message");
    assert_eq!(
        field(|h| h.span.dropped_attributes_count = 1),
        "dropped_attributes_count"
    );
    assert_eq!(
        field(|h| h.span.dropped_events_count = 1),
        "dropped_events_count"
    );
    assert_eq!(
        field(|h| h.span.dropped_links_count = 1),
        "dropped_links_count"
    );
    assert_eq!(field(|h| drop(h.span.events.pop())), "events");
    assert_eq!(field(|h| h.span.events[1].name.push('x')), "events.1.name");
    assert_eq!(
        field(|h| h.span.events[0].time_unix_nano += 1),
        "events.0.time"
    );
    let event = |h: &mut StoredSpan| h.span.events[0].attributes.clear();
    assert_eq!(field(event), "events.0.attributes.agent.n");
    assert_eq!(field(|h| h.span.links.clear()), "links");
    assert_eq!(
        field(|h| h.span.links[0].span_id[0] ^= 1),
        "links.0.span_id"
    );
    assert_eq!(
        field(|h| h.span.links[0].trace_id[0] ^= 1),
        "links.0.trace_id"
    );
    assert_eq!(field(|h| h.scope.version.push('x')), "scope.version");
    let service = |h: &mut StoredSpan| h.resource.attributes.clear();
    assert_eq!(field(service), "resource.service.name");
}

#[test]
fn attribute_difference_has_both_values() {
    let at = |held: &StoredSpan, key: &str| {
        let list = held.span.attributes.iter();
        list.clone()
            .position(|attribute| attribute.key == key)
            .unwrap()
    };
    let gone = difference(|held| {
        let at = at(held, "gen_ai.tool.name");
        held.span.attributes.remove(at);
    });
    let field = "attributes.gen_ai.tool.name".to_owned();
    assert_eq!(gone, (field.clone(), Some(json!("bash")), None));
    let changed = difference(|held| {
        let (a, b) = (at(held, "gen_ai.tool.name"), at(held, "agent.note"));
        held.span.attributes[a].value = held.span.attributes[b].value.clone();
    });
    assert_eq!(changed, (field, Some(json!("bash")), Some(json!("short"))));
    let added = difference(|held| {
        let at = at(held, "agent.turn_index");
        let mut more = held.span.attributes[at].clone();
        more.key = "k8s.pod".into();
        held.span.attributes.push(more);
    });
    assert_eq!(added, ("attributes.k8s.pod".into(), None, Some(json!(1))));
    // A number is not a text that looks like it.
    let typed = difference(|held| {
        let (a, b) = (at(held, "agent.turn_index"), at(held, "agent.note"));
        held.span.attributes[a].value = held.span.attributes[b].value.clone();
    });
    assert_eq!(typed.0, "attributes.agent.turn_index");
}

#[test]
fn jaeger_annotation_is_no_attribute() {
    let expected = expected("short");
    let mut remarked = held(&expected);
    let mut remark = remarked.span.attributes[0].clone();
    remark.key = "@jaeger@warnings".into();
    remarked.span.attributes.push(remark);
    assert_eq!(found(&expected, &[remarked]), []);
}

#[test]
fn jaeger_minimum_duration_is_no_difference() {
    let mut expected = expected("short");
    expected.span.end_time_unix_nano = expected.span.start_time_unix_nano;
    let mut stretched = held(&expected);
    stretched.span.end_time_unix_nano += 1;
    let differences = found(&expected, std::slice::from_ref(&stretched));
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].what, What::Stretched);
    assert!(differences[0].what.is_known());
    let text = differences[0].what.to_string();
    assert_eq!(text, "end: no duration, stored as one nanosecond");
    stretched.span.end_time_unix_nano += 1;
    let differences = found(&expected, &[stretched]);
    assert_eq!(differences[0].what.as_str(), "different");
}

#[test]
fn resource_difference_is_reported_once() {
    let first = expected("short");
    let mut second = first.clone();
    second.span.span_id = vec![7; 8];
    let both = [first, second].map(|expected| {
        let mut held = held(&expected);
        held.resource.attributes.clear();
        (expected, held)
    });
    let (expected, held): (Vec<_>, Vec<_>) = both.into_iter().unzip();
    assert_eq!(compare("ses/1", &expected, &held, None).len(), 1);
}

/// A span whose note, which is this text, was cut as Tempo cuts: at a byte, and what is no text any
/// more replaced.
fn cut(expected: &Expected, text: &str, bytes: usize) -> StoredSpan {
    let left = String::from_utf8_lossy(&text.as_bytes()[..bytes]);
    let attribute = json!({"key": "agent.note", "value": {"stringValue": left}});
    let json = json!([{"scopeSpans": [{"spans": [{"attributes": [attribute]}]}]}]);
    let cut = StoredSpan::from_json(&json)
        .remove(0)
        .span
        .attributes
        .remove(0);
    let mut held = held(expected);
    let list = &mut held.span.attributes;
    let note = list.iter_mut().find(|a| a.key == cut.key).unwrap();
    *note = cut;
    held
}

#[test]
fn text_truncated_by_tempo_is_no_difference() {
    let what = |text: &str, bytes: usize| {
        let expected = expected(text);
        let held = cut(&expected, text, bytes);
        let found = compare("ses/1", &[expected], &[held], Some(2048));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].what.clone()
    };
    let field = || "attributes.agent.note".to_owned();
    let cut = What::Cut {
        field: field(),
        left: 2048,
        of: 5000,
    };
    assert_eq!(what(&"a".repeat(5000), 2048), cut);
    assert!(cut.is_known());
    // In the middle of a character of two bytes, and of four.
    assert!(matches!(
        what(&format!("a{}", "é".repeat(2000)), 2048),
        What::Cut { of: 4001, .. }
    ));
    assert!(matches!(
        what(&format!("a{}", "😀".repeat(1000)), 2048),
        What::Cut { of: 4001, .. }
    ));
    // Somewhere else it is something else.
    assert!(matches!(
        what(&"a".repeat(5000), 2000),
        What::Differs { .. }
    ));
    assert!(matches!(
        what(&"a".repeat(2000), 1999),
        What::Differs { .. }
    ));
    // And nothing is known of a backend that doesn't cut.
    let long = "a".repeat(5000);
    let expected = expected(&long);
    let held = self::cut(&expected, &long, 2048);
    assert!(matches!(
        found(&expected, &[held])[0].what,
        What::Differs { .. }
    ));
}

#[test]
fn oversized_span_is_compared_without_content() {
    let expected = expected("short");
    let mut less = held(&expected);
    less.span = mirror::without_content(less.span);
    let found = found(&expected, &[less]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].what, What::ContentRemoved);
    assert!(found[0].what.is_known());
}

#[test]
fn both_json_spellings_are_read() {
    let common = json!({"name": "n", "startTimeUnixNano": "1", "endTimeUnixNano": "18446744073709551615",
        "attributes": [{"key": "i", "value": {"intValue": "-9223372036854775808"}},
            {"key": "d", "value": {"doubleValue": 0.1}}, {"key": "b", "value": {"boolValue": true}},
            {"key": "l", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}}]});
    let spelled = |ids: [&str; 3], kind: Value, code: Value| {
        let mut span = common.clone();
        span["traceId"] = json!(ids[0]);
        span["spanId"] = json!(ids[1]);
        span["parentSpanId"] = json!(ids[2]);
        span["kind"] = kind;
        span["status"] = json!({"code": code, "message": "m"});
        StoredSpan::from_json(
            &json!([{"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "s"}, "spans": [span]}]}]),
        )
    };
    let jaeger = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", ""];
    let jaeger = spelled(jaeger, json!(3), json!(2));
    let tempo = ["CvdlGRbNQ92ESOshHIAxnA==", "t61rcWkgMzE=", "AAAAAAAAAAA="];
    let tempo = spelled(tempo, json!("SPAN_KIND_CLIENT"), json!("STATUS_CODE_ERROR"));
    assert_eq!(jaeger, tempo);
    let span = &jaeger[0].span;
    assert_eq!((span.kind, span.end_time_unix_nano), (3, u64::MAX));
    assert_eq!(span.trace_id.len(), 16);
    assert!(span.parent_span_id.is_empty());
}

#[test]
fn odd_values_are_empty_and_never_panic() {
    for odd in [
        json!(null),
        json!([null, 1, {"scopeSpans": [{"spans": [{"spanId": 7, "kind": "NO", "status": []}]}]}]),
        json!([{"scopeSpans": [{"spans": [{"attributes": [{"key": 1, "value": {"what": 2}}]}]}]}]),
    ] {
        for held in StoredSpan::from_json(&odd) {
            assert!(held.span.span_id.is_empty());
        }
    }
}
