//! Endpoint and settings of the mirror: each setting, each variable, and their precedence.

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

/// Asserts that there is no mirror and no error.
fn assert_off(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) {
    let resolved = try_resolve(code, variables).unwrap();
    assert!(resolved.is_none(), "{resolved:?}");
}

/// The refused setting and the error message.
fn refused(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) -> (&'static str, String) {
    let error = try_resolve(code, variables).unwrap_err();
    let message = error.to_string();
    match error {
        Error::Environment { name, .. } => (name, message),
        Error::Otlp { setting, .. } => (setting, message),
        other => panic!("{other}"),
    }
}

fn header(resolved: &Resolved, name: &str) -> Option<String> {
    let value = resolved.headers.get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

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

// Headers.

#[test]
fn environment_headers_are_percent_decoded() {
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
fn header_precedence() {
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
fn header_overrides_endpoint_credentials() {
    let endpoint = (ENDPOINT, "http://me:pass@h:4318");
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t");
    let resolved = resolve(None, &[endpoint, headers]);
    assert_eq!(header(&resolved, "authorization").unwrap(), "Bearer t");
}

#[test]
fn invalid_header_is_refused_without_its_value() {
    let names = [
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ];
    for name in names {
        for value in ["s3cret", "=s3cret", "a b=s3cret", "a=s3cret%0A"] {
            let (setting, message) = refused(None, &[HERE, (name, value)]);
            assert_eq!(setting, name, "{value}");
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
    let (_, message) = refused(Otlp::new().header("a b", "x"), &[HERE]);
    assert!(message.ends_with("invalid header name"), "{message}");
    let code = Otlp::new().header("a", "s3cret\n");
    let (setting, message) = refused(code, &[HERE]);
    assert_eq!(setting, "Otlp::header");
    assert!(!message.contains("s3cret"), "{message}");
}

#[test]
fn transport_headers_are_refused() {
    for name in ["Content-Type", "host", "grpc-timeout", "content-encoding"] {
        let (_, message) = refused(Otlp::new().header(name, "x"), &[HERE]);
        let expected = format!("header {} is set by spanledger", name.to_ascii_lowercase());
        assert!(message.ends_with(&expected), "{message}");
    }
}

#[test]
fn debug_shows_no_header() {
    let code = Otlp::new()
        .header("x-key", "s3cret")
        .endpoint("http://a:s3cret@h");
    assert!(!format!("{code:?}").contains("s3cret"));
    let resolved = resolve(code, &[HERE]);
    assert!(!format!("{resolved:?}").contains("s3cret"));
}

// Compression and time.

#[test]
fn default_is_no_compression() {
    assert_eq!(resolve(None, &[HERE]).compression, Compression::None);
}

#[test]
fn compression_precedence() {
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
fn default_timeout_is_ten_seconds() {
    assert_eq!(resolve(None, &[HERE]).timeout, Duration::from_secs(10));
}

#[test]
fn timeout_precedence() {
    let general = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3000");
    let seconds = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).timeout.as_secs();
    assert_eq!(seconds(None, &[HERE, general]), 2);
    assert_eq!(seconds(None, &[HERE, general, traces]), 3);
    let code = Otlp::new().timeout(Duration::from_secs(4));
    assert_eq!(seconds(Some(code), &[HERE, general, traces]), 4);
}

#[test]
fn linger_precedence() {
    let name = "OTEL_BSP_SCHEDULE_DELAY";
    let ms = |code: Option<Otlp>, variables: &[_]| resolve(code, variables).linger.as_millis();
    assert_eq!(ms(None, &[HERE]), 1000);
    assert_eq!(ms(None, &[HERE, (name, "250")]), 250);
    let code = Otlp::new().linger(Duration::ZERO);
    assert_eq!(ms(Some(code), &[HERE, (name, "250")]), 0);
    assert_eq!(refused(None, &[HERE, (name, "soon")]).0, name);
}

#[test]
fn zero_timeout_is_refused() {
    for value in ["0", "-1", "10s"] {
        let (name, _) = refused(None, &[HERE, ("OTEL_EXPORTER_OTLP_TIMEOUT", value)]);
        assert_eq!(name, "OTEL_EXPORTER_OTLP_TIMEOUT");
    }
    let (name, message) = refused(Otlp::new().timeout(Duration::ZERO), &[HERE]);
    assert_eq!(name, "Otlp::timeout");
    assert!(message.ends_with("timeout must be above 0"), "{message}");
}

// Content and limits.

#[test]
fn other_texts_follow_content_unless_set() {
    let texts = |otlp: Otlp, env: &[(&str, &str)]| {
        let texts = resolve(otlp, &[&[HERE], env].concat()).texts;
        [
            texts.error_text,
            texts.log_messages,
            texts.paths,
            texts.custom_fields,
        ]
    };
    assert_eq!(texts(Otlp::new(), &[]), [false; 4]);
    assert_eq!(texts(Otlp::new().content(true), &[]), [true; 4]);
    let code = Otlp::new().content(true).error_text(false).paths(false);
    assert_eq!(texts(code, &[]), [false, true, false, true]);
    let env = [
        ("SPANLEDGER_OTLP_ERROR_TEXT", "true"),
        ("SPANLEDGER_OTLP_LOG_MESSAGES", "TRUE"),
        ("SPANLEDGER_OTLP_PATHS", "false"),
        ("SPANLEDGER_OTLP_CUSTOM_FIELDS", "true"),
    ];
    assert_eq!(texts(Otlp::new(), &env), [true, true, false, true]);
    let code = Otlp::new().log_messages(false).custom_fields(false);
    assert_eq!(texts(code, &env), [true, false, false, false]);
}

#[test]
fn content_is_opt_in() {
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
fn default_has_no_limits() {
    let limits = resolve(None, &[HERE]).limits;
    assert_eq!(limits.attribute_length, None);
    assert_eq!(limits.attribute_count, None);
    assert_eq!((limits.event_count, limits.link_count), (None, None));
}

#[test]
fn limit_precedence() {
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
fn invalid_limit_is_refused() {
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
fn unusable_certificate_is_refused_by_variable() {
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
fn certificate_precedence() {
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
fn client_certificate_needs_a_matching_key() {
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
fn client_certificate_in_code_overrides_variables() {
    let (pem, key) = certificate();
    let bytes = |text: String| Pem::Bytes(text.into_bytes());
    let code = Otlp::new().client_certificate(bytes(pem), bytes(key.clone()));
    let bad = ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere/client.key");
    resolve(code, &[HERE_SECURE, bad]);
    let swapped = Otlp::new().client_certificate(bytes(key.clone()), bytes(key));
    let (setting, _) = refused(swapped, &[HERE_SECURE]);
    assert_eq!(setting, "Otlp::client_certificate");
}
