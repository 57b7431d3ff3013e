//! `doctor`: why nothing is recorded or sent, and what to do.

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, resolve_endpoint};
use spanledger::mirror::{Verdict, backlog_in, probe};
use spanledger::session::{CheckHealth, Diagnosis, Store, diagnose_environment, diagnose_root};
use spanledger::view::Style;
use spanledger::view::text::{line, pad, plural, size};

/// Check whether this machine can record and send: the root, the environment, the endpoint
///
/// Run it as the agent's user, with the agent's environment. Checks that the root is writable and private,
/// which processes record to it, disk space and the clock; variables that turn recording or export off
/// (SPANLEDGER_DISABLED, RUST_LOG, OTEL_SDK_DISABLED); and, if an endpoint is set, what it answers to a
/// request without spans. Prints one line a check, and what to do.
///
/// Exits 1 if something is wrong, such as a root that other users can write. A warning alone exits 0.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger doctor\n  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 spanledger doctor\n  spanledger doctor --json | jq 'select(.health != \"ok\")'"
)]
pub(crate) struct Doctor {
    /// The endpoint to check, instead of the environment's
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

/// The advice for an endpoint that does not accept exports.
const CHECK_ENDPOINT: &str = "check the address, OTEL_EXPORTER_OTLP_PROTOCOL (grpc or http/protobuf), the headers \
                              and whether the server runs";

impl Doctor {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let mut checks = diagnose_root(&context.store, context.style.now);
        let variables = std::env::vars_os().map(|(name, value)| {
            let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
            (text(name), text(value))
        });
        checks.extend(diagnose_environment(&variables.collect::<Vec<_>>()));
        checks.push(self.endpoint(&context.store));
        for check in &checks {
            context.print(|| to_json(check), |style| lines(check, style))?;
        }
        context.flush()?;
        let wrong = checks
            .iter()
            .filter(|check| check.health == CheckHealth::Wrong);
        match wrong.count() as u64 {
            0 => Ok(()),
            n => Err(Failed::Finding(format!("{} failed", plural(n, "check")))),
        }
    }

    fn endpoint(&self, store: &Store) -> Diagnosis {
        let to = match resolve_endpoint(self.endpoint.as_ref()) {
            Ok(Some(to)) => to,
            Ok(None) => return no_endpoint(store),
            Err(error) => {
                let advice = "correct the OTEL_EXPORTER_OTLP_* variables";
                return Diagnosis::wrong("endpoint", error.to_string(), advice);
            }
        };
        let shown = to.shown();
        let why = match probe(&to) {
            Ok(Verdict::Accepted { .. }) => {
                return Diagnosis::ok("endpoint", format!("{shown} accepts exports"));
            }
            Ok(
                Verdict::Retry { why, .. }
                | Verdict::Wait { why }
                | Verdict::Split { why }
                | Verdict::Dead { why },
            ) => why,
            Err(error) => error.to_string(),
        };
        Diagnosis::wrong("endpoint", format!("{shown}: {why}"), CHECK_ENDPOINT)
    }
}

/// No endpoint is set here. An agent may have had one.
fn no_endpoint(store: &Store) -> Diagnosis {
    let unsent = backlog_in(store).unwrap_or_default();
    let endpoints: Vec<_> = unsent.endpoints.iter().map(String::as_str).collect();
    if unsent.bytes == 0 || endpoints.is_empty() {
        return Diagnosis::ok("endpoint", "none is set: nothing is sent");
    }
    let (bytes, endpoints) = (size(unsent.bytes), endpoints.join(", "));
    let found = format!("none is set here; {bytes} recorded for {endpoints} are not sent yet");
    let advice = "run this with the agent's environment, or with --endpoint, to check it; \
                  `spanledger mirror --status` shows how to send it";
    Diagnosis::warning("endpoint", found, advice)
}

fn to_json(check: &Diagnosis) -> Value {
    json!({
        "check": check.check,
        "health": check.health.as_str(),
        "found": check.found,
        "advice": check.advice,
    })
}

fn lines(check: &Diagnosis, style: &Style) -> Vec<String> {
    let health = pad(check.health.as_str(), 8);
    let health = match check.health {
        CheckHealth::Ok => style.green(&health),
        CheckHealth::Warning => style.yellow(&health),
        CheckHealth::Wrong => style.red(&health),
    };
    let (name, found) = (pad(check.check, 12), line(&check.found));
    let mut out = vec![format!("{health} {name} {found}")];
    let advice = check.advice.iter();
    out.extend(advice.map(|advice| format!("{}{}", " ".repeat(22), line(advice))));
    out
}
