//! `proto/otlp_trace.rs` is generated from `proto/otlp_trace.proto`, and both agree with OTLP.

use std::fs;
use std::path::Path;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
use prost::Message;
use spanledger::mirror::otlp::{
    AnyValue, ArrayValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, KeyValueList,
    Resource, ResourceSpans, ScopeSpans, Span, Status, any_value::Value, span::Event, span::Link,
};

#[test]
fn generated_code_matches_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked_in = root.join("proto/otlp_trace.rs");
    let files = protox::compile(["otlp_trace.proto"], [root.join("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .default_package_filename("otlp")
        .compile_fds(files)
        .unwrap();
    let made = fs::read_dir(out.path()).unwrap().next().unwrap().unwrap();
    let made = fs::read_to_string(made.path()).unwrap();
    if std::env::var_os("SPANLEDGER_BLESS").is_some() {
        fs::write(&checked_in, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&checked_in).unwrap() == made,
        "proto/otlp_trace.rs is not what proto/otlp_trace.proto says: \
         run SPANLEDGER_BLESS=1 cargo test --all-features --test mirror proto"
    );
}

/// A request in which every field of every message is set.
fn everything() -> ExportTraceServiceRequest {
    let value = |value| Some(AnyValue { value: Some(value) });
    let attribute = |key: &str, of| KeyValue {
        key: key.into(),
        value: value(of),
    };
    let attributes = vec![
        attribute("text", Value::StringValue("a".into())),
        attribute("truth", Value::BoolValue(true)),
        attribute("whole", Value::IntValue(-7)),
        attribute("other", Value::DoubleValue(0.5)),
        attribute("bytes", Value::BytesValue(vec![1, 2, 255])),
        attribute(
            "list",
            Value::ArrayValue(ArrayValue {
                values: vec![AnyValue { value: None }],
            }),
        ),
        attribute(
            "members",
            Value::KvlistValue(KeyValueList {
                values: vec![attribute("in", Value::IntValue(i64::MAX))],
            }),
        ),
    ];
    let span = Span {
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        trace_state: "k=v".into(),
        parent_span_id: (9..=16).collect(),
        flags: 0x301,
        name: "chat m".into(),
        kind: 3,
        start_time_unix_nano: 1_794_789_065_123_456_789,
        end_time_unix_nano: u64::MAX,
        attributes: attributes.clone(),
        dropped_attributes_count: 2,
        events: vec![Event {
            time_unix_nano: 5,
            name: "log".into(),
            attributes: attributes.clone(),
            dropped_attributes_count: 3,
        }],
        dropped_events_count: 4,
        links: vec![Link {
            trace_id: vec![7; 16],
            span_id: vec![8; 8],
            trace_state: "l=w".into(),
            attributes: attributes.clone(),
            dropped_attributes_count: 5,
            flags: 0x101,
        }],
        dropped_links_count: 6,
        status: Some(Status {
            message: "no".into(),
            code: 2,
        }),
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: attributes.clone(),
                dropped_attributes_count: 7,
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "spanledger".into(),
                    version: "1".into(),
                    attributes,
                    dropped_attributes_count: 8,
                }),
                spans: vec![span],
                schema_url: "s".into(),
            }],
            schema_url: "r".into(),
        }],
    }
}

#[test]
fn opentelemetry_types_read_our_protobuf() {
    let ours = everything();
    let bytes = ours.encode_to_vec();
    let theirs = Theirs::decode(&*bytes).unwrap();
    assert_eq!(theirs.encode_to_vec(), bytes);
    // Field by field: their names, our values.
    let span = &theirs.resource_spans[0].scope_spans[0].spans[0];
    let sent = &ours.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(span.flags, sent.flags);
    assert_eq!(span.parent_span_id, sent.parent_span_id);
    assert_eq!(span.links[0].trace_state, sent.links[0].trace_state);
    assert_eq!(span.status.as_ref().unwrap().message, "no");
    assert_eq!(span.dropped_links_count, 6);
}

#[test]
fn opentelemetry_types_read_our_json() {
    let ours = everything();
    let json = ours.to_json();
    let theirs: Theirs = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        theirs,
        Theirs::decode(&*ours.encode_to_vec()).unwrap(),
        "{}",
        String::from_utf8_lossy(&json)
    );
}
