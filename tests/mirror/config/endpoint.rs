//! Whether there is a mirror, where it sends, and by which protocol.

use std::time::Duration;

use spanledger::mirror::{Otlp, Protocol};

use super::{ENDPOINT, HERE, TRACES_ENDPOINT, assert_off, header, refused, resolve, try_resolve};

// Whether there is a mirror.

#[test]
fn no_endpoint_means_no_mirror() {
    assert_off(None, &[]);
    assert_off(Otlp::new().timeout(Duration::from_secs(1)), &[]);
    assert_off(None, &[(ENDPOINT, " ")]);
}

#[test]
fn without_mirror_other_bad_values_are_ignored() {
    assert_off(
        None,
        &[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier/pigeon"),
            ("OTEL_SDK_DISABLED", "1"),
            ("OTEL_TRACES_EXPORTER", "stdout"),
        ],
    );
}

#[test]
fn otlp_exporter_defaults_to_localhost() {
    let exporter = ("OTEL_TRACES_EXPORTER", "otlp");
    let http = resolve(None, &[exporter]);
    assert_eq!(http.uri, "http://localhost:4318/v1/traces");
    assert_eq!(http.protocol, Protocol::HttpProtobuf);
    let grpc = resolve(None, &[exporter, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert_eq!(grpc.shown(), "http://localhost:4317");
    assert_eq!(grpc.protocol, Protocol::Grpc);
    resolve(None, &[("OTEL_TRACES_EXPORTER", "console, OTLP")]);
}

#[test]
fn exporters_without_otlp_disable_the_mirror() {
    assert_off(None, &[HERE, ("OTEL_TRACES_EXPORTER", "none")]);
    assert_off(None, &[HERE, ("OTEL_TRACES_EXPORTER", "console,zipkin")]);
}

#[test]
fn unknown_exporter_is_refused() {
    let (name, message) = refused(None, &[HERE, ("OTEL_TRACES_EXPORTER", "oltp")]);
    assert_eq!(name, "OTEL_TRACES_EXPORTER");
    assert!(message.contains("oltp"), "{message}");
}

#[test]
fn endpoint_in_code_overrides_exporters() {
    let code = Otlp::new().endpoint("http://127.0.0.1:4317");
    resolve(code.clone(), &[("OTEL_TRACES_EXPORTER", "none")]);
    resolve(code, &[("OTEL_TRACES_EXPORTER", "oltp")]);
}

#[test]
fn disabled_sdk_overrides_code() {
    let disabled = ("OTEL_SDK_DISABLED", "True");
    assert_off(None, &[HERE, disabled]);
    assert_off(Otlp::new().endpoint("http://127.0.0.1:4317"), &[disabled]);
    assert_off(None, &[("OTEL_TRACES_EXPORTER", "otlp"), disabled]);
    assert_off(None, &[(ENDPOINT, "what is this"), disabled]);
    resolve(None, &[HERE, ("OTEL_SDK_DISABLED", "false")]);
    let (name, _) = refused(None, &[HERE, ("OTEL_SDK_DISABLED", "1")]);
    assert_eq!(name, "OTEL_SDK_DISABLED");
}

// The endpoint.

#[test]
fn endpoint_precedence() {
    let general = (ENDPOINT, "http://general:1");
    let traces = (TRACES_ENDPOINT, "http://traces:1/own");
    let code = Otlp::new().endpoint("http://code:1");
    let shown = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).shown();
    assert_eq!(shown(None, &[general]), "http://general:1/v1/traces");
    assert_eq!(shown(None, &[general, traces]), "http://traces:1/own");
    let all = shown(Some(code), &[general, traces]);
    assert_eq!(all, "http://code:1/v1/traces");
    let empty = [general, (TRACES_ENDPOINT, "")];
    assert_eq!(shown(None, &empty), "http://general:1/v1/traces");
}

#[test]
fn general_endpoint_gets_the_traces_path() {
    let uri = |name, value| resolve(None, &[(name, value)]).uri.to_string();
    let general = |value| uri(ENDPOINT, value);
    assert_eq!(general("http://h:1"), "http://h:1/v1/traces");
    assert_eq!(general("http://h:1/"), "http://h:1/v1/traces");
    assert_eq!(general("http://h/otlp/"), "http://h/otlp/v1/traces");
    assert_eq!(general("http://h/otlp?k=v"), "http://h/otlp/v1/traces?k=v");
    assert_eq!(general("http://h/v1/traces"), "http://h/v1/traces");
    let traces = |value| uri(TRACES_ENDPOINT, value);
    assert_eq!(traces("http://h:1"), "http://h:1/");
    assert_eq!(traces("http://h/own/"), "http://h/own/");
    assert_eq!(traces("http://h/own?k=v#part"), "http://h/own?k=v");
}

#[test]
fn endpoint_in_code_may_have_the_traces_path() {
    for endpoint in ["http://h:4318", "http://h:4318/v1/traces"] {
        let resolved = resolve(Otlp::new().endpoint(endpoint), &[]);
        assert_eq!(resolved.uri, "http://h:4318/v1/traces");
    }
}

#[test]
fn grpc_endpoint_has_no_path() {
    let grpc = resolve(None, &[(ENDPOINT, "http://Collector:4317/v1/traces")]);
    assert_eq!(grpc.uri, "http://collector:4317/");
    assert_eq!(grpc.shown(), "http://collector:4317");
}

#[test]
fn grpc_endpoint_without_scheme_is_secure() {
    let bare = (ENDPOINT, "collector:4317");
    let shown = |variables: &[_]| resolve(None, variables).shown();
    assert_eq!(shown(&[bare]), "https://collector:4317");
    let general = ("OTEL_EXPORTER_OTLP_INSECURE", "TRUE");
    assert_eq!(shown(&[bare, general]), "http://collector:4317");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "false");
    assert_eq!(shown(&[bare, general, traces]), "https://collector:4317");
    let scheme = (ENDPOINT, "https://collector:4317");
    assert_eq!(shown(&[scheme, general]), "https://collector:4317");
    let (name, _) = refused(None, &[bare, ("OTEL_EXPORTER_OTLP_INSECURE", "yes")]);
    assert_eq!(name, "OTEL_EXPORTER_OTLP_INSECURE");
}

#[test]
fn invalid_endpoint_is_refused_by_name() {
    let bad = [
        "localhost:4318",
        "http://",
        "http://:4318",
        "ftp://h:1",
        "unix:///run/otlp.sock",
        "http://h:99999",
        "http://h:0",
        "http://h:port",
        "http://h h",
        "http://h/a b",
        "what is this",
    ];
    for value in bad {
        assert_eq!(refused(None, &[(ENDPOINT, value)]).0, ENDPOINT, "{value}");
        let (name, _) = refused(None, &[(TRACES_ENDPOINT, value)]);
        assert_eq!(name, TRACES_ENDPOINT, "{value}");
        let (name, _) = refused(Otlp::new().endpoint(value), &[HERE]);
        assert_eq!(name, "Otlp::endpoint", "{value}");
    }
    assert_eq!(refused(Otlp::new().endpoint(""), &[]).0, "Otlp::endpoint");
}

#[test]
fn ipv4_and_ipv6_addresses() {
    let shown = |value| resolve(None, &[(ENDPOINT, value)]).shown();
    assert_eq!(shown("http://[::1]:4317"), "http://[::1]:4317");
    assert_eq!(shown("http://127.0.0.1:4317"), "http://127.0.0.1:4317");
}

#[test]
fn endpoint_credentials_become_a_hidden_header() {
    let endpoint = (ENDPOINT, "http://me:p%40ss@h:4318/otlp?token=s3cret");
    let resolved = resolve(None, &[endpoint]);
    let basic = header(&resolved, "authorization").unwrap();
    assert_eq!(basic, "Basic bWU6cEBzcw==");
    assert_eq!(resolved.shown(), "http://h:4318/otlp/v1/traces");
    assert_eq!(resolved.uri, "http://h:4318/otlp/v1/traces?token=s3cret");
    let debug = format!("{resolved:?}");
    for secret in ["p%40ss", "p@ss", "bWU6", "s3cret"] {
        assert!(!debug.contains(secret), "{debug}");
    }
    let message = refused(None, &[(ENDPOINT, "http://me:p%40ss@h:99999")]).1;
    assert!(!message.contains("p%40ss"), "{message}");
}

proptest::proptest! {
    #[test]
    fn any_variable_value_is_accepted_or_refused(
        endpoint in "((https?|[a-z]{0,4})://)?([a-z:@%]{0,4}@)?(\\PC{0,6}|\\[?[0-9a-f:.]{0,8}\\]?)(:[0-9]{0,6})?([/?#]\\PC{0,8})?",
        headers in "(\\PC{0,4}=\\PC{0,6},){0,3}",
        grpc: bool,
    ) {
        let protocol = if grpc { "grpc" } else { "http/json" };
        let variables = [
            (ENDPOINT, endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ];
        if let Ok(Some(resolved)) = try_resolve(None, &variables) {
            let shown: http::Uri = resolved.shown().parse().unwrap();
            assert_eq!(shown.authority(), resolved.uri.authority());
            assert!(!shown.authority().unwrap().as_str().contains('@'));
            assert_eq!(shown.query(), None);
        }
    }
}

// The protocol.

#[test]
fn port_4317_defaults_to_grpc() {
    let protocol = |variables: &[_]| resolve(None, variables).protocol;
    let grpc_port = (ENDPOINT, "http://h:4317");
    assert_eq!(protocol(&[grpc_port]), Protocol::Grpc);
    assert_eq!(protocol(&[HERE]), Protocol::HttpProtobuf);
    let no_port = (ENDPOINT, "https://h");
    assert_eq!(protocol(&[no_port]), Protocol::HttpProtobuf);
    let named = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    assert_eq!(protocol(&[grpc_port, named]), Protocol::HttpProtobuf);
}

#[test]
fn protocol_precedence() {
    let general = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json");
    let protocol = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).protocol;
    assert_eq!(protocol(None, &[HERE, general]), Protocol::Grpc);
    let both = [HERE, general, traces];
    assert_eq!(protocol(None, &both), Protocol::HttpJson);
    let code = Otlp::new().protocol(Protocol::HttpProtobuf);
    assert_eq!(protocol(Some(code), &both), Protocol::HttpProtobuf);
}

#[test]
fn unknown_protocol_is_refused_unless_overridden() {
    let general = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http");
    assert_eq!(refused(None, &[HERE, general]).0, general.0);
    resolve(Otlp::new().protocol(Protocol::Grpc), &[HERE, general]);
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
    resolve(None, &[HERE, general, traces]);
}
