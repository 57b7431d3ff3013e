//! `verify`: compares a backend with the trace.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, parse_age};
use super::progress::Progress;
use spanledger::Error;
use spanledger::mirror::verify::{Backend, Finding, Report, Verify as Asked};
use spanledger::mirror::{Otlp, Pem};
use spanledger::view::Style;
use spanledger::view::text::{cut, line, pad, plural, thousands};

/// Compare the trace with what Jaeger or Tempo really holds
///
/// An OK from a server means accepted, not stored. This asks the backend for every trace of a session
/// and compares it span by span with what the mirror sends: what is missing, what is there and was
/// never sent, and every difference in parents, times, kinds, status, attributes, events and links.
/// Exits 1 if there is any. What is known to happen on the way is reported and counts only with
/// --strict: attributes that Tempo cut at 2048 bytes, equal copies of a span that was sent again, the
/// nanosecond that Jaeger gives a span without length, and content left out because it was too large.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("backend").required(true))]
#[command(after_help = "Examples:
  spanledger verify --jaeger http://127.0.0.1:16686
  spanledger verify --tempo http://127.0.0.1:3200 ses_0193 --wait 30s
  spanledger verify --tempo https://tempo.example/tempo --header 'X-Scope-OrgID: team' --all --json")]
pub(crate) struct Verify {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last", conflicts_with = "all")]
    session: String,
    /// Where Jaeger answers queries, such as http://127.0.0.1:16686
    #[arg(long, value_name = "URL", group = "backend")]
    jaeger: Option<String>,
    /// Where Tempo answers queries, such as http://127.0.0.1:3200
    #[arg(long, value_name = "URL", group = "backend")]
    tempo: Option<String>,
    /// All sessions
    #[arg(long)]
    all: bool,
    /// How long to wait for missing spans, in all, such as 30s: a collector sends in batches, and
    /// Tempo shows nothing of a trace that it is moving to a file
    #[arg(long, value_name = "AGE", value_parser = parse_age, default_value = "5s")]
    wait: u64,
    /// Count known changes on the way as differences, too
    #[arg(long)]
    strict: bool,
    /// The length at which Tempo cuts texts: its `max_attribute_bytes`, if it isn't 2048
    #[arg(long, value_name = "BYTES")]
    cut_at: Option<usize>,
    /// The directory with the mirror's progress, if it has one by --state: shows of missing spans
    /// whether they were sent or refused
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// A header for every request, `Name: value`; can be given more than once
    #[arg(long, value_name = "HEADER", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// Certificates to trust beside the machine's, as PEM; OTEL_EXPORTER_OTLP_CERTIFICATE by default
    #[arg(long, value_name = "FILE")]
    ca_certificate: Option<PathBuf>,
}

/// How many findings of a session are shown to people.
const SHOWN: usize = 40;

impl Verify {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let (backend, url) = match (&self.jaeger, &self.tempo) {
            (Some(url), _) => (Backend::Jaeger, url),
            (None, Some(url)) => (Backend::Tempo, url),
            (None, None) => return Err(Failed::Usage("give --jaeger or --tempo".into())),
        };
        let one = (!self.all).then_some(self.session.as_str());
        let dirs = context.dirs(one)?;
        let mut asked = self.connect(backend, url)?;
        asked = asked.wait(Duration::from_nanos(self.wait));
        if let Some(bytes) = self.cut_at {
            asked = asked.cut_at(bytes);
        }
        if let Some(state) = &self.state {
            asked = asked.state(state);
        }
        let mut wrong = 0;
        for dir in &dirs {
            let mut progress = Progress::new();
            let mut show = |done, all| progress.show_count(done, all, "traces");
            let compared = asked.session(dir, &mut show);
            drop(progress);
            let mut report = match compared {
                // Pruned in the meantime.
                Err(Error::Io { source, .. })
                    if self.all && source.kind() == io::ErrorKind::NotFound =>
                {
                    continue;
                }
                done => done.map_err(|error| failed(backend, error))?,
            };
            context.damages.append(&mut report.damages);
            let good = match self.strict {
                true => report.findings.is_empty(),
                false => report.is_good(),
            };
            wrong += usize::from(!good);
            context.print(
                || to_json(&report, backend, asked.shown(), good),
                |style| lines(&report, backend, style),
            )?;
        }
        Failed::unless(wrong == 0)
    }

    fn connect(&self, backend: Backend, url: &str) -> Result<Asked, Failed> {
        let mut at = Otlp::new().endpoint(url);
        for (name, value) in &self.header {
            at = at.header(name, value);
        }
        if let Some(file) = &self.ca_certificate {
            at = at.ca_certificate(Pem::File(file.clone()));
        }
        let option = format!("--{}", backend.as_str().to_ascii_lowercase());
        Asked::connect(backend, at).map_err(|error| Failed::setting(error, &option))
    }
}

fn failed(backend: Backend, error: Error) -> Failed {
    match error {
        Error::Io { source, .. } => Failed::Io(source),
        error => {
            let why = format!("{} can't be asked: {error}", backend.as_str());
            // A server's message is data.
            Failed::Usage(line(&why).into_owned())
        }
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("expected a name, a colon and a value")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn to_json(report: &Report, backend: Backend, url: &str, good: bool) -> serde_json::Value {
    let findings: Vec<_> = report.findings.iter().map(Finding::to_json).collect();
    json!({
        "session_id": report.session_id,
        "backend": backend.as_str().to_ascii_lowercase(),
        "url": url,
        "ok": good,
        "traces": report.traces,
        "spans": report.spans,
        "same": report.same,
        "left_out": report.left_out,
        "open": report.open,
        "findings": findings,
        "notes": report.notes,
    })
}

/// What the backend has of a session, in one line.
fn head(report: &Report, backend: Backend, style: &Style) -> String {
    let backend = backend.as_str();
    let mut words = vec![match report.same == report.spans {
        true if report.spans == 0 => "nothing to compare".to_owned(),
        true => format!("all in {backend} as recorded"),
        false => format!("{} in {backend} as recorded", thousands(report.same)),
    }];
    let found = [
        ("missing", "missing"),
        ("extra", "not in the trace"),
        ("copies", "more than once"),
        ("different", "differences"),
        ("cut", "texts cut"),
        ("stretched", "a nanosecond longer"),
        ("content_removed", "without content"),
    ];
    let found = found.map(|(what, text)| (report.count(what) as u64, text));
    let others = [
        (report.left_out, "never sent (not sampled)"),
        (report.open, "without an end yet"),
    ];
    let counts = found.into_iter().chain(others);
    for (count, text) in counts.filter(|(count, _)| *count > 0) {
        words.push(format!("{} {text}", thousands(count)));
    }
    let (spans, traces) = (plural(report.spans, "span"), plural(report.traces, "trace"));
    let id = line(&report.session_id);
    let name = style.bold(&format!("{id}: {spans} in {traces}"));
    format!("{name}; {}", words.join(", "))
}

fn lines(report: &Report, backend: Backend, style: &Style) -> Vec<String> {
    let mut out = vec![head(report, backend, style)];
    for found in report.findings.iter().take(SHOWN) {
        let at = found.address.as_deref().unwrap_or(&found.span_id);
        let at = at.rsplit_once('/').map_or(at, |(_, at)| at);
        let row = format!(
            "  {} {} {}",
            pad(&line(at), 8),
            pad(&line(&found.name), 28),
            line(&found.what.to_string()),
        );
        out.push(cut(&row, style.width.max(100)).into_owned());
    }
    let hidden = report.findings.len().saturating_sub(SHOWN);
    if hidden > 0 {
        out.push(style.dim(&format!("  … {hidden} more (--json has them all)")));
    }
    let notes = report.notes.iter();
    out.extend(notes.map(|note| style.dim(&format!("  {}", line(note)))));
    out
}
