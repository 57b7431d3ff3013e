//! `mirror`: sends what is owed of the trace over OTLP.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, parse_age};
use crate::Error;
use crate::ledger::time_text;
use crate::mirror::{Otlp, Owed, Pass, Resolved, Sent, owed};
use crate::reader::Watch;
use crate::session::Store;
use crate::view::text::{duration, line, pad, pad_left, size, thousands};

/// How often it is looked whether a writer was killed, which no file system tells.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Send what is owed of the trace to a collector, Jaeger or Tempo
///
/// Reads the trace and sends each span when it is closed, from where it stopped the last time: a
/// laptop that was offline for a week goes on with the same ids. Where it stopped is kept beside the
/// trace, so it has to be able to write there. The endpoint and everything else
/// come from the standard environment (`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, …). Spans that a
/// killed process left open are closed as interrupted first. It goes on until Ctrl-C, whenever a
/// process that recorded here has ended; living ones send by themselves if they have an endpoint.
///
/// What was recorded for this endpoint is sent, and what was recorded for none: naming one here is
/// to mean it. What was recorded for another endpoint is left alone, and counted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger mirror --endpoint http://127.0.0.1:4317
  spanledger mirror --once --session last --patience 30s
  spanledger mirror --status
  spanledger mirror --resend")]
pub(crate) struct Mirror {
    /// Only this session: its id, the beginning of it, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Where to send to, instead of what the environment says
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// End when nothing is owed any more
    #[arg(long)]
    once: bool,
    /// Also send what was recorded for another endpoint
    #[arg(long)]
    any_endpoint: bool,
    /// How long a server that takes nothing is waited for, and another process that sends from here,
    /// such as 30s; for ever by default
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    patience: Option<u64>,
    /// Send nothing; show what is owed, session by session
    #[arg(long, conflicts_with_all = ["endpoint", "patience", "once", "any_endpoint"])]
    status: bool,
    /// Send once more what a server refused for good, and end; what it takes now is resolved
    #[arg(long, conflicts_with_all = ["status", "once"])]
    resend: bool,
}

impl Mirror {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if self.status {
            return self.show(context);
        }
        let to = self.to()?;
        if self.once || self.resend {
            return self.pass(context, &to, true);
        }
        self.follow(context, &to)
    }

    fn to(&self) -> Result<Resolved, Failed> {
        let mut settings = Otlp::new();
        if let Some(endpoint) = &self.endpoint {
            settings = settings.endpoint(endpoint);
        }
        Otlp::resolve(Some(settings), |name| std::env::var(name).ok())
            .map_err(|error| Failed::Usage(error.to_string()))?
            .ok_or_else(|| {
                Failed::Usage(
                    "no endpoint: give --endpoint or set OTEL_EXPORTER_OTLP_ENDPOINT".into(),
                )
            })
    }

    /// Sends what is owed now. `all` also tells when that was nothing.
    fn pass(&self, context: &mut Context, to: &Resolved, all: bool) -> Result<(), Failed> {
        let mut pass = Pass::new(context.store.root(), to.clone()).any_endpoint(self.any_endpoint);
        if let Some(session) = &self.session {
            pass = pass.session(context.store.resolve(session)?);
        }
        if let Some(patience) = self.patience {
            pass = pass.patience(Duration::from_nanos(patience));
        }
        let done = if self.resend {
            pass.resend(&mut progress())
        } else {
            super::recover::quietly(context, self.session.as_deref())?;
            pass.run(&mut progress())
        };
        let sent = done.map_err(|error| match error {
            error @ Error::MirrorBusy { .. } => Failed::Finding(error.to_string()),
            error => Failed::Usage(error.to_string()),
        })?;
        if sent.requests > 0 && io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
        if all || sent.requests > 0 {
            self.say(context, &to.shown(), &sent)?;
        }
        match sent.stopped {
            Some(why) => Err(Failed::Finding(format!(
                "{} takes nothing: {why}",
                to.shown()
            ))),
            None => Ok(()),
        }
    }

    fn say(&self, context: &mut Context, to: &str, sent: &Sent) -> Result<(), Failed> {
        if context.json {
            context.object(&json!({
                "endpoint": to,
                "spans": sent.spans,
                "requests": sent.requests,
                "dead": sent.dead,
                "left_out": sent.left_out,
                "elsewhere": sent.elsewhere,
                "stopped": sent.stopped,
            }))?;
        } else {
            let mut text = format!("{} sent to {}", count(sent.spans, "span"), line(to));
            if sent.dead > 0 {
                text.push_str(&format!(", {} refused for good", thousands(sent.dead)));
            }
            if sent.elsewhere > 0 {
                let segments = count(sent.elsewhere, "segment");
                text.push_str(&format!(
                    "; {segments} recorded for another endpoint left alone (--any-endpoint)"
                ));
            }
            context.line(&text)?;
        }
        context.flush()
    }

    /// Sends whenever a writer has gone, until somebody ends it. A request that is cut short is
    /// sent again with the same bytes by whoever comes next.
    fn follow(&self, context: &mut Context, to: &Resolved) -> Result<(), Failed> {
        let mut watch = Watch::new();
        let mut said = String::new();
        // That it is at work is told at once, be there nothing to do.
        let mut all = true;
        loop {
            // Before the pass: who dies during it is seen after it.
            let living = writers(&context.store)?;
            watch.dir(&context.store.root().join("writers"));
            match self.pass(context, to, std::mem::take(&mut all)) {
                Ok(()) => {
                    said.clear();
                    wait(&context.store, &watch, &living)?;
                }
                Err(Failed::Finding(why)) => {
                    if why != said {
                        let _ = writeln!(io::stderr(), "spanledger: {}", line(&why));
                        said = why;
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
                Err(error) => return Err(error),
            }
            context.store.forget_writers();
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
                "{} {} {} {} {}",
                pad("SESSION", 32),
                pad_left("OWED", 10),
                pad_left("LAG", 8),
                pad_left("SENT", 10),
                pad_left("DEAD", 6)
            );
            context.line(&context.style.dim(&head).clone())?;
        }
        for dir in dirs {
            let entry = context.store.glance(&dir)?;
            let owed = owed(&context.store, &dir)?;
            show_one(context, &entry.summary.session_id, &owed)?;
        }
        context.flush()
    }
}

fn show_one(context: &mut Context, id: &str, owed: &Owed) -> Result<(), Failed> {
    if context.json {
        return context.object(&json!({
            "session_id": id,
            "owed_bytes": owed.bytes,
            "owed_since": owed.since.map(|since| time_text(since, 6)),
            "sent_spans": owed.sent,
            "dead_letters": owed.dead_letters,
            "last_dead": owed.last_dead.as_ref().map(|last| json!({
                "address": last.address.to_string(),
                "reason": last.reason,
            })),
            "live_segments": owed.live,
            "marked_segments": owed.marked,
        }));
    }
    let now = context.style.now;
    let lag = owed
        .since
        .map(|since| duration(now.saturating_sub(since)).to_string());
    context.line(&format!(
        "{} {} {} {} {}",
        pad(&line(id), 32),
        pad_left(&size(owed.bytes), 10),
        pad_left(lag.as_deref().unwrap_or("–"), 8),
        pad_left(&thousands(owed.sent), 10),
        pad_left(&thousands(owed.dead_letters), 6),
    ))?;
    match &owed.last_dead {
        Some(last) => context.line(&format!(
            "  refused for good, the last at {}: {}",
            last.address,
            line(&last.reason)
        )),
        None => Ok(()),
    }
}

/// The writers that live.
fn writers(store: &Store) -> Result<BTreeSet<String>, Failed> {
    store.forget_writers();
    let entries = match std::fs::read_dir(store.root().join("writers")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut living = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && store.is_alive(&name) {
            living.insert(name);
        }
    }
    Ok(living)
}

/// Until one of the writers, or one that has come since, has gone: seen by its file's going, which
/// the file system tells, or by its lock's, which nobody does.
fn wait(store: &Store, watch: &Watch, before: &BTreeSet<String>) -> Result<(), Failed> {
    let dir = store.root().join("writers");
    // One that isn't there can't be watched.
    let unwatched = !dir.is_dir();
    let mut known = before.clone();
    loop {
        let told = watch.wait(Instant::now() + LOOK_EVERY, false);
        let living = writers(store)?;
        let gone = |writer: &String| !living.contains(writer);
        if known.iter().any(gone) || unwatched && dir.is_dir() {
            return Ok(());
        }
        if let Some(told) = told {
            let names = told.paths.iter().filter_map(|path| path.file_name());
            let mut names = names.map(|name| name.to_string_lossy().into_owned());
            // It may have come and gone between two looks.
            if names.any(|name| !name.starts_with('.') && gone(&name)) {
                return Ok(());
            }
            if told.all {
                std::thread::sleep(LOOK_EVERY);
                return Ok(());
            }
        }
        known.extend(living);
    }
}

fn count(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {what}{plural}", thousands(n))
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
            let _ = write!(io::stderr(), "\r{} sent", count(sent.spans, "span"));
        }
        None => {}
    }
}
