//! OTLP over gRPC: one unary call, framed here.
//!
//! tonic's client turns everything that goes wrong (a reset, a proxy's error page, an undecodable
//! body) into a status, as if the server had refused the spans. Here only a status that a gRPC server
//! sent becomes [`Answer::Grpc`].

use std::io;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode};
use prost::Message;
use tonic::{Code, Status};

use super::{Answer, Received, failed};
use crate::mirror::otlp::ExportTraceServiceResponse;

pub(super) const CONTENT_TYPE: &str = "application/grpc";
pub(super) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: &str = "grpc-status";

/// What comes before a message: a flag for compression, and the length.
pub(super) fn frame_head(message: &[u8], is_compressed: bool) -> io::Result<Bytes> {
    let [a, b, c, d] = u32::try_from(message.len())
        .map_err(io::Error::other)?
        .to_be_bytes();
    Ok(Bytes::copy_from_slice(&[
        u8::from(is_compressed),
        a,
        b,
        c,
        d,
    ]))
}

pub(super) fn answer(received: Received) -> Answer {
    let is_grpc = received.status == StatusCode::OK
        && received
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(is_grpc_type);
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

fn is_grpc_type(found: &HeaderValue) -> bool {
    let start = found.as_bytes().get(..CONTENT_TYPE.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(CONTENT_TYPE.as_bytes()))
}

/// The status that these headers or trailers hold, if it is a number.
fn grpc_status(headers: &HeaderMap) -> Option<Status> {
    let code = headers.get(STATUS)?.to_str().ok()?;
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
