//! Texts of connection errors.

use std::error::Error as StdError;
use std::io;

const NO_TLS: &str = "a server without TLS needs http:// in front of its address";
const NO_TLS_GRPC: &str = ", or OTEL_EXPORTER_OTLP_INSECURE=true if there is no scheme";

/// The alert of a TLS server that speaks only other protocols than the offered one.
pub(super) const OTHER_ALPN: &str = "NoApplicationProtocol";

/// An error and its sources, each mentioned once, with a hint where the cause is well known.
pub(super) fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut no_tls = has_no_tls(error);
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        no_tls |= has_no_tls(error);
        source = error.source();
    }
    if no_tls {
        text = format!("{text}; {NO_TLS}");
    }
    text
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

/// Whether a TLS handshake failed as it does with a server that does not speak TLS: it answers in plain
/// text, or closes the connection.
fn has_no_tls(error: &(dyn StdError + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<io::Error>() else {
        return matches!(error.downcast_ref(), Some(rustls::Error::InvalidMessage(_)));
    };
    // The error inside an io::Error is not one of its sources.
    error.get_ref().is_some_and(|inner| {
        let closed = error.kind() == io::ErrorKind::UnexpectedEof;
        (closed && error.to_string().contains("tls handshake")) || has_no_tls(inner)
    })
}
