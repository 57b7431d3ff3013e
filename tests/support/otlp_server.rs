//! An OTLP server that answers from a script: what a real one can't be made to do.
//!
//! It speaks gRPC and HTTP on one port, plain or with TLS, in threads of its own, and keeps every
//! request it got, as bytes and decoded. gRPC requests go through tonic's own server code.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Read;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Service;
use tonic::{Code, Status};

/// What the server does with one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// All accepted.
    Ok,
    /// Accepted but for so many spans.
    Partial { rejected: i64, message: String },
    /// A gRPC status, with details as they travel.
    Grpc {
        code: Code,
        message: String,
        details: Bytes,
    },
    /// Plain HTTP, also to a gRPC client, as a proxy would.
    Http {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Bytes,
    },
    /// An OK of the right type whose body is no OTLP.
    Garbage,
    /// Reads the request and says nothing more.
    Hang,
    /// Reads a little at a time, then accepts.
    SlowRead,
    /// Resets the connection when so many bytes of the request have come.
    ResetAfter(usize),
    /// Answers so before it has read anything of the request, as servers do to what is too large;
    /// over HTTP it reads on afterwards, as they do lest a reset overtake the answer.
    Unread(Box<Reply>),
    /// Begins an answer of this status and breaks off in its body.
    BreakOff(u16),
}

impl Reply {
    pub fn grpc(code: Code, message: &str) -> Self {
        Self::Grpc {
            code,
            message: message.to_owned(),
            details: Bytes::new(),
        }
    }

    pub fn http(status: u16) -> Self {
        Self::Http {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    /// The body as it travelled: compressed, and with gRPC's framing.
    pub raw: Bytes,
    /// What it said; `None` if it broke off or can't be understood.
    pub request: Option<ExportTraceServiceRequest>,
    /// The same of a request that brings metrics.
    pub metrics: Option<ExportMetricsServiceRequest>,
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// How many certificates the client showed.
    pub client_certificates: usize,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// How a server introduces itself, as PEM.
pub struct ServerTls {
    pub certificate: String,
    pub key: String,
    /// If given, clients have to show a certificate that this authority signed.
    pub client_ca: Option<String>,
}

/// A certificate authority for one test.
pub struct Authority {
    pub pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        // A name of its own, or one authority would be taken for another with a bad signature.
        let name = spanledger::new_session_id();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// A certificate for this name, and its key.
    pub fn issue(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server of this name.
    pub fn server(&self, name: &str) -> ServerTls {
        let (certificate, key) = self.issue(name);
        ServerTls {
            certificate,
            key,
            client_ca: None,
        }
    }
}

pub struct OtlpServer {
    address: SocketAddr,
    secure: bool,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    more: Condvar,
    connections: AtomicUsize,
}

impl OtlpServer {
    /// Accepts everything.
    pub fn start() -> Self {
        Self::scripted([])
    }

    /// Gives these replies, one a request, and accepts everything after them.
    pub fn scripted(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::new("127.0.0.1:0".parse().unwrap(), script, None)
    }

    /// Accepts everything that comes with TLS.
    pub fn secure(tls: ServerTls) -> Self {
        Self::new("127.0.0.1:0".parse().unwrap(), [], Some(tls))
    }

    /// As [`scripted`](Self::scripted), where another server was before.
    pub fn at(address: SocketAddr, script: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(address, script, None)
    }

    fn new(
        address: SocketAddr,
        script: impl IntoIterator<Item = Reply>,
        tls: Option<ServerTls>,
    ) -> Self {
        // Bound without the runtime, so that this works within another one too.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp-server")
            .enable_all()
            .build()
            .unwrap();
        let socket = {
            let _within = runtime.enter();
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(address).unwrap();
            socket.listen(64).unwrap()
        };
        let address = socket.local_addr().unwrap();
        let state = Arc::new(State::default());
        state.script.lock().unwrap().extend(script);
        let secure = tls.is_some();
        let acceptor = tls.map(acceptor);
        runtime.spawn(accept(socket, acceptor, Arc::clone(&state)));
        Self {
            address,
            secure,
            state,
            runtime: Some(runtime),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address by number, with the scheme.
    pub fn url(&self) -> String {
        self.url_as(&self.address.ip().to_string())
    }

    /// Its address under this name.
    pub fn url_as(&self, host: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{host}:{}", self.address.port())
    }

    /// Adds to the script.
    pub fn then(&self, reply: Reply) {
        self.state.script.lock().unwrap().push_back(reply);
    }

    /// Every request so far.
    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// Blocks until so many requests have come.
    pub fn wait_for(&self, count: usize) -> Vec<Received> {
        let received = self.state.received.lock().unwrap();
        let enough = |received: &mut Vec<Received>| received.len() < count;
        let patience = Duration::from_secs(60);
        let more = &self.state.more;
        let (received, late) = more.wait_timeout_while(received, patience, enough).unwrap();
        assert!(!late.timed_out(), "{} of {count} came", received.len());
        received.clone()
    }

    /// Ends it. Every request that it ever got: nothing comes after this.
    pub fn stop(mut self) -> Vec<Received> {
        self.shut_down();
        self.received()
    }

    fn shut_down(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The tests may be in a runtime of their own, where waiting is not allowed.
            let stop = move || runtime.shutdown_timeout(Duration::from_secs(5));
            std::thread::spawn(stop).join().unwrap();
        }
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for OtlpServer {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn acceptor(tls: ServerTls) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(tls.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match tls.client_ca {
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            let ca = CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
            roots.add(ca).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config).into()
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let number = state.connections.fetch_add(1, Ordering::SeqCst);
        let acceptor = acceptor.clone();
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            stream.set_nodelay(true).unwrap();
            match acceptor {
                // Whoever doesn't trust us is gone after the handshake.
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let shown = stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
                        serve(stream, number, shown, state).await;
                    }
                }
                None => serve_plain(stream, number, state).await,
            }
        });
    }
}

async fn serve_plain(stream: TcpStream, number: usize, state: Arc<State>) {
    // What is cut off is reset, not closed.
    stream.set_zero_linger().unwrap();
    serve(stream, number, 0, state).await;
}

async fn serve<S>(stream: S, connection: usize, client_certificates: usize, state: Arc<State>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let cut = Arc::new(Notify::new());
    let service = service_fn(|request: Request<Incoming>| {
        let state = Arc::clone(&state);
        let cut = Arc::clone(&cut);
        async move {
            let (head, body) = request.into_parts();
            let received = Received {
                method: head.method.clone(),
                path: head.uri.path().to_owned(),
                headers: head.headers.clone(),
                raw: Bytes::new(),
                request: None,
                metrics: None,
                connection,
                client_certificates,
            };
            Ok::<_, Infallible>(answer(received, body, &state, &cut).await)
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let served = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = served => {}
        () = cut.notified() => {}
    }
}

async fn answer(
    mut received: Received,
    mut body: Incoming,
    state: &State,
    cut: &Notify,
) -> Response<Body> {
    let reply = state.script.lock().unwrap().pop_front();
    let (reply, enough) = match reply.unwrap_or(Reply::Ok) {
        Reply::Unread(reply) => (*reply, 0),
        Reply::ResetAfter(bytes) => (Reply::ResetAfter(bytes), bytes),
        reply => (reply, usize::MAX),
    };
    let mut raw = Vec::new();
    let mut whole = true;
    while raw.len() < enough {
        match body.frame().await {
            None => break,
            Some(Err(_)) => {
                whole = false;
                break;
            }
            Some(Ok(frame)) => raw.extend(frame.into_data().unwrap_or_default()),
        }
        if matches!(reply, Reply::SlowRead) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    received.raw = raw.into();
    let grpc = received
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/grpc"));
    let json = received.header("content-type") == Some("application/json");
    let mut response = match (grpc, &reply) {
        // tonic's server would read first, and then complain of what it read.
        (true, Reply::Grpc { .. }) if enough == 0 => status_of(&reply).into_http(),
        (true, _) => through_tonic(&mut received, reply.clone()).await,
        (false, _) => {
            if received.path.ends_with("/v1/metrics") {
                received.metrics = decode(&received, json);
            } else {
                received.request = decode(&received, json);
            }
            http_reply(&reply, json)
        }
    };
    match &reply {
        Reply::Http {
            status,
            headers,
            body,
        } => response = plain(*status, headers, body.clone()),
        Reply::Garbage => response = garbage(grpc, json),
        Reply::BreakOff(status) => response = broken_off(*status, grpc, json),
        _ => {}
    }
    if enough != usize::MAX || !whole {
        received.request = None;
        received.metrics = None;
    }
    state.received.lock().unwrap().push(received);
    state.more.notify_all();
    if enough == 0 && !grpc {
        tokio::spawn(async move { while let Some(Ok(_)) = body.frame().await {} });
    }
    match reply {
        Reply::Hang => std::future::pending().await,
        Reply::ResetAfter(_) => {
            cut.notify_one();
            std::future::pending().await
        }
        _ => response,
    }
}

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

fn status_of(reply: &Reply) -> Status {
    match reply {
        Reply::Grpc {
            code,
            message,
            details,
        } => Status::with_details(*code, message, details.clone()),
        other => panic!("{other:?} has no status"),
    }
}

async fn through_tonic(received: &mut Received, reply: Reply) -> Response<Body> {
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

/// What the body says, decompressed.
fn decode<T>(received: &Received, json: bool) -> Option<T>
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

fn http_reply(reply: &Reply, json: bool) -> Response<Body> {
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

fn plain(status: u16, headers: &[(&'static str, String)], body: Bytes) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::new(Full::new(body))).unwrap()
}

fn garbage(grpc: bool, json: bool) -> Response<Body> {
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

fn broken_off(status: u16, grpc: bool, json: bool) -> Response<Body> {
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
