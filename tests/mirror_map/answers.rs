//! What servers answer, and what it means.

use std::sync::Arc;
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
fn every_code_of_grpc_has_its_class() {
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
            assert_eq!(why(&verdict), format!("{code:?}: said"));
        }
    }
}

#[test]
fn what_the_transport_says_itself_is_tried_again_whatever_the_code() {
    for code in 1..=16 {
        let mut status = Status::new(Code::from_i32(code), "h2 protocol error");
        let reset = std::io::Error::other("connection reset");
        status.set_source(Arc::new(reset));
        let verdict = grpc(&status);
        assert_eq!(word(&verdict), "retry", "{code}");
        assert!(why(&verdict).ends_with("h2 protocol error: connection reset"));
    }
}

#[test]
fn a_message_too_large_is_split_however_a_server_puts_it() {
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
fn a_retry_info_says_when() {
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
fn an_answer_that_is_no_grpc_burns_nothing() {
    let mapped = |http: u16, code| {
        let text = format!("grpc-status header missing, mapped from HTTP status code {http}");
        word(&grpc(&Status::new(code, text)))
    };
    assert_eq!(mapped(400, Code::Internal), "wait");
    assert_eq!(mapped(302, Code::Unknown), "wait");
    assert_eq!(mapped(404, Code::Unimplemented), "wait");
    assert_eq!(mapped(413, Code::Unknown), "split");
    assert_eq!(mapped(500, Code::Unknown), "retry");
    assert_eq!(mapped(503, Code::Unavailable), "retry");
    let torn = "protocol error: missing grpc-status trailer, stream was terminated";
    assert_eq!(word(&grpc(&Status::unknown(torn))), "retry");
}

#[test]
fn every_status_of_http_has_its_class() {
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
            assert_eq!(why(&verdict), format!("HTTP {status}"));
        }
    }
    for named in [301, 302, 307, 308, 401, 403, 404, 405, 407, 415] {
        assert_eq!(word(&http(named, &[], b"")), "wait", "{named}");
    }
}

#[test]
fn a_partial_success_of_zero_is_a_success() {
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
        // A server that forgot to say what it sends.
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
fn an_ok_whose_body_is_not_otlps_came_from_somebody_else() {
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
        assert!(why(&verdict).contains(body), "{verdict:?}");
    }
    for body in [html, "OK", "garbage"] {
        assert_eq!(word(&http(200, &[], body.as_bytes())), "wait", "{body}");
    }
}

fn after(verdict: Verdict) -> Option<Duration> {
    match verdict {
        Verdict::Retry { after, .. } => after,
        other => panic!("{other:?}"),
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let seconds = |n| Some(Duration::from_secs(n));
    assert_eq!(after(http(429, &[("retry-after", "17")], b"")), seconds(17));
    assert_eq!(after(http(503, &[], b"")), None);
    assert_eq!(after(http(503, &[("retry-after", "soon")], b"")), None);
    assert_eq!(after(http(503, &[("retry-after", "-5")], b"")), None);
    // 1794789000 is 2026-11-16T00:30:00Z.
    let date = ("retry-after", "Mon, 16 Nov 2026 00:31:00 GMT");
    assert_eq!(after(http(503, &[date], b"")), seconds(60));
    // The server's clock is the one that its date is told by.
    let clock = ("date", "Mon, 16 Nov 2026 00:30:50 GMT");
    assert_eq!(after(http(503, &[date, clock], b"")), seconds(10));
    let passed = ("retry-after", "Mon, 16 Nov 2026 00:29:00 GMT");
    assert_eq!(after(http(503, &[passed], b"")), seconds(0));
}

#[test]
fn the_body_of_an_error_says_why_and_when() {
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
fn texts_of_servers_are_masked_and_cut_before_they_are_kept() {
    let secret = "login --password correct-horse";
    let text = format!("bad attribute {secret} {}", "é".repeat(2000));
    for verdict in [
        grpc(&Status::invalid_argument(&text)),
        grpc(&Status::unavailable(&text)),
        http(400, &[], text.as_bytes()),
        http(200, &[("content-type", "text/html")], text.as_bytes()),
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
