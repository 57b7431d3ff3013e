//! What is measured of an agent's spans, and how it reaches a server.

#[path = "support/otlp_server.rs"]
mod otlp_server;
#[path = "support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, NumberDataPoint};
use otlp_server::{Authority, OtlpServer, Received, Reply};
use spanledger::mirror::{Compression, Otlp, Pem, Protocol};
use spanledger::{Builder, Failure, Outcome, SpanExt, Usage, spans};
use support::{LineExt, Recording};

const TOKENS: &str = "gen_ai.client.token.usage";
const OPERATION: &str = "gen_ai.client.operation.duration";
const TOOL: &str = "gen_ai.execute_tool.duration";
const AGENT: &str = "gen_ai.invoke_agent.duration";

/// Long enough for whatever really comes.
const LONG: Duration = Duration::from_secs(60);

fn to(server: &OtlpServer, protocol: Protocol) -> Otlp {
    Otlp::new().endpoint(server.url()).protocol(protocol)
}

/// An agent that sends metrics, and nothing else, when it shuts down.
fn metered(server: &OtlpServer, protocol: Protocol) -> Recording {
    let otlp = to(server, protocol);
    Recording::with(|builder| only_metrics(builder, otlp))
}

fn only_metrics(builder: Builder, otlp: Otlp) -> Builder {
    let builder = builder.mirror(false).metrics(true).metrics_otlp(otlp);
    builder.shutdown_timeout(LONG)
}

/// A run with two model calls, and tools that go well, fail, and are denied.
fn agent() {
    let run = spans::session_run("ses_1", "planner")
        .model("anthropic", "claude-sonnet-4-5")
        .start();
    let _run = run.enter();
    for (input, output) in [(1200, 80), (1300, 5)] {
        let model = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        model.record_usage(&Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_tokens: Some(1000),
            ..Usage::default()
        });
        model.finish(Outcome::Ok);
    }
    let ok = spans::tool_call("bash", "call_1").start();
    ok.finish(Outcome::Ok);
    let failed = spans::tool_call("bash", "call_2").start();
    failed.record_failure(&Failure::new("TimedOut", "it took too long"));
    failed.finish(Outcome::Error);
    let denied = spans::tool_call("write", "call_3").start();
    denied.finish(Outcome::Denied);
    run.finish(Outcome::Ok);
}

/// What a request says of a metric.
fn found<'a>(request: &'a Received, name: &str) -> Option<&'a Metric> {
    let metrics = request.metrics.as_ref().expect("metrics");
    let resources = metrics.resource_metrics.iter();
    let scopes = resources.flat_map(|resource| &resource.scope_metrics);
    let mut named = scopes
        .flat_map(|scope| &scope.metrics)
        .filter(|metric| metric.name == name);
    let metric = named.next();
    assert!(named.next().is_none(), "{name} is there twice");
    metric
}

fn metric<'a>(request: &'a Received, name: &str) -> &'a Metric {
    found(request, name).unwrap_or_else(|| panic!("no {name}"))
}

fn histogram<'a>(request: &'a Received, name: &str) -> &'a [HistogramDataPoint] {
    match &metric(request, name).data {
        Some(Data::Histogram(histogram)) => &histogram.data_points,
        other => panic!("{name} is {other:?}"),
    }
}

fn number(request: &Received, name: &str) -> u64 {
    let points: &[NumberDataPoint] = match &metric(request, name).data {
        Some(Data::Sum(sum)) => {
            assert!(sum.is_monotonic, "{name}");
            &sum.data_points
        }
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{name} is {other:?}"),
    };
    let [point] = points else {
        panic!("{name} has {points:?}")
    };
    match point.value {
        Some(number_data_point::Value::AsInt(value)) => u64::try_from(value).unwrap(),
        other => panic!("{name} is {other:?}"),
    }
}

fn text(value: &KeyValue) -> &str {
    match value.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{} is {other:?}", value.key),
    }
}

/// Attributes in one line, sorted.
fn said(attributes: &[KeyValue]) -> String {
    let said = attributes.iter().map(|a| format!("{}={}", a.key, text(a)));
    let said: BTreeSet<String> = said.collect();
    said.into_iter().collect::<Vec<_>>().join(" ")
}

/// How often something was measured, by its attributes.
fn counts(request: &Received, name: &str) -> BTreeMap<String, u64> {
    let points = histogram(request, name).iter();
    points.map(|p| (said(&p.attributes), p.count)).collect()
}

fn of<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(said, count)| (said.to_owned(), count)).into()
}

/// That the request tells of [`agent`], once.
fn assert_tells_of_the_agent(request: &Received) {
    let call = "gen_ai.operation.name=chat gen_ai.provider.name=anthropic \
                gen_ai.request.model=claude-sonnet-4-5";
    assert_eq!(counts(request, OPERATION), of([(call, 2)]));
    let input = format!("{call} gen_ai.token.type=input");
    let output = format!("{call} gen_ai.token.type=output");
    assert_eq!(counts(request, TOKENS), of([(&input, 2), (&output, 2)]));
    let planner = "gen_ai.agent.name=planner";
    let tools = of([
        (&format!("{planner} gen_ai.tool.name=bash"), 1),
        (
            &format!("error.type=TimedOut {planner} gen_ai.tool.name=bash"),
            1,
        ),
        (&format!("{planner} gen_ai.tool.name=write"), 1),
    ]);
    assert_eq!(counts(request, TOOL), tools);
    let run = format!("{planner} gen_ai.request.model=claude-sonnet-4-5");
    assert_eq!(counts(request, AGENT), of([(&run, 1)]));
}

/// That an agent's metrics come over this protocol, and what comes.
#[track_caller]
fn arrive_over(protocol: Protocol, path: &str) -> Received {
    let server = OtlpServer::start();
    let recording = metered(&server, protocol);
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    let metrics = health.metrics.unwrap();
    assert_eq!((metrics.sent, metrics.failed), (1, 0), "{metrics:?}");
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
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

#[test]
fn units_buckets_and_sums_are_the_conventions() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    recording.run(agent);
    let trace = recording.trace();
    recording.end();
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();

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
        .find(|p| said(&p.attributes).ends_with("input"));
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
fn the_resource_and_the_scope_are_those_of_the_spans() {
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

    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
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
fn what_was_never_said_is_left_out_and_what_is_no_name_is_other() {
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
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
    let call = "error.type=_OTHER gen_ai.operation.name=chat gen_ai.request.model=m";
    assert_eq!(counts(&request, OPERATION), of([(call, 1)]));
    assert!(found(&request, TOKENS).is_none(), "unknown is never 0");
    let tool = "gen_ai.tool.name=_OTHER";
    assert_eq!(counts(&request, TOOL), of([(tool, 1)]));
}

#[test]
fn usage_that_came_as_an_event_counts_where_the_result_has_none() {
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
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
    let [input] = histogram(&request, TOKENS) else {
        panic!("one kind of token")
    };
    assert_eq!((input.count, input.sum), (1, Some(7.0)));
}

#[test]
fn a_secret_in_a_name_is_masked_in_metrics_too() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    let secret = "ghp_012345678901234567890123456789abcdef";
    recording.run(|| {
        let tool = spans::tool_call(format!("curl {secret}"), "call_1").start();
        tool.finish(Outcome::Ok);
    });
    recording.end();
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
    let counts = counts(&request, TOOL);
    let (said, _) = counts.first_key_value().unwrap();
    assert!(said.contains("[masked rule="), "{said}");
    let raw = String::from_utf8_lossy(&request.raw).into_owned();
    assert!(!raw.contains(secret));
}

#[test]
fn how_recording_goes_is_told_with_it() {
    let server = OtlpServer::start();
    let recording = metered(&server, Protocol::HttpProtobuf);
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
    assert!(health.written > 0);
    let written = number(&request, "spanledger.events.written");
    assert_eq!(written, health.written);
    assert_eq!(number(&request, "spanledger.events.failed"), 0);
    assert!(found(&request, "spanledger.mirror.lag").is_none());
}

#[test]
fn how_the_mirror_ended_is_told_with_the_last_of_them() {
    let (spans, metrics) = (OtlpServer::start(), OtlpServer::start());
    let recording = Recording::with(|builder| {
        builder
            .otlp(to(&spans, Protocol::HttpProtobuf).linger(Duration::ZERO))
            .metrics(true)
            .metrics_otlp(to(&metrics, Protocol::HttpProtobuf))
            .shutdown_timeout(LONG)
    });
    recording.run(agent);
    let health = recording.guard.shutdown().unwrap();
    let mirror = health.mirror.unwrap();
    assert_eq!(mirror.sent, 6);
    let [request] = <[_; 1]>::try_from(metrics.received()).unwrap();
    assert_eq!(number(&request, "spanledger.mirror.spans.sent"), 6);
    assert_eq!(number(&request, "spanledger.mirror.dead_letters"), 0);
    assert_eq!(number(&request, "spanledger.mirror.lag"), 0);
    assert_eq!(metric(&request, "spanledger.mirror.lag").unit, "By");
}

#[test]
fn spans_that_are_sent_again_are_measured_once() {
    // The first answer says that nothing was taken: all of it is sent again.
    let spans = OtlpServer::scripted([Reply::http(503), Reply::http(503)]);
    let metrics = OtlpServer::start();
    let recording = Recording::with(|builder| {
        builder
            .otlp(to(&spans, Protocol::HttpProtobuf).linger(Duration::ZERO))
            .metrics(true)
            .metrics_otlp(to(&metrics, Protocol::Grpc))
            .shutdown_timeout(LONG)
    });
    recording.run(agent);
    spans.wait_for(3);
    recording.end();
    let [request] = <[_; 1]>::try_from(metrics.received()).unwrap();
    assert_tells_of_the_agent(&request);
}

#[test]
fn what_an_earlier_process_left_is_sent_and_not_measured() {
    let nowhere = OtlpServer::scripted([Reply::Hang]);
    let before = Recording::with(|builder| {
        builder
            .otlp(to(&nowhere, Protocol::HttpProtobuf))
            .shutdown_timeout(Duration::ZERO)
    });
    before.run(agent);
    let address = nowhere.address();
    let dir = before.end();
    drop(nowhere);

    let spans = OtlpServer::at(address, []);
    let metrics = OtlpServer::start();
    let (layer, guard) = spanledger::builder()
        .root(dir.path())
        .otlp(to(&spans, Protocol::HttpProtobuf).linger(Duration::ZERO))
        .metrics(true)
        .metrics_otlp(to(&metrics, Protocol::HttpProtobuf))
        .shutdown_timeout(LONG)
        .build::<tracing_subscriber::Registry>()
        .unwrap();
    spans.wait_for(1);
    guard.shutdown().unwrap();
    drop(layer);
    let [request] = <[_; 1]>::try_from(metrics.received()).unwrap();
    assert_eq!(number(&request, "spanledger.mirror.spans.sent"), 6);
    for name in [OPERATION, TOKENS, TOOL, AGENT] {
        assert!(found(&request, name).is_none(), "{name}");
    }
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
fn a_server_that_hangs_holds_neither_the_agent_nor_its_end() {
    // The interval's metrics hang at once; the agent runs and ends while they do.
    let server = OtlpServer::scripted([Reply::Hang, Reply::Hang, Reply::Hang]);
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let (closed, is_closed) = std::sync::mpsc::channel();
        let otlp = to(&server, protocol).timeout(Duration::from_secs(3600));
        let recording = Recording::with(|builder| {
            let builder = builder.mirror(false).metrics(true).metrics_otlp(otlp);
            builder.shutdown_timeout(Duration::from_millis(200))
        });
        let agent = std::thread::spawn(move || {
            recording.run(agent);
            let health = recording.guard.shutdown().unwrap();
            closed.send(health).unwrap();
        });
        // The server answers to nothing before the test is over.
        let health = is_closed.recv_timeout(LONG).expect("the agent has ended");
        assert_eq!(health.failed, 0);
        assert_eq!(health.metrics.unwrap().sent, 0);
        agent.join().unwrap();
    }
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_server_that_is_not_there_is_told_in_health() {
    let gone = OtlpServer::start();
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let address = gone.address();
        let url = format!(
            "http://127.0.0.1:{}",
            if address.port() == 1 { 2 } else { 1 }
        );
        let otlp = Otlp::new().endpoint(url).protocol(protocol);
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
            let [request] = <[_; 1]>::try_from(server.received()).unwrap();
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
    let [request] = <[_; 1]>::try_from(server.received()).unwrap();
    assert_tells_of_the_agent(&request);
}
