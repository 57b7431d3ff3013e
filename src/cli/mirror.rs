//! `mirror`: sends what is owed of the trace over OTLP.

mod follow;

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, parse_age};
use super::interrupt;
use super::recover;
use crate::Error;
use crate::ledger::time_text;
use crate::mirror::{Otlp, Owed, Pass, Resolved, Sent, owed, owed_with_state};
use crate::view::text::{cut_id, duration, line, pad, pad_left, plural, size, thousands};
use follow::{Follow, LOOK_EVERY, Next};

/// Send what is owed of the trace to a collector, Jaeger or Tempo
///
/// Reads the trace and sends each span when it is closed, from where it stopped the last time: a
/// laptop that was offline for a week goes on with the same ids. The endpoint and everything else
/// come from the standard environment (`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, …).
///
/// It goes on until Ctrl-C: with what processes recorded that have ended, and with what living ones
/// record that have no endpoint, as they write it. Those that have one send by themselves, and what
/// they leave is sent when they have ended. Spans that a killed process left open are closed as
/// interrupted first. Upon Ctrl-C or SIGTERM it says how much was sent in all (--json: `total`) and
/// exits 0; a request that was under way is sent again the next time. A second Ctrl-C ends it at once.
///
/// Where it stopped is kept beside the trace, so it has to be able to write there; or, for a root that
/// can only be read (a sidecar, an agent's host mounted read-only), in another directory by --state.
/// What was sent by those who write beside the trace isn't sent again. Spans that a killed process left
/// open are closed in the trace where that can be written; else they are counted, and sent when the agent's
/// next start or `spanledger recover` has closed them. A state belongs to the segments it was
/// made for: used with another root it passes nothing by.
///
/// Exits 1 if nothing could be sent for as long as --patience says, and with --once or --resend also if
/// a server refused something for good. A session that can't be read, or whose open spans can't be
/// closed, is named, and the others are sent; with --once that ends with 3 or 2.
///
/// What was recorded for this endpoint is sent, and what was recorded for none: naming one here is
/// to mean it. What was recorded for another endpoint is left alone, and counted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger mirror --endpoint http://127.0.0.1:4317
  spanledger mirror --once --session last --patience 30s
  spanledger mirror --root /mnt/agent/traces --state /var/lib/mirror
  spanledger mirror --status
  spanledger mirror --resend")]
pub(crate) struct Mirror {
    /// Only this session: its id, the beginning of it, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Where to send to, instead of what the environment says; over gRPC https where it has no scheme,
    /// unless OTEL_EXPORTER_OTLP_INSECURE=true
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
    /// Keep how far it got, and what was refused, in DIR instead of beside the trace: for a root that
    /// can only be read
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Send nothing; show what is owed, session by session, and what was recorded for no endpoint (FOR
    /// NONE, --json: `for_nobody_bytes` of the `owed_bytes`), which is owed to nobody and sent all the
    /// same
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
        let root = context.store.root();
        if self.state.is_none() && !root.is_dir() {
            let why = match root.exists() {
                true => "is no directory",
                false => "isn't there: no agent has recorded anything in it",
            };
            return Err(Failed::Usage(format!("{} {why}", root.display())));
        }
        // Once: what is the last one may be another tomorrow.
        let session = self.session.as_deref();
        let session = session.map(|session| context.store.resolve(session));
        let session = session.transpose()?;
        if self.once || self.resend {
            let mut so_far = SoFar::default();
            let sent = self.pass(context, &to, session.as_deref(), &Next::All, &mut so_far)?;
            context.unreadable(&sent.unreadable)?;
            return match (so_far.named.is_empty(), sent.dead) {
                (false, _) => Err(Failed::Usage(
                    "what they left open is not closed, and not sent".into(),
                )),
                (true, 0) => Ok(()),
                // It was said how many.
                (true, _) => Err(Failed::Finding(String::new())),
            };
        }
        self.follow(context, &to, session.as_deref())
    }

    fn to(&self) -> Result<Resolved, Failed> {
        let mut settings = Otlp::new();
        if let Some(endpoint) = &self.endpoint {
            settings = settings.endpoint(endpoint);
        }
        Otlp::resolve(Some(settings), |name| std::env::var(name).ok())
            .map_err(|error| Failed::setting(error, "--endpoint"))?
            .ok_or_else(|| {
                Failed::Usage(
                    "no endpoint: give --endpoint or set OTEL_EXPORTER_OTLP_ENDPOINT".into(),
                )
            })
    }

    /// Sends what is owed now, and tells it if there was something or nothing was told yet.
    fn pass(
        &self,
        context: &mut Context,
        to: &Resolved,
        session: Option<&Path>,
        what: &Next,
        so_far: &mut SoFar,
    ) -> Result<Sent, Failed> {
        let mut pass = Pass::new(context.store.root(), to.clone()).any_endpoint(self.any_endpoint);
        if let Some(session) = session {
            pass = pass.session(session);
        }
        if let Next::Grown(sessions) = what {
            pass = pass.sessions(sessions.clone());
        }
        if let Some(state) = &self.state {
            pass = pass.state(state);
        }
        if let Some(patience) = self.patience {
            pass = pass.patience(Duration::from_nanos(patience));
        }
        if !self.once && !self.resend {
            pass = pass.until(interrupt::asked);
        }
        let mut open = so_far.open.unwrap_or(0);
        let done = if self.resend {
            pass.resend(&mut progress())
        } else {
            if matches!(what, Next::All) {
                let left = recover::quietly(context, session)?;
                open = left.spans;
                left.failed.into_iter().for_each(|why| so_far.name(why));
            }
            pass.run(&mut progress())
        };
        let sent = done.map_err(|error| match error {
            error @ Error::MirrorBusy { .. } => Failed::Finding(error.to_string()),
            Error::Io { path, source }
                if self.state.is_none() && recover::is_forbidden(&source) =>
            {
                let path = path.display();
                Failed::Usage(format!(
                    "{path}: {source}; where the root can only be read, --state DIR keeps elsewhere how \
                     far it got"
                ))
            }
            error => Failed::Usage(error.to_string()),
        })?;
        if sent.requests > 0 && io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
        if so_far.open != Some(open) || sent.requests > 0 {
            self.say(context, &to.shown(), &sent, open)?;
        }
        so_far.add(&sent, open);
        match &sent.stopped {
            Some(_) if interrupt::asked() => Ok(sent),
            Some(why) => Err(Failed::Finding(format!(
                "{} takes nothing: {why}",
                to.shown()
            ))),
            None => Ok(sent),
        }
    }

    fn say(&self, context: &mut Context, to: &str, sent: &Sent, open: u64) -> Result<(), Failed> {
        if context.json {
            let unreadable = sent.unreadable.iter();
            let unreadable =
                unreadable.map(|session| json!({"dir": session.dir, "why": session.why}));
            context.object(&json!({
                "endpoint": to,
                "spans": sent.spans,
                "requests": sent.requests,
                "dead": sent.dead,
                "left_out": sent.left_out,
                "elsewhere": sent.elsewhere,
                "left_open": open,
                "unreadable": unreadable.collect::<Vec<_>>(),
                "stopped": sent.stopped,
            }))?;
        } else {
            let mut text = sent_to(to, sent.spans, sent.dead);
            if sent.elsewhere > 0 {
                let segments = plural(sent.elsewhere, "segment");
                text.push_str(&format!(
                    "; {segments} recorded for another endpoint left alone (--any-endpoint)"
                ));
            }
            if open > 0 {
                text.push_str(&format!(
                    "; left open by dead processes: {}, sent once the agent's next start or \
                     `spanledger recover` closes them where the root can be written",
                    plural(open, "span")
                ));
            }
            context.line(&text)?;
        }
        context.flush()
    }

    /// Sends whenever there is something to send, until somebody ends it.
    fn follow(
        &self,
        context: &mut Context,
        to: &Resolved,
        session: Option<&Path>,
    ) -> Result<(), Failed> {
        interrupt::heed();
        let mut follow = Follow::new(&context.store, session.map(PathBuf::from), to.linger);
        let mut next = Next::All;
        let mut said = String::new();
        let mut so_far = SoFar::default();
        while !interrupt::asked() {
            if matches!(next, Next::All) {
                follow.begin(&context.store)?;
            }
            match self.pass(context, to, session, &next, &mut so_far) {
                Ok(sent) => {
                    let unreadable = sent.unreadable.iter().map(ToString::to_string);
                    unreadable.for_each(|session| so_far.name(session));
                    said.clear();
                    next = follow.next(&context.store)?;
                }
                Err(Failed::Finding(_)) if interrupt::asked() => {}
                Err(Failed::Finding(why)) => {
                    if why != said {
                        let _ = writeln!(io::stderr(), "spanledger: {}", line(&why));
                        said = why;
                    }
                    next = Next::All;
                    interrupt::sleep(LOOK_EVERY);
                }
                Err(error) => return Err(error),
            }
            context.store.forget_writers();
        }
        so_far.say(context, &to.shown())
    }

    fn show(&self, context: &mut Context) -> Result<(), Failed> {
        let (dirs, unreadable) = match &self.session {
            Some(session) => (vec![context.store.resolve(session)?], Vec::new()),
            None => {
                let survey = context.store.survey()?;
                let dirs = survey.entries.into_iter().map(|entry| entry.dir);
                (dirs.collect(), survey.unreadable)
            }
        };
        if !context.json {
            let head = format!(
                "{} {} {} {} {} {}",
                pad("SESSION", 32),
                pad_left("OWED", 10),
                pad_left("LAG", 8),
                pad_left("FOR NONE", 10),
                pad_left("SENT", 9),
                pad_left("DEAD", 6)
            );
            context.line(&context.style.dim(&head).clone())?;
        }
        for dir in dirs {
            let entry = context.store.glance(&dir)?;
            let owed = match &self.state {
                Some(state) => owed_with_state(&context.store, &dir, state)
                    .map_err(|error| Failed::Usage(error.to_string()))?,
                None => owed(&context.store, &dir)?,
            };
            show_one(context, &entry.summary.session_id, &owed)?;
        }
        context.unreadable(&unreadable)
    }
}

/// What a mirror that goes on has done since it began.
#[derive(Default)]
struct SoFar {
    spans: u64,
    requests: u64,
    dead: u64,
    /// How many spans were said to stay open. `None` while nothing was said: that it is at work is
    /// told at once, be there nothing to do.
    open: Option<u64>,
    /// What stands in the way of some sessions, each told once.
    named: HashSet<String>,
}

impl SoFar {
    fn add(&mut self, sent: &Sent, open: u64) {
        self.spans += sent.spans;
        self.requests += sent.requests;
        self.dead += sent.dead;
        self.open = Some(open);
    }

    fn name(&mut self, why: String) {
        if !self.named.contains(&why) {
            let _ = writeln!(io::stderr(), "spanledger: {}", line(&why));
            self.named.insert(why);
        }
    }

    fn say(&self, context: &mut Context, to: &str) -> Result<(), Failed> {
        if context.json {
            // Under a name of its own: whoever adds up the passes doesn't count twice.
            context.object(&json!({
                "endpoint": to,
                "total": {
                    "spans": self.spans,
                    "requests": self.requests,
                    "dead": self.dead,
                },
            }))?;
        } else {
            let text = sent_to(to, self.spans, self.dead);
            context.line(&format!("In all: {text}"))?;
        }
        context.flush()
    }
}

fn sent_to(to: &str, spans: u64, dead: u64) -> String {
    let mut text = format!("{} sent to {}", plural(spans, "span"), line(to));
    if dead > 0 {
        let dead = thousands(dead);
        text.push_str(&format!(
            ", {dead} refused for good (`spanledger mirror --status` says why)"
        ));
    }
    text
}

fn show_one(context: &mut Context, id: &str, owed: &Owed) -> Result<(), Failed> {
    if context.json {
        return context.object(&json!({
            "session_id": id,
            "owed_bytes": owed.bytes,
            "for_nobody_bytes": owed.for_nobody,
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
    let bytes = owed.bytes - owed.for_nobody;
    let since = owed.since.filter(|_| bytes > 0);
    let lag = since.map(|since| duration(now.saturating_sub(since)).to_string());
    context.line(&format!(
        "{} {} {} {} {} {}",
        pad(&cut_id(&line(id), 32), 32),
        pad_left(&size(bytes), 10),
        pad_left(lag.as_deref().unwrap_or("–"), 8),
        pad_left(&size(owed.for_nobody), 10),
        pad_left(&thousands(owed.sent), 9),
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
            let _ = write!(io::stderr(), "\r{} sent", plural(sent.spans, "span"));
        }
        None => {}
    }
}
