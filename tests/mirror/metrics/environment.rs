//! Endpoint and settings of the metrics: each variable, and their precedence.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;
use spanledger::Error;
use spanledger::mirror::{Compression, MetricsConfig, Otlp, Protocol};

use crate::support::Recording;
use crate::support::backends::until;
use crate::support::child::{calling_test, is_child};
use crate::support::metrics::*;
use crate::support::otlp_server::{OtlpServer, Reply};

const ASKED: (&str, &str) = ("OTEL_METRICS_EXPORTER", "otlp");
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

fn try_resolve(
    code: Option<Otlp>,
    asked: Option<bool>,
    variables: &[(&str, &str)],
) -> Result<Option<MetricsConfig>, Error> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    Otlp::resolve_metrics(code, asked, |name| {
        variables.get(name).map(|&value| value.to_owned())
    })
}

fn is_on(asked: Option<bool>, variables: &[(&str, &str)]) -> bool {
    try_resolve(None, asked, variables).unwrap().is_some()
}

fn resolve(code: Option<Otlp>, variables: &[(&str, &str)]) -> MetricsConfig {
    try_resolve(code, Some(true), variables).unwrap().unwrap()
}

fn goes_to(code: Option<Otlp>, variables: &[(&str, &str)]) -> String {
    resolve(code, variables).to.shown()
}

#[test]
fn metrics_are_opt_in() {
    let here = (ENDPOINT, "http://127.0.0.1:4318");
    assert!(!is_on(None, &[here]));
    assert!(is_on(None, &[ASKED]));
    assert!(is_on(Some(true), &[]));
    let several = ("OTEL_METRICS_EXPORTER", "prometheus, otlp");
    assert!(is_on(None, &[several]));
    for other in ["none", "prometheus", "console", "none,otlp", " "] {
        let other = ("OTEL_METRICS_EXPORTER", other);
        assert!(!is_on(None, &[here, other]), "{other:?}");
        assert!(is_on(Some(true), &[other]), "code beats {other:?}");
    }
    assert!(!is_on(Some(false), &[ASKED, here]));
}

#[test]
fn disabled_sdk_sends_none() {
    let disabled = ("OTEL_SDK_DISABLED", "true");
    assert!(!is_on(None, &[ASKED, disabled]));
    assert!(!is_on(Some(true), &[disabled]));
}

#[test]
fn endpoint_precedence() {
    let local = "http://localhost:4318/v1/metrics";
    assert_eq!(goes_to(None, &[]), local);
    let all = (ENDPOINT, "http://all:4318/base/");
    assert_eq!(goes_to(None, &[all]), "http://all:4318/base/v1/metrics");
    // A signal's own is the whole address.
    let own = (METRICS_ENDPOINT, "http://own:9/x");
    assert_eq!(goes_to(None, &[all, own]), "http://own:9/x");
    let code = || Some(Otlp::new().endpoint("http://code:4318"));
    assert_eq!(goes_to(code(), &[all, own]), "http://code:4318/v1/metrics");
    // Settings for spans don't apply to metrics.
    let spans = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://spans:4318");
    assert_eq!(goes_to(None, &[spans]), local);
}

#[test]
fn span_endpoint_in_code_gives_the_server() {
    let code = Otlp::new().endpoint("http://code:4318/base/v1/traces");
    assert_eq!(goes_to(Some(code), &[]), "http://code:4318/base/v1/metrics");
}

#[test]
fn grpc_by_port_and_never_json() {
    let protocol = |variables: &[(&str, &str)]| resolve(None, variables).to.protocol;
    assert_eq!(protocol(&[]), Protocol::HttpProtobuf);
    assert_eq!(protocol(&[(ENDPOINT, "http://h:4317")]), Protocol::Grpc);
    let all = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(protocol(&[all]), Protocol::Grpc);
    assert_eq!(goes_to(None, &[all]), "http://localhost:4317");
    let own = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json");
    assert_eq!(protocol(&[all, own]), Protocol::HttpProtobuf);
}

#[test]
fn metrics_headers_and_timeouts_override() {
    let found = resolve(
        None,
        &[
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=all"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-team=own"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2000"),
        ],
    );
    assert_eq!(found.to.headers["x-team"], "own");
    assert_eq!(found.to.timeout, Duration::from_secs(2));
}

#[test]
fn metrics_compression_and_tls_override() {
    let found = resolve(
        None,
        &[
            (ENDPOINT, "collector:4317"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "false"),
            ("OTEL_EXPORTER_OTLP_METRICS_INSECURE", "true"),
        ],
    );
    assert_eq!(found.to.compression, Compression::Zstd);
    assert_eq!(found.to.shown(), "http://collector:4317");
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["me".to_owned()]).unwrap();
    std::fs::write(&good, certificate.self_signed(&key).unwrap().pem()).unwrap();
    // Of each in turn, the one for metrics can't be read.
    for name in ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"] {
        let metrics = format!("OTEL_EXPORTER_OTLP_METRICS_{name}");
        let good = good.to_str().unwrap();
        let variables = [
            ASKED,
            (ENDPOINT, "https://collector:4318"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", good),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", good),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", good),
            (&metrics, "/nowhere/metrics.pem"),
        ];
        let error = try_resolve(None, None, &variables).unwrap_err();
        let Error::Otlp { setting, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(setting, metrics);
    }
}

#[test]
fn interval_and_temporality_are_validated() {
    const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
    const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    let found = resolve(None, &[]);
    assert_eq!(found.interval, Duration::from_secs(60));
    assert_eq!(found.temporality, Temporality::Cumulative);
    let found = resolve(None, &[(INTERVAL, "500"), (TEMPORALITY, "Delta")]);
    assert_eq!(found.interval, Duration::from_millis(500));
    assert_eq!(found.temporality, Temporality::Delta);
    for bad in [
        (INTERVAL, "0"),
        (INTERVAL, "soon"),
        (TEMPORALITY, "eternal"),
        ("OTEL_METRICS_EXPORTER", "otpl"),
    ] {
        let error = try_resolve(None, None, &[ASKED, bad]).unwrap_err();
        let Error::Environment { name, value, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((name, &*value), bad);
    }
}

// With real environment variables: each test runs once more in a child that has them.

/// This very test in a process of its own, which waits for the end of its input wherever it
/// [pauses](pause).
fn child(variables: &[(&str, &str)]) -> Child {
    let mut child = calling_test();
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") {
            child.env_remove(name);
        }
    }
    child.envs(variables.iter().copied());
    child.stdin(Stdio::piped()).stdout(Stdio::null());
    child.spawn().unwrap()
}

fn pause() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Lets a child continue, and expects that it succeeds.
fn go_on(mut child: Child) {
    drop(child.stdin.take());
    let ended = until("the end of the child", || child.try_wait().unwrap());
    assert!(ended.success());
}

#[test]
fn environment_alone_is_enough() {
    if is_child() {
        let recording = Recording::with(|builder| builder.shutdown_timeout(LONG));
        recording.run(agent);
        drop(recording.end());
        return;
    }
    let server = OtlpServer::start();
    go_on(child(&[
        ASKED,
        (METRICS_ENDPOINT, &format!("{}/v1/metrics", server.url())),
        ("OTEL_SERVICE_NAME", "from-outside"),
        // Percent-encoded, as it stands there, and once only.
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-team=a%20b"),
    ]));
    let request = only(&server);
    assert_measures_the_agent(&request);
    let values = request.headers.get_all("x-team").iter();
    assert_eq!(values.collect::<Vec<_>>(), ["a b"]);
    let resource = &request.metrics.unwrap().resource_metrics[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    let service = attributes.iter().find(|a| a.key == "service.name");
    assert_eq!(text(service.unwrap()), "from-outside");
}

#[test]
fn environment_headers_are_sent_once_over_grpc() {
    if is_child() {
        let otlp = Otlp::new().header("x-team", "code");
        let recording = Recording::with(|builder| only_metrics(builder, otlp));
        recording.run(agent);
        drop(recording.end());
        return;
    }
    let server = OtlpServer::start();
    go_on(child(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &server.url()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=env,x-more=a%20b"),
    ]));
    let request = only(&server);
    let all = |name: &str| -> Vec<_> {
        let values = request.headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap()).collect()
    };
    assert_eq!(all("x-team"), ["code"]);
    assert_eq!(all("x-more"), ["a b"]);
}

#[test]
fn sent_at_each_interval() {
    if is_child() {
        let recording = Recording::with(|builder| builder.shutdown_timeout(LONG));
        recording.run(agent);
        pause();
        drop(recording.end());
        return;
    }
    let server = OtlpServer::start();
    let child = child(&[
        ASKED,
        (ENDPOINT, &server.url()),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "20"),
    ]);
    server.wait_for(3);
    go_on(child);
    // A repeated export is not measured again.
    assert_measures_the_agent(server.received().last().unwrap());
}

#[test]
fn hanging_server_blocks_neither_agent_nor_exit() {
    if is_child() {
        let recording = Recording::with(|b| b.shutdown_timeout(Duration::from_millis(100)));
        pause();
        // From here on a request is under way that is never answered.
        recording.run(agent);
        let health = recording.guard.shutdown().unwrap();
        assert_eq!(health.failed, 0);
        assert_eq!(health.metrics.unwrap().sent, 0);
        return;
    }
    for protocol in ["grpc", "http/protobuf"] {
        let server = OtlpServer::scripted([Reply::Hang, Reply::Hang]);
        let child = child(&[
            ASKED,
            (ENDPOINT, &server.url()),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1"),
        ]);
        server.wait_for(1);
        // It exits successfully although the server never answers.
        go_on(child);
        assert_eq!(server.received().len(), 1, "{protocol}");
    }
}
