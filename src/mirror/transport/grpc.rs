//! OTLP over gRPC: one unary call, framed here.
//!
//! tonic's client turns everything that goes wrong (a reset, a proxy's error page, an undecodable
//! body) into a status, as if the server had refused the spans. Here only a status that a gRPC server
//! sent becomes [`Answer::Grpc`].

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use http::{Method, StatusCode, request};
use prost::Message;
use tonic::{Code, Status};

use super::client::{Client, Received};
use super::errors::grpc_hint;
use super::{Answer, MAX_ANSWER, compress, failed};
use crate::error::Error;
use crate::mirror::config::Compression;
use crate::mirror::otlp::ExportTraceServiceResponse;
use crate::mirror::resolve::Resolved;

const CONTENT: &str = "application/grpc";
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_STATUS: &str = "grpc-status";

#[derive(Debug)]
pub(super) struct Grpc {
    client: Client,
    head: request::Parts,
    compression: Compression,
}

impl Grpc {
    pub(super) fn new(to: &Resolved) -> Result<Self, Error> {
        let client = Client::http2(to)?;
        let mut head = client
            .request(Method::POST, to.grpc_path)
            .map_err(super::unusable)?;
        let content = HeaderValue::from_static(CONTENT);
        head.headers.insert(CONTENT_TYPE, content);
        head.headers
            .insert(TE, HeaderValue::from_static("trailers"));
        if let Some(name) = to.compression.name() {
            let name = HeaderValue::from_static(name);
            head.headers.insert(GRPC_ENCODING, name);
        }
        Ok(Self {
            client,
            head,
            compression: to.compression,
        })
    }

    pub(super) async fn send(&self, message: Bytes) -> Answer {
        let frame =
            match compress(self.compression, message).and_then(|message| self.frame(&message)) {
                Ok(frame) => frame,
                Err(error) => return failed(format!("the request can't be compressed: {error}")),
            };
        let sent = self.client.send(self.head.clone(), frame, MAX_ANSWER).await;
        match sent {
            Ok(received) => answer(received),
            Err(why) => failed(grpc_hint(why)),
        }
    }

    /// A flag for compression and the length, then the message.
    fn frame(&self, message: &[u8]) -> std::io::Result<Bytes> {
        let len = u32::try_from(message.len()).map_err(std::io::Error::other)?;
        let mut frame = Vec::with_capacity(5 + message.len());
        frame.push(u8::from(self.compression != Compression::None));
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(message);
        Ok(frame.into())
    }
}

fn answer(received: Received) -> Answer {
    let is_grpc = received.status == StatusCode::OK
        && received.headers.get(CONTENT_TYPE).is_some_and(|kind| {
            let start = kind.as_bytes().get(..CONTENT.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(CONTENT.as_bytes()))
        });
    let headers = [received.trailers.as_ref(), Some(&received.headers)];
    let status = headers.into_iter().flatten().find_map(grpc_status);
    match status {
        Some(status) if is_grpc && status.code() != Code::Ok => return Answer::Grpc(Err(status)),
        Some(_) if is_grpc => {
            if let Some(response) = read_message(&received.body) {
                return Answer::Grpc(Ok(response));
            }
        }
        _ => {}
    }
    match received.broken {
        Some(why) if is_grpc => failed(why),
        _ => Answer::Http {
            status: received.status,
            headers: received.headers,
            body: received.body,
        },
    }
}

/// The status that these headers or trailers hold, if it is a number.
fn grpc_status(headers: &HeaderMap) -> Option<Status> {
    let code = headers.get(GRPC_STATUS)?.to_str().ok()?;
    code.parse::<u8>().ok()?;
    Status::from_header_map(headers)
}

/// The one message of a response. It is never compressed, because the request accepts no encoding.
fn read_message(frame: &[u8]) -> Option<ExportTraceServiceResponse> {
    let (&[0, a, b, c, d], message) = frame.split_first_chunk()? else {
        return None;
    };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    let message = Some(message).filter(|message| message.len() == len)?;
    ExportTraceServiceResponse::decode(message).ok()
}
