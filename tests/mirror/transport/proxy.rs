//! Proxies of the environment. The server's address is 0.0.0.0: local, and no loopback address, which would
//! be reached directly.

use spanledger::mirror::{Otlp, Protocol, Transport};

use crate::support::otlp_server::{Authority, OtlpServer};
use crate::support::proxy::Proxy;
use crate::transport::{HTTP, PROTOCOLS, as_read, ask, assert_ok, only, pem};

const HOST: &str = "0.0.0.0";

/// Sends one request with these variables set.
async fn send_with(otlp: Otlp, variables: &[(&str, &str)]) {
    let env = |name: &str| {
        let set = variables.iter().find(|(set, _)| *set == name);
        set.map(|(_, value)| (*value).to_owned())
    };
    let resolved = Otlp::resolve(Some(otlp), env).unwrap().unwrap();
    let transport = Transport::connect(&resolved).unwrap();
    assert_ok(&ask(&transport, "hello").await);
}

fn plain(server: &OtlpServer, protocol: Protocol) -> Otlp {
    Otlp::new().endpoint(server.url_as(HOST)).protocol(protocol)
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let server = OtlpServer::secure(authority.server(HOST));
        let proxy = Proxy::start();
        let otlp = plain(&server, protocol).ca_certificate(pem(&authority.pem));
        send_with(otlp, &[("HTTPS_PROXY", &proxy.url("me:secret@"))]).await;
        assert_eq!(only(&server).request, Some(as_read("hello")));
        let heads = proxy.heads();
        assert_eq!(heads.len(), 1, "{heads:?}");
        let address = server.url_as(HOST).replace("https://", "");
        assert!(heads[0].starts_with(&format!("CONNECT {address} HTTP/1.1")));
        let head = heads[0].to_ascii_lowercase();
        assert!(head.contains("proxy-authorization: basic"), "{head}");
    }
}

#[tokio::test]
async fn plain_http_is_forwarded() {
    for protocol in HTTP {
        let server = OtlpServer::start();
        let proxy = Proxy::start();
        let variables = [("HTTP_PROXY", proxy.url("me:secret@"))];
        let variables = variables
            .each_ref()
            .map(|(name, url)| (*name, url.as_str()));
        send_with(plain(&server, protocol), &variables).await;
        assert_eq!(only(&server).request, Some(as_read("hello")));
        let heads = proxy.heads();
        assert_eq!(heads.len(), 1, "{heads:?}");
        let first = format!("POST {}/v1/traces HTTP/1.1", server.url_as(HOST));
        assert!(heads[0].starts_with(&first), "{heads:?}");
        let head = heads[0].to_ascii_lowercase();
        assert!(head.contains("proxy-authorization: basic"), "{head}");
    }
}

#[tokio::test]
async fn plain_grpc_goes_through_a_tunnel() {
    let server = OtlpServer::start();
    let proxy = Proxy::start();
    let variables = [("http_proxy", &*proxy.url(""))];
    send_with(plain(&server, Protocol::Grpc), &variables).await;
    assert_eq!(only(&server).request, Some(as_read("hello")));
    let heads = proxy.heads();
    assert!(heads[0].starts_with("CONNECT 0.0.0.0:"), "{heads:?}");
}

#[tokio::test]
async fn no_proxy_and_loopback_are_reached_directly() {
    let proxy = Proxy::start();
    let url = proxy.url("");
    for protocol in PROTOCOLS {
        let server = OtlpServer::start();
        let variables = [("HTTP_PROXY", &*url), ("NO_PROXY", "elsewhere,0.0.0.0")];
        send_with(plain(&server, protocol), &variables).await;
        let loopback = Otlp::new().endpoint(server.url()).protocol(protocol);
        send_with(loopback, &[("ALL_PROXY", &*url)]).await;
        assert_eq!(server.received().len(), 2);
    }
    assert_eq!(proxy.heads(), Vec::<String>::new());
}

#[test]
fn other_kinds_of_proxies_are_an_error() {
    for (endpoint, variable) in [
        ("http://collector:4318", "HTTP_PROXY"),
        ("https://collector:4318", "HTTPS_PROXY"),
    ] {
        let env = |name: &str| (name == variable).then(|| "https://proxy:3128".to_owned());
        let resolved = Otlp::resolve(Some(Otlp::new().endpoint(endpoint)), env);
        let error = resolved.unwrap_err().to_string();
        assert!(error.contains(variable), "{error}");
        assert!(error.contains("only http:// proxies"), "{error}");
    }
}
