//! Where the mirror sends to, and how: each setting, each variable, and who wins.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use spanledger::Error;
use spanledger::mirror::{Compression, Otlp, Pem, Protocol, Resolved};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HERE: (&str, &str) = (ENDPOINT, "http://127.0.0.1:4318");
const HERE_SECURE: (&str, &str) = (ENDPOINT, "https://127.0.0.1:4318");

fn try_resolve(
    code: impl Into<Option<Otlp>>,
    variables: &[(&str, &str)],
) -> Result<Option<Resolved>, Error> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    Otlp::resolve(code.into(), |name| {
        variables.get(name).map(|&value| value.to_owned())
    })
}

fn resolve(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) -> Resolved {
    let resolved = try_resolve(code, variables).unwrap();
    resolved.expect("there is a mirror")
}

/// That there is no mirror, and no error.
fn assert_off(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) {
    let resolved = try_resolve(code, variables).unwrap();
    assert!(resolved.is_none(), "{resolved:?}");
}

/// Which setting is refused, and in which words.
fn refused(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) -> (&'static str, String) {
    let error = try_resolve(code, variables).unwrap_err();
    let said = error.to_string();
    match error {
        Error::Environment { name, .. } => (name, said),
        Error::Otlp { setting, .. } => (setting, said),
        other => panic!("{other}"),
    }
}

fn header(resolved: &Resolved, name: &str) -> Option<String> {
    let value = resolved.headers.get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

// Whether there is a mirror.

#[test]
fn with_no_endpoint_anywhere_there_is_no_mirror() {
    assert_off(None, &[]);
    assert_off(Otlp::new().timeout(Duration::from_secs(1)), &[]);
    assert_off(None, &[(ENDPOINT, " ")]);
}

#[test]
fn with_no_mirror_a_bad_value_of_another_variable_is_nobody_s_business() {
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
fn an_exporter_without_an_endpoint_is_the_local_one() {
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
fn exporters_without_otlp_switch_the_mirror_off() {
    assert_off(None, &[HERE, ("OTEL_TRACES_EXPORTER", "none")]);
    assert_off(None, &[HERE, ("OTEL_TRACES_EXPORTER", "console,zipkin")]);
}

#[test]
fn an_exporter_nobody_knows_is_refused() {
    let (name, said) = refused(None, &[HERE, ("OTEL_TRACES_EXPORTER", "oltp")]);
    assert_eq!(name, "OTEL_TRACES_EXPORTER");
    assert!(said.contains("oltp"), "{said}");
}

#[test]
fn an_endpoint_in_code_beats_the_exporters_of_the_environment() {
    let code = Otlp::new().endpoint("http://127.0.0.1:4317");
    resolve(code.clone(), &[("OTEL_TRACES_EXPORTER", "none")]);
    resolve(code, &[("OTEL_TRACES_EXPORTER", "oltp")]);
}

#[test]
fn a_disabled_sdk_has_no_mirror_whatever_code_says() {
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
fn the_endpoint_in_code_beats_that_for_traces_beats_the_general_one() {
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
fn the_general_endpoint_gets_the_path_of_traces_and_the_one_for_traces_none() {
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
fn the_endpoint_in_code_may_have_the_path_of_traces_or_not() {
    for endpoint in ["http://h:4318", "http://h:4318/v1/traces"] {
        let resolved = resolve(Otlp::new().endpoint(endpoint), &[]);
        assert_eq!(resolved.uri, "http://h:4318/v1/traces");
    }
}

#[test]
fn a_grpc_endpoint_has_no_path() {
    let grpc = resolve(None, &[(ENDPOINT, "http://Collector:4317/v1/traces")]);
    assert_eq!(grpc.uri, "http://collector:4317/");
    assert_eq!(grpc.shown(), "http://collector:4317");
}

#[test]
fn a_grpc_endpoint_without_a_scheme_is_secure_unless_it_is_said_not_to_be() {
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
fn an_endpoint_that_can_not_be_parsed_is_refused_by_its_name() {
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
fn an_address_by_number_of_either_kind_will_do() {
    let shown = |value| resolve(None, &[(ENDPOINT, value)]).shown();
    assert_eq!(shown("http://[::1]:4317"), "http://[::1]:4317");
    assert_eq!(shown("http://127.0.0.1:4317"), "http://127.0.0.1:4317");
}

#[test]
fn credentials_in_the_endpoint_become_a_header_and_are_never_shown() {
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
    let said = refused(None, &[(ENDPOINT, "http://me:p%40ss@h:99999")]).1;
    assert!(!said.contains("p%40ss"), "{said}");
}

proptest::proptest! {
    #[test]
    fn whatever_stands_in_a_variable_is_taken_or_refused(
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
fn port_4317_means_grpc_where_no_protocol_is_named() {
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
fn the_protocol_in_code_beats_that_for_traces_beats_the_general_one() {
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
fn a_protocol_that_does_not_exist_is_refused_unless_something_stronger_is_set() {
    let general = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http");
    assert_eq!(refused(None, &[HERE, general]).0, general.0);
    resolve(Otlp::new().protocol(Protocol::Grpc), &[HERE, general]);
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
    resolve(None, &[HERE, general, traces]);
}

// Headers.

#[test]
fn headers_of_the_environment_are_percent_decoded() {
    let variable = (
        "OTEL_EXPORTER_OTLP_HEADERS",
        " Authorization = Bearer%20a%2Cb= , x-scope=one,",
    );
    let resolved = resolve(None, &[HERE, variable]);
    let authorization = header(&resolved, "authorization").unwrap();
    assert_eq!(authorization, "Bearer a,b=");
    assert_eq!(header(&resolved, "x-scope").unwrap(), "one");
    assert_eq!(resolved.headers.len(), 2);
}

#[test]
fn headers_for_traces_replace_the_general_ones_and_those_in_code_join_them() {
    let general = ("OTEL_EXPORTER_OTLP_HEADERS", "a=general,b=general");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=traces");
    let resolved = resolve(None, &[HERE, general, traces]);
    assert_eq!(header(&resolved, "a").unwrap(), "traces");
    assert_eq!(header(&resolved, "b"), None);
    let code = Otlp::new().header("A", "code").header("c", "code");
    let resolved = resolve(code, &[HERE, general]);
    let all = ["a", "b", "c"].map(|name| header(&resolved, name).unwrap());
    assert_eq!(all, ["code", "general", "code"]);
}

#[test]
fn a_header_beats_credentials_in_the_endpoint() {
    let endpoint = (ENDPOINT, "http://me:pass@h:4318");
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t");
    let resolved = resolve(None, &[endpoint, headers]);
    assert_eq!(header(&resolved, "authorization").unwrap(), "Bearer t");
}

#[test]
fn a_header_that_can_not_be_parsed_is_refused_without_its_value() {
    let names = [
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ];
    for name in names {
        for value in ["s3cret", "=s3cret", "a b=s3cret", "a=s3cret%0A"] {
            let (setting, said) = refused(None, &[HERE, (name, value)]);
            assert_eq!(setting, name, "{value}");
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
    let code = Otlp::new().header("a", "s3cret\n");
    let (setting, said) = refused(code, &[HERE]);
    assert_eq!(setting, "Otlp::header");
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn headers_of_the_transport_are_refused() {
    for name in ["Content-Type", "host", "grpc-timeout", "content-encoding"] {
        let (_, said) = refused(Otlp::new().header(name, "x"), &[HERE]);
        assert!(said.contains(&name.to_ascii_lowercase()), "{said}");
    }
}

#[test]
fn no_header_is_ever_shown() {
    let code = Otlp::new()
        .header("x-key", "s3cret")
        .endpoint("http://a:s3cret@h");
    assert!(!format!("{code:?}").contains("s3cret"));
    let resolved = resolve(code, &[HERE]);
    assert!(!format!("{resolved:?}").contains("s3cret"));
}

// Compression and time.

#[test]
fn nothing_is_compressed_by_default() {
    assert_eq!(resolve(None, &[HERE]).compression, Compression::None);
}

#[test]
fn the_compression_in_code_beats_that_for_traces_beats_the_general_one() {
    let general = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd");
    let compression = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).compression;
    assert_eq!(compression(None, &[HERE, general]), Compression::Gzip);
    let both = [HERE, general, traces];
    assert_eq!(compression(None, &both), Compression::Zstd);
    let code = Otlp::new().compression(Compression::None);
    assert_eq!(compression(Some(code), &both), Compression::None);
    let bad = ("OTEL_EXPORTER_OTLP_COMPRESSION", "lzma");
    assert_eq!(refused(None, &[HERE, bad]).0, bad.0);
    let bad = ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "lzma");
    assert_eq!(refused(None, &[HERE, bad]).0, bad.0);
}

#[test]
fn an_attempt_may_take_ten_seconds_by_default() {
    assert_eq!(resolve(None, &[HERE]).timeout, Duration::from_secs(10));
}

#[test]
fn the_timeout_in_code_beats_that_for_traces_beats_the_general_one() {
    let general = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3000");
    let seconds = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).timeout.as_secs();
    assert_eq!(seconds(None, &[HERE, general]), 2);
    assert_eq!(seconds(None, &[HERE, general, traces]), 3);
    let code = Otlp::new().timeout(Duration::from_secs(4));
    assert_eq!(seconds(Some(code), &[HERE, general, traces]), 4);
}

#[test]
fn how_long_more_is_waited_for_is_said_in_code_or_by_the_environment() {
    let name = "OTEL_BSP_SCHEDULE_DELAY";
    let ms = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).linger.as_millis();
    assert_eq!(ms(None, &[HERE]), 1000);
    assert_eq!(ms(None, &[HERE, (name, "250")]), 250);
    let code = Otlp::new().linger(Duration::ZERO);
    assert_eq!(ms(Some(code), &[HERE, (name, "250")]), 0);
    assert_eq!(refused(None, &[HERE, (name, "soon")]).0, name);
}

#[test]
fn no_time_at_all_is_refused() {
    for value in ["0", "-1", "10s"] {
        let (name, _) = refused(None, &[HERE, ("OTEL_EXPORTER_OTLP_TIMEOUT", value)]);
        assert_eq!(name, "OTEL_EXPORTER_OTLP_TIMEOUT");
    }
    let (name, _) = refused(Otlp::new().timeout(Duration::ZERO), &[HERE]);
    assert_eq!(name, "Otlp::timeout");
}

// Content and limits.

#[test]
fn content_is_sent_only_by_those_who_ask_for_it_on_spans() {
    let name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    assert!(!resolve(None, &[HERE]).content);
    for (value, sent) in [
        ("NO_CONTENT", false),
        ("EVENT_ONLY", false),
        ("SPAN_ONLY", true),
        ("span_and_event", true),
        ("true", true),
        ("false", false),
    ] {
        assert_eq!(resolve(None, &[HERE, (name, value)]).content, sent);
    }
    assert!(resolve(Otlp::new().content(true), &[HERE, (name, "NO_CONTENT")]).content);
    assert!(!resolve(Otlp::new().content(false), &[HERE, (name, "SPAN_ONLY")]).content);
    assert_eq!(refused(None, &[HERE, (name, "some")]).0, name);
}

#[test]
fn there_are_no_limits_by_default() {
    let limits = resolve(None, &[HERE]).limits;
    assert_eq!(limits.attribute_length, None);
    assert_eq!(limits.attribute_count, None);
    assert_eq!((limits.event_count, limits.link_count), (None, None));
}

#[test]
fn a_limit_in_code_beats_that_for_spans_beats_the_general_one() {
    let general = [
        HERE,
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "10"),
    ];
    let limits = resolve(None, &general).limits;
    assert_eq!(limits.attribute_length, Some(100));
    assert_eq!(limits.attribute_count, Some(10));
    let mut spans = general.to_vec();
    spans.extend([
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "200"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "20"),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "21"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "22"),
    ]);
    let limits = resolve(None, &spans).limits;
    assert_eq!(limits.attribute_length, Some(200));
    assert_eq!(limits.attribute_count, Some(20));
    assert_eq!(
        (limits.event_count, limits.link_count),
        (Some(21), Some(22))
    );
    let code = Otlp::new()
        .value_length_limit(300)
        .attribute_limit(30)
        .event_limit(31)
        .link_limit(32);
    let limits = resolve(code, &spans).limits;
    assert_eq!(limits.attribute_length, Some(300));
    assert_eq!(limits.attribute_count, Some(30));
    assert_eq!(
        (limits.event_count, limits.link_count),
        (Some(31), Some(32))
    );
}

#[test]
fn a_limit_that_is_no_number_is_refused() {
    for name in [
        "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
        "OTEL_ATTRIBUTE_COUNT_LIMIT",
        "OTEL_SPAN_EVENT_COUNT_LIMIT",
        "OTEL_SPAN_LINK_COUNT_LIMIT",
    ] {
        assert_eq!(refused(None, &[HERE, (name, "few")]).0, name);
    }
}

// Certificates.

/// A certificate that signed itself, and its key.
fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_certificate_file_that_can_not_be_used_is_refused_by_its_variable() {
    let dir = tempfile::tempdir().unwrap();
    let empty = write(dir.path(), "empty.pem", "");
    let missing = dir.path().join("missing.pem");
    for path in [empty.as_str(), missing.to_str().unwrap()] {
        for name in [
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
        ] {
            assert_eq!(refused(None, &[HERE_SECURE, (name, path)]).0, name);
            // Where nothing is encrypted, nothing is read.
            resolve(None, &[HERE, (name, path)]);
        }
    }
}

#[test]
fn the_certificates_in_code_beat_those_for_traces_beat_the_general_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (pem, _) = certificate();
    let good = write(dir.path(), "good.pem", &pem);
    let bad = (
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "/nowhere/certificates.pem",
    );
    assert_eq!(refused(None, &[HERE_SECURE, bad]).0, bad.0);
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", good.as_str());
    resolve(None, &[HERE_SECURE, bad, traces]);
    let code = Otlp::new().ca_certificate(Pem::Bytes(pem.into_bytes()));
    resolve(code, &[HERE_SECURE, bad]);
    let code = Otlp::new().ca_certificate(Pem::File(good.into()));
    resolve(code, &[HERE_SECURE, bad]);
}

#[test]
fn a_client_certificate_and_its_key_come_together_and_fit() {
    let dir = tempfile::tempdir().unwrap();
    let ((pem, key), (_, other)) = (certificate(), certificate());
    let pem = write(dir.path(), "client.pem", &pem);
    let key = write(dir.path(), "client.key", &key);
    let other = write(dir.path(), "other.key", &other);
    let certificate_name = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    let key_name = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
    let with_certificate = (certificate_name, pem.as_str());
    let with_key = (key_name, key.as_str());
    resolve(None, &[HERE_SECURE, with_certificate, with_key]);
    let refused = |variables: &[_]| refused(None, variables).0;
    assert_eq!(refused(&[HERE_SECURE, with_certificate]), certificate_name);
    assert_eq!(refused(&[HERE_SECURE, with_key]), key_name);
    let wrong = (key_name, other.as_str());
    assert_eq!(refused(&[HERE_SECURE, with_certificate, wrong]), key_name);
    let no_key = (key_name, pem.as_str());
    assert_eq!(refused(&[HERE_SECURE, with_certificate, no_key]), key_name);
    // For traces first.
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", key.as_str());
    resolve(None, &[HERE_SECURE, with_certificate, wrong, traces]);
    let no_certificate = (certificate_name, key.as_str());
    let name = "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE";
    let traces = (name, pem.as_str());
    assert_eq!(
        refused(&[HERE_SECURE, no_certificate, with_key]),
        certificate_name
    );
    resolve(None, &[HERE_SECURE, no_certificate, with_key, traces]);
}

#[test]
fn a_client_certificate_in_code_beats_the_environment() {
    let (pem, key) = certificate();
    let bytes = |text: String| Pem::Bytes(text.into_bytes());
    let code = Otlp::new().client_certificate(bytes(pem), bytes(key.clone()));
    let bad = ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere/client.key");
    resolve(code, &[HERE_SECURE, bad]);
    let swapped = Otlp::new().client_certificate(bytes(key.clone()), bytes(key));
    let (setting, _) = refused(swapped, &[HERE_SECURE]);
    assert_eq!(setting, "Otlp::client_certificate");
}
