//! Trusted servers and client certificates.

use spanledger::mirror::{Otlp, Transport};

use crate::support::otlp_server::{Authority, OtlpServer};
use crate::transport::{PROTOCOLS, as_read, ask, assert_ok, failed, only, pem, send, to};

#[tokio::test]
async fn private_authority_is_trusted() {
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
async fn authority_of_the_environment_is_trusted() {
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
async fn wrong_host_name_is_a_failure() {
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
async fn unknown_authority_is_a_failure() {
    let (authority, other) = (Authority::new(), Authority::new());
    for protocol in PROTOCOLS {
        let server = OtlpServer::secure(authority.server("127.0.0.1"));
        let otlp = to(&server, protocol).ca_certificate(pem(&other.pem));
        let why = failed(send(otlp).await);
        let advice =
            "; if you trust it, name its authority's file in OTEL_EXPORTER_OTLP_CERTIFICATE";
        assert!(
            why.contains("UnknownIssuer") && why.ends_with(advice),
            "{why}"
        );
        assert!(server.received().is_empty());
    }
}

#[tokio::test]
async fn client_certificate_is_sent() {
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
async fn missing_client_certificate_is_a_failure() {
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
async fn tls_mismatch_is_a_failure() {
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
