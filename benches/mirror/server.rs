//! An OTLP server in a process of its own that counts spans and does nothing else with them.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

/// What arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrived {
    pub spans: u64,
    pub requests: u64,
    /// When the last request was whole, on the clock that all processes share.
    pub last_ns: u64,
}

/// A counting server, from outside.
pub struct Server {
    child: Child,
    port: u16,
    said: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// On this port, or on any.
    pub fn start(port: Option<u16>) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["serve", &port.unwrap_or(0).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("its port");
        let port = line.trim().parse().expect("a port");
        Self { child, port, said }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it: what has arrived.
    pub fn stop(mut self) -> Arrived {
        drop(self.child.stdin.take());
        let mut counts = String::new();
        self.said.read_to_string(&mut counts).expect("its counts");
        let _ = self.child.wait();
        let counts: Value = serde_json::from_str(&counts).expect("its counts as JSON");
        let count = |name: &str| counts[name].as_u64().expect("a count");
        Arrived {
            spans: count("spans"),
            requests: count("requests"),
            last_ns: count("last_ns"),
        }
    }
}

/// A port on which nobody listens.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its number").port()
}

/// The server itself. It ends with its input, and then says what has arrived.
pub fn serve(args: &[String]) {
    let port: u16 = args[0].parse().expect("a port");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let counts = Arc::new(Counts::default());
    let theirs = Arc::clone(&counts);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let value = json!({
            "spans": theirs.spans.load(Ordering::SeqCst),
            "requests": theirs.requests.load(Ordering::SeqCst),
            "last_ns": theirs.last_ns.load(Ordering::SeqCst),
        });
        println!("{value}");
        std::process::exit(0);
    });
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.expect("the port");
        println!("{}", listener.local_addr().expect("its number").port());
        std::io::stdout().flush().expect("somebody who listens");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.set_nodelay(true);
            let counts = Arc::clone(&counts);
            let answers = service_fn(move |request| answer(request, Arc::clone(&counts)));
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), answers));
        }
    });
}

#[derive(Default)]
struct Counts {
    spans: AtomicU64,
    requests: AtomicU64,
    last_ns: AtomicU64,
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    counts: Arc<Counts>,
) -> Result<Response<Body>, Infallible> {
    let mut body = request.into_body();
    let mut message = Vec::with_capacity(1 << 20);
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            message.extend_from_slice(data);
        }
    }
    // gRPC puts a flag and a length before a message.
    let spans = spans_in(message.get(5..).unwrap_or_default());
    counts.spans.fetch_add(spans, Ordering::SeqCst);
    counts.requests.fetch_add(1, Ordering::SeqCst);
    counts.last_ns.store(now_ns(), Ordering::SeqCst);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    // An empty answer, all accepted.
    let body = Full::new(Bytes::from_static(&[0; 5]));
    let body = body
        .with_trailers(async move { Some(Ok(trailers)) })
        .boxed();
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body).expect("an answer"))
}

/// How many spans a request has: its fields are walked by their heads.
fn spans_in(request: &[u8]) -> u64 {
    let resource_spans = fields(request, 1);
    let scope_spans = resource_spans.flat_map(|message| fields(message, 2));
    scope_spans
        .map(|message| fields(message, 2).count() as u64)
        .sum()
}

/// The messages that are field `number` of a message.
fn fields(mut message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let tag = varint(&mut message)?;
            let length = match tag & 7 {
                0 => {
                    varint(&mut message)?;
                    0
                }
                1 => 8,
                2 => varint(&mut message)? as usize,
                _ => 4,
            };
            let (field, rest) = message.split_at_checked(length)?;
            message = rest;
            if tag == number << 3 | 2 {
                return Some(field);
            }
        }
    })
}

fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}

/// The clock that all processes share.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
