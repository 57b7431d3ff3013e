//! One request out, one answer back, over gRPC or HTTP.
//!
//! The answer is handed over raw: what it means (again, split, wait, give up) is judged elsewhere, by
//! a pure function. Nothing here retries, and no redirect is followed.
//!
//! Both protocols share one way to connect: the same TCP options, the same rustls configuration.

mod fetch;
mod grpc;
mod http;
mod tls;

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;

pub(super) use self::fetch::Fetch;
use self::grpc::Grpc;
#[cfg(feature = "metrics")]
pub(crate) use self::grpc::channel;
use self::http::Http;
pub(super) use self::tls::Tls;
use super::config::{Protocol, Resolved};
use super::otlp::ExportTraceServiceResponse;
use crate::error::Error;

/// How we introduce ourselves.
const USER_AGENT: &str = concat!("spanledger/", env!("CARGO_PKG_VERSION"));

/// The most of an answer's body that is read. An OTLP answer has a few bytes, but for one whose server
/// puts spans into its reasons; what is longer is a page of somebody else's.
pub const MAX_ANSWER: usize = 1024 * 1024;

/// A way to one endpoint. Connections are made when they are needed, kept, and made again.
#[derive(Debug)]
pub struct Transport {
    way: Way,
    encoding: Encoding,
    timeout: Duration,
}

/// How a request is written before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// [`Batch::encode`](super::Batch::encode).
    Protobuf,
    /// [`Batch::encode_json`](super::Batch::encode_json).
    Json,
}

#[derive(Debug)]
enum Way {
    Grpc(Grpc),
    Http(Box<Http>),
}

/// What came back, as it came.
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    /// A gRPC server's own word: the status is one that it sent, never one made up on the way.
    Grpc(Result<ExportTraceServiceResponse, tonic::Status>),
    /// An HTTP answer; also that of a gRPC endpoint that didn't speak gRPC, such as a proxy's 502.
    Http {
        /// The status.
        status: StatusCode,
        /// All headers.
        headers: HeaderMap,
        /// At most [`MAX_ANSWER`] bytes of the body.
        body: Bytes,
    },
    /// No answer: no such host, no connection, a certificate that doesn't fit, a reset, too late.
    Failed {
        /// What happened, from the outside in.
        why: String,
    },
}

impl Transport {
    /// Gets ready; connects to nothing yet. Within a tokio runtime with IO and time.
    pub fn connect(to: &Resolved) -> Result<Self, Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::Otlp {
                setting: "Transport::connect",
                why: "it has to be called within a tokio runtime".to_owned(),
            });
        }
        let way = match to.protocol {
            Protocol::Grpc => Way::Grpc(Grpc::new(to)?),
            Protocol::HttpProtobuf | Protocol::HttpJson => Way::Http(Box::new(Http::new(to)?)),
        };
        let encoding = match to.protocol {
            Protocol::HttpJson => Encoding::Json,
            _ => Encoding::Protobuf,
        };
        Ok(Self {
            way,
            encoding,
            timeout: to.timeout,
        })
    }

    /// Whether it speaks gRPC: then an HTTP answer, whatever its status, is not a collector's.
    pub fn is_grpc(&self) -> bool {
        matches!(self.way, Way::Grpc(_))
    }

    /// How its requests have to be written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Sends a request once, written as [`encoding`](Self::encoding) says.
    pub async fn send(&self, request: Bytes) -> Answer {
        let sent = async {
            match &self.way {
                Way::Grpc(grpc) => grpc.send(request).await,
                Way::Http(http) => http.send(request).await,
            }
        };
        match tokio::time::timeout(self.timeout, sent).await {
            Ok(answer) => answer,
            Err(_) => Answer::Failed {
                why: format!("no answer within {:?}", self.timeout),
            },
        }
    }
}

/// How both protocols reach a server.
fn connector(to: &Resolved, alpn: &[u8]) -> Result<HttpsConnector<HttpConnector>, Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(60)));
    // A host with two addresses, one of them dead, is still reached in time.
    tcp.set_connect_timeout(Some(to.timeout / 2));
    // A peer that vanished doesn't hold the connection beyond the attempt it failed.
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(to.timeout));
    let tls = match &to.tls {
        Some(tls) => tls.client(alpn)?,
        None => tls::unused(),
    };
    Ok(HttpsConnector::from((tcp, tls)))
}

/// A body as far as it was read.
struct Read {
    bytes: Bytes,
    trailers: Option<HeaderMap>,
    /// Why there is no more, unless that was all, or all that is wanted.
    broken: Option<String>,
}

async fn read<B>(mut body: B) -> Read
where
    B: BodyExt<Data = Bytes> + Unpin,
    B::Error: StdError + 'static,
{
    let mut bytes = Vec::new();
    let (mut trailers, mut broken) = (None, None);
    while bytes.len() < MAX_ANSWER {
        match body.frame().await {
            None => break,
            Some(Err(error)) => {
                broken = Some(chain(&error));
                break;
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let room = MAX_ANSWER - bytes.len();
                    bytes.extend_from_slice(&data[..data.len().min(room)]);
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
    Read {
        bytes: bytes.into(),
        trailers,
        broken,
    }
}

/// What may be wrong with an address whose server answers a TLS handshake with something else.
const NO_TLS: &str = "a server without TLS needs http:// in front of its address";

/// An error and what is behind it, each said once.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut said = match error.downcast_ref::<tonic::Status>() {
        // In full it would repeat its source, for programmers.
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    };
    let mut no_tls = speaks_no_tls(error);
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        no_tls |= speaks_no_tls(error);
        source = error.source();
    }
    if no_tls {
        said = format!("{said}; {NO_TLS}");
    }
    said
}

/// Whether a handshake failed as it does with a server that speaks no TLS: it answers in plain text, or
/// hangs up.
fn speaks_no_tls(error: &(dyn StdError + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<io::Error>() else {
        return matches!(error.downcast_ref(), Some(rustls::Error::InvalidMessage(_)));
    };
    match error.get_ref() {
        // What it wraps is not among its sources.
        Some(inner) => {
            let hung_up = error.kind() == io::ErrorKind::UnexpectedEof;
            (hung_up && error.to_string().contains("tls handshake")) || speaks_no_tls(inner)
        }
        None => false,
    }
}
