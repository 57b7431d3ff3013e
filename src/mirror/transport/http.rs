//! OTLP over HTTP/1.1, as protobuf or JSON.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method, request};

use super::client::Client;
use super::errors::http_hint;
use super::{Answer, MAX_ANSWER, compress, failed};
use crate::error::Error;
use crate::mirror::config::{Compression, Protocol};
use crate::mirror::resolve::Resolved;

#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    head: request::Parts,
    compression: Compression,
    /// The endpoint as error messages name it.
    shown: String,
}

impl Http {
    pub(super) fn new(to: &Resolved) -> Result<Self, Error> {
        let client = Client::http1(to)?;
        let mut head = client.request(Method::POST, "").map_err(super::unusable)?;
        let content_type = HeaderValue::from_static(match to.protocol {
            Protocol::HttpJson => "application/json",
            _ => "application/x-protobuf",
        });
        head.headers.insert(CONTENT_TYPE, content_type.clone());
        head.headers.insert(ACCEPT, content_type);
        if let Some(name) = to.compression.name() {
            let name = HeaderValue::from_static(name);
            head.headers.insert(CONTENT_ENCODING, name);
        }
        Ok(Self {
            client,
            head,
            compression: to.compression,
            shown: to.shown(),
        })
    }

    pub(super) async fn send(&self, message: Bytes) -> Answer {
        let body = match compress(self.compression, message) {
            Ok(body) => body,
            Err(error) => return failed(format!("the request can't be compressed: {error}")),
        };
        let sent = self.client.send(self.head.clone(), body, MAX_ANSWER).await;
        let received = match sent {
            Ok(received) => received,
            Err(why) => return failed(http_hint(why, &self.shown)),
        };
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
}
