//! A line always maps to the same bytes, and any line maps to a valid span.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};
use spanledger::mirror::otlp::{ExportTraceServiceRequest, ResourceSpans, ScopeSpans, Span};

use crate::map::setup::{attributes, lines, mapped, one};
use crate::map::spans::session;
use crate::support::Recording;

#[test]
fn mapping_twice_gives_equal_bytes() {
    let recording = Recording::new();
    recording.run(session);
    let lines = lines(recording.dir.path());
    for policy in [
        None,
        Some(json!({"content": true, "limits": {"attribute_length": 7}})),
    ] {
        let (a, b) = (
            mapped(&lines, policy.as_ref()),
            mapped(&lines, policy.as_ref()),
        );
        assert_eq!(a.len(), 6);
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a.encode_to_vec(), b.encode_to_vec());
            let json = as_json(a);
            assert_eq!(json, as_json(b));
            let read: Theirs = serde_json::from_slice(&json).unwrap();
            assert_eq!(read.encode_to_vec(), request(a).encode_to_vec());
        }
    }
}

fn request(span: &Span) -> ExportTraceServiceRequest {
    let scope_spans = ScopeSpans {
        spans: vec![span.clone()],
        ..ScopeSpans::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        }],
    }
}

fn as_json(span: &Span) -> Vec<u8> {
    request(span).to_json()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no others", |n| n.is_finite())
            .prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any_name(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

const KNOWN: [&str; 38] = [
    "start",
    "duration_ns",
    "outcome",
    "error",
    "usage",
    "events",
    "links",
    "tracestate",
    "span",
    "name",
    "fields",
    "args",
    "result",
    "tool_id",
    "model_id",
    "agent",
    "params",
    "process",
    "totals",
    "tags",
    "finish_reason",
    "message",
    "ts",
    "trace_id",
    "span_id",
    "$blob",
    "$cut",
    "$lossy",
    "bytes",
    "sha256",
    "text",
    "usage_details",
    "input_tokens",
    "custom.span",
    "gen_ai.tool.name",
    "gen_ai.input.messages",
    "closes",
    "session_id",
];

/// Mostly names that mean something.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        1 => ".{0,12}",
    ]
}

const KINDS: [&str; 8] = [
    "session_end",
    "turn_end",
    "model_result",
    "tool_result",
    "permission_evaluate",
    "context_compaction",
    "span_end",
    "interrupted",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn any_close_line_maps_with_unique_attributes(
        members in prop::collection::vec((any_name(), any_json()), 0..20),
        kind in prop::sample::select(&KINDS[..]),
        content in any::<bool>(),
        length in prop::option::of(0usize..50),
    ) {
        let mut payload: serde_json::Map<String, Value> = members.into_iter().collect();
        if kind == "interrupted" {
            payload.insert("closes".into(), "tool_result".into());
        }
        let policy = json!({"content": content, "limits": {"attribute_length": length}});
        let payload = Value::Object(payload);
        let span = one(policy.clone(), kind, payload.clone()).unwrap();
        attributes(&span.attributes);
        prop_assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        prop_assert_eq!(Span::decode(span.encode_to_vec().as_slice()).unwrap(), span.clone());
        let json: Theirs = serde_json::from_slice(&as_json(&span)).unwrap();
        prop_assert_eq!(json.encode_to_vec(), request(&span).encode_to_vec());
        let again = one(policy, kind, payload.clone()).unwrap();
        prop_assert_eq!(again.encode_to_vec(), span.encode_to_vec());
        // Attributes that nothing limits are written another way.
        let limits = json!({"attribute_length": length, "attribute_count": 1_000_000});
        let policy = json!({"content": content, "limits": limits});
        let never_reached = one(policy, kind, payload).unwrap();
        prop_assert_eq!(never_reached.encode_to_vec(), span.encode_to_vec());
        let least = spanledger::mirror::without_content(span);
        attributes(&least.attributes);
    }
}
