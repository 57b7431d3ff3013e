//! Builds the scripted answers.

use std::convert::Infallible;
use std::io::Read;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Frame;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use serde_json::json;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Service;

use super::{Received, Reply};

/// One call of tonic's server, with the answer known beforehand.
struct OneCall<T> {
    reply: Reply,
    request: Arc<Mutex<Option<T>>>,
}

impl<T> OneCall<T> {
    fn take(&self, request: tonic::Request<T>) -> Result<&Reply, Status> {
        *self.request.lock().unwrap() = Some(request.into_inner());
        match &self.reply {
            reply @ Reply::Grpc { .. } => Err(status_of(reply)),
            reply => Ok(reply),
        }
    }
}

#[tonic::async_trait]
impl TraceService for OneCall<ExportTraceServiceRequest> {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let reply = self.take(request)?;
        Ok(tonic::Response::new(response_of(reply)))
    }
}

#[tonic::async_trait]
impl MetricsService for OneCall<ExportMetricsServiceRequest> {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, Status> {
        self.take(request)?;
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

pub(super) fn status_of(reply: &Reply) -> Status {
    match reply {
        Reply::Grpc {
            code,
            message,
            details,
        } => Status::with_details(*code, message, details.clone()),
        other => panic!("{other:?} has no status"),
    }
}

pub(super) async fn through_tonic(received: &mut Received, reply: Reply) -> Response<Body> {
    let mut request = Request::new(Full::new(received.raw.clone()));
    *request.method_mut() = received.method.clone();
    *request.uri_mut() = received.path.parse().unwrap();
    *request.headers_mut() = received.headers.clone();
    macro_rules! call {
        ($server:ident, $slot:expr) => {{
            let slot = Arc::new(Mutex::new(None));
            let mut server = $server::new(OneCall {
                reply,
                request: Arc::clone(&slot),
            })
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(usize::MAX);
            let Ok(response) = server.call(request).await;
            $slot = slot.lock().unwrap().take();
            response
        }};
    }
    match received.path.contains(".MetricsService/") {
        true => call!(MetricsServiceServer, received.metrics),
        false => call!(TraceServiceServer, received.request),
    }
}

fn response_of(reply: &Reply) -> ExportTraceServiceResponse {
    let partial_success = match reply {
        Reply::Partial { rejected, message } => Some(ExportTracePartialSuccess {
            rejected_spans: *rejected,
            error_message: message.clone(),
        }),
        _ => None,
    };
    ExportTraceServiceResponse { partial_success }
}

/// The decompressed and decoded body.
pub(super) fn decode<T>(received: &Received, json: bool) -> Option<T>
where
    T: Message + Default + serde::de::DeserializeOwned,
{
    let mut plain = Vec::new();
    match received.header("content-encoding") {
        None => plain.extend_from_slice(&received.raw),
        Some("gzip") => {
            let mut gzip = flate2::read::GzDecoder::new(&received.raw[..]);
            gzip.read_to_end(&mut plain).ok()?;
        }
        Some("zstd") => plain = zstd::stream::decode_all(&received.raw[..]).ok()?,
        Some(_) => return None,
    }
    match json {
        true => serde_json::from_slice(&plain).ok(),
        false => T::decode(&plain[..]).ok(),
    }
}

pub(super) fn http_reply(reply: &Reply, json: bool) -> Response<Body> {
    let (kind, body) = match (json, reply) {
        (true, Reply::Partial { rejected, message }) => {
            let partial = json!({"rejectedSpans": rejected.to_string(), "errorMessage": message});
            let body = json!({ "partialSuccess": partial });
            ("application/json", body.to_string().into_bytes())
        }
        (true, _) => ("application/json", b"{}".to_vec()),
        (false, _) => ("application/x-protobuf", response_of(reply).encode_to_vec()),
    };
    plain(200, &[("content-type", kind.to_owned())], body.into())
}

pub(super) fn plain(
    status: u16,
    headers: &[(&'static str, String)],
    body: Bytes,
) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::new(Full::new(body))).unwrap()
}

pub(super) fn garbage(grpc: bool, json: bool) -> Response<Body> {
    // The frame of gRPC is whole, what is in it is not.
    let body: &[u8] = match grpc {
        true => b"\0\0\0\0\x04\xff\xff\xff\xff",
        false => b"\xff\xff\xff\xff",
    };
    let kind = kind_of(grpc, json);
    let mut trailers = HeaderMap::new();
    let body = Full::new(Bytes::from_static(body));
    let body = match grpc {
        true => {
            trailers.insert("grpc-status", "0".parse().unwrap());
            Body::new(body.with_trailers(async { Some(Ok::<_, Infallible>(trailers)) }))
        }
        false => Body::new(body),
    };
    let response = Response::builder().header(header::CONTENT_TYPE, kind);
    response.body(body).unwrap()
}

pub(super) fn broken_off(status: u16, grpc: bool, json: bool) -> Response<Body> {
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind_of(grpc, json));
    if !grpc {
        response = response.header(header::CONTENT_LENGTH, 100);
    }
    response.body(Body::new(Half::Data)).unwrap()
}

fn kind_of(grpc: bool, json: bool) -> &'static str {
    match (grpc, json) {
        (true, _) => "application/grpc",
        (_, true) => "application/json",
        _ => "application/x-protobuf",
    }
}

/// A body that begins and then fails, after what it began with has been flushed.
enum Half {
    Data,
    Flush,
    Fail,
}

impl hyper::body::Body for Half {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match *self {
            Self::Data => {
                *self = Self::Flush;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"half")))))
            }
            Self::Flush => {
                *self = Self::Fail;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Self::Fail => Poll::Ready(Some(Err(Status::aborted("broken off")))),
        }
    }
}
