//! Answers.

use bytes::Bytes;
use prost::Message;
use spanledger::mirror::otlp::ExportTraceServiceResponse;
use spanledger::mirror::{Answer, MAX_ANSWER, Protocol};
use tonic::Code;

use crate::support::otlp_server::{OtlpServer, Reply};
use crate::transport::{HTTP, PROTOCOLS, ask, assert_ok, connect, http, refused, send, to};

#[tokio::test]
async fn partial_success_is_returned() {
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
async fn grpc_status_is_returned_with_details() {
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
async fn long_grpc_message_is_kept() {
    let reason = "span content ".repeat(5_000);
    let server = OtlpServer::scripted([Reply::grpc(Code::InvalidArgument, &reason)]);
    let status = refused(send(to(&server, Protocol::Grpc)).await);
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), reason);
}

#[tokio::test]
async fn http_status_is_returned_with_headers_and_body() {
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
async fn ok_with_garbage_is_returned_unchanged() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::Garbage]);
        let (status, _, body) = http(send(to(&server, protocol)).await);
        assert_eq!(status, 200);
        assert!(body.ends_with(b"\xff\xff\xff\xff"), "{body:?}");
    }
}

#[tokio::test]
async fn web_page_is_no_grpc_answer() {
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
async fn grpc_answer_without_status_is_no_answer() {
    let server = OtlpServer::scripted([Reply::Http {
        status: 200,
        headers: vec![("content-type", "application/grpc".to_owned())],
        body: Bytes::from_static(b"\0\0\0\0\0"),
    }]);
    assert_eq!(http(send(to(&server, Protocol::Grpc)).await).0, 200);
}

#[tokio::test]
async fn body_is_read_up_to_a_limit() {
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
            // The unread rest does not disturb the connection.
            assert_ok(&ask(&transport, "hello").await);
        }
    }
}

#[tokio::test]
async fn early_answer_is_received() {
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
