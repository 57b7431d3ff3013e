//! How metrics reach a server, and when they don't.

use std::time::Duration;

use spanledger::Builder;
use spanledger::mirror::{Compression, Otlp, Pem, Protocol};

use super::otlp_server::{Authority, OtlpServer, Received, Reply};
use super::scene::*;
use super::support::Recording;

/// That an agent's metrics come over this protocol, and what comes.
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
    assert_tells_of_the_agent(&request);
    request
}

#[test]
fn a_run_is_measured_and_told_over_grpc() {
    let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    arrive_over(Protocol::Grpc, path);
}

#[test]
fn a_run_is_measured_and_told_over_http() {
    let request = arrive_over(Protocol::HttpProtobuf, "/v1/metrics");
    assert_eq!(
        request.header("content-type"),
        Some("application/x-protobuf")
    );
}

#[test]
fn json_over_http_is_protobuf_for_metrics() {
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
fn how_the_mirror_ended_is_told_with_the_last_of_them() {
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
fn what_the_mirror_owes_and_what_was_refused_is_told_with_them() {
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
fn spans_that_are_sent_again_are_measured_once() {
    // The first answer says that nothing was taken: all of it is sent again.
    let spans = OtlpServer::scripted([Reply::http(503), Reply::http(503)]);
    let metrics = OtlpServer::start();
    let recording = mirrored(&spans, to(&metrics, Protocol::Grpc));
    recording.run(agent);
    spans.wait_for(3);
    recording.end();
    let request = only(&metrics);
    assert_tells_of_the_agent(&request);
}

#[test]
fn nothing_is_sent_that_was_not_asked_for() {
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
fn a_server_that_is_not_there_is_told_in_health() {
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
fn certificates_headers_and_compression_hold_for_metrics_too() {
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
            assert_tells_of_the_agent(&request);
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
fn a_server_that_is_not_trusted_gets_nothing() {
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
fn an_agent_on_a_current_thread_runtime_is_measured() {
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
    assert_tells_of_the_agent(&request);
}
