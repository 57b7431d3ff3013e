//! `mirror`: sends what is owed of the trace over OTLP.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, parse_age};
use crate::Error;
use crate::mirror::{Otlp, Pass, Sent, owed};
use crate::view::text::{line, pad, pad_left, size, thousands};

/// Send what is owed of the trace to a collector, Jaeger or Tempo
///
/// Reads the trace and sends each span when it is closed, from where it stopped the last time: a
/// laptop that was offline for a week goes on with the same ids. The endpoint and everything else
/// come from the standard environment (`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, …). Spans that a
/// killed process left open are closed as interrupted first. Segments of living processes wait.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger mirror --endpoint http://127.0.0.1:4317
  spanledger mirror --session last --patience 30s
  spanledger mirror --status")]
pub(crate) struct Mirror {
    /// Only this session: its id, the beginning of it, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Where to send to, instead of what the environment says
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// How long a server that takes nothing is waited for, such as 30s; for ever by default
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    patience: Option<u64>,
    /// Send nothing; show what is owed, session by session
    #[arg(long, conflicts_with_all = ["endpoint", "patience"])]
    status: bool,
}

impl Mirror {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if self.status {
            return self.show(context);
        }
        let mut settings = Otlp::new();
        if let Some(endpoint) = &self.endpoint {
            settings = settings.endpoint(endpoint);
        }
        let to = Otlp::resolve(Some(settings), |name| std::env::var(name).ok())
            .map_err(|error| Failed::Usage(error.to_string()))?
            .ok_or_else(|| {
                Failed::Usage(
                    "no endpoint: give --endpoint or set OTEL_EXPORTER_OTLP_ENDPOINT".into(),
                )
            })?;
        let shown = to.shown();
        super::recover::quietly(context, self.session.as_deref())?;
        let mut pass = Pass::new(context.store.root(), to);
        if let Some(session) = &self.session {
            pass = pass.session(context.store.resolve(session)?);
        }
        if let Some(patience) = self.patience {
            pass = pass.patience(Duration::from_nanos(patience));
        }
        let sent = pass.run(&mut progress()).map_err(|error| match error {
            Error::Io { source, .. } => Failed::Io(source),
            error => Failed::Usage(error.to_string()),
        })?;
        if io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
        if context.json {
            context.object(&json!({
                "endpoint": shown,
                "spans": sent.spans,
                "requests": sent.requests,
                "dead": sent.dead,
                "left_out": sent.left_out,
                "stopped": sent.stopped,
            }))?;
        } else {
            let dead = match sent.dead {
                0 => String::new(),
                n => format!(", {} refused for good", thousands(n)),
            };
            context.line(&format!(
                "{} spans sent to {}{dead}",
                thousands(sent.spans),
                line(&shown)
            ))?;
        }
        context.flush()?;
        match sent.stopped {
            Some(why) => Err(Failed::Finding(format!("{shown} takes nothing: {why}"))),
            None => Ok(()),
        }
    }

    fn show(&self, context: &mut Context) -> Result<(), Failed> {
        let dirs = match &self.session {
            Some(session) => vec![context.store.resolve(session)?],
            None => context
                .store
                .list()?
                .into_iter()
                .map(|entry| entry.dir)
                .collect(),
        };
        if !context.json {
            let head = format!(
                "{} {} {} {}",
                pad("SESSION", 32),
                pad_left("OWED", 10),
                pad_left("SENT", 10),
                pad_left("DEAD", 6)
            );
            context.line(&context.style.dim(&head).clone())?;
        }
        for dir in dirs {
            let entry = context.store.glance(&dir)?;
            let owed = owed(&context.store, &dir)?;
            let id = &entry.summary.session_id;
            if context.json {
                context.object(&json!({
                    "session_id": id,
                    "owed_bytes": owed.bytes,
                    "sent_spans": owed.sent,
                    "dead_letters": owed.dead_letters,
                    "live_segments": owed.live,
                }))?;
            } else {
                context.line(&format!(
                    "{} {} {} {}",
                    pad(&line(id), 32),
                    pad_left(&size(owed.bytes), 10),
                    pad_left(&thousands(owed.sent), 10),
                    pad_left(&thousands(owed.dead_letters), 6),
                ))?;
            }
        }
        context.flush()
    }
}

/// Says on a terminal how far it is, and anywhere what it waits for.
fn progress() -> impl FnMut(&Sent, Option<&str>) {
    let terminal = io::stderr().is_terminal();
    let mut waiting = String::new();
    move |sent, wait| match wait {
        Some(why) if why != waiting => {
            let _ = writeln!(io::stderr(), "spanledger: waiting: {}", line(why));
            why.clone_into(&mut waiting);
        }
        Some(_) => {}
        None if terminal => {
            let _ = write!(io::stderr(), "\r{} spans sent", thousands(sent.spans));
        }
        None => {}
    }
}
