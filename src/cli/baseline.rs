//! `baseline` and `assert`: accepted sessions, and whether another one is as good.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::context::{Context, Failed, parse_age, quoted};
use spanledger::inspect::baseline::{Check, CheckKind, CheckLimits, Measures, check};
use spanledger::inspect::summary::Ending;
use spanledger::view;
use spanledger::view::text::plural;

/// Write what was measured of accepted sessions, for `assert`
///
/// The file is JSON: of each session its model calls, tool calls, tokens, cost, duration, tools in order, loops, errors,
/// and how it ended. It has no messages, arguments or results.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  spanledger baseline ses_a ses_b -o baseline.json && spanledger assert last --baseline baseline.json"
)]
pub(crate) struct Baseline {
    /// Sessions: an id, a prefix of it, a directory, or `last`
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Where to write it; stdout by default
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn measure(context: &mut Context, session: &str) -> Result<Measures, Failed> {
    let dir = context.resolve(session)?;
    let (measures, damages, unreadable) = Measures::read(&context.store, &dir)?;
    context.damages.extend(damages);
    context.unreadable.extend(unreadable);
    Ok(measures)
}

impl Baseline {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let mut baseline = spanledger::inspect::baseline::Baseline::default();
        for session in &self.sessions {
            baseline.sessions.push(measure(context, session)?);
        }
        let document = baseline.to_json();
        let Some(path) = &self.output else {
            return context.document(&document);
        };
        let name = path.display();
        std::fs::write(path, format!("{document:#}\n"))
            .map_err(|error| Failed::Usage(format!("can't write the baseline {name}: {error}")))?;
        let sessions = plural(baseline.sessions.len() as u64, "session");
        let path = path.to_string_lossy();
        context.print(
            || json!({"path": path, "sessions": baseline.sessions.len()}),
            |_| vec![format!("{sessions} in {}", quoted(&path))],
        )
    }
}

/// Check a session against a baseline, or against limits
///
/// With --baseline, a session may have at most as many steps, calls, tokens and dollars, and take as long, as the most
/// of the baseline's sessions, and a quarter more (--tolerance); no more loops and errors; no new tools; and it must end as
/// one of them did. A limit that is given replaces that of the baseline. Subagents are counted to their session.
///
/// Divergence is checked only with --max-divergence: the least number of tool calls to insert, remove or replace to
/// make the session's sequence of tools that of the nearest session of the baseline, by the length of the longer one.
///
/// A cost that is not wholly known fails its check. Exits with 1 if a check fails.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger assert last --baseline baseline.json --max-divergence 0.3\n  spanledger assert last --max-cost 0.50 --max-errors 0 --status completed --format junit > report.xml"
)]
pub(crate) struct Assert {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// The file that `baseline` wrote
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// How much more than the baseline is accepted, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 25.0)]
    tolerance: f64,
    /// At most so many model calls
    #[arg(long, value_name = "N")]
    max_steps: Option<u64>,
    /// At most so many tool calls
    #[arg(long, value_name = "N")]
    max_calls: Option<u64>,
    /// At most so many input and output tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// At most so many US dollars
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// At most so long, such as 90s or 10m
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    max_duration: Option<u64>,
    /// At most so many loop warnings
    #[arg(long, value_name = "N")]
    max_loops: Option<u64>,
    /// At most so many failed model and tool calls
    #[arg(long, value_name = "N")]
    max_errors: Option<u64>,
    /// How it must end: completed, limit, error, loop, denied, interrupted
    #[arg(long, value_name = "CLASS")]
    status: Option<Ending>,
    /// How far its tool calls may be from the baseline's, from 0 to 1
    #[arg(long, value_name = "PART", requires = "baseline", value_parser = parse_part)]
    max_divergence: Option<f64>,
    /// Leave out checks: steps, calls, tokens, cost, duration, new-tools, loops, errors, status
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    ignore: Vec<CheckKind>,
    /// How to print the result; --json is the same as json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
    Junit,
}

impl Assert {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let read = spanledger::inspect::baseline::Baseline::read;
        let baseline = self.baseline.as_deref().map(read).transpose();
        let baseline = baseline.map_err(|error| Failed::Usage(error.to_string()))?;
        let measures = measure(context, &self.session)?;
        let checks = check(&measures, baseline.as_ref(), &self.limits());
        if checks.is_empty() {
            let why = "nothing to check: give --baseline, or a limit such as --max-errors 0";
            return Err(Failed::Usage(why.into()));
        }
        self.print(context, &measures, &checks)?;
        Failed::unless(checks.iter().all(|check| check.passed))
    }

    fn limits(&self) -> CheckLimits {
        CheckLimits {
            steps: self.max_steps,
            calls: self.max_calls,
            tokens: self.max_tokens,
            cost_usd: self.max_cost,
            duration_ms: self.max_duration.map(|ns| ns as f64 / 1e6),
            loops: self.max_loops,
            errors: self.max_errors,
            status: self.status,
            divergence: self.max_divergence,
            tolerance: self.tolerance / 100.0,
            ignore: self.ignore.clone(),
        }
    }

    fn print(
        &self,
        context: &mut Context,
        measures: &Measures,
        checks: &[Check],
    ) -> Result<(), Failed> {
        let id = &measures.session_id;
        if context.json || self.format == Format::Json {
            return context.document(&json!({
                "session_id": id,
                "passed": checks.iter().all(|check| check.passed),
                "checks": checks.iter().map(Check::to_json).collect::<Vec<_>>(),
                "measures": measures.to_json(),
            }));
        }
        let lines = match self.format {
            Format::Junit => view::junit(id, checks),
            _ => view::checks_of(id, checks, &context.style),
        };
        context.lines(&lines)
    }
}

fn parse_part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "write a number from 0 to 1".to_owned())
}
