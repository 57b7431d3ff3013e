//! How the answers of servers are classified.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message;
use spanledger::mirror::Verdict;
use spanledger::mirror::classify;
use spanledger::mirror::otlp::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use spanledger::redact::{MaskKey, Redaction, Redactor};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt, pb};

fn redactor() -> Redactor {
    Redactor::new(&Redaction::new(), MaskKey::new([7; 32])).unwrap()
}

fn grpc(status: &Status) -> Verdict {
    classify::grpc(status, &redactor())
}

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    };
    list.iter().map(pair).collect()
}

fn http(status: u16, list: &[(&str, &str)], body: &[u8]) -> Verdict {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_789_000);
    classify::http(status, &headers(list), body, now, &redactor())
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Accepted { .. } => "accepted",
        Verdict::Retry { .. } => "retry",
        Verdict::Wait { .. } => "wait",
        Verdict::Split { .. } => "split",
        Verdict::Dead { .. } => "dead",
    }
}

fn why(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Accepted { message, .. } => message,
        Verdict::Retry { why, .. }
        | Verdict::Wait { why }
        | Verdict::Split { why }
        | Verdict::Dead { why } => why,
    }
}

#[test]
fn every_grpc_code_is_classified() {
    let classes = [
        (Code::Ok, "accepted"),
        (Code::Cancelled, "retry"),
        (Code::Unknown, "dead"),
        (Code::InvalidArgument, "dead"),
        (Code::DeadlineExceeded, "retry"),
        (Code::NotFound, "wait"),
        (Code::AlreadyExists, "dead"),
        (Code::PermissionDenied, "wait"),
        (Code::ResourceExhausted, "retry"),
        (Code::FailedPrecondition, "wait"),
        (Code::Aborted, "retry"),
        (Code::OutOfRange, "retry"),
        (Code::Unimplemented, "wait"),
        (Code::Internal, "dead"),
        (Code::Unavailable, "retry"),
        (Code::DataLoss, "retry"),
        (Code::Unauthenticated, "wait"),
    ];
    for (at, (code, class)) in classes.into_iter().enumerate() {
        assert_eq!(code as usize, at);
        let verdict = grpc(&Status::new(code, "said"));
        assert_eq!(word(&verdict), class, "{code:?}");
        if code != Code::Ok {
            let why = why(&verdict).split("; ").next().unwrap();
            assert_eq!(why, format!("{code:?}: said"));
        }
    }
}

#[test]
fn message_too_large_is_split() {
    for (code, message) in [
        (
            Code::ResourceExhausted,
            "grpc: received message larger than max (5000000 vs. 4194304)",
        ),
        (
            Code::ResourceExhausted,
            "SERVER: Received message larger than max (5000000 vs. 4194304)",
        ),
        (
            Code::ResourceExhausted,
            "gRPC message exceeds maximum size 4194304: 5000000",
        ),
        (
            Code::OutOfRange,
            "Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
        ),
    ] {
        assert_eq!(
            word(&grpc(&Status::new(code, message))),
            "split",
            "{message}"
        );
    }
    let limited = "RATE_LIMITED: ingestion rate limit (15000000 bytes) exceeded";
    let verdict = grpc(&Status::new(Code::ResourceExhausted, limited));
    assert_eq!(word(&verdict), "retry");
}

#[test]
fn retry_info_sets_the_delay() {
    for code in [Code::Unavailable, Code::ResourceExhausted] {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(2500)));
        let verdict = grpc(&Status::with_error_details(code, "later", details));
        let Verdict::Retry { after, .. } = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(after, Some(Duration::from_millis(2500)));
    }
    let Verdict::Retry { after, .. } = grpc(&Status::unavailable("down")) else {
        panic!()
    };
    assert_eq!(after, None);
}

#[test]
fn non_grpc_answer_loses_nothing() {
    let verdict = |status| {
        let (headers, body) = (HeaderMap::new(), b"a page");
        classify::http_from_grpc(status, &headers, body, SystemTime::now(), &redactor())
    };
    for (status, class) in [
        (200, "wait"),
        (302, "wait"),
        (400, "wait"),
        (404, "wait"),
        (413, "split"),
        (422, "wait"),
        (500, "retry"),
        (503, "retry"),
    ] {
        assert_eq!(word(&verdict(status)), class, "{status}");
    }
}

#[test]
fn every_http_status_is_classified() {
    for status in 100..=599 {
        let class = match status {
            200..=299 => "accepted",
            408 | 425 | 429 | 500..=599 => "retry",
            413 => "split",
            400 | 422 => "dead",
            _ => "wait",
        };
        let verdict = http(status, &[], b"");
        assert_eq!(word(&verdict), class, "{status}");
        if class != "accepted" {
            let why = why(&verdict).split("; ").next().unwrap();
            assert_eq!(why, format!("HTTP {status}"));
        }
    }
    for named in [301, 302, 307, 308, 401, 403, 404, 405, 407, 415] {
        assert_eq!(word(&http(named, &[], b"")), "wait", "{named}");
    }
}

#[test]
fn partial_success_of_zero_is_success() {
    let none = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess::default()),
    };
    let accepted = |rejected, message: &str| Verdict::Accepted {
        rejected,
        message: message.to_owned(),
    };
    assert_eq!(classify::accepted(&none, &redactor()), accepted(0, ""));
    let bare = ExportTraceServiceResponse::default();
    assert_eq!(classify::accepted(&bare, &redactor()), accepted(0, ""));
    let some = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 3,
            error_message: "too old".into(),
        }),
    };
    assert_eq!(
        classify::accepted(&some, &redactor()),
        accepted(3, "too old")
    );

    let protobuf = [("content-type", "application/x-protobuf")];
    assert_eq!(
        http(200, &protobuf, &some.encode_to_vec()),
        accepted(3, "too old")
    );
    assert_eq!(http(200, &protobuf, b""), accepted(0, ""));
    let json = [("content-type", "application/json; charset=utf-8")];
    for body in [
        r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#,
        r#"{"partialSuccess":{"rejectedSpans":3,"errorMessage":"too old"}}"#,
        r#"{"partial_success":{"rejected_spans":3,"error_message":"too old"}}"#,
    ] {
        assert_eq!(
            http(200, &json, body.as_bytes()),
            accepted(3, "too old"),
            "{body}"
        );
        // A server that omits the content type.
        assert_eq!(
            http(200, &[], body.as_bytes()),
            accepted(3, "too old"),
            "{body}"
        );
    }
    for body in [
        "{}",
        r#"{"partialSuccess":{}}"#,
        r#"{"partialSuccess":null}"#,
    ] {
        assert_eq!(http(200, &json, body.as_bytes()), accepted(0, ""), "{body}");
    }
    let negative = r#"{"partialSuccess":{"rejectedSpans":"-1"}}"#;
    assert_eq!(http(200, &json, negative.as_bytes()), accepted(0, ""));
}

#[test]
fn ok_with_foreign_body_is_not_success() {
    let html = "<html><body>Please log in</body></html>";
    for (media, body) in [
        ("text/html", html),
        ("text/plain", "OK"),
        ("application/x-protobuf", html),
        ("application/json", html),
        ("application/json", "[]"),
        ("application/json", r#"{"status":"login required"}"#),
        ("application/json", r#"{"partialSuccess":3}"#),
    ] {
        let verdict = http(200, &[("content-type", media)], body.as_bytes());
        assert_eq!(word(&verdict), "wait", "{media} {body}");
        let expected = if body == html { "an HTML page" } else { body };
        assert!(why(&verdict).contains(expected), "{verdict:?}");
    }
    for body in [html, "OK", "garbage"] {
        assert_eq!(word(&http(200, &[], body.as_bytes())), "wait", "{body}");
    }
}

#[test]
fn endpoint_that_can_not_work_gets_advice() {
    let page = ("content-type", "text/html");
    let moved = ("location", "https://collector/v1/traces");
    let (html, go) = (
        "<html>",
        "Client sent an HTTP request to an HTTPS server.\n",
    );
    let nginx = "<html><title>400 The plain HTTP request was sent to HTTPS port</title>";
    let tls = "the port expects TLS: write https:// in front of its address";
    let path = "check the path: /v1/traces is appended to OTEL_EXPORTER_OTLP_ENDPOINT, \
                and nothing to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let header = "check the credentials in OTEL_EXPORTER_OTLP_HEADERS";
    let no_server = "is this an OTLP server? OTLP usually has port 4317 (gRPC) or 4318 (HTTP)";
    let other_port =
        "is this the port of a user interface? OTLP usually has port 4317 (gRPC) or 4318 (HTTP)";
    type Case<'a> = (u16, &'a [(&'a str, &'a str)], &'a str, &'a str, &'a str);
    let cases: [Case; 10] = [
        (
            400,
            &[],
            go,
            "HTTP 400: Client sent an HTTP request to an HTTPS server.",
            tls,
        ),
        (400, &[page], nginx, "HTTP 400: an HTML page", tls),
        (400, &[page], html, "HTTP 400: an HTML page", other_port),
        (
            404,
            &[],
            "404 page not found",
            "HTTP 404: 404 page not found",
            path,
        ),
        (404, &[page], html, "HTTP 404: an HTML page", other_port),
        (405, &[], "", "HTTP 405", path),
        (401, &[], "no token", "HTTP 401: no token", header),
        (403, &[], "", "HTTP 403", header),
        (
            301,
            &[page, moved],
            html,
            "HTTP 301: https://collector/v1/traces",
            "redirects are not followed: set this address",
        ),
        (
            200,
            &[],
            "OK",
            "HTTP 200 with a body that is not OTLP's: OK",
            no_server,
        ),
    ];
    for (status, headers, body, found, advice) in cases {
        let verdict = http(status, headers, body.as_bytes());
        let expected = format!("{found}; {advice}");
        assert_eq!((word(&verdict), why(&verdict)), ("wait", &*expected));
    }
    let verdict = grpc(&Status::unimplemented("unknown service"));
    let expected = format!("Unimplemented: unknown service; {no_server}");
    assert_eq!(why(&verdict), expected);
    let verdict = grpc(&Status::unauthenticated("no token"));
    assert_eq!(
        why(&verdict),
        format!("Unauthenticated: no token; {header}")
    );
}

fn after(verdict: Verdict) -> Option<Duration> {
    match verdict {
        Verdict::Retry { after, .. } => after,
        other => panic!("{other:?}"),
    }
}

#[test]
fn retry_after_is_seconds_or_date() {
    let seconds = |n| Some(Duration::from_secs(n));
    assert_eq!(after(http(429, &[("retry-after", "17")], b"")), seconds(17));
    assert_eq!(after(http(503, &[], b"")), None);
    assert_eq!(after(http(503, &[("retry-after", "soon")], b"")), None);
    assert_eq!(after(http(503, &[("retry-after", "-5")], b"")), None);
    // 1794789000 is 2026-11-16T00:30:00Z.
    let date = ("retry-after", "Mon, 16 Nov 2026 00:31:00 GMT");
    assert_eq!(after(http(503, &[date], b"")), seconds(60));
    // The date is relative to the server's clock.
    let clock = ("date", "Mon, 16 Nov 2026 00:30:50 GMT");
    assert_eq!(after(http(503, &[date, clock], b"")), seconds(10));
    let passed = ("retry-after", "Mon, 16 Nov 2026 00:29:00 GMT");
    assert_eq!(after(http(503, &[passed], b"")), seconds(0));
}

#[test]
fn error_body_has_reason_and_delay() {
    let later = Status::with_error_details(
        Code::Unavailable,
        "queue is full",
        ErrorDetails::with_retry_info(Some(Duration::from_secs(9))),
    );
    let body = later.details().to_vec();
    let protobuf = [("content-type", "application/x-protobuf")];
    let verdict = http(503, &protobuf, &body);
    assert_eq!(why(&verdict), "HTTP 503: queue is full");
    assert_eq!(after(verdict), Some(Duration::from_secs(9)));
    let json = [("content-type", "application/json")];
    let verdict = http(400, &json, br#"{"code":3,"message":"bad span id"}"#);
    assert_eq!(word(&verdict), "dead");
    assert_eq!(why(&verdict), "HTTP 400: bad span id");
    assert_eq!(
        why(&http(502, &[], b"Bad Gateway")),
        "HTTP 502: Bad Gateway"
    );
    let large = pb::Status {
        code: 3,
        message: "http: request body too large".into(),
        details: vec![],
    };
    assert_eq!(word(&http(400, &protobuf, &large.encode_to_vec())), "split");
}

#[test]
fn server_texts_are_masked_and_truncated() {
    let secret = "login --password correct-horse";
    let text = format!("bad attribute {secret} {}", "é".repeat(2000));
    for verdict in [
        grpc(&Status::invalid_argument(&text)),
        grpc(&Status::unavailable(&text)),
        http(400, &[], text.as_bytes()),
        http(200, &[("content-type", "text/plain")], text.as_bytes()),
        classify::accepted(
            &ExportTraceServiceResponse {
                partial_success: Some(ExportTracePartialSuccess {
                    rejected_spans: 1,
                    error_message: text.clone(),
                }),
            },
            &redactor(),
        ),
    ] {
        let why = why(&verdict);
        assert!(!why.contains("correct-horse"), "{why}");
        assert!(why.contains("[masked rule="), "{why}");
        assert!(why.len() <= 600, "{}", why.len());
    }
}
