//! What a server's answer means for what was sent: pure functions of what servers really answer.
//!
//! | verdict | gRPC | HTTP |
//! |---|---|---|
//! | [`Accepted`](Verdict::Accepted) | Ok; a partial success says how many were not | 2xx with an OTLP body, or none |
//! | [`Retry`](Verdict::Retry) | what the transport says itself (a status with a source); Cancelled, DeadlineExceeded, Aborted, OutOfRange, Unavailable, DataLoss, ResourceExhausted | 408, 425, 429, 5xx |
//! | [`Split`](Verdict::Split) | ResourceExhausted or OutOfRange that speak of a message's size | 413; a 400 that speaks of the body's size |
//! | [`Wait`](Verdict::Wait) | Unauthenticated, PermissionDenied, Unimplemented, NotFound, FailedPrecondition; an answer that is no gRPC | 1xx, 3xx, any other 4xx, a 2xx whose body is none of OTLP's |
//! | [`Dead`](Verdict::Dead) | InvalidArgument, AlreadyExists, Internal, Unknown, where a server sent them | 400, 422 |
//!
//! OTLP calls ResourceExhausted without a `RetryInfo` permanent; Tempo's rate limit answers just
//! that, so it is tried again. What nobody named here concerns the endpoint, not the data: it
//! waits, and nothing is given up.
//!
//! Servers echo what they were sent. Their texts are masked and cut here, before anybody keeps them.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use super::otlp::ExportTraceServiceResponse;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::{RpcStatusExt, StatusExt, pb};

use crate::reader::RawValue;
use crate::redact::{Redactor, Tally};

/// Longest text of a server's that is kept, in bytes.
const LONGEST: usize = 512;

/// What to do with what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server has it. `rejected` of the spans it refused for good; OTLP forbids sending those
    /// again by oneself.
    Accepted {
        /// How many spans it refused. Some servers always answer a partial success of 0.
        rejected: u64,
        /// Why, or a warning where none was refused.
        message: String,
    },
    /// Send the same again, later.
    Retry {
        /// When the server wants it.
        after: Option<Duration>,
        /// What it said.
        why: String,
    },
    /// The endpoint refuses whatever it is sent: wait, and say so.
    Wait {
        /// What it said.
        why: String,
    },
    /// Too large: send less at once.
    Split {
        /// What it said.
        why: String,
    },
    /// The server calls it invalid.
    Dead {
        /// What it said.
        why: String,
    },
}

/// What a server's text may be kept as.
fn told(text: &str, redactor: &Redactor) -> String {
    let mut text = redactor.text(text, &mut Tally::default()).into_owned();
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// What an OK over gRPC says.
pub fn accepted(response: &ExportTraceServiceResponse, redactor: &Redactor) -> Verdict {
    match &response.partial_success {
        Some(partial) => Verdict::Accepted {
            rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
            message: told(&partial.error_message, redactor),
        },
        None => Verdict::Accepted {
            rejected: 0,
            message: String::new(),
        },
    }
}

/// What a status of gRPC means.
pub fn grpc(status: &Status, redactor: &Redactor) -> Verdict {
    let (code, message) = (status.code(), status.message());
    let mut text = format!("{code:?}: {message}");
    let mut source = status.source();
    for _ in 0..16 {
        let Some(cause) = source else { break };
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    let why = told(&text, redactor);
    let after = || status.get_details_retry_info()?.retry_delay;
    if matches!(code, Code::ResourceExhausted | Code::OutOfRange) && speaks_of_size(message) {
        return Verdict::Split { why };
    }
    if status.source().is_some() {
        return Verdict::Retry { after: None, why };
    }
    // Whoever answered speaks HTTP, not gRPC: a proxy, or a wrong port.
    if let Some(http) =
        message.strip_prefix("grpc-status header missing, mapped from HTTP status code ")
    {
        return match http.parse().map_or(HttpClass::Wait, http_class) {
            HttpClass::Retry => Verdict::Retry { after: None, why },
            HttpClass::Split => Verdict::Split { why },
            _ => Verdict::Wait { why },
        };
    }
    if message.starts_with("protocol error: missing grpc-status trailer") {
        return Verdict::Retry { after: None, why };
    }
    match code {
        Code::Ok => Verdict::Accepted {
            rejected: 0,
            message: String::new(),
        },
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        | Code::ResourceExhausted => Verdict::Retry {
            after: after(),
            why,
        },
        Code::Unauthenticated
        | Code::PermissionDenied
        | Code::Unimplemented
        | Code::NotFound
        | Code::FailedPrecondition => Verdict::Wait { why },
        Code::InvalidArgument | Code::AlreadyExists | Code::Internal | Code::Unknown => {
            Verdict::Dead { why }
        }
    }
}

/// How the libraries of gRPC's servers, and our own client, call a message too large.
fn speaks_of_size(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    [
        "larger than max",
        "exceeds maximum size",
        "message length too large",
    ]
    .iter()
    .any(|words| message.contains(words))
}

enum HttpClass {
    Ok,
    Retry,
    Wait,
    Split,
    Dead,
}

fn http_class(status: u16) -> HttpClass {
    match status {
        200..=299 => HttpClass::Ok,
        408 | 425 | 429 | 500..=599 => HttpClass::Retry,
        413 => HttpClass::Split,
        400 | 422 => HttpClass::Dead,
        _ => HttpClass::Wait,
    }
}

/// What an answer over HTTP means, `now` being when it came.
pub fn http(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    redactor: &Redactor,
) -> Verdict {
    let class = http_class(status);
    if matches!(class, HttpClass::Ok) {
        return http_ok(status, headers, body, redactor);
    }
    let error = HttpError::read(headers, body);
    let text = format!("HTTP {status}: {}", error.message);
    let why = told(text.trim_end_matches(": "), redactor);
    match class {
        HttpClass::Retry => Verdict::Retry {
            after: retry_after(headers, now).or(error.after),
            why,
        },
        HttpClass::Split => Verdict::Split { why },
        HttpClass::Dead if error.message.contains("body too large") => Verdict::Split { why },
        HttpClass::Dead => Verdict::Dead { why },
        HttpClass::Ok | HttpClass::Wait => Verdict::Wait { why },
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Protobuf,
    Json,
    Unsaid,
    Other,
}

fn media(headers: &HeaderMap) -> Media {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Media::Unsaid;
    };
    let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    match value.split(';').next().unwrap_or("").trim() {
        "application/x-protobuf" | "application/protobuf" => Media::Protobuf,
        "application/json" => Media::Json,
        "" => Media::Unsaid,
        _ => Media::Other,
    }
}

fn http_ok(status: u16, headers: &HeaderMap, body: &[u8], redactor: &Redactor) -> Verdict {
    let protobuf = || ExportTraceServiceResponse::decode(body).ok();
    let response = match media(headers) {
        _ if body.is_empty() => Some(ExportTraceServiceResponse::default()),
        Media::Protobuf => protobuf(),
        Media::Json => read_json(body),
        Media::Unsaid => protobuf().or_else(|| read_json(body)),
        Media::Other => None,
    };
    match response {
        Some(response) => accepted(&response, redactor),
        None => {
            let start = String::from_utf8_lossy(&body[..body.len().min(LONGEST)]);
            let text = format!("HTTP {status} with a body that is not OTLP's: {start}");
            Verdict::Wait {
                why: told(&text, redactor),
            }
        }
    }
}

/// The JSON answer. 64-bit numbers may be texts there, which the generated types can't read.
fn read_json(body: &[u8]) -> Option<ExportTraceServiceResponse> {
    let answer: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    let either = |map: &serde_json::Map<_, _>, a: &str, b: &str| -> Option<serde_json::Value> {
        map.get(a).or_else(|| map.get(b)).cloned()
    };
    let mut response = ExportTraceServiceResponse::default();
    match either(&answer, "partialSuccess", "partial_success") {
        Some(serde_json::Value::Object(said)) => {
            let rejected = either(&said, "rejectedSpans", "rejected_spans");
            let rejected = rejected.and_then(|value| match value {
                serde_json::Value::String(text) => text.parse().ok(),
                other => other.as_i64(),
            });
            let message = either(&said, "errorMessage", "error_message");
            let partial = response.partial_success.get_or_insert_default();
            partial.rejected_spans = rejected.unwrap_or(0);
            partial.error_message = match message {
                Some(serde_json::Value::String(text)) => text,
                _ => String::new(),
            };
        }
        Some(serde_json::Value::Null) => {}
        // Some other program's answer.
        Some(_) => return None,
        None if !answer.is_empty() => return None,
        None => {}
    }
    Some(response)
}

/// What an answer that is no OK says: a `google.rpc.Status`, or just text.
struct HttpError {
    message: String,
    after: Option<Duration>,
}

impl HttpError {
    fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let text = || String::from_utf8_lossy(&body[..body.len().min(4 * LONGEST)]).into_owned();
        let said = match media(headers) {
            Media::Protobuf => pb::Status::decode(body).ok(),
            _ => None,
        };
        if let Some(status) = said {
            let after = status
                .get_details_retry_info()
                .and_then(|info| info.retry_delay);
            return Self {
                message: status.message,
                after,
            };
        }
        let json = std::str::from_utf8(body).ok().map(str::trim);
        let message = json.and_then(|json| RawValue::new(json).get("message")?.text());
        Self {
            message: message.map_or_else(text, |message| message.into_owned()),
            after: None,
        }
    }
}

/// `Retry-After`: seconds, or a date, seen from the server's own clock where it tells it.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = httpdate::parse_http_date(value).ok()?;
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let now = date
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .unwrap_or(now);
    // A moment that has passed: at once.
    Some(then.duration_since(now).unwrap_or_default())
}
