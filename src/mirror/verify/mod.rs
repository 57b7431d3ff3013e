//! What a backend really holds, beside what the trace says.
//!
//! An OK means accepted, not stored: Tempo cuts attributes and traces and says nothing, a collector can
//! lose what it acknowledged. [`Verify`] asks a backend for every trace of a session and compares it
//! with what the mirror sends of that session's lines, by the same map; [`compare`] does that without
//! any network.

mod compare;
mod expected;
mod finding;
mod held;
mod otlp;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::StatusCode;
use prost::Message;
use serde_json::Value as Json;
use tokio::runtime::Runtime;

pub use self::compare::{Expected, compare};
use self::expected::Index;
pub use self::finding::{Finding, What};
pub use self::held::Held;
use super::config::{Otlp, Protocol, Resolved};
use super::state::State;
use super::transport::Fetch;
use crate::error::Error;
use crate::reader::Damage;

/// Tempo's `max_attribute_bytes`, unless somebody set another.
pub const TEMPO_CUTS_AT: usize = 2048;
/// Tempo's `max_bytes_per_trace`, unless somebody set another.
const TEMPO_TRACE: usize = 5_000_000;
/// How long a backend has for one answer, by default.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at a trace that isn't whole yet.
const PAUSE: Duration = Duration::from_millis(200);

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Jaeger 2, by `/api/v3/traces`.
    Jaeger,
    /// Grafana Tempo, by `/api/v2/traces`.
    Tempo,
}

impl Backend {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jaeger => "Jaeger",
            Self::Tempo => "Tempo",
        }
    }

    /// What it answers to whoever asks whether it is there: a path and what stands in the answer.
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

/// What came of comparing a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The session.
    pub session_id: String,
    /// How many traces it has.
    pub traces: u64,
    /// How many spans the backend should have.
    pub spans: u64,
    /// How many of them are there, and as they should be.
    pub same: u64,
    /// Close lines that make no span: not sampled, or of a mapping that isn't known here.
    pub left_out: u64,
    /// Spans without an end, of which nothing is sent yet.
    pub open: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What the backend said or is known to do, that explains findings.
    pub notes: Vec<String>,
    /// What in the trace could not be read.
    pub damages: Vec<Damage>,
}

impl Report {
    /// Whether the backend holds what the trace says, but for what is known to happen on the way:
    /// cuts and copies.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|found| found.what.is_known())
    }

    /// How many findings are of a kind, by [`What::as_str`].
    pub fn count(&self, what: &str) -> usize {
        let found = self.findings.iter();
        found.filter(|found| found.what.as_str() == what).count()
    }
}

/// A backend that can be asked.
///
/// It blocks, and has to be used outside of any tokio runtime.
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
    /// When it was said how long spans that aren't there are waited for, and how long.
    began: Instant,
    longest: Duration,
    state: State,
    fetch: Fetch,
    runtime: Runtime,
}

impl Verify {
    /// Connects to a backend and makes sure that it is one. The endpoint is where it answers
    /// queries; headers, certificates and the time it has for an answer (a minute by default) are
    /// set as for sending. Of the environment only the certificates count: credentials for a
    /// collector are nobody else's business.
    pub fn connect(backend: Backend, at: Otlp) -> Result<Self, Error> {
        let mut to = resolve(at)?;
        // What OTLP adds to the address of a server is not there.
        let base = to.uri.to_string();
        let base = base.strip_suffix("/v1/traces").unwrap_or(&base);
        to.uri = base
            .parse()
            .map_err(|error: http::uri::InvalidUri| Error::Otlp {
                setting: "Otlp::endpoint",
                why: error.to_string(),
            })?;
        let shown = to.shown();
        let failed = |why: String| Error::Backend {
            url: shown.clone(),
            why,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let (path, sign) = backend.sign();
        let fetch = {
            let _within = runtime.enter();
            Fetch::new(to)?
        };
        let (status, body) = runtime.block_on(fetch.get(path)).map_err(&failed)?;
        if !status.is_success() || memchr::memmem::find(&body, sign.as_bytes()).is_none() {
            let name = backend.as_str();
            let why = format!("it doesn't answer as {name} does: {status} to GET {path}");
            return Err(failed(why));
        }
        Ok(Self {
            backend,
            shown,
            cut_at: (backend == Backend::Tempo).then_some(TEMPO_CUTS_AT),
            began: Instant::now(),
            longest: Duration::ZERO,
            state: State::default(),
            fetch,
            runtime,
        })
    }

    /// Where texts are known to be cut: Tempo's `max_attribute_bytes`, by default 2048 with Tempo
    /// and nowhere else.
    #[must_use]
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.cut_at = Some(bytes);
        self
    }

    /// How long from now on spans that aren't there are waited for: a collector passes on what it has
    /// when it likes. By default not at all.
    #[must_use]
    pub fn wait(mut self, longest: Duration) -> Self {
        (self.began, self.longest) = (Instant::now(), longest);
        self
    }

    /// Where a mirror keeps how far it got if not beside the trace, see [`Pass::state`]: what is missing
    /// is said to be not sent, or refused, by that, too.
    ///
    /// [`Pass::state`]: crate::mirror::Pass::state
    #[must_use]
    pub fn state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = State::in_dir(dir.into());
        self
    }

    /// Who is asked, without credentials.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Compares a session, by its directory, and tells how many traces of how many are done.
    pub fn session(
        &self,
        dir: impl AsRef<Path>,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<Report, Error> {
        let failed = |source| Error::Io {
            path: dir.as_ref().to_owned(),
            source,
        };
        // The root has its sessions in a directory of theirs.
        if let Some(root) = dir.as_ref().ancestors().nth(2) {
            self.state.check(root)?;
        }
        let mut index = Index::read(dir.as_ref(), &self.state).map_err(failed)?;
        let traces = std::mem::take(&mut index.traces);
        let mut report = Report {
            session_id: index.session_id.clone(),
            traces: traces.len() as u64,
            open: index.open,
            damages: std::mem::take(&mut index.damages),
            ..Report::default()
        };
        for (done, (trace, places)) in traces.iter().enumerate() {
            tell(done as u64, report.traces);
            let (expected, left_out) = index.expected(places).map_err(failed)?;
            report.left_out += left_out;
            let (findings, said) = self.trace(&report.session_id, trace, &expected)?;
            report.notes.extend(said);
            report.notes.extend(self.too_large(&expected, &findings));
            report.add(&expected, findings);
        }
        tell(report.traces, report.traces);
        Ok(report)
    }

    /// One trace, looked at again for as long as spans are missing and there is time.
    fn trace(
        &self,
        session_id: &str,
        trace: &str,
        expected: &[Expected],
    ) -> Result<(Vec<Finding>, Option<String>), Error> {
        loop {
            let (held, said) = self.held(trace)?;
            let findings = compare(session_id, expected, &held, self.cut_at);
            let missing = findings
                .iter()
                .any(|f| matches!(f.what, What::Missing { .. }));
            if !missing || self.began.elapsed() + PAUSE > self.longest {
                return Ok((findings, said));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Why spans are missing, where they made a trace too large for Tempo.
    fn too_large(&self, expected: &[Expected], findings: &[Finding]) -> Option<String> {
        let missing = |found: &&Finding| matches!(found.what, What::Missing { .. });
        let first = findings.iter().find(missing)?;
        let bytes: usize = expected.iter().map(|e| e.span.encoded_len()).sum();
        (self.backend == Backend::Tempo && bytes > TEMPO_TRACE).then(|| {
            format!(
                "trace {} has {bytes} bytes; what makes a trace larger than {TEMPO_TRACE} is \
                 dropped by Tempo, with an OK, unless its max_bytes_per_trace says otherwise",
                first.trace_id
            )
        })
    }

    /// The spans that the backend has of a trace, and what it said beside.
    fn held(&self, trace: &str) -> Result<(Vec<Held>, Option<String>), Error> {
        let failed = |why: String| Error::Backend {
            url: self.shown.clone(),
            why,
        };
        let path = self.backend.path(trace);
        let fetched = self.runtime.block_on(self.fetch.get(&path));
        let (status, body) = fetched.map_err(failed)?;
        match status {
            StatusCode::NOT_FOUND => return Ok((Vec::new(), None)),
            status if status.is_success() => {}
            status => {
                let said: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                return Err(failed(format!("{status} to GET {path}: {said}")));
            }
        }
        let (mut held, mut said) = (Vec::new(), None);
        // Jaeger may answer in several documents, one behind the other.
        for document in serde_json::Deserializer::from_slice(&body).into_iter::<Json>() {
            let document =
                document.map_err(|error| failed(format!("no JSON to GET {path}: {error}")))?;
            let whole = match self.backend {
                Backend::Jaeger => &document["result"],
                Backend::Tempo => &document["trace"],
            };
            held.extend(Held::from_json(&whole["resourceSpans"]));
            let message = document["message"].as_str().filter(|text| !text.is_empty());
            let name = self.backend.as_str();
            said = said.or(message.map(|text| format!("{name} says of trace {trace}: {text}")));
        }
        Ok((held, said))
    }
}

impl Report {
    fn add(&mut self, expected: &[Expected], findings: Vec<Finding>) {
        let told: HashSet<&str> = findings.iter().map(|f| f.span_id.as_str()).collect();
        let same = |e: &&Expected| !told.contains(compare::hex(&e.span.span_id).as_str());
        self.spans += expected.len() as u64;
        self.same += expected.iter().filter(same).count() as u64;
        self.findings.extend(findings);
    }
}

fn resolve(at: Otlp) -> Result<Resolved, Error> {
    let trusted = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_CERTIFICATE"
        | "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
        | "OTEL_EXPORTER_OTLP_CLIENT_KEY" => std::env::var(name).ok(),
        "OTEL_EXPORTER_OTLP_TIMEOUT" => Some(TIMEOUT.as_millis().to_string()),
        _ => None,
    };
    let at = at.protocol(Protocol::HttpProtobuf);
    Otlp::resolve(Some(at), trusted)?.ok_or_else(|| Error::Otlp {
        setting: "Otlp::endpoint",
        why: "nobody said where to ask".to_owned(),
    })
}
