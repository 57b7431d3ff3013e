//! OTLP over HTTP/1.1, as protobuf or JSON.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::{Answer, chain, connector, read};
use crate::error::Error;
use crate::mirror::config::{Compression, Protocol, Resolved};

/// What opentelemetry's own exporters use for gzip, and zstd's default.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

#[derive(Debug)]
pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Everything but the body.
    head: http::request::Parts,
    compression: Compression,
}

impl Http {
    pub(super) fn new(to: &Resolved) -> Result<Self, Error> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector(to, b"http/1.1")?);
        let json = to.protocol == Protocol::HttpJson;
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::POST;
        head.uri = to.uri.clone();
        head.headers = to.headers.clone();
        let content_type = HeaderValue::from_static(match json {
            true => "application/json",
            false => "application/x-protobuf",
        });
        let own = [
            (CONTENT_TYPE, content_type.clone()),
            (ACCEPT, content_type),
            (USER_AGENT, HeaderValue::from_static(super::USER_AGENT)),
        ];
        head.headers.extend(own);
        let encoding = match to.compression {
            Compression::None => None,
            Compression::Gzip => Some("gzip"),
            Compression::Zstd => Some("zstd"),
        };
        if let Some(encoding) = encoding {
            let encoding = HeaderValue::from_static(encoding);
            head.headers.insert(CONTENT_ENCODING, encoding);
        }
        Ok(Self {
            client,
            head,
            compression: to.compression,
        })
    }

    pub(super) async fn send(&self, message: Bytes) -> Answer {
        let body = match self.compress(message) {
            Ok(body) => Full::new(body),
            Err(error) => {
                return Answer::Failed {
                    why: format!("the request can't be compressed: {error}"),
                };
            }
        };
        let sent = Request::from_parts(self.head.clone(), body);
        let (head, body) = match self.client.request(sent).await {
            Ok(response) => response.into_parts(),
            Err(error) => return Answer::Failed { why: chain(&error) },
        };
        let body = read(body).await;
        match body.broken {
            // Half an OK may have been about to say what was refused.
            Some(why) if head.status.is_success() => Answer::Failed { why },
            // Half an error says enough.
            _ => Answer::Http {
                status: head.status,
                headers: head.headers,
                body: body.bytes,
            },
        }
    }

    fn compress(&self, plain: Bytes) -> io::Result<Bytes> {
        Ok(match self.compression {
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
}
