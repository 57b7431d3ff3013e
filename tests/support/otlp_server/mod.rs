//! An OTLP server that answers from a script: what a real one can't be made to do.
//!
//! It speaks gRPC and HTTP on one port, plain or with TLS, in threads of its own, and keeps every
//! request it got, as bytes and decoded. gRPC requests go through tonic's own server code.

mod answers;
mod tls;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;
use tonic::Code;
use tonic::body::Body;

use answers::{broken_off, decode, garbage, http_reply, plain, status_of, through_tonic};
#[allow(unused_imports)]
pub use tls::{Authority, ServerTls};

/// What the server does with one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// All accepted.
    Ok,
    /// All but so many spans accepted.
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
    /// Reads the request and never answers.
    Hang,
    /// Reads a little each time that [`OtlpServer::read_more`] lets it, then accepts.
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
    /// The decoded request; `None` if it is incomplete or invalid.
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

pub struct OtlpServer {
    address: SocketAddr,
    secure: bool,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

struct State {
    script: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    more: Condvar,
    connections: AtomicUsize,
    /// How often slow reads may go on.
    reads: Semaphore,
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
            bound(address)
        };
        let address = socket.local_addr().unwrap();
        let state = Arc::new(State {
            script: Mutex::default(),
            received: Mutex::default(),
            more: Condvar::new(),
            connections: AtomicUsize::new(0),
            reads: Semaphore::new(0),
        });
        state.script.lock().unwrap().extend(script);
        let secure = tls.is_some();
        let acceptor = tls.map(tls::acceptor);
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

    /// Lets a slow read go on by a frame, and returns when it has.
    pub async fn read_more(&self) {
        self.state.reads.add_permits(1);
        while self.state.reads.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Stops it and returns every request that it received.
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

/// Listens at an address. Where a server was before it may be taken for a moment: a process that
/// another test starts meanwhile has all that this one had open, until it runs its own program.
fn bound(address: SocketAddr) -> TcpListener {
    let started = std::time::Instant::now();
    loop {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        match socket.bind(address).and_then(|()| socket.listen(64)) {
            Ok(listener) => return listener,
            Err(error) => {
                let taken = error.kind() == std::io::ErrorKind::AddrInUse;
                let soon = started.elapsed() < Duration::from_secs(10);
                assert!(taken && soon, "{address}: {error}");
                std::thread::yield_now();
            }
        }
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let number = state.connections.fetch_add(1, Ordering::SeqCst);
        let acceptor = acceptor.clone();
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            stream.set_nodelay(true).unwrap();
            match acceptor {
                // A client that doesn't trust us closes the connection after the handshake.
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
        if matches!(reply, Reply::SlowRead) {
            state.reads.acquire().await.unwrap().forget();
        }
        match body.frame().await {
            None => break,
            Some(Err(_)) => {
                whole = false;
                break;
            }
            Some(Ok(frame)) => raw.extend(frame.into_data().unwrap_or_default()),
        }
    }
    received.raw = raw.into();
    let grpc = received
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/grpc"));
    let json = received.header("content-type") == Some("application/json");
    let mut response = match (grpc, &reply) {
        // tonic's server would read first, and then report an error about what it read.
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
