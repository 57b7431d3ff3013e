//! Sends one request and returns the answer, over gRPC or HTTP.
//!
//! The answer is returned as it came; [`classify`](super::send::classify) decides what it means. Nothing here
//! retries, and no redirect is followed. Both protocols share one client: the same TCP options, proxy and
//! TLS configuration.

mod client;
mod errors;
mod grpc;

use std::io::{self, Write};
use std::time::Duration;

use bytes::{Buf, Bytes};
use flate2::write::GzEncoder;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, request};

use self::client::Body;
pub(super) use self::client::{Client, Received, no_body};
use self::errors::{OTHER_ALPN, grpc_hint, wrong_protocol};
use super::otlp::ExportTraceServiceResponse;
use super::settings::config::{Compression, Protocol};
use super::settings::environment::invalid;
use super::settings::resolve::Resolved;
use crate::error::Error;

/// How much of a response body is read. OTLP responses have a few bytes, or a few spans where the server
/// echoes what it refused; longer bodies are the web page of another program.
pub const MAX_ANSWER: usize = 1024 * 1024;

/// What opentelemetry's exporters use for gzip, and zstd's default.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// A client for one endpoint. Connections are opened on demand, kept, and opened again after a failure.
#[derive(Debug)]
pub struct Transport {
    client: Client,
    /// Everything of a request but its body.
    head: request::Parts,
    protocol: Protocol,
    compression: Compression,
    timeout: Duration,
    /// The endpoint as messages name it.
    pub(super) shown: String,
}

/// How a request is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// [`Batch::encode`](super::Batch::encode).
    Protobuf,
    /// [`Batch::encode_json`](super::Batch::encode_json).
    Json,
}

/// The answer to a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The response or status of a gRPC server.
    Grpc(Result<ExportTraceServiceResponse, tonic::Status>),
    /// An HTTP response; also one that a gRPC endpoint gave, such as a proxy's 502.
    Http {
        /// The status.
        status: StatusCode,
        /// All headers.
        headers: HeaderMap,
        /// At most [`MAX_ANSWER`] bytes of the body.
        body: Bytes,
    },
    /// No answer: unknown host, no connection, untrusted certificate, reset, timeout.
    Failed {
        /// The error and its causes.
        why: String,
    },
}

impl Transport {
    /// Prepares a client without connecting. Must be called within a tokio runtime that has IO and time.
    pub fn connect(to: &Resolved) -> Result<Self, Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            let why = "it must be called within a tokio runtime";
            return Err(invalid("Transport::connect", why));
        }
        let is_grpc = to.protocol == Protocol::Grpc;
        let client = Client::new(to, is_grpc)?;
        let path = if is_grpc { to.grpc_path } else { "" };
        let mut head = client
            .request(Method::POST, path)
            .map_err(|error| invalid("Otlp::endpoint", error))?;
        let content_type = HeaderValue::from_static(match to.protocol {
            Protocol::Grpc => grpc::CONTENT_TYPE,
            Protocol::HttpProtobuf => "application/x-protobuf",
            Protocol::HttpJson => "application/json",
        });
        head.headers.insert(CONTENT_TYPE, content_type.clone());
        let encoding = match is_grpc {
            true => {
                head.headers
                    .insert(TE, HeaderValue::from_static("trailers"));
                grpc::ENCODING
            }
            false => {
                head.headers.insert(ACCEPT, content_type);
                CONTENT_ENCODING
            }
        };
        if to.compression != Compression::None {
            let name = HeaderValue::from_static(to.compression.as_str());
            head.headers.insert(encoding, name);
        }
        Ok(Self {
            client,
            head,
            protocol: to.protocol,
            compression: to.compression,
            timeout: to.timeout,
            shown: to.shown(),
        })
    }

    /// Whether it speaks gRPC. Then an HTTP answer, whatever its status, did not come from a collector.
    pub fn is_grpc(&self) -> bool {
        self.protocol == Protocol::Grpc
    }

    /// How requests must be encoded.
    pub fn encoding(&self) -> Encoding {
        match self.protocol {
            Protocol::HttpJson => Encoding::Json,
            _ => Encoding::Protobuf,
        }
    }

    /// Sends a request once, encoded as [`encoding`](Self::encoding) says.
    pub async fn send(&self, request: Bytes) -> Answer {
        let sent = tokio::time::timeout(self.timeout, self.attempt(request)).await;
        sent.unwrap_or_else(|_| failed(format!("no answer within {:?}", self.timeout)))
    }

    fn body(&self, request: Bytes) -> io::Result<Body> {
        let message = compress(self.compression, request)?;
        let head = match self.is_grpc() {
            true => grpc::frame_head(&message, self.compression != Compression::None)?,
            false => Bytes::new(),
        };
        Ok(head.chain(message))
    }

    async fn attempt(&self, request: Bytes) -> Answer {
        let body = match self.body(request) {
            Ok(body) => body,
            Err(error) => return failed(format!("the request can't be compressed: {error}")),
        };
        let sent = self.client.send(self.head.clone(), body, MAX_ANSWER).await;
        match sent {
            Ok(received) if self.is_grpc() => grpc::answer(received),
            Ok(received) => http_answer(received),
            Err(why) => failed(match self.client.advice() {
                Some(advice) => advice.to_owned(),
                // A TLS server refuses the version already when it is offered.
                None if why.contains(OTHER_ALPN) => wrong_protocol(self.is_grpc()).to_owned(),
                None if self.is_grpc() => grpc_hint(why),
                None => why,
            }),
        }
    }
}

fn http_answer(received: Received) -> Answer {
    match received.broken {
        // The missing half of an OK may name rejected spans; half an error is enough.
        Some(why) if received.status.is_success() => failed(why),
        _ => Answer::Http {
            status: received.status,
            headers: received.headers,
            body: received.body,
        },
    }
}

fn failed(why: String) -> Answer {
    Answer::Failed { why }
}

fn compress(compression: Compression, plain: Bytes) -> io::Result<Bytes> {
    Ok(match compression {
        Compression::None => plain,
        Compression::Gzip => {
            let level = flate2::Compression::new(GZIP_LEVEL);
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(&plain)?;
            encoder.finish()?.into()
        }
        Compression::Zstd => zstd::bulk::compress(&plain, ZSTD_LEVEL)?.into(),
    })
}
