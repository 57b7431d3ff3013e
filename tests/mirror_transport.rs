//! One request out, one answer back: over each protocol, with each thing that can go wrong on the
//! way, against a server that does as it is told.

#[path = "support/otlp_server.rs"]
mod otlp_server;

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
use otlp_server::{Authority, OtlpServer, Received, Reply};
use prost::Message;
use spanledger::mirror::otlp::{AnyValue, KeyValue, any_value};
use spanledger::mirror::otlp::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use spanledger::mirror::otlp::{ResourceSpans, ScopeSpans, Span};
use spanledger::mirror::{
    Answer, Compression, Encoding, MAX_ANSWER, Otlp, Pem, Protocol, Transport,
};
use tonic::Code;

const PROTOCOLS: [Protocol; 3] = [Protocol::Grpc, Protocol::HttpProtobuf, Protocol::HttpJson];
/// Longer than anything takes that comes to an end.
const PATIENCE: Duration = Duration::from_secs(600);
const HTTP: [Protocol; 2] = [Protocol::HttpProtobuf, Protocol::HttpJson];

fn request(text: &str) -> ExportTraceServiceRequest {
    let attribute = KeyValue {
        key: "text".to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(text.to_owned())),
        }),
    };
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: "tool.call".to_owned(),
        start_time_unix_nano: 1_900_000_000_123_456_789,
        attributes: vec![attribute],
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans {
        spans: vec![span],
        ..ScopeSpans::default()
    }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

/// The same, as OpenTelemetry's own types read it.
fn as_read(text: &str) -> Theirs {
    Theirs::decode(&*request(text).encode_to_vec()).unwrap()
}

fn to(server: &OtlpServer, protocol: Protocol) -> Otlp {
    Otlp::new().endpoint(server.url()).protocol(protocol)
}

fn connect(otlp: Otlp) -> Transport {
    let resolved = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    Transport::connect(&resolved).unwrap()
}

async fn ask(transport: &Transport, text: &str) -> Answer {
    let request = match transport.encoding() {
        Encoding::Json => request(text).to_json(),
        _ => request(text).encode_to_vec(),
    };
    transport.send(request.into()).await
}

async fn send(otlp: Otlp) -> Answer {
    ask(&connect(otlp), "hello").await
}

/// The one request that came.
fn only(server: &OtlpServer) -> Received {
    let mut received = server.received();
    assert_eq!(received.len(), 1);
    received.remove(0)
}

#[track_caller]
fn assert_ok(answer: &Answer) {
    match answer {
        Answer::Grpc(Ok(response)) => assert_eq!(*response, ExportTraceServiceResponse::default()),
        Answer::Http { status, body, .. } => {
            assert_eq!(*status, StatusCode::OK);
            assert!(body.is_empty() || body == "{}", "{body:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(answer: Answer) -> String {
    match answer {
        Answer::Failed { why } => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn http(answer: Answer) -> (u16, http::HeaderMap, Bytes) {
    match answer {
        Answer::Http {
            status,
            headers,
            body,
        } => (status.as_u16(), headers, body),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(answer: Answer) -> tonic::Status {
    match answer {
        Answer::Grpc(Err(status)) => status,
        other => panic!("{other:?}"),
    }
}

// What is sent.

#[tokio::test]
async fn spans_arrive_as_they_are_over_each_protocol() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::start();
        assert_ok(&send(to(&server, protocol)).await);
        let received = only(&server);
        assert_eq!(received.request, Some(as_read("hello")), "{protocol:?}");
        let (path, kind) = match protocol {
            Protocol::Grpc => (
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                "application/grpc",
            ),
            Protocol::HttpProtobuf => ("/v1/traces", "application/x-protobuf"),
            _ => ("/v1/traces", "application/json"),
        };
        assert_eq!(received.method, "POST");
        assert_eq!(received.path, path);
        assert_eq!(received.header("content-type"), Some(kind));
        let us = received.header("user-agent").unwrap();
        let name = concat!("spanledger/", env!("CARGO_PKG_VERSION"));
        assert_eq!(us.split(' ').next(), Some(name));
    }
}

#[tokio::test]
async fn spans_arrive_as_they_are_with_each_compression() {
    let text = "again and ".repeat(10_000);
    for protocol in PROTOCOLS {
        for (compression, name) in [
            (Compression::None, None),
            (Compression::Gzip, Some("gzip")),
            (Compression::Zstd, Some("zstd")),
        ] {
            let server = OtlpServer::start();
            let transport = connect(to(&server, protocol).compression(compression));
            assert_ok(&ask(&transport, &text).await);
            let received = only(&server);
            assert_eq!(received.request, Some(as_read(&text)));
            let header = match protocol {
                Protocol::Grpc => "grpc-encoding",
                _ => "content-encoding",
            };
            assert_eq!(received.header(header), name, "{protocol:?}");
            assert_eq!(received.raw.len() < text.len(), name.is_some());
        }
    }
}

#[tokio::test]
async fn equal_requests_are_equal_bytes() {
    for protocol in PROTOCOLS {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let server = OtlpServer::start();
            let otlp = to(&server, protocol).compression(compression);
            assert_ok(&send(otlp.clone()).await);
            assert_ok(&send(otlp).await);
            let received = server.received();
            assert_eq!(received[0].raw, received[1].raw, "{protocol:?}");
            assert_eq!(received[0].headers, received[1].headers, "{protocol:?}");
        }
    }
}

#[tokio::test]
async fn protobuf_is_sent_as_it_is_where_nothing_compresses_it() {
    let server = OtlpServer::start();
    assert_ok(&send(to(&server, Protocol::HttpProtobuf)).await);
    assert_eq!(only(&server).raw, request("hello").encode_to_vec());
    let server = OtlpServer::start();
    assert_ok(&send(to(&server, Protocol::Grpc)).await);
    assert_eq!(only(&server).raw[5..], request("hello").encode_to_vec());
}

#[tokio::test]
async fn json_has_ids_in_hex_and_large_numbers_as_text() {
    let server = OtlpServer::start();
    assert_ok(&send(to(&server, Protocol::HttpJson)).await);
    let json: serde_json::Value = serde_json::from_slice(&only(&server).raw).unwrap();
    let span = &json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["spanId"], "02".repeat(8));
    assert_eq!(span["startTimeUnixNano"], "1900000000123456789");
}

#[tokio::test]
async fn headers_and_credentials_travel_with_every_request() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::start();
        let url = server.url_as("me:pass@127.0.0.1");
        let otlp = Otlp::new()
            .endpoint(url)
            .protocol(protocol)
            .header("X-Scope-OrgID", "tenant");
        assert_ok(&send(otlp).await);
        let received = only(&server);
        assert_eq!(received.header("x-scope-orgid"), Some("tenant"));
        let basic = received.header("authorization");
        assert_eq!(basic, Some("Basic bWU6cGFzcw=="));
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::start();
        let transport = connect(to(&server, protocol));
        for _ in 0..3 {
            assert_ok(&ask(&transport, "hello").await);
        }
        assert_eq!(server.connections(), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_server_that_reads_slowly_gets_it_all() {
    let text = "x".repeat(4 * 1024 * 1024);
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::SlowRead]);
        let patient = to(&server, protocol).timeout(PATIENCE);
        assert_ok(&ask(&connect(patient), &text).await);
        assert_eq!(only(&server).request, Some(as_read(&text)));
    }
}

#[test]
fn without_a_runtime_it_is_an_error_and_no_panic() {
    for protocol in PROTOCOLS {
        let otlp = Otlp::new()
            .endpoint("http://127.0.0.1:1")
            .protocol(protocol);
        let resolved = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
        let error = Transport::connect(&resolved).unwrap_err();
        assert!(error.to_string().contains("runtime"), "{error}");
    }
}

// What is answered.

#[tokio::test]
async fn a_partial_success_is_handed_over() {
    let reply = Reply::Partial {
        rejected: 3,
        message: "too old".to_owned(),
    };
    let server = OtlpServer::scripted([reply.clone(), reply.clone(), reply]);
    let grpc = match send(to(&server, Protocol::Grpc)).await {
        Answer::Grpc(Ok(response)) => response,
        other => panic!("{other:?}"),
    };
    let partial = grpc.partial_success.clone().unwrap();
    assert_eq!(partial.rejected_spans, 3);
    assert_eq!(partial.error_message, "too old");
    let (status, _, body) = http(send(to(&server, Protocol::HttpProtobuf)).await);
    assert_eq!(status, 200);
    assert_eq!(ExportTraceServiceResponse::decode(body).unwrap(), grpc);
    let (status, _, body) = http(send(to(&server, Protocol::HttpJson)).await);
    assert_eq!(status, 200);
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(json["partialSuccess"]["rejectedSpans"], "3");
}

#[tokio::test]
async fn each_status_of_a_grpc_server_is_handed_over_with_its_details() {
    let server = OtlpServer::start();
    let transport = connect(to(&server, Protocol::Grpc));
    for code in (1..=16).map(Code::from) {
        server.then(Reply::Grpc {
            code,
            message: format!("because of {code:?}"),
            details: Bytes::from_static(b"\x08\x01"),
        });
        let status = refused(ask(&transport, "hello").await);
        assert_eq!(status.code(), code);
        assert_eq!(status.message(), format!("because of {code:?}"));
        assert_eq!(status.details(), b"\x08\x01");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_long_reason_of_a_grpc_server_is_still_its_reason() {
    let reason = "span content ".repeat(5_000);
    let server = OtlpServer::scripted([Reply::grpc(Code::InvalidArgument, &reason)]);
    let status = refused(send(to(&server, Protocol::Grpc)).await);
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), reason);
}

#[tokio::test]
async fn each_status_of_http_is_handed_over_with_headers_and_body() {
    let statuses = [
        200, 202, 204, 301, 302, 307, 308, 400, 401, 403, 404, 405, 407, 408, 413, 415, 429, 500,
        501, 502, 503, 504,
    ];
    for protocol in PROTOCOLS {
        let server = OtlpServer::start();
        let transport = connect(to(&server, protocol));
        for status in statuses {
            let body = Bytes::from_static(if status == 204 { b"" } else { b"page" });
            server.then(Reply::Http {
                status,
                headers: vec![
                    ("retry-after", "7".to_owned()),
                    ("location", format!("{}/elsewhere", server.url())),
                ],
                body: body.clone(),
            });
            let (got, headers, page) = http(ask(&transport, "hello").await);
            assert_eq!(got, status, "{protocol:?}");
            assert_eq!(headers["retry-after"], "7");
            assert_eq!(page, body);
        }
        // No redirect was followed.
        assert_eq!(server.received().len(), statuses.len());
    }
}

#[tokio::test]
async fn an_ok_with_garbage_is_handed_over_as_it_is() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::Garbage]);
        let (status, _, body) = http(send(to(&server, protocol)).await);
        assert_eq!(status, 200);
        assert!(body.ends_with(b"\xff\xff\xff\xff"), "{body:?}");
    }
}

#[tokio::test]
async fn a_web_page_is_no_word_of_a_grpc_server() {
    let server = OtlpServer::scripted([Reply::Http {
        status: 200,
        headers: vec![("content-type", "text/html".to_owned())],
        body: Bytes::from_static(b"<html>Welcome</html>"),
    }]);
    let (status, headers, body) = http(send(to(&server, Protocol::Grpc)).await);
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/html");
    assert_eq!(body, "<html>Welcome</html>");
}

#[tokio::test]
async fn a_grpc_answer_without_a_status_is_no_word_of_a_server() {
    let server = OtlpServer::scripted([Reply::Http {
        status: 200,
        headers: vec![("content-type", "application/grpc".to_owned())],
        body: Bytes::from_static(b"\0\0\0\0\0"),
    }]);
    assert_eq!(http(send(to(&server, Protocol::Grpc)).await).0, 200);
}

#[tokio::test]
async fn no_more_of_a_body_is_read_than_anybody_needs() {
    for protocol in PROTOCOLS {
        for status in [200, 503] {
            let server = OtlpServer::scripted([Reply::Http {
                status,
                headers: Vec::new(),
                body: vec![b'x'; 10 * MAX_ANSWER].into(),
            }]);
            let transport = connect(to(&server, protocol));
            let (got, _, body) = http(ask(&transport, "hello").await);
            assert_eq!(got, status);
            assert_eq!(body.len(), MAX_ANSWER, "{protocol:?}");
            // The rest is in nobody's way.
            assert_ok(&ask(&transport, "hello").await);
        }
    }
}

#[tokio::test]
async fn what_a_server_says_before_it_has_read_it_all_is_heard() {
    let text = "x".repeat(8 * 1024 * 1024);
    let too_large = Reply::grpc(Code::ResourceExhausted, "larger than max");
    for _ in 0..3 {
        let server = OtlpServer::scripted([Reply::Unread(Box::new(too_large.clone()))]);
        let transport = connect(to(&server, Protocol::Grpc));
        let status = refused(ask(&transport, &text).await);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_ok(&ask(&transport, "less").await);
        for protocol in HTTP {
            let too_large = Reply::Unread(Box::new(Reply::http(413)));
            let server = OtlpServer::scripted([too_large]);
            let transport = connect(to(&server, protocol));
            assert_eq!(http(ask(&transport, &text).await).0, 413);
            assert_ok(&ask(&transport, "less").await);
        }
    }
}

// What goes wrong on the way.

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_after_the_timeout() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::Hang]);
        let impatient = to(&server, protocol).timeout(Duration::from_millis(300));
        let transport = connect(impatient);
        let why = failed(ask(&transport, "hello").await);
        assert!(why.contains("300ms"), "{why}");
        // The next one doesn't suffer from it.
        let mut answer = ask(&transport, "hello").await;
        for _ in 0..20 {
            if let Answer::Failed { .. } = answer {
                answer = ask(&transport, "hello").await;
            }
        }
        assert_ok(&answer);
    }
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_given_up_after_the_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for protocol in PROTOCOLS {
        let otlp = Otlp::new()
            .endpoint(format!("https://{address}"))
            .protocol(protocol)
            .ca_certificate(pem(&Authority::new().pem))
            .timeout(Duration::from_millis(300));
        let transport = connect(otlp);
        failed(ask(&transport, "hello").await);
        failed(ask(&transport, "hello").await);
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_is_a_failure_that_says_so() {
    for protocol in PROTOCOLS {
        // A port that is taken, and where nobody listens.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let otlp = Otlp::new()
            .endpoint(format!("http://{address}"))
            .protocol(protocol);
        let why = failed(send(otlp).await);
        assert!(why.contains("refused"), "{why}");
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    for protocol in PROTOCOLS {
        // An address that no other test can take meanwhile.
        let server = OtlpServer::at("127.0.0.2:0".parse().unwrap(), []);
        let address = server.address();
        let transport = connect(to(&server, protocol));
        assert_ok(&ask(&transport, "hello").await);
        drop(server);
        failed(ask(&transport, "hello").await);
        let server = OtlpServer::at(address, []);
        // What is left of the connection that broke may cost an attempt.
        let mut answer = ask(&transport, "again").await;
        for _ in 0..3 {
            if let Answer::Failed { .. } = answer {
                answer = ask(&transport, "again").await;
            }
        }
        assert_ok(&answer);
        assert_eq!(only(&server).request, Some(as_read("again")));
    }
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_a_failure_that_says_so() {
    for protocol in PROTOCOLS {
        let otlp = Otlp::new()
            .endpoint("http://collector.invalid:4317")
            .protocol(protocol)
            .timeout(PATIENCE);
        let why = failed(send(otlp).await);
        assert!(why.contains("dns error"), "{why}");
    }
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_request_is_a_failure() {
    let text = "x".repeat(8 * 1024 * 1024);
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::ResetAfter(1000)]);
        let transport = connect(to(&server, protocol));
        failed(ask(&transport, &text).await);
        assert_eq!(only(&server).request, None);
        assert_ok(&ask(&transport, &text).await);
    }
}

#[tokio::test]
async fn half_an_ok_is_a_failure() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::BreakOff(200)]);
        let transport = connect(to(&server, protocol));
        let why = failed(ask(&transport, "hello").await);
        assert!(why.starts_with("error reading a body"), "{why}");
        assert_ok(&ask(&transport, "hello").await);
    }
}

#[tokio::test]
async fn half_an_error_says_enough() {
    for protocol in HTTP {
        let server = OtlpServer::scripted([Reply::BreakOff(413)]);
        let (status, _, body) = http(send(to(&server, protocol)).await);
        assert_eq!(status, 413);
        assert_eq!(body, "half");
    }
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_a_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::AsyncWriteExt;
            stream.write_all(b"220 mail ready\r\n").await.unwrap();
        }
    });
    for protocol in PROTOCOLS {
        let otlp = Otlp::new()
            .endpoint(format!("http://{address}"))
            .protocol(protocol);
        failed(send(otlp).await);
    }
}

// TLS.

fn pem(text: &str) -> Pem {
    Pem::Bytes(text.as_bytes().to_vec())
}

#[tokio::test]
async fn a_server_with_a_certificate_of_our_own_authority_is_trusted() {
    let authority = Authority::new();
    for name in ["127.0.0.1", "localhost"] {
        for protocol in PROTOCOLS {
            let server = OtlpServer::secure(authority.server(name));
            let otlp = Otlp::new()
                .endpoint(server.url_as(name))
                .protocol(protocol)
                .ca_certificate(pem(&authority.pem));
            assert_ok(&send(otlp).await);
            let received = only(&server);
            assert_eq!(received.request, Some(as_read("hello")));
            assert_eq!(received.client_certificates, 0);
        }
    }
}

#[tokio::test]
async fn the_authority_of_the_environment_is_trusted_too() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let server = OtlpServer::secure(authority.server("127.0.0.1"));
    let resolved = Otlp::resolve(None, |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(server.url()),
        "OTEL_EXPORTER_OTLP_CERTIFICATE" => Some(file.to_str()?.to_owned()),
        _ => None,
    });
    let transport = Transport::connect(&resolved.unwrap().unwrap()).unwrap();
    assert_ok(&ask(&transport, "hello").await);
}

#[tokio::test]
async fn a_server_with_another_name_than_we_called_is_a_failure_that_says_so() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let server = OtlpServer::secure(authority.server("collector.example"));
        let otlp = to(&server, protocol).ca_certificate(pem(&authority.pem));
        let why = failed(send(otlp).await);
        assert!(why.contains("not valid for name"), "{why}");
        assert!(server.received().is_empty());
    }
}

#[tokio::test]
async fn a_server_of_an_authority_nobody_knows_is_a_failure_that_says_so() {
    let (authority, other) = (Authority::new(), Authority::new());
    for protocol in PROTOCOLS {
        let server = OtlpServer::secure(authority.server("127.0.0.1"));
        let otlp = to(&server, protocol).ca_certificate(pem(&other.pem));
        let why = failed(send(otlp).await);
        assert!(why.contains("UnknownIssuer"), "{why}");
        assert!(server.received().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_asks_who_we_are_is_shown_our_certificate() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let mut tls = authority.server("127.0.0.1");
        tls.client_ca = Some(authority.pem.clone());
        let server = OtlpServer::secure(tls);
        let (certificate, key) = authority.issue("agent");
        let otlp = to(&server, protocol)
            .ca_certificate(pem(&authority.pem))
            .client_certificate(pem(&certificate), pem(&key));
        assert_ok(&send(otlp).await);
        assert_eq!(only(&server).client_certificates, 1);
    }
}

#[tokio::test]
async fn without_the_certificate_that_a_server_asks_for_there_is_no_answer() {
    let (authority, other) = (Authority::new(), Authority::new());
    for protocol in PROTOCOLS {
        let mut tls = authority.server("127.0.0.1");
        tls.client_ca = Some(authority.pem.clone());
        let server = OtlpServer::secure(tls);
        let nobody = to(&server, protocol).ca_certificate(pem(&authority.pem));
        failed(send(nobody.clone()).await);
        let (certificate, key) = other.issue("agent");
        failed(send(nobody.client_certificate(pem(&certificate), pem(&key))).await);
        assert!(server.received().is_empty());
    }
}

#[tokio::test]
async fn a_plain_server_called_with_tls_is_a_failure_and_so_is_the_other_way_round() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let plain = OtlpServer::start();
        let secure = OtlpServer::secure(authority.server("127.0.0.1"));
        for url in [
            plain.url().replace("http:", "https:"),
            secure.url().replace("https:", "http:"),
        ] {
            let otlp = Otlp::new()
                .endpoint(url)
                .protocol(protocol)
                .ca_certificate(pem(&authority.pem));
            failed(send(otlp).await);
        }
        assert!(plain.received().is_empty() && secure.received().is_empty());
    }
}
