//! One request and its answer over each protocol, against a scripted server.

mod answers;
mod failures;
mod proxy;
mod requests;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
use prost::Message;
use spanledger::mirror::otlp::{AnyValue, KeyValue, any_value};
use spanledger::mirror::otlp::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use spanledger::mirror::otlp::{ResourceSpans, ScopeSpans, Span};
use spanledger::mirror::{Answer, Encoding, Otlp, Pem, Protocol, Transport};

use crate::support::otlp_server::{OtlpServer, Received};

const PROTOCOLS: [Protocol; 3] = [Protocol::Grpc, Protocol::HttpProtobuf, Protocol::HttpJson];
/// Longer than anything takes that comes to an end.
const PATIENCE: Duration = Duration::from_secs(600);
const HTTP: [Protocol; 2] = [Protocol::HttpProtobuf, Protocol::HttpJson];

fn request(text: &str) -> ExportTraceServiceRequest {
    let attribute = KeyValue {
        key: "text".to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(text.to_owned())),
        }),
    };
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: "tool.call".to_owned(),
        start_time_unix_nano: 1_900_000_000_123_456_789,
        attributes: vec![attribute],
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans {
        spans: vec![span],
        ..ScopeSpans::default()
    }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

/// The same, as OpenTelemetry's own types read it.
fn as_read(text: &str) -> Theirs {
    Theirs::decode(&*request(text).encode_to_vec()).unwrap()
}

fn to(server: &OtlpServer, protocol: Protocol) -> Otlp {
    Otlp::new().endpoint(server.url()).protocol(protocol)
}

fn connect(otlp: Otlp) -> Transport {
    let resolved = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    Transport::connect(&resolved).unwrap()
}

async fn ask(transport: &Transport, text: &str) -> Answer {
    let request = match transport.encoding() {
        Encoding::Json => request(text).to_json(),
        _ => request(text).encode_to_vec(),
    };
    transport.send(request.into()).await
}

async fn send(otlp: Otlp) -> Answer {
    ask(&connect(otlp), "hello").await
}

/// The one request that came.
fn only(server: &OtlpServer) -> Received {
    let mut received = server.received();
    assert_eq!(received.len(), 1);
    received.remove(0)
}

#[track_caller]
fn assert_ok(answer: &Answer) {
    match answer {
        Answer::Grpc(Ok(response)) => assert_eq!(*response, ExportTraceServiceResponse::default()),
        Answer::Http { status, body, .. } => {
            assert_eq!(*status, StatusCode::OK);
            assert!(body.is_empty() || body == "{}", "{body:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(answer: Answer) -> String {
    match answer {
        Answer::Failed { why } => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn http(answer: Answer) -> (u16, http::HeaderMap, Bytes) {
    match answer {
        Answer::Http {
            status,
            headers,
            body,
        } => (status.as_u16(), headers, body),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(answer: Answer) -> tonic::Status {
    match answer {
        Answer::Grpc(Err(status)) => status,
        other => panic!("{other:?}"),
    }
}

fn pem(text: &str) -> Pem {
    Pem::Bytes(text.as_bytes().to_vec())
}
