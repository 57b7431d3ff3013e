//! Sends one request and returns the answer, over gRPC or HTTP.
//!
//! The answer is returned as it came; [`classify`](super::classify) decides what it means. Nothing here
//! retries, and no redirect is followed. Both protocols share one client: the same TCP options, proxy and
//! TLS configuration.

mod client;
mod errors;
mod grpc;
mod http;
mod tls;

use std::io::{self, Write};
use std::time::Duration;

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use flate2::write::GzEncoder;

pub(super) use self::client::Client;
use self::grpc::Grpc;
use self::http::Http;
pub(super) use self::tls::Tls;
use super::config::{Compression, Protocol};
use super::otlp::ExportTraceServiceResponse;
use super::resolve::Resolved;
use crate::error::Error;

/// How much of a response body is read. OTLP responses have a few bytes, or a few spans where the server
/// echoes what it refused; longer bodies are somebody else's web page.
pub const MAX_ANSWER: usize = 1024 * 1024;

/// What opentelemetry's exporters use for gzip, and zstd's default.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// A client for one endpoint. Connections are opened on demand, kept, and opened again after a failure.
#[derive(Debug)]
pub struct Transport {
    client: OtlpClient,
    encoding: Encoding,
    timeout: Duration,
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

#[derive(Debug)]
enum OtlpClient {
    Grpc(Box<Grpc>),
    Http(Box<Http>),
}

/// What a request was answered with.
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
            return Err(Error::Otlp {
                setting: "Transport::connect",
                why: "it must be called within a tokio runtime".to_owned(),
            });
        }
        let client = match to.protocol {
            Protocol::Grpc => OtlpClient::Grpc(Box::new(Grpc::new(to)?)),
            _ => OtlpClient::Http(Box::new(Http::new(to)?)),
        };
        let encoding = match to.protocol {
            Protocol::HttpJson => Encoding::Json,
            _ => Encoding::Protobuf,
        };
        Ok(Self {
            client,
            encoding,
            timeout: to.timeout,
        })
    }

    /// Whether it speaks gRPC. Then an HTTP answer, whatever its status, did not come from a collector.
    pub fn is_grpc(&self) -> bool {
        matches!(self.client, OtlpClient::Grpc(_))
    }

    /// How requests must be encoded.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Sends a request once, encoded as [`encoding`](Self::encoding) says.
    pub async fn send(&self, request: Bytes) -> Answer {
        let sent = async {
            match &self.client {
                OtlpClient::Grpc(grpc) => grpc.send(request).await,
                OtlpClient::Http(http) => http.send(request).await,
            }
        };
        let answer = tokio::time::timeout(self.timeout, sent).await;
        answer.unwrap_or_else(|_| failed(format!("no answer within {:?}", self.timeout)))
    }
}

fn failed(why: String) -> Answer {
    Answer::Failed { why }
}

/// An endpoint that a request can't be made for.
fn unusable(error: ::http::Error) -> Error {
    Error::Otlp {
        setting: "Otlp::endpoint",
        why: error.to_string(),
    }
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
