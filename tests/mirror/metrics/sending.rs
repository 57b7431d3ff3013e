//! How metrics reach a server, and how failures are reported.

use std::time::Duration;

use spanledger::Builder;
use spanledger::mirror::{Compression, Otlp, Pem, Protocol};

use crate::support::Recording;
use crate::support::metrics::*;
use crate::support::otlp_server::{Authority, OtlpServer, Received, Reply};

/// Asserts that an agent's metrics arrive over this protocol, and returns the request.
#[track_caller]
fn arrive_over(protocol: Protocol, path: &str) -> Received {
    let server = OtlpServer::start();
    let recording = metered(&server, protocol);
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    let metrics = health.metrics.unwrap();
    assert_eq!((metrics.sent, metrics.failed), (1, 0), "{metrics:?}");
    let request = only(&server);
    assert_eq!(request.path, path);
    assert_measures_the_agent(&request);
    request
}

#[test]
fn run_over_grpc() {
    let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    arrive_over(Protocol::Grpc, path);
}

#[test]
fn run_over_http() {
    let request = arrive_over(Protocol::HttpProtobuf, "/v1/metrics");
    assert_eq!(
        request.header("content-type"),
        Some("application/x-protobuf")
    );
}

#[test]
fn http_json_becomes_protobuf() {
    let request = arrive_over(Protocol::HttpJson, "/v1/metrics");
    assert_eq!(
        request.header("content-type"),
        Some("application/x-protobuf")
    );
}

/// An agent that sends its spans at once, and its metrics at the end.
fn mirrored(spans: &OtlpServer, metrics: Otlp) -> Recording {
    let spans = to(spans, Protocol::HttpProtobuf).linger(Duration::ZERO);
    Recording::with(|builder| {
        let builder = builder.otlp(spans).shutdown_timeout(LONG);
        builder.metrics(true).metrics_otlp(metrics)
    })
}

#[test]
fn final_mirror_state_is_in_the_last_export() {
    let (spans, metrics) = (OtlpServer::start(), OtlpServer::start());
    let recording = mirrored(&spans, to(&metrics, Protocol::HttpProtobuf));
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    let mirror = health.mirror.unwrap();
    assert_eq!(mirror.sent, 6);
    let request = only(&metrics);
    assert_eq!(number(&request, "spanledger.mirror.spans.sent"), 6);
    assert_eq!(number(&request, "spanledger.mirror.dead_letters"), 0);
    assert_eq!(number(&request, "spanledger.mirror.lag"), 0);
    assert_eq!(metric(&request, "spanledger.mirror.lag").unit, "By");
}

#[test]
fn pending_and_refused_spans_are_measured() {
    let refusals = std::iter::repeat_n(Reply::http(503), 100);
    let spans = OtlpServer::scripted([Reply::http(400)].into_iter().chain(refusals));
    let metrics = OtlpServer::start();
    let recording = mirrored(&spans, to(&metrics, Protocol::HttpProtobuf));
    // Alone in its request, since the server has it before there is another.
    recording.run(|| drop(spanledger::spans::session_run("ses_0", "planner").start()));
    spans.wait_for(1);
    recording.run(agent);
    let mirror = recording.guard.shutdown().unwrap().mirror.unwrap();
    assert!(mirror.owed_bytes > 0);
    let request = only(&metrics);
    assert_eq!(number(&request, "spanledger.mirror.spans.sent"), 0);
    assert_eq!(number(&request, "spanledger.mirror.dead_letters"), 1);
    assert_eq!(number(&request, "spanledger.mirror.lag"), mirror.owed_bytes);
}

#[test]
fn resent_spans_are_measured_once() {
    // The first answer refuses everything, so all of it is sent again.
    let spans = OtlpServer::scripted([Reply::http(503), Reply::http(503)]);
    let metrics = OtlpServer::start();
    let recording = mirrored(&spans, to(&metrics, Protocol::Grpc));
    recording.run(agent);
    spans.wait_for(3);
    recording.end();
    let request = only(&metrics);
    assert_measures_the_agent(&request);
}

#[test]
fn nothing_is_sent_without_opt_in() {
    let server = OtlpServer::start();
    let otlp = || to(&server, Protocol::HttpProtobuf).linger(Duration::ZERO);
    for configure in [
        |builder: Builder, otlp: Otlp| builder.otlp(otlp),
        |builder: Builder, otlp: Otlp| builder.otlp(otlp).metrics(false),
    ] {
        let recording = Recording::with(|b| configure(b, otlp()).shutdown_timeout(LONG));
        recording.run(agent);
        let health = recording.guard.shutdown().unwrap();
        assert_eq!(health.metrics, None);
    }
    let received = server.received();
    assert!(!received.is_empty());
    assert!(received.iter().all(|one| one.path == "/v1/traces"));
}

#[test]
fn absent_server_is_in_health() {
    let address = OtlpServer::start().address();
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let otlp = Otlp::new()
            .endpoint(format!("http://{address}"))
            .protocol(protocol);
        let recording = Recording::with(|builder| only_metrics(builder, otlp));
        recording.run(agent);
        let health = recording.guard.shutdown().unwrap();
        let metrics = health.metrics.unwrap();
        assert_eq!((metrics.sent, metrics.failed), (0, 1));
        let why = metrics.last_error.unwrap();
        assert!(why.contains("refused"), "{protocol:?}: {why}");
    }
}

#[test]
fn certificates_headers_and_compression_apply() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let authority = Authority::new();
            let server = OtlpServer::secure(authority.server("localhost"));
            let otlp = Otlp::new()
                .endpoint(server.url_as("localhost"))
                .protocol(protocol)
                .ca_certificate(Pem::Bytes(authority.pem.clone().into_bytes()))
                .header("x-team", "agents")
                .compression(compression);
            let recording = Recording::with(|builder| only_metrics(builder, otlp));
            recording.run(agent);
            let health = recording.guard.shutdown().unwrap();
            let metrics = health.metrics.unwrap();
            assert_eq!(metrics.sent, 1, "{metrics:?}");
            let request = only(&server);
            assert_measures_the_agent(&request);
            assert_eq!(request.header("x-team"), Some("agents"));
            let agent = request.header("user-agent").unwrap();
            assert!(agent.starts_with("spanledger/"), "{agent}");
            let encoding = match protocol {
                Protocol::Grpc => request.header("grpc-encoding"),
                _ => request.header("content-encoding"),
            };
            let expected = match compression {
                Compression::Gzip => Some("gzip"),
                Compression::Zstd => Some("zstd"),
                _ => None,
            };
            assert_eq!(encoding, expected);
        }
    }
}

#[test]
fn untrusted_server_gets_nothing() {
    let server = OtlpServer::secure(Authority::new().server("localhost"));
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let otlp = Otlp::new()
            .endpoint(server.url_as("localhost"))
            .protocol(protocol)
            .ca_certificate(Pem::Bytes(Authority::new().pem.into_bytes()));
        let recording = Recording::with(|builder| only_metrics(builder, otlp));
        recording.run(agent);
        let health = recording.guard.shutdown().unwrap();
        let why = health.metrics.unwrap().last_error.unwrap();
        assert!(why.contains("certificate"), "{protocol:?}: {why}");
    }
    assert!(server.received().is_empty());
}

#[test]
fn current_thread_runtime_agent_is_measured() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::Grpc);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let health = runtime.block_on(async {
        recording.run(agent);
        recording.guard.shutdown().unwrap()
    });
    assert_eq!(health.metrics.unwrap().sent, 1);
    let request = only(&server);
    assert_measures_the_agent(&request);
}
