//! Plain GET, for asking a backend what it holds.

use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::{chain, connector};
use crate::error::Error;
use crate::mirror::config::Resolved;

/// The most of an answer that is read. A trace has a few MiB.
const MAX_BODY: usize = 1024 * 1024 * 1024;

/// A client of one server, by the same connections and certificates as the mirror's.
#[derive(Debug)]
pub(in crate::mirror) struct Fetch {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    to: Resolved,
}

impl Fetch {
    /// Within a tokio runtime with IO and time.
    pub(in crate::mirror) fn new(to: Resolved) -> Result<Self, Error> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector(&to, b"http/1.1")?);
        Ok(Self { client, to })
    }

    /// What it answers to GET for a path below the server's address; why, if it doesn't.
    pub(in crate::mirror) async fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let fetched = self.fetch(path);
        match tokio::time::timeout(self.to.timeout, fetched).await {
            Ok(fetched) => fetched,
            Err(_) => Err(format!("no answer within {:?}", self.to.timeout)),
        }
    }

    async fn fetch(&self, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.uri(path)?;
        *request.headers_mut() = self.to.headers.clone();
        let json = HeaderValue::from_static("application/json");
        let own = [
            (ACCEPT, json),
            (USER_AGENT, HeaderValue::from_static(super::USER_AGENT)),
        ];
        request.headers_mut().extend(own);
        let answer = self.client.request(request).await;
        let (head, mut body) = answer.map_err(|error| chain(&error))?.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| chain(&error))?;
            if let Ok(data) = frame.into_data() {
                if bytes.len() + data.len() > MAX_BODY {
                    return Err(format!("an answer of more than {MAX_BODY} bytes"));
                }
                bytes.extend_from_slice(&data);
            }
        }
        Ok((head.status, bytes))
    }

    fn uri(&self, path: &str) -> Result<Uri, String> {
        let base = self.to.uri.path().trim_end_matches('/');
        let path =
            PathAndQuery::try_from(format!("{base}{path}")).map_err(|error| error.to_string())?;
        let mut parts = self.to.uri.clone().into_parts();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|error| error.to_string())
    }
}
