//! The real collector, Jaeger and Tempo, run with the files that `docs/sending.md` names.
//!
//! Each is found by an environment variable (`SPANLEDGER_OTELCOL`, `SPANLEDGER_JAEGER`,
//! `SPANLEDGER_TEMPO`, as `.ci/install` prints them) or in the PATH. Where one isn't there, that is
//! said loudly, and there is nothing to test with:
//!
//! ```ignore
//! let Some(jaeger) = Jaeger::shared() else { return };
//! ```
//!
//! One of each is shared by the tests of a binary: traces have ids of their own. Whatever was started
//! here is killed when it is dropped, and when this process ends, however it ends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use super::held::Held;
use super::skipped::skipped;

/// How `docs/sending.md` starts them, from the top of the repository.
pub const COMMANDS: [&str; 3] = [
    "jaeger --config docs/jaeger.yaml",
    "tempo -config.expand-env=true -config.file=docs/tempo.yaml",
    "otelcol-contrib --config otel-collector.yaml",
];

/// Far longer than anything here takes: after this time, it never comes.
pub const LONG: Duration = Duration::from_secs(120);
/// Between two requests to a program that has to be polled over HTTP.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until there is an answer. The panic names `what` if none comes.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    found(look).unwrap_or_else(|| panic!("waited in vain for {what}"))
}

/// Polls until there is an answer; `None` if that takes too long.
fn found<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + LONG;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// A command with its program where it is: what the variable names, or the first of that name in the
/// PATH.
fn find(command: &str, variable: &str) -> Option<Vec<String>> {
    let mut words = command.split(' ').map(str::to_owned);
    let program = words.next()?;
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || std::env::split_paths(&path).map(|dir| dir.join(&program));
    let found = match named {
        Some(named) => Some(named).filter(|path| path.is_file()),
        None => in_path().find(|path| path.is_file()),
    };
    if found.is_none() {
        skipped(&format!(
            "{program} is not here: {variable} doesn't name it (.ci/install does)"
        ));
    }
    let found = found?.to_str()?.to_owned();
    Some([found].into_iter().chain(words).collect())
}

/// Free ports. They are below the range of outgoing connections:
/// a server that is killed and started again finds its own still free.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut held = Vec::new();
    while held.len() < N {
        let port = fastrand::u16(10_240..30_240);
        held.extend(TcpListener::bind(("127.0.0.1", port)));
    }
    let ports = held.iter().map(|held| held.local_addr().unwrap().port());
    ports.collect::<Vec<_>>().try_into().unwrap()
}

/// A program that was started, in a process group of its own.
struct Program {
    name: &'static str,
    command: Vec<String>,
    environment: HashMap<&'static str, String>,
    child: Child,
    dir: TempDir,
    /// Where to ask whether it is ready.
    ready: String,
}

/// Closing its standard input removes its directory and kills the group: a test that is itself
/// killed leaves nothing behind.
const WATCHED: &str =
    r#"exec 3<&0; (read _ <&3; rm -rf "$0"; kill -9 0) & exec "$@" 3<&- </dev/null"#;

impl Program {
    /// Starts it and waits until it is ready. `give` makes of free ports what it is started with;
    /// it is called again if another process took one of them first.
    fn start<const N: usize>(
        name: &'static str,
        command: Vec<String>,
        give: impl Fn([u16; N], &Path) -> (HashMap<&'static str, String>, String),
    ) -> (Self, [u16; N]) {
        for attempt in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let ports = free_ports();
            let (environment, ready) = give(ports, dir.path());
            let child = spawn(&command, &environment, dir.path());
            let mut program = Self {
                name,
                command: command.clone(),
                environment,
                child,
                dir,
                ready,
            };
            match program.wait() {
                Ok(()) => return (program, ports),
                Err(log) => assert!(attempt < 5, "{name} doesn't start:\n{log}"),
            }
        }
        unreachable!()
    }

    /// Waits until it is ready; its log, if it ended instead.
    fn wait(&mut self) -> Result<(), String> {
        let ready = found(|| match get(&self.ready) {
            Some(_) => Some(Ok(())),
            None => self.child.try_wait().unwrap().map(|_| Err(())),
        });
        match ready {
            Some(ready) => ready.map_err(|()| self.log()),
            None => panic!("{} is never ready:\n{}", self.name, self.log()),
        }
    }

    /// The end of its log.
    fn log(&self) -> String {
        let log = std::fs::read(self.dir.path().join("log")).unwrap_or_default();
        let from = log.len().saturating_sub(8 * 1024);
        String::from_utf8_lossy(&log[from..]).into_owned()
    }

    /// `kill -9`, of all that it started.
    fn kill(&mut self) {
        // SAFETY: a plain system call; the group is the child's own, made when it was spawned.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }

    /// Starts it again after [`kill`](Self::kill): the same files, the same ports.
    fn again(&mut self) {
        self.child = spawn(&self.command, &self.environment, self.dir.path());
        if let Err(log) = self.wait() {
            panic!("{} doesn't start again:\n{log}", self.name);
        }
    }
}

fn spawn(command: &[String], environment: &HashMap<&str, String>, dir: &Path) -> Child {
    let mut log = File::options();
    let log = log.create(true).append(true).open(dir.join("log")).unwrap();
    Command::new("sh")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-c", WATCHED])
        .arg(dir)
        .args(command)
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .process_group(0)
        .spawn()
        .unwrap()
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("-- the end of what {} said:\n{}", self.name, self.log());
        }
    }
}

/// The body of a 200, by a client that shares no code with ours.
pub fn get(url: &str) -> Option<Vec<u8>> {
    match request("GET", url) {
        Some((200, body)) => Some(body),
        _ => None,
    }
}

/// One request without a body; `None` if there is no answer.
pub fn request(method: &str, url: &str) -> Option<(u16, Vec<u8>)> {
    let (host, path) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let address: SocketAddr = host.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, LONG).ok()?;
    stream.set_read_timeout(Some(LONG)).unwrap();
    // By 1.0 a body is as long as the connection.
    write!(stream, "{method} /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_off(end + 4)))
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Jaeger, with `docs/jaeger.yaml`.
pub struct Jaeger {
    program: Program,
    /// Where to ask: what `verify --jaeger` is given.
    pub url: String,
    /// Where OTLP goes, by gRPC and by HTTP.
    pub grpc: String,
    pub http: String,
}

impl Jaeger {
    /// The one of this process.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Jaeger>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    pub fn start() -> Option<Self> {
        let command = find(COMMANDS[0], "SPANLEDGER_JAEGER")?;
        let (program, [query, _, grpc, http]) =
            Program::start("jaeger", command, |[query, internal, grpc, http], _| {
                let environment = HashMap::from([
                    ("JAEGER_QUERY", local(query)),
                    ("JAEGER_QUERY_GRPC", local(internal)),
                    ("JAEGER_OTLP_GRPC", local(grpc)),
                    ("JAEGER_OTLP_HTTP", local(http)),
                ]);
                let ready = format!("http://{}/api/services", local(query));
                (environment, ready)
            });
        Some(Self {
            program,
            url: format!("http://{}", local(query)),
            grpc: format!("http://{}", local(grpc)),
            http: format!("http://{}", local(http)),
        })
    }

    /// The spans it holds of a trace; each copy that it shows.
    pub fn spans(&self, trace: &str) -> Vec<Held> {
        let found = get(&format!("{}/api/v3/traces/{trace}", self.url));
        let documents = found.iter().flat_map(|body| {
            serde_json::Deserializer::from_slice(body)
                .into_iter::<Value>()
                .map(Result::unwrap)
        });
        documents
            .flat_map(|document| Held::all(&document["result"]["resourceSpans"]))
            .collect()
    }

    /// The spans of a trace, when there are this many of them.
    #[track_caller]
    pub fn whole(&self, trace: &str, spans: usize) -> Vec<Held> {
        until("the trace in Jaeger", || {
            Some(self.spans(trace)).filter(|held| held.len() >= spans)
        })
    }

    /// What its search page would find.
    pub fn search(&self, service: &str) -> Value {
        let found = get(&format!("{}/api/traces?service={service}", self.url)).unwrap();
        serde_json::from_slice(&found).unwrap()
    }
}

/// Tempo, with `docs/tempo.yaml`.
pub struct Tempo {
    program: Program,
    /// Where to ask: what `verify --tempo` is given.
    pub url: String,
    /// Where OTLP goes, by gRPC and by HTTP.
    pub grpc: String,
    pub http: String,
}

impl Tempo {
    /// The one of this process.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Tempo>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    pub fn start() -> Option<Self> {
        let mut command = find(COMMANDS[1], "SPANLEDGER_TEMPO")?;
        // What it was sent goes from memory to files, and from there into a search, without the
        // minutes that this takes by default.
        let quick = [
            "-ingester.trace-idle-period=1s",
            "-storage.trace.blocklist_poll=1s",
        ];
        command.extend(quick.map(str::to_owned));
        let (program, [query, _, grpc, http]) =
            Program::start("tempo", command, |[query, internal, grpc, http], dir| {
                let environment = HashMap::from([
                    ("TEMPO_HTTP_PORT", query.to_string()),
                    ("TEMPO_GRPC_PORT", internal.to_string()),
                    ("TEMPO_OTLP_GRPC", local(grpc)),
                    ("TEMPO_OTLP_HTTP", local(http)),
                    // Any.
                    ("TEMPO_MEMBERLIST_PORT", "0".into()),
                    ("TEMPO_DIR", dir.to_str().unwrap().into()),
                ]);
                let ready = format!("http://{}/ready", local(query));
                (environment, ready)
            });
        Some(Self {
            program,
            url: format!("http://{}", local(query)),
            grpc: format!("http://{}", local(grpc)),
            http: format!("http://{}", local(http)),
        })
    }

    /// The spans it holds of a trace.
    pub fn spans(&self, trace: &str) -> Vec<Held> {
        let Some(found) = get(&format!("{}/api/v2/traces/{trace}", self.url)) else {
            return Vec::new();
        };
        let found: Value = serde_json::from_slice(&found).unwrap();
        Held::all(&found["trace"]["resourceSpans"])
    }

    /// The spans of a trace, when there are this many of them. Tempo shows nothing of a trace for a
    /// moment while that goes from memory to a file.
    #[track_caller]
    pub fn whole(&self, trace: &str, spans: usize) -> Vec<Held> {
        until("the trace in Tempo", || {
            Some(self.spans(trace)).filter(|held| held.len() >= spans)
        })
    }

    /// The ids of the traces that a search finds between two moments, in seconds. `query` is TraceQL.
    pub fn search(&self, query: &str, from: u64, to: u64) -> Vec<String> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = &self.url;
        let found = get(&format!(
            "{url}/api/search?q={encoded}&start={from}&end={to}&limit=1000"
        ));
        let found: Value = serde_json::from_slice(&found.unwrap()).unwrap();
        let traces = found["traces"].as_array().into_iter().flatten();
        // It leaves the zeros at the front of an id away.
        traces
            .map(|trace| format!("{:0>32}", trace["traceID"].as_str().unwrap()))
            .collect()
    }

    /// Has it write what it holds in memory to files, as it does by itself in time.
    pub fn flush(&self) {
        let answer = request("POST", &format!("{}/flush", self.url)).unwrap();
        assert!(answer.0 < 300, "{answer:?}");
    }
}

/// The collector, with `otel-collector.yaml`.
pub struct Collector {
    program: Program,
    /// Where OTLP goes, by gRPC and by HTTP.
    pub grpc: String,
    pub http: String,
    /// What `span_metrics` counts.
    pub metrics: String,
}

impl Collector {
    /// The one of this process, in front of the shared Jaeger and Tempo.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Collector>> = OnceLock::new();
        let start = || Self::start(Jaeger::shared()?, Tempo::shared()?);
        SHARED.get_or_init(start).as_ref()
    }

    pub fn start(jaeger: &Jaeger, tempo: &Tempo) -> Option<Self> {
        let of = |url: &str| url.strip_prefix("http://").unwrap().to_owned();
        Self::in_front_of(&of(&jaeger.grpc), &of(&tempo.http))
    }

    /// Without backends behind it, for metrics that it serves itself.
    pub fn alone() -> Option<Self> {
        let [jaeger, tempo] = free_ports().map(local);
        Self::in_front_of(&jaeger, &tempo)
    }

    fn in_front_of(jaeger: &str, tempo: &str) -> Option<Self> {
        let command = find(COMMANDS[2], "SPANLEDGER_OTELCOL")?;
        let (program, [grpc, http, _, metrics, _]) = Program::start(
            "otelcol",
            command,
            |[grpc, http, health, metrics, telemetry], dir| {
                let environment = HashMap::from([
                    ("OTELCOL_GRPC", local(grpc)),
                    ("OTELCOL_HTTP", local(http)),
                    ("OTELCOL_HEALTH", local(health)),
                    ("OTELCOL_SPAN_METRICS", local(metrics)),
                    ("OTELCOL_SPAN_METRICS_EVERY", "1s".into()),
                    ("OTELCOL_TELEMETRY_PORT", telemetry.to_string()),
                    (
                        "OTELCOL_STORAGE",
                        dir.join("queue").to_str().unwrap().into(),
                    ),
                    ("JAEGER_OTLP_GRPC", jaeger.to_owned()),
                    ("TEMPO_OTLP_HTTP", tempo.to_owned()),
                ]);
                (environment, format!("http://{}/", local(health)))
            },
        );
        Some(Self {
            program,
            grpc: format!("http://{}", local(grpc)),
            http: format!("http://{}", local(http)),
            metrics: format!("http://{}/metrics", local(metrics)),
        })
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.program.kill();
    }

    /// Starts it again, on the same queue and the same ports.
    pub fn again(&mut self) {
        self.program.again();
    }
}
