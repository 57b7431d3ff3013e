//! Failures of the connection.

use std::time::Duration;

use spanledger::mirror::{Answer, Otlp, Protocol};

use super::pem;
use crate::support::otlp_server::{Authority, OtlpServer, Reply};
use crate::transport::{
    HTTP, PATIENCE, PROTOCOLS, as_read, ask, assert_ok, connect, failed, http, only, send, to,
};

#[tokio::test]
async fn silent_server_times_out() {
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
async fn silent_tls_handshake_times_out() {
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
async fn refused_connection() {
    for protocol in PROTOCOLS {
        // A bound port without a listener.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let otlp = Otlp::new()
            .endpoint(format!("http://{address}"))
            .protocol(protocol);
        let why = failed(send(otlp).await);
        let advice = "nothing listens there: start the server, or correct the port";
        assert!(why.contains("refused") && why.ends_with(advice), "{why}");
    }
}

#[tokio::test]
async fn restarted_server_is_found_again() {
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
async fn unknown_host() {
    for protocol in PROTOCOLS {
        let otlp = Otlp::new()
            .endpoint("http://collector.invalid:4317")
            .protocol(protocol)
            .timeout(PATIENCE);
        let why = failed(send(otlp).await);
        let advice = "; correct the host name, or check the network";
        assert!(why.contains("dns error") && why.ends_with(advice), "{why}");
    }
}

#[tokio::test]
async fn reset_during_a_request() {
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
async fn truncated_ok_is_a_failure() {
    for protocol in PROTOCOLS {
        let server = OtlpServer::scripted([Reply::BreakOff(200)]);
        let transport = connect(to(&server, protocol));
        let why = failed(ask(&transport, "hello").await);
        assert!(why.starts_with("error reading a body"), "{why}");
        assert_ok(&ask(&transport, "hello").await);
    }
}

#[tokio::test]
async fn truncated_error_keeps_its_status() {
    for protocol in HTTP {
        let server = OtlpServer::scripted([Reply::BreakOff(413)]);
        let (status, _, body) = http(send(to(&server, protocol)).await);
        assert_eq!(status, 413);
        assert_eq!(body, "half");
    }
}

#[tokio::test]
async fn server_of_another_protocol_is_a_failure() {
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

/// A server that sends this and closes the connection, as one of the other protocol does. The collector's gRPC port
/// sends its settings at once; its HTTP port answers the opening of HTTP/2.
async fn answers_only(first: &'static [u8], reads: bool) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if reads {
                let _ = stream.read(&mut [0; 24]).await;
            }
            let _ = stream.write_all(first).await;
        }
    });
    address
}

/// The alert of a TLS server that was spoken to without TLS.
const ALERT: &[u8] = b"\x15\x03\x01\0\x02\x02\x46";
const SETTINGS: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0@\0";
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn grpc_port_is_recognized_over_http() {
    for (protocol, reads) in [(HTTP[0], false), (HTTP[0], true), (HTTP[1], true)] {
        let address = answers_only(SETTINGS, reads).await;
        let endpoint = format!("http://{address}");
        let why = failed(send(Otlp::new().endpoint(&endpoint).protocol(protocol)).await);
        let expected = "answered with HTTP/2: it looks like a gRPC port; \
                        set OTEL_EXPORTER_OTLP_PROTOCOL=grpc (only port 4317 implies it)";
        assert_eq!(why, expected);
    }
}

#[tokio::test]
async fn http_port_is_recognized_over_grpc() {
    let address = answers_only(BAD_REQUEST, true).await;
    let endpoint = format!("http://{address}");
    let otlp = Otlp::new().endpoint(&endpoint).protocol(PROTOCOLS[0]);
    let expected = "answered with HTTP/1.1: it looks like an OTLP/HTTP port; \
                    set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf (port 4317 implies grpc)";
    assert_eq!(failed(send(otlp).await), expected);
}

#[tokio::test]
async fn tls_port_is_recognized_without_tls() {
    for protocol in PROTOCOLS {
        let endpoint = format!("http://{}", answers_only(ALERT, true).await);
        let why = failed(send(Otlp::new().endpoint(&endpoint).protocol(protocol)).await);
        assert_eq!(why, "answered with TLS; its address begins with https://");
    }
}

#[tokio::test]
async fn other_protocols_port_is_recognized_over_tls() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let mut tls = authority.server("127.0.0.1");
        let (alpn, set) = match protocol {
            Protocol::Grpc => (&["http/1.1"], "PROTOCOL=http/protobuf"),
            _ => (&["h2"], "PROTOCOL=grpc"),
        };
        tls.alpn = alpn;
        let server = OtlpServer::secure(tls);
        let otlp = to(&server, protocol).ca_certificate(pem(&authority.pem));
        let why = failed(send(otlp).await);
        assert!(why.contains(set), "{why}");
    }
}
