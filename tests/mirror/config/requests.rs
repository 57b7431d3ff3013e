//! What requests have: headers, compression, time limits, content and limits.

use std::time::Duration;

use spanledger::mirror::{Compression, Otlp};

use super::{ENDPOINT, HERE, header, refused, resolve};

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
