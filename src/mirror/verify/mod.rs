//! Checks what a backend has stored against the trace.
//!
//! An OK means accepted, not stored: Tempo truncates attributes and traces silently, and a collector can
//! lose what it acknowledged. [`Verify`] fetches every trace of a session from a backend and compares it
//! with the spans that the mirror makes of the session's lines; [`compare`] does that without a network.

mod compare;
mod expected;
mod finding;
mod stored;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::ACCEPT;
use http::uri::InvalidUri;
use http::{HeaderValue, Method, StatusCode};
use prost::Message;
use serde_json::Value as Json;
use tokio::runtime::Runtime;

pub use self::compare::{Expected, compare};
use self::expected::Index;
pub use self::finding::{Finding, What};
pub use self::stored::StoredSpan;
use super::progress::cursor::ProgressDir;
use super::send::thread::runtime;
use super::settings::config::{Otlp, Protocol};
use super::settings::environment::invalid;
use super::settings::resolve::Resolved;
use super::transport::{Client, no_body};
use crate::error::Error;
use crate::trace::{Damage, hex, named_enum, setters};

/// Tempo's default `max_attribute_bytes`.
pub const TEMPO_CUTS_AT: usize = 2048;
/// Tempo's default `max_bytes_per_trace`.
const TEMPO_TRACE: usize = 5_000_000;
/// The default time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest response that is read. A trace has a few MiB.
const MAX_BODY: usize = 1024 * 1024 * 1024;
/// Between two requests for a trace that is incomplete.
const PAUSE: Duration = Duration::from_millis(200);

named_enum! {
    /// The backends that can be queried.
    #[non_exhaustive]
    pub enum Backend {
        /// Jaeger 2, by `/api/v3/traces`.
        Jaeger = "Jaeger",
        /// Grafana Tempo, by `/api/v2/traces`.
        Tempo = "Tempo",
    }
}

impl Backend {
    /// A path and a text in its response that show which backend it is.
    const fn sign(self) -> (&'static str, &'static str) {
        match self {
            Self::Jaeger => ("/api/services", "\"data\""),
            Self::Tempo => ("/api/echo", "echo"),
        }
    }

    fn path(self, trace: &str) -> String {
        match self {
            Self::Jaeger => format!("/api/v3/traces/{trace}"),
            Self::Tempo => format!("/api/v2/traces/{trace}"),
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The session's id.
    pub session_id: String,
    /// How many traces it has.
    pub traces: u64,
    /// How many spans the backend should have.
    pub spans: u64,
    /// How many of them the backend has without a difference.
    pub same: u64,
    /// Close lines that make no span: not sampled, or of an unknown mapping.
    pub left_out: u64,
    /// Spans that are still open, which are not sent yet.
    pub open: u64,
    /// The differences.
    pub findings: Vec<Finding>,
    /// Explanations of findings: messages of the backend, or known limits.
    pub notes: Vec<String>,
    /// Parts of the trace that could not be read.
    pub damages: Vec<Damage>,
}

impl Report {
    /// Whether there are only differences that are [known effects](What::is_known).
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|found| found.what.is_known())
    }

    /// The number of findings of a kind, by [`What::as_str`].
    pub fn count(&self, what: &str) -> usize {
        let found = self.findings.iter();
        found.filter(|found| found.what.as_str() == what).count()
    }
}

/// A client of a backend.
///
/// It blocks, and must be used outside of a tokio runtime.
///
/// ```no_run
/// use spanledger::mirror::{Otlp, verify::{Backend, Verify}};
/// let tempo = Verify::connect(Backend::Tempo, Otlp::new().endpoint("http://127.0.0.1:3200"))?;
/// let report = tempo.session("traces/sessions/ses_1", &mut |_, _| {})?;
/// assert!(report.is_good(), "{:?}", report.findings);
/// # Ok::<(), spanledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Verify {
    backend: Backend,
    shown: String,
    cut_at: Option<usize>,
    /// Since when, and how long, missing spans are waited for.
    started: Instant,
    max_wait: Duration,
    state: ProgressDir,
    client: Client,
    timeout: Duration,
    runtime: Runtime,
}

impl Verify {
    /// Connects to a backend and checks that it is one. The endpoint is the address for queries; headers,
    /// certificates and the timeout (a minute by default) are set as for sending. Only the certificates
    /// and the proxy are read from the environment, because the other variables may hold the credentials
    /// of a collector.
    pub fn connect(backend: Backend, at: Otlp) -> Result<Self, Error> {
        let mut to = resolve(at)?;
        // Queries don't have the path that OTLP appends.
        let base = to.uri.to_string();
        let base = base.strip_suffix("/v1/traces").unwrap_or(&base);
        to.uri = base
            .parse()
            .map_err(|error: InvalidUri| invalid("Otlp::endpoint", error))?;
        let shown = to.shown();
        let failed = |why: String| Error::Backend {
            url: shown.clone(),
            why,
        };
        let runtime = runtime().map_err(|error| failed(error.to_string()))?;
        let (path, sign) = backend.sign();
        let client = {
            let _within = runtime.enter();
            Client::new(&to, false)?
        };
        let fetched = runtime.block_on(get(&client, path, to.timeout));
        let (status, body) = fetched.map_err(&failed)?;
        if !status.is_success() || memchr::memmem::find(&body, sign.as_bytes()).is_none() {
            let name = backend.as_str();
            let why = format!("it doesn't answer as {name} would: {status} to GET {path}");
            return Err(failed(why));
        }
        Ok(Self {
            backend,
            shown,
            cut_at: (backend == Backend::Tempo).then_some(TEMPO_CUTS_AT),
            started: Instant::now(),
            max_wait: Duration::ZERO,
            state: ProgressDir::default(),
            client,
            timeout: to.timeout,
            runtime,
        })
    }

    setters! {
        /// The length at which the backend truncates texts: Tempo's `max_attribute_bytes`. By default 2048 for
        /// Tempo, and no limit for others.
        #[must_use]
        pub fn cut_at(self, bytes: usize) { self.cut_at = Some(bytes) }

        /// How long from now on missing spans are waited for, since a collector forwards spans with a delay. By
        /// default not at all.
        #[must_use]
        pub fn wait(self, max_wait: Duration) {
            (self.started, self.max_wait) = (Instant::now(), max_wait);
        }

        /// The state directory of the mirror, see [`CatchUp::state`](crate::mirror::CatchUp::state): it is used
        /// to explain missing spans.
        #[must_use]
        pub fn state(self, dir: impl Into<PathBuf>) { self.state = ProgressDir::in_dir(dir.into()) }
    }

    /// The backend's address without credentials.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Compares a session, by its directory, and reports how many traces of how many are done.
    pub fn session(
        &self,
        dir: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Report, Error> {
        let dir = dir.as_ref();
        let failed = Error::at(dir);
        if let Some(root) = dir.ancestors().nth(2) {
            self.state.check(root)?;
        }
        let mut index = Index::read(dir, &self.state).map_err(&failed)?;
        let traces = std::mem::take(&mut index.traces);
        let mut report = Report {
            session_id: index.session_id.clone(),
            traces: traces.len() as u64,
            open: index.open,
            damages: std::mem::take(&mut index.damages),
            ..Report::default()
        };
        for (done, (trace, lines)) in traces.iter().enumerate() {
            progress(done as u64, report.traces);
            let (expected, left_out) = index.expected(lines).map_err(&failed)?;
            report.left_out += left_out;
            let (findings, note) = self.trace(&report.session_id, trace, &expected)?;
            report.notes.extend(note);
            report.notes.extend(self.too_large(&expected, &findings));
            let different: HashSet<&str> = findings.iter().map(|f| f.span_id.as_str()).collect();
            let same = |e: &&Expected| !different.contains(hex(&e.span.span_id).as_str());
            report.spans += expected.len() as u64;
            report.same += expected.iter().filter(same).count() as u64;
            report.findings.extend(findings);
        }
        progress(report.traces, report.traces);
        Ok(report)
    }

    /// Compares one trace, again while spans are missing and there is time.
    fn trace(
        &self,
        session_id: &str,
        trace: &str,
        expected: &[Expected],
    ) -> Result<(Vec<Finding>, Option<String>), Error> {
        loop {
            let (stored, note) = self.fetch(trace)?;
            let findings = compare(session_id, expected, &stored, self.cut_at);
            let missing = findings
                .iter()
                .any(|f| matches!(f.what, What::Missing { .. }));
            if !missing || self.started.elapsed() + PAUSE > self.max_wait {
                return Ok((findings, note));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Explains missing spans of a trace that is too large for Tempo.
    fn too_large(&self, expected: &[Expected], findings: &[Finding]) -> Option<String> {
        let missing = |found: &&Finding| matches!(found.what, What::Missing { .. });
        let first = findings.iter().find(missing)?;
        let bytes: usize = expected.iter().map(|e| e.span.encoded_len()).sum();
        (self.backend == Backend::Tempo && bytes > TEMPO_TRACE).then(|| {
            let trace = &first.trace_id;
            let limit = format!("max_bytes_per_trace, {TEMPO_TRACE} by default");
            format!(
                "trace {trace} has {bytes} bytes; Tempo silently drops what exceeds its {limit}"
            )
        })
    }

    /// The spans that the backend has of a trace, and its message about them.
    fn fetch(&self, trace: &str) -> Result<(Vec<StoredSpan>, Option<String>), Error> {
        let failed = |why: String| Error::Backend {
            url: self.shown.clone(),
            why,
        };
        let path = self.backend.path(trace);
        let get = get(&self.client, &path, self.timeout);
        let fetched = self.runtime.block_on(get);
        let (status, body) = fetched.map_err(failed)?;
        match status {
            StatusCode::NOT_FOUND => return Ok((Vec::new(), None)),
            status if status.is_success() => {}
            status => {
                let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                return Err(failed(format!("{status} to GET {path}: {text}")));
            }
        }
        let (mut stored, mut note) = (Vec::new(), None);
        // Jaeger may answer with several documents in a row.
        for document in serde_json::Deserializer::from_slice(&body).into_iter::<Json>() {
            let document =
                document.map_err(|error| failed(format!("invalid JSON to GET {path}: {error}")))?;
            let whole = match self.backend {
                Backend::Jaeger => &document["result"],
                Backend::Tempo => &document["trace"],
            };
            stored.extend(StoredSpan::from_json(&whole["resourceSpans"]));
            let message = document["message"].as_str().filter(|text| !text.is_empty());
            let name = self.backend.as_str();
            note = note.or(message.map(|text| format!("{name} about trace {trace}: {text}")));
        }
        Ok((stored, note))
    }
}

/// The response to a GET request for a path below the server's address.
async fn get(
    client: &Client,
    path: &str,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), String> {
    let mut request = client
        .request(Method::GET, path)
        .map_err(|error| error.to_string())?;
    let json = HeaderValue::from_static("application/json");
    request.headers.insert(ACCEPT, json);
    let sent = client.send(request, no_body(), MAX_BODY);
    let received = tokio::time::timeout(timeout, sent).await;
    let received = received.map_err(|_| format!("no answer within {timeout:?}"))??;
    match received.broken {
        Some(why) => Err(why),
        None if received.body.len() == MAX_BODY => {
            Err(format!("the response has more than {MAX_BODY} bytes"))
        }
        None => Ok((received.status, received.body)),
    }
}

fn resolve(at: Otlp) -> Result<Resolved, Error> {
    let allowed = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_CERTIFICATE"
        | "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
        | "OTEL_EXPORTER_OTLP_CLIENT_KEY" => std::env::var(name).ok(),
        name if name.to_ascii_uppercase().ends_with("_PROXY") => std::env::var(name).ok(),
        "OTEL_EXPORTER_OTLP_TIMEOUT" => Some(TIMEOUT.as_millis().to_string()),
        _ => None,
    };
    let at = at.protocol(Protocol::HttpProtobuf);
    Otlp::resolve(Some(at), allowed)?
        .ok_or_else(|| invalid("Otlp::endpoint", "the address is missing"))
}
