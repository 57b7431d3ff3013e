//! Texts of connection errors, and what to do about those whose cause is well known.

use std::error::Error as StdError;
use std::io;

const NO_TLS: &str = "a server without TLS needs http:// in front of its address";
const NO_TLS_GRPC: &str = ", or OTEL_EXPORTER_OTLP_INSECURE=true if there is no scheme";

const TLS_PORT: &str = "answered with TLS; its address begins with https://";
const NOTHING_LISTENS: &str = "nothing listens there: start the server, or correct the port";
const UNKNOWN_HOST: &str = "correct the host name, or check the network";
const OWN_AUTHORITY: &str =
    "if you trust it, name its authority's file in OTEL_EXPORTER_OTLP_CERTIFICATE";

/// The alert of a TLS server that speaks only other protocols than the offered one.
pub(super) const OTHER_ALPN: &str = "NoApplicationProtocol";

/// An error and its sources, each mentioned once, and what to do where the cause is well known.
pub(super) fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut advice = advice_on(error);
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        advice = advice.or_else(|| advice_on(error));
        source = error.source();
    }
    match advice {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

/// The same text for a gRPC endpoint, which may have been written without a scheme.
pub(super) fn grpc_hint(mut text: String) -> String {
    if text.ends_with(NO_TLS) {
        text.push_str(NO_TLS_GRPC);
    }
    text
}

/// What to do about a server that speaks the version of HTTP that the other protocol uses.
pub(super) const fn wrong_protocol(is_grpc: bool) -> &'static str {
    match is_grpc {
        true => {
            "answered with HTTP/1.1: it looks like an OTLP/HTTP port; \
             set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf (port 4317 implies grpc)"
        }
        false => {
            "answered with HTTP/2: it looks like a gRPC port; \
             set OTEL_EXPORTER_OTLP_PROTOCOL=grpc (only port 4317 implies it)"
        }
    }
}

/// What to do about a server without TLS at the address, if it sends this first and not what the protocol expects:
/// a TLS alert, HTTP/1.1, or the SETTINGS frame of HTTP/2.
pub(super) fn advice_on_start(start: &[u8], http2: bool) -> Option<&'static str> {
    let other_version = match http2 {
        true => start.starts_with(b"HTTP/1"),
        false => matches!(start, [0, 0, _, 4, 0, 0, 0, 0, 0, ..]),
    };
    match start {
        [0x15, 3, ..] => Some(TLS_PORT),
        _ => other_version.then_some(wrong_protocol(http2)),
    }
}

fn advice_on(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    use rustls::{CertificateError, Error as Tls};
    match error.downcast_ref() {
        Some(Tls::InvalidMessage(_)) => return Some(NO_TLS),
        Some(Tls::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            return Some(OWN_AUTHORITY);
        }
        _ => {}
    }
    let Some(error) = error.downcast_ref::<io::Error>() else {
        let is_dns = error.to_string().starts_with("dns error");
        return is_dns.then_some(UNKNOWN_HOST);
    };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(NOTHING_LISTENS),
        // A server that does not speak TLS answers in plain text, or closes the connection.
        io::ErrorKind::UnexpectedEof if error.to_string().contains("tls handshake") => Some(NO_TLS),
        // The error inside an io::Error is not one of its sources.
        _ => advice_on(error.get_ref()?),
    }
}
