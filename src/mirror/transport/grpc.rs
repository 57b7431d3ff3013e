//! OTLP over gRPC.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use prost::Message;
use tonic::body::Body;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::BoxFuture;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use super::{Answer, MAX_ANSWER, NO_TLS, chain, connector, read};
use crate::error::Error;
use crate::mirror::config::{Compression, Resolved};
use crate::mirror::otlp::ExportTraceServiceResponse;

/// The one call there is.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// How often a connection is asked whether it still lives, while a request is under way. Servers
/// close those that ask more often than they like.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers put their reasons into headers, and spans into their reasons.
const MAX_HEADERS: u32 = 1024 * 1024;

const STATUS: &str = "grpc-status";
/// A flag that says whether it is compressed, and a length of four bytes.
const FRAME_HEAD: usize = 5;

#[derive(Debug)]
pub(super) struct Grpc {
    client: Client<Checked>,
}

impl Grpc {
    pub(super) fn new(to: &Resolved) -> Result<Self, Error> {
        let checked = Checked {
            channel: channel(to)?,
            headers: Arc::new(to.headers.clone()),
        };
        let client = Client::new(checked).max_decoding_message_size(MAX_ANSWER);
        let client = match to.compression {
            Compression::None => client,
            Compression::Gzip => client.send_compressed(CompressionEncoding::Gzip),
            Compression::Zstd => client.send_compressed(CompressionEncoding::Zstd),
        };
        Ok(Self { client })
    }

    pub(super) async fn send(&self, message: Bytes) -> Answer {
        let mut client = self.client.clone();
        let path = PathAndQuery::from_static(EXPORT);
        let request = tonic::Request::new(message);
        // Its channel is always ready: see `Checked`.
        let status = match client.unary(request, path, AsItIs).await {
            Ok(response) => return Answer::Grpc(Ok(response.into_inner())),
            Err(status) => status,
        };
        match status.source().and_then(|source| source.downcast_ref()) {
            Some(NoWord::Http {
                status,
                headers,
                body,
            }) => Answer::Http {
                status: *status,
                headers: headers.clone(),
                body: body.clone(),
            },
            Some(NoWord::Failed(why)) => Answer::Failed { why: why.clone() },
            None => Answer::Grpc(Err(status)),
        }
    }
}

/// A connection that is made when it is needed. Within a tokio runtime.
pub(crate) fn channel(to: &Resolved) -> Result<Channel, Error> {
    let dial = Dial {
        connector: connector(to, b"h2")?,
        to: to.uri.clone(),
    };
    // To tonic it is a plain endpoint: TLS is the connector's, whatever features of tonic's
    // own TLS others switch on.
    let mut plain = to.uri.clone().into_parts();
    plain.scheme = Some(Scheme::HTTP);
    let plain = Uri::from_parts(plain).expect("only the scheme changed");
    let endpoint = Endpoint::from(plain)
        .origin(to.uri.clone())
        .user_agent(super::USER_AGENT)
        .expect("a name and a version fit in a header")
        .connect_timeout(to.timeout)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(false)
        .http2_max_header_list_size(MAX_HEADERS);
    Ok(endpoint.connect_with_connector_lazy(dial))
}

/// A request is encoded already, and sent as it is.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs;

impl Codec for AsItIs {
    type Encode = Bytes;
    type Decode = ExportTraceServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AsItIs {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        out.reserve(item.len());
        out.put(item);
        Ok(())
    }
}

impl Decoder for AsItIs {
    type Item = ExportTraceServiceResponse;
    type Error = tonic::Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, tonic::Status> {
        let decoded = ExportTraceServiceResponse::decode(from);
        decoded
            .map(Some)
            .map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

/// Connects to the one endpoint there is.
#[derive(Clone)]
struct Dial {
    connector: HttpsConnector<HttpConnector>,
    to: Uri,
}

impl Service<Uri> for Dial {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = <HttpsConnector<HttpConnector> as Service<Uri>>::Error;
    type Future = <HttpsConnector<HttpConnector> as Service<Uri>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        self.connector.call(self.to.clone())
    }
}

/// A channel that tells a gRPC server's word from everything else.
///
/// tonic turns whatever goes wrong into a status: a reset, a proxy's error page, an answer that
/// can't be decoded all come out as `Internal` or `Unknown`, just as if the server had refused the
/// spans. So an answer is read here first, and only what a server really said goes on to tonic.
#[derive(Clone, Debug)]
struct Checked {
    channel: Channel,
    headers: Arc<HeaderMap>,
}

/// Why there is no word of a gRPC server.
#[derive(Debug)]
enum NoWord {
    Http {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
    Failed(String),
}

impl fmt::Display for NoWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { status, .. } => write!(f, "no gRPC, but HTTP with status {status}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl StdError for NoWord {}

impl Service<Request<Body>> for Checked {
    type Response = Response<Body>;
    type Error = NoWord;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The channel is waited for in `call`, where an error keeps its cause.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut channel = self.channel.clone();
        for (name, value) in self.headers.iter() {
            request.headers_mut().insert(name, value.clone());
        }
        Box::pin(async move {
            let failed = |error: tonic::transport::Error| {
                let mut why = chain(&error);
                if why.ends_with(NO_TLS) {
                    why.push_str(", or OTEL_EXPORTER_OTLP_INSECURE=true if there is no scheme");
                }
                NoWord::Failed(why)
            };
            poll_fn(|cx| channel.poll_ready(cx)).await.map_err(failed)?;
            let response = channel.call(request).await.map_err(failed)?;
            checked(response).await
        })
    }
}

/// The answer, if it is a gRPC server's.
async fn checked(response: Response<Body>) -> Result<Response<Body>, NoWord> {
    let (head, body) = response.into_parts();
    let body = read(body).await;
    let spoken = head.status == StatusCode::OK
        && head.headers.get(CONTENT_TYPE).is_some_and(|kind| {
            let kind = kind.as_bytes();
            kind.len() >= 16 && kind[..16].eq_ignore_ascii_case(b"application/grpc")
        });
    let status = || {
        let trailers = body.trailers.as_ref().and_then(|all| all.get(STATUS));
        let status = trailers.or_else(|| head.headers.get(STATUS))?;
        status.to_str().ok()?.parse::<u8>().ok()
    };
    let understood = match status() {
        _ if !spoken => false,
        None => false,
        Some(0) => is_message(&body.bytes),
        Some(_) => true,
    };
    match body.broken {
        Some(why) if spoken && !understood => Err(NoWord::Failed(why)),
        _ if understood => {
            let trailers = body.trailers.map(Ok::<_, Infallible>);
            let body = Full::new(body.bytes).with_trailers(async move { trailers });
            Ok(Response::from_parts(head, Body::new(body)))
        }
        _ => Err(NoWord::Http {
            status: head.status,
            headers: head.headers,
            body: body.bytes,
        }),
    }
}

/// Whether this is one whole answer of OTLP; compressed it can't be, since we never said that we
/// would understand it.
fn is_message(frame: &[u8]) -> bool {
    let Some((&[0, a, b, c, d], message)) = frame.split_first_chunk::<FRAME_HEAD>() else {
        return false;
    };
    message.len() == u32::from_be_bytes([a, b, c, d]) as usize
        && ExportTraceServiceResponse::decode(message).is_ok()
}
