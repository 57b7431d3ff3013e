//! What is measured, under which names.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use spanledger::mirror::Protocol;
use spanledger::{Outcome, SpanExt, Usage, spans};

use crate::support::metrics::*;
use crate::support::otlp_server::OtlpServer;
use crate::support::{LineExt, Recording};

#[test]
fn units_buckets_and_sums_follow_conventions() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    recording.run(agent);
    let trace = recording.trace();
    recording.end();
    let request = only(&server);

    let short = [
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    ];
    let long = [
        0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6,
    ];
    let tokens = [
        1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0,
        4194304.0, 16777216.0, 67108864.0,
    ];
    for (name, unit, buckets) in [
        (OPERATION, "s", &short[..]),
        (TOOL, "s", &short),
        (AGENT, "s", &long),
        (TOKENS, "{token}", &tokens),
    ] {
        assert_eq!(metric(&request, name).unit, unit, "{name}");
        for point in histogram(&request, name) {
            assert_eq!(point.explicit_bounds, buckets, "{name}");
        }
    }
    let points = histogram(&request, TOKENS);
    let input = points
        .iter()
        .find(|p| attribute_text(&p.attributes).ends_with("input"));
    assert_eq!(input.unwrap().sum, Some(2500.0));
    // 1200 and 1300 both lie above 1024.
    assert_eq!(input.unwrap().bucket_counts[6], 2);
    // What the run took is what its close line says.
    let took = trace
        .one("session_end")
        .get("duration_ns")
        .as_u64()
        .unwrap();
    let [run] = histogram(&request, AGENT) else {
        panic!("one run")
    };
    assert_eq!(run.sum, Some(took as f64 / 1e9));
}

#[test]
fn resource_and_scope_equal_the_spans() {
    let server = OtlpServer::start();
    let otlp = to(&server, Protocol::HttpProtobuf);
    let recording = Recording::with(|builder| {
        only_metrics(builder, otlp)
            .resource("service.name", "my-agent")
            .resource("replica", 3)
            .resource("zones", vec!["a", "b"])
    });
    recording.run(agent);
    let trace = recording.trace();
    recording.end();
    let logged = trace.one("segment").get("resource").as_object().unwrap();

    let request = only(&server);
    let resource = &request.metrics.as_ref().unwrap().resource_metrics[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    let keys: BTreeSet<_> = attributes.iter().map(|a| a.key.as_str()).collect();
    assert_eq!(keys, logged.keys().map(String::as_str).collect());
    let value = |key: &str| {
        let found = attributes.iter().find(|a| a.key == key).unwrap();
        found.value.clone().unwrap().value.unwrap()
    };
    assert_eq!(value("service.name"), Value::StringValue("my-agent".into()));
    assert_eq!(value("replica"), Value::IntValue(3));
    assert!(matches!(value("zones"), Value::ArrayValue(list) if list.values.len() == 2));
    let scope = resource.scope_metrics[0].scope.as_ref().unwrap();
    assert_eq!(scope.name, "spanledger");
    assert_eq!(scope.version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn missing_values_are_omitted_or_other() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    recording.run(|| {
        let model = tracing::info_span!("model.call", model_id = "m");
        model.finish(Outcome::Error);
        let long = "x".repeat(300);
        spans::tool_call(&*long, "call_1")
            .start()
            .finish(Outcome::Ok);
    });
    recording.end();
    let request = only(&server);
    let call = "error.type=_OTHER gen_ai.operation.name=chat gen_ai.request.model=m";
    assert_eq!(counts(&request, OPERATION), of([(call, 1)]));
    assert!(found(&request, TOKENS).is_none(), "unknown is never 0");
    let tool = "gen_ai.tool.name=_OTHER";
    assert_eq!(counts(&request, TOOL), of([(tool, 1)]));
}

#[test]
fn usage_event_counts_if_result_has_none() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    recording.run(|| {
        let model = spans::model_call("p", "m").start();
        let usage = Usage {
            input_tokens: Some(7),
            ..Usage::default()
        };
        model.in_scope(|| spanledger::events::model_usage(&usage).emit());
        model.finish(Outcome::Ok);
    });
    recording.end();
    let request = only(&server);
    let [input] = histogram(&request, TOKENS) else {
        panic!("one kind of token")
    };
    assert_eq!((input.count, input.sum), (1, Some(7.0)));
}

#[test]
fn secret_in_a_name_is_masked() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    let secret = "ghp_012345678901234567890123456789abcdef";
    recording.run(|| {
        let tool = spans::tool_call(format!("curl {secret}"), "call_1").start();
        tool.finish(Outcome::Ok);
    });
    recording.end();
    let request = only(&server);
    let counts = counts(&request, TOOL);
    let (attribute_text, _) = counts.first_key_value().unwrap();
    assert!(attribute_text.contains("[masked rule="), "{attribute_text}");
    let raw = String::from_utf8_lossy(&request.raw).into_owned();
    assert!(!raw.contains(secret));
}

#[test]
fn recording_health_is_measured() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    let request = only(&server);
    assert!(health.written > 0);
    let written = number(&request, "spanledger.events.written");
    assert_eq!(written, health.written);
    assert_eq!(number(&request, "spanledger.events.failed"), 0);
    assert!(found(&request, "spanledger.mirror.lag").is_none());
}

#[test]
fn unwritten_span_is_counted_not_measured() {
    let server = OtlpServer::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    let otlp = to(&server, Protocol::HttpProtobuf);
    let recording = Recording::with(|builder| only_metrics(builder, otlp).root(file));
    recording.run(agent);
    let failed = recording.guard.health().failed;
    assert!(failed > 0);
    assert!(recording.guard.shutdown().is_err());
    let request = only(&server);
    assert_eq!(number(&request, "spanledger.events.written"), 0);
    assert_eq!(number(&request, "spanledger.events.failed"), failed);
    for name in [OPERATION, TOKENS, TOOL, AGENT] {
        assert!(found(&request, name).is_none(), "{name}");
    }
}
