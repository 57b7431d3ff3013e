//! What a server's answer means for the request: pure functions, based on what servers really answer.
//!
//! | verdict | gRPC | HTTP |
//! |---|---|---|
//! | [`Accepted`](Verdict::Accepted) | Ok, perhaps with a count of rejected spans | 2xx with an OTLP body or none |
//! | [`Retry`](Verdict::Retry) | Cancelled, DeadlineExceeded, Aborted, OutOfRange, Unavailable, DataLoss, ResourceExhausted | 408, 425, 429, 5xx |
//! | [`Split`](Verdict::Split) | ResourceExhausted or OutOfRange about the size of a message | 413; 400 about the size of the body |
//! | [`Wait`](Verdict::Wait) | Unauthenticated, PermissionDenied, Unimplemented, NotFound, FailedPrecondition | 1xx, 3xx, any other 4xx, 2xx with another body |
//! | [`Dead`](Verdict::Dead) | InvalidArgument, AlreadyExists, Internal, Unknown | 400, 422 |
//!
//! OTLP calls ResourceExhausted without a `RetryInfo` permanent; Tempo's rate limit answers just that, so
//! it is retried. Answers that are not listed concern the endpoint and not the data: they wait, and
//! nothing is given up.
//!
//! Servers echo what they were sent, so their texts are masked and truncated here.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER};
use prost::Message;
use serde_json::{Map, Value};
use tonic::{Code, Status};
use tonic_types::{RpcStatusExt, StatusExt, pb};

use crate::error::Error;
use crate::mirror::otlp::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use crate::mirror::settings::endpoint;
use crate::mirror::settings::resolve::Resolved;
use crate::mirror::transport::Answer;
use crate::redact::{MaskKey, Redaction, Redactor, Tally};
use crate::trace::{RawValue, floor_char, random_bytes};

/// The longest text of a server that is stored, in bytes.
const MAX_TEXT: usize = 512;
/// A shorter part of an address is no secret, and would be found in any text.
const SECRET: usize = 6;
const TOO_LARGE: [&str; 3] = [
    "larger than max",
    "exceeds maximum size",
    "message length too large",
];

// What to do about an endpoint that can't work.
const UI_PORT: &str =
    "is this the port of a user interface? OTLP usually has port 4317 (gRPC) or 4318 (HTTP)";
const OTHER_SERVER: &str =
    "is this an OTLP server? OTLP usually has port 4317 (gRPC) or 4318 (HTTP)";
const TLS_PORT: &str = "the port expects TLS: write https:// in front of its address";
const HTTP_PORT: &str =
    "if this is an OTLP/HTTP port, set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf";
const PATH: &str = "check the path: /v1/traces is appended to OTEL_EXPORTER_OTLP_ENDPOINT, \
                    and nothing to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const CREDENTIALS: &str = "check the credentials in OTEL_EXPORTER_OTLP_HEADERS";
const PROXY: &str = "check the credentials in the address of the proxy (HTTPS_PROXY, HTTP_PROXY)";
const REDIRECT: &str = "redirects are not followed: set this address";

/// What to do after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server has the spans, except for `rejected` ones. OTLP forbids to send those again
    /// automatically.
    Accepted {
        /// How many spans it refused. Some servers always answer a partial success of 0.
        rejected: u64,
        /// Why, or a warning if none was refused.
        message: String,
    },
    /// Send the same request again later.
    Retry {
        /// The delay that the server asks for.
        after: Option<Duration>,
        /// The server's reason.
        why: String,
    },
    /// The endpoint refuses everything: wait and report it.
    Wait {
        /// The server's reason.
        why: String,
    },
    /// The request is too large: split it.
    Split {
        /// The server's reason.
        why: String,
    },
    /// The server calls the request invalid.
    Dead {
        /// The server's reason.
        why: String,
    },
}

/// What an answer means.
pub(crate) fn answer(answer: &Answer, is_grpc: bool, redactor: &Redactor) -> Verdict {
    match answer {
        Answer::Grpc(Ok(response)) => accepted(response, redactor),
        Answer::Grpc(Err(status)) => grpc(status, redactor),
        Answer::Http {
            status,
            headers,
            body,
        } => {
            let classify = match is_grpc {
                true => http_from_grpc,
                false => http,
            };
            let now = SystemTime::now();
            classify(status.as_u16(), headers, body, now, redactor)
        }
        Answer::Failed { why } => Verdict::Retry {
            after: None,
            why: why.clone(),
        },
    }
}

/// A redactor for the texts of a server, which may repeat what is secret in its address. Its masks are not
/// compared with others.
pub(crate) fn message_redactor(to: &Resolved) -> Result<Redactor, Error> {
    let hidden = endpoint::hidden(&to.uri).filter(|part| part.len() >= SECRET);
    let rules = hidden.fold(Redaction::new(), |rules, part| {
        rules.rule("endpoint", &regex::escape(part))
    });
    Ok(Redactor::new(&rules, MaskKey::new(random_bytes()))?)
}

/// A server's text in one line, masked and truncated.
fn sanitize(text: &str, redactor: &Redactor) -> String {
    let text = redactor.text(text, &mut Tally::default());
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() > MAX_TEXT {
        text.truncate(floor_char(&text, MAX_TEXT));
        text.push('…');
    }
    text
}

/// The verdict of a response to an accepted request.
pub fn accepted(response: &ExportTraceServiceResponse, redactor: &Redactor) -> Verdict {
    let partial = response.partial_success.clone().unwrap_or_default();
    Verdict::Accepted {
        rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
        message: sanitize(&partial.error_message, redactor),
    }
}

/// The verdict of a status that a gRPC server sent.
pub fn grpc(status: &Status, redactor: &Redactor) -> Verdict {
    let (code, message) = (status.code(), status.message());
    let advice = match code {
        Code::Unauthenticated | Code::PermissionDenied => Some(CREDENTIALS),
        Code::Unimplemented => Some(OTHER_SERVER),
        _ => None,
    };
    let why = advised(sanitize(&format!("{code:?}: {message}"), redactor), advice);
    match code {
        Code::Ok => accepted(&ExportTraceServiceResponse::default(), redactor),
        Code::ResourceExhausted | Code::OutOfRange if is_about_size(message) => {
            Verdict::Split { why }
        }
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        | Code::ResourceExhausted => Verdict::Retry {
            after: status
                .get_details_retry_info()
                .and_then(|info| info.retry_delay),
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

/// Whether a message is one of those that gRPC libraries use for messages that are too large.
fn is_about_size(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    TOO_LARGE.iter().any(|words| message.contains(words))
}

/// The verdict of an HTTP answer that came at `now`.
pub fn http(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    redactor: &Redactor,
) -> Verdict {
    match status {
        200..300 => http_ok(status, headers, body, redactor),
        _ => http_error((status, headers, body), false, now, redactor),
    }
}

/// The verdict of an HTTP answer from a gRPC endpoint: a proxy or another program answered, so that it
/// says nothing about the spans.
pub fn http_from_grpc(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    redactor: &Redactor,
) -> Verdict {
    if (200..300).contains(&status) {
        let why = format!("HTTP {status}, which is not a gRPC answer; {HTTP_PORT}");
        return Verdict::Wait { why };
    }
    match http_error((status, headers, body), true, now, redactor) {
        Verdict::Dead { why } => Verdict::Wait { why },
        verdict => verdict,
    }
}

fn http_error(
    (status, headers, body): (u16, &HeaderMap, &[u8]),
    is_grpc: bool,
    now: SystemTime,
    redactor: &Redactor,
) -> Verdict {
    let redirect = headers
        .get(LOCATION)
        .filter(|_| (300..400).contains(&status));
    let (is_html, expects_tls) = (is_html(headers, body), expects_tls(body));
    let (message, after) = match redirect {
        Some(to) => (String::from_utf8_lossy(to.as_bytes()).into_owned(), None),
        None if is_html => ("an HTML page".to_owned(), None),
        None => read_error(headers, body),
    };
    let advice = match status {
        _ if expects_tls => Some(TLS_PORT),
        _ if redirect.is_some() => Some(REDIRECT),
        _ if is_html => Some(UI_PORT),
        401 | 403 => Some(CREDENTIALS),
        404 | 405 | 415 if is_grpc => Some(HTTP_PORT),
        404 | 405 => Some(PATH),
        407 => Some(PROXY),
        _ => None,
    };
    let text = format!("HTTP {status}: {message}");
    let why = advised(sanitize(text.trim_end_matches(": "), redactor), advice);
    match status {
        408 | 425 | 429 | 500..=599 => Verdict::Retry {
            after: retry_after(headers, now).or(after),
            why,
        },
        413 => Verdict::Split { why },
        400 | 422 if message.contains("body too large") => Verdict::Split { why },
        // These are not answers to the spans.
        400 | 422 if expects_tls || is_html => Verdict::Wait { why },
        400 | 422 => Verdict::Dead { why },
        _ => Verdict::Wait { why },
    }
}

fn advised(why: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{why}; {advice}"),
        None => why,
    }
}

/// Whether a server says that its port expects TLS, as those of Go, nginx and Apache do.
fn expects_tls(body: &[u8]) -> bool {
    let start = start_of(body);
    let texts = [
        "to an HTTPS server",
        "to HTTPS port",
        "to an SSL-enabled server port",
    ];
    texts.iter().any(|text| start.contains(text))
}

/// The type of a body, without parameters; empty if there is none.
fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map_or(&[][..], |v| v.as_bytes());
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    value.split(';').next().unwrap_or("").trim().to_owned()
}

const PROTOBUF: [&str; 2] = ["application/x-protobuf", "application/protobuf"];

/// The beginning of a body.
fn start_of(body: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)])
}

/// Whether a body is a page for people.
fn is_html(headers: &HeaderMap, body: &[u8]) -> bool {
    let start = start_of(body).trim_start().to_ascii_lowercase();
    let is_page = start.starts_with("<!doctype html") || start.starts_with("<html");
    is_page || content_type(headers) == "text/html"
}

fn http_ok(status: u16, headers: &HeaderMap, body: &[u8], redactor: &Redactor) -> Verdict {
    let protobuf = || ExportTraceServiceResponse::decode(body).ok();
    let response = match content_type(headers).as_str() {
        _ if body.is_empty() => Some(ExportTraceServiceResponse::default()),
        kind if PROTOBUF.contains(&kind) => protobuf(),
        "application/json" => read_json(body),
        "" => protobuf().or_else(|| read_json(body)),
        _ => None,
    };
    match response {
        Some(response) => accepted(&response, redactor),
        None if is_html(headers, body) => Verdict::Wait {
            why: format!("HTTP {status} with an HTML page; {UI_PORT}"),
        },
        None => {
            let start = start_of(body);
            let text = format!("HTTP {status} with a body that is not OTLP's: {start}");
            Verdict::Wait {
                why: advised(sanitize(&text, redactor), Some(OTHER_SERVER)),
            }
        }
    }
}

/// A JSON response. Integers may be texts, and names may be in either spelling.
fn read_json(body: &[u8]) -> Option<ExportTraceServiceResponse> {
    fn either<'a>(map: &'a Map<String, Value>, a: &str, b: &str) -> Option<&'a Value> {
        map.get(a).or_else(|| map.get(b))
    }
    let answer: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let partial_success = match either(&answer, "partialSuccess", "partial_success") {
        Some(Value::Object(partial)) => {
            let rejected = either(partial, "rejectedSpans", "rejected_spans");
            let rejected = rejected.and_then(|value| match value {
                Value::String(text) => text.parse().ok(),
                other => other.as_i64(),
            });
            let message = either(partial, "errorMessage", "error_message");
            Some(ExportTracePartialSuccess {
                rejected_spans: rejected.unwrap_or(0),
                error_message: message.and_then(Value::as_str).unwrap_or("").to_owned(),
            })
        }
        Some(Value::Null) => None,
        None if answer.is_empty() => None,
        // The answer of some other program.
        _ => return None,
    };
    Some(ExportTraceServiceResponse { partial_success })
}

/// The message and the delay of an error: from a `google.rpc.Status`, or just the text.
fn read_error(headers: &HeaderMap, body: &[u8]) -> (String, Option<Duration>) {
    if PROTOBUF.contains(&content_type(headers).as_str())
        && let Ok(status) = pb::Status::decode(body)
    {
        let info = status.get_details_retry_info();
        return (status.message, info.and_then(|info| info.retry_delay));
    }
    let json = std::str::from_utf8(body).ok().map(str::trim);
    let message = json.and_then(|json| RawValue::new(json).get("message")?.text());
    let text = || String::from_utf8_lossy(&body[..body.len().min(4 * MAX_TEXT)]).into_owned();
    (
        message.map_or_else(text, |message| message.into_owned()),
        None,
    )
}

/// `Retry-After`: seconds, or a date, compared with the server's own clock if it sends that.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = httpdate::parse_http_date(value).ok()?;
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    // A date in the past means at once.
    Some(then.duration_since(date.unwrap_or(now)).unwrap_or_default())
}
