//! An HTTP client for one server: TCP, an optional proxy, TLS, and the limits on what is read.

use std::error::Error as StdError;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, buf::Chain};
use http::header::{HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Request, StatusCode, Uri, request};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use super::errors::{advice_on_start, error_chain};
use crate::error::Error;
use crate::mirror::settings::resolve::Resolved;
use crate::mirror::settings::tls;
use crate::trace::lock;

const USER_AGENT_NAME: &str = concat!("spanledger/", env!("CARGO_PKG_VERSION"));

/// How often an HTTP/2 connection is pinged while a request is in flight. Servers close
/// connections that ping much more often.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// gRPC servers put error messages into headers, and some put span content into error messages.
const MAX_HEADERS: u32 = 1024 * 1024;

/// The body of a request: what comes before a message, and the message, which is not copied.
pub(crate) type Body = Chain<Bytes, Bytes>;

/// A body without a message.
pub(crate) fn no_body() -> Body {
    Bytes::new().chain(Bytes::new())
}

/// Connections are opened on demand, kept, and opened again after a failure.
#[derive(Debug)]
pub(crate) struct Client {
    hyper: Hyper<HttpsConnector<Dialer>, Full<Body>>,
    /// The server, with the path that requests are relative to.
    base: Uri,
    headers: HeaderMap,
    advice: Advice,
}

/// What to do about the server that answered last, if it does not speak what is expected.
type Advice = Arc<Mutex<Option<&'static str>>>;

/// A response whose body was read to its end, to the limit, or until the connection broke.
pub(crate) struct Received {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
    /// The error that ended the body early.
    pub broken: Option<String>,
}

impl Client {
    /// A client that speaks HTTP/2 or HTTP/1.1. Must be called within a tokio runtime that has IO and time.
    pub(crate) fn new(to: &Resolved, http2: bool) -> Result<Self, Error> {
        let alpn: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
        let tls = match &to.tls {
            Some(tls) => tls.client(alpn)?,
            None => tls::unused(),
        };
        // An HTTP/1.1 request without TLS is forwarded by the proxy. Anything else needs a tunnel.
        let is_forwarded = !http2 && to.uri.scheme() == Some(&Scheme::HTTP);
        let dialer = Dialer::new(to, http2, is_forwarded);
        let advice = Arc::clone(&dialer.advice);
        let connector = HttpsConnector::from((dialer, tls));
        let hyper = Hyper::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_only(http2)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .http2_max_header_list_size(MAX_HEADERS)
            .build(connector);
        let mut headers = to.headers.clone();
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_NAME));
        let auth = to.proxy.as_ref().and_then(|proxy| proxy.basic_auth());
        if let Some(auth) = auth.filter(|_| is_forwarded) {
            headers.insert(PROXY_AUTHORIZATION, auth.clone());
        }
        Ok(Self {
            hyper,
            base: to.uri.clone(),
            headers,
            advice,
        })
    }

    /// What to do about the server's first bytes, if they were not the expected version of HTTP.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        *lock(&self.advice)
    }

    /// A request without a body: the configured headers, and a path below the server's address.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
    ) -> Result<request::Parts, http::Error> {
        let base = self.base.path().trim_end_matches('/');
        let mut uri = self.base.clone().into_parts();
        if !path.is_empty() {
            uri.path_and_query = Some(PathAndQuery::try_from(format!("{base}{path}"))?);
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = Uri::from_parts(uri)?;
        parts.headers = self.headers.clone();
        Ok(parts)
    }

    /// Sends a request once and reads at most `limit` bytes of the body of the response.
    pub(crate) async fn send(
        &self,
        head: request::Parts,
        body: Body,
        limit: usize,
    ) -> Result<Received, String> {
        let request = Request::from_parts(head, Full::new(body));
        let response = self.hyper.request(request).await;
        let (head, mut body) = response.map_err(|error| error_chain(&error))?.into_parts();
        let mut bytes = Vec::new();
        let (mut trailers, mut broken) = (None, None);
        while bytes.len() < limit {
            match body.frame().await {
                None => break,
                Some(Err(error)) => {
                    broken = Some(error_chain(&error));
                    break;
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let room = limit - bytes.len();
                        bytes.extend_from_slice(&data[..data.len().min(room)]);
                    }
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
            }
        }
        Ok(Received {
            status: head.status,
            headers: head.headers,
            body: bytes.into(),
            trailers,
            broken,
        })
    }
}

/// Opens TCP connections, directly or to a proxy.
#[derive(Clone, Debug)]
struct Dialer {
    tcp: HttpConnector,
    route: Route,
    http2: bool,
    advice: Advice,
}

#[derive(Clone, Debug)]
enum Route {
    Direct,
    /// To this proxy, which reads whole addresses from the requests.
    Forward(Uri),
    /// Through a proxy that supports CONNECT.
    Tunnel(Tunnel<HttpConnector>),
}

impl Dialer {
    fn new(to: &Resolved, http2: bool, is_forwarded: bool) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        // Leaves time for the second address of a host whose first one is dead.
        tcp.set_connect_timeout(Some(to.timeout / 2));
        // A peer that vanished fails the request in flight and not the ones after it.
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        tcp.set_tcp_user_timeout(Some(to.timeout));
        let route = match &to.proxy {
            None => Route::Direct,
            Some(proxy) if is_forwarded => Route::Forward(proxy.uri().clone()),
            Some(proxy) => {
                let tunnel = Tunnel::new(proxy.uri().clone(), tcp.clone());
                Route::Tunnel(match proxy.basic_auth() {
                    Some(auth) => tunnel.with_auth(auth.clone()),
                    None => tunnel,
                })
            }
        };
        Self {
            tcp,
            route,
            http2,
            advice: Advice::default(),
        }
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

impl Service<Uri> for Dialer {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let mut dialer = self.clone();
        // What a TLS server sends first says nothing.
        let is_plain = to.scheme() == Some(&Scheme::HTTP);
        Box::pin(async move {
            let tcp = match &mut dialer.route {
                Route::Direct => dialer.tcp.call(to).await?,
                Route::Forward(proxy) => dialer.tcp.call(proxy.clone()).await?,
                Route::Tunnel(tunnel) => tunnel.call(to).await?,
            };
            Ok(TokioIo::new(Stream {
                tcp: tcp.into_inner(),
                is_forwarded: matches!(dialer.route, Route::Forward(_)),
                http2: dialer.http2,
                unread: is_plain.then_some(dialer.advice),
            }))
        })
    }
}

/// A connection that knows whether requests on it need whole addresses.
#[derive(Debug)]
struct Stream {
    tcp: TcpStream,
    is_forwarded: bool,
    http2: bool,
    /// Until something was read: where to store what to do about it.
    unread: Option<Advice>,
}

impl Stream {
    /// Looks at the first bytes that the server sends.
    fn begins_with(&mut self, start: &[u8]) {
        if !start.is_empty()
            && let Some(advice) = self.unread.take()
        {
            *lock(&advice) = advice_on_start(start, self.http2);
        }
    }

    /// Looks at what the server answered before it closed the connection: after a failed write, nothing else
    /// will read that.
    fn look_after(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Err(_)) = written {
            let mut start = [0; 16];
            let len = rustix::io::read(&self.tcp, &mut start).unwrap_or(0);
            self.begins_with(&start[..len]);
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.tcp.connected().proxy(self.is_forwarded)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let read = Pin::new(&mut self.tcp).poll_read(cx, to);
        let start = &to.filled()[before..];
        self.begins_with(start);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, from);
        self.look_after(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// With this, a frame of HTTP/2 takes one write and not two.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, from);
        self.look_after(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
