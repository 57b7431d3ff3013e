//! Requests.

use prost::Message;
use spanledger::mirror::{Compression, Otlp, Protocol, Transport};

use crate::support::otlp_server::{OtlpServer, Reply};
use crate::transport::{
    PATIENCE, PROTOCOLS, as_read, ask, assert_ok, connect, only, request, send, to,
};

#[tokio::test]
async fn spans_arrive_over_each_protocol() {
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
async fn spans_arrive_with_each_compression() {
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
async fn uncompressed_protobuf_is_sent_unchanged() {
    let server = OtlpServer::start();
    assert_ok(&send(to(&server, Protocol::HttpProtobuf)).await);
    assert_eq!(only(&server).raw, request("hello").encode_to_vec());
    let server = OtlpServer::start();
    assert_ok(&send(to(&server, Protocol::Grpc)).await);
    assert_eq!(only(&server).raw[5..], request("hello").encode_to_vec());
}

#[tokio::test]
async fn json_has_hex_ids_and_numbers_as_text() {
    let server = OtlpServer::start();
    assert_ok(&send(to(&server, Protocol::HttpJson)).await);
    let json: serde_json::Value = serde_json::from_slice(&only(&server).raw).unwrap();
    let span = &json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["spanId"], "02".repeat(8));
    assert_eq!(span["startTimeUnixNano"], "1900000000123456789");
}

#[tokio::test]
async fn headers_and_credentials_are_on_every_request() {
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
async fn slow_reader_gets_everything() {
    let text = "x".repeat(4 * 1024 * 1024);
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::SlowRead]);
        let transport = connect(to(&server, protocol).timeout(PATIENCE));
        let reads = async {
            loop {
                // What no frame has made room for waits on our side.
                server.read_more().await;
            }
        };
        tokio::select! {
            answer = ask(&transport, &text) => assert_ok(&answer),
            () = reads => {}
        }
        assert_eq!(only(&server).request, Some(as_read(&text)));
    }
}

#[test]
fn without_runtime_is_an_error() {
    for protocol in PROTOCOLS {
        let otlp = Otlp::new()
            .endpoint("http://127.0.0.1:1")
            .protocol(protocol);
        let resolved = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
        let error = Transport::connect(&resolved).unwrap_err();
        assert!(error.to_string().contains("runtime"), "{error}");
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn last_bytes_are_not_delayed() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::start();
        let transport = connect(to(&server, protocol));
        assert_ok(&ask(&transport, "hello").await);
        let nodelay: Vec<bool> = connections_to(server.address())
            .map(|stream| stream.nodelay().unwrap())
            .collect();
        assert_eq!(nodelay, [true], "{protocol:?}");
    }
}

/// The connections of this process to an address.
#[cfg(target_os = "linux")]
fn connections_to(
    address: std::net::SocketAddr,
) -> impl Iterator<Item = std::mem::ManuallyDrop<std::net::TcpStream>> {
    use std::os::fd::FromRawFd;
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter_map(move |entry| {
        let fd = entry.unwrap().file_name().to_str()?.parse().ok()?;
        // SAFETY: only asked what it is, and never closed here.
        let stream = unsafe { std::net::TcpStream::from_raw_fd(fd) };
        let stream = std::mem::ManuallyDrop::new(stream);
        let ours = stream.peer_addr().is_ok_and(|peer| peer == address);
        ours.then_some(stream)
    })
}
