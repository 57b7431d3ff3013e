//! `mirror`: sends the trace over OTLP.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

mod status;

use super::context::{Context, Failed, parse_age, resolve_endpoint, warn};
use super::interrupt;
use super::progress::Progress;
use spanledger::Error;
use spanledger::Recovery;
use spanledger::mirror::{CatchUp, Changed, Follow, Resolved, Sent};
use spanledger::view::text::{duration, line, plural, thousands};

/// Send the trace to a collector, Jaeger or Tempo
///
/// Reads the trace and sends each closed span, from where it stopped the last time: a laptop that was
/// offline for a week continues with the same ids. The endpoint and all other settings come from the
/// standard environment (`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, …).
///
/// Runs until Ctrl-C. It sends what ended processes recorded, and what live ones without an endpoint
/// write, as they write it. Live processes with an endpoint send by themselves. Spans that a killed
/// process left open are closed as interrupted first. On Ctrl-C or SIGTERM it prints how much was sent in
/// all (--json: `total`) and exits 0; a request in flight is sent again the next time. With --once or
/// --resend, Ctrl-C exits 130 (SIGTERM 143), because not everything was sent. A second Ctrl-C ends it at
/// once.
///
/// Progress is stored in the trace directory, or for a read-only root (a sidecar, a read-only mount) in
/// the directory of --state. What agents have sent by themselves isn't sent again. Spans that a killed
/// process left open are closed in the trace if the root is writable; otherwise they are counted, and sent
/// after the agent's next start or `spanledger recover` has closed them. A state directory used with
/// another root skips nothing.
///
/// What was recorded for this host and port is sent, whatever protocol, scheme, path or headers were set
/// then, and what was recorded with no endpoint. What was recorded for another endpoint is skipped and
/// counted (--json: `other_endpoints`).
///
/// Exits 1 if nothing could be sent within --patience, and with --once or --resend also if the server
/// refused something for good, or if something was recorded for another endpoint. A session that can't
/// be read, or whose open spans can't be closed, is named, and the others are sent; with --once that
/// exits 3 or 2.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger mirror --endpoint http://127.0.0.1:4317
  spanledger mirror --once --session last --patience 30s
  spanledger mirror --root /mnt/agent/traces --state /var/lib/mirror
  spanledger mirror --status
  spanledger mirror --resend")]
pub(crate) struct Mirror {
    /// Only this session: its id, a prefix of it, its directory, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The endpoint, instead of the environment's; without a scheme, gRPC uses https unless
    /// OTEL_EXPORTER_OTLP_INSECURE=true
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Exit when everything is sent
    #[arg(long)]
    once: bool,
    /// Also send what was recorded for another endpoint
    #[arg(long)]
    any_endpoint: bool,
    /// Give up after this long, such as 30s, if the server accepts nothing or another exporter holds the
    /// lock [default: never]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    patience: Option<u64>,
    /// Store export progress in DIR instead of the trace directory (for read-only roots)
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Send nothing; show what is not sent yet, per session. Recorded with no endpoint configured (NO
    /// ENDPOINT, --json: `no_endpoint_bytes` of the `unsent_bytes`); `mirror` sends these too
    #[arg(long, conflicts_with_all = ["endpoint", "patience", "once", "any_endpoint"])]
    status: bool,
    /// Send what a server refused for good once more, and exit; what it accepts now is resolved
    #[arg(long, conflicts_with_all = ["status", "once"])]
    resend: bool,
}

impl Mirror {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if self.status {
            return status::show(self.session.as_deref(), self.state.as_deref(), context);
        }
        let to = self.to()?;
        // Resolved once: `last` may be another session tomorrow.
        let session = match &self.session {
            Some(session) => Some(context.resolve(session)?),
            None => None,
        };
        let root = context.store.root();
        if self.state.is_none() && !root.is_dir() {
            let why = match root.exists() {
                true => "is no directory",
                false => "does not exist: no agent has recorded anything in it",
            };
            return Err(Failed::Usage(format!("{} {why}", root.display())));
        }
        let mut export = Export {
            mirror: self,
            to,
            session,
            spans: 0,
            requests: 0,
            dead: 0,
            open: None,
            named: HashSet::new(),
        };
        interrupt::install();
        match self.once || self.resend {
            true => export.once(context),
            false => export.follow(context),
        }
    }

    fn to(&self) -> Result<Resolved, Failed> {
        resolve_endpoint(self.endpoint.as_ref())
            .map_err(|error| Failed::setting(error, "--endpoint"))?
            .ok_or_else(|| {
                let why = "no endpoint: give --endpoint or set OTEL_EXPORTER_OTLP_ENDPOINT";
                Failed::Usage(why.into())
            })
    }
}

/// An export that runs, and what it has done.
struct Export<'a> {
    mirror: &'a Mirror,
    to: Resolved,
    session: Option<PathBuf>,
    spans: u64,
    requests: u64,
    dead: u64,
    /// How many spans stay open, as last printed. `None` until something was printed: the first pass
    /// always prints.
    open: Option<u64>,
    /// Why some sessions are not sent, each printed once.
    named: HashSet<String>,
}

impl Export<'_> {
    fn once(&mut self, context: &mut Context) -> Result<(), Failed> {
        let sent = self.pass(context, &Changed::All);
        if interrupt::asked() {
            return Err(Failed::Interrupted);
        }
        let sent = sent?;
        context.unreadable = sent.unreadable;
        context.report_damage()?;
        if !self.named.is_empty() {
            let why =
                "spans left open in the sessions above could not be closed, so they were not sent";
            return Err(Failed::Usage(why.into()));
        }
        Failed::unless(sent.dead == 0 && sent.other_endpoints.is_empty())
    }

    /// Sends whenever there is something to send, until Ctrl-C.
    fn follow(&mut self, context: &mut Context) -> Result<(), Failed> {
        let store = context.store.clone();
        let linger = self.to.linger;
        let mut follow = Follow::new(self.session.clone(), linger, interrupt::asked);
        let mut changed = Changed::All;
        let mut failed = String::new();
        while !interrupt::asked() {
            if changed == Changed::All {
                follow.begin(&store)?;
            }
            match self.pass(context, &changed) {
                Ok(sent) => {
                    let unreadable = sent.unreadable.iter();
                    unreadable.for_each(|session| self.name(session.to_string()));
                    failed.clear();
                    match follow.next(&store)? {
                        Some(next) => changed = next,
                        None => break,
                    }
                }
                Err(Failed::Finding(_)) if interrupt::asked() => {}
                Err(Failed::Finding(why)) => {
                    if why != failed {
                        warn(&why);
                        failed = why;
                    }
                    changed = Changed::All;
                    follow.back_off();
                }
                Err(error) => return Err(error),
            }
            store.forget_writers();
        }
        self.print_total(context)
    }

    /// Sends what there is now. Prints it, if there was something or nothing was printed yet.
    fn pass(&mut self, context: &mut Context, changed: &Changed) -> Result<Sent, Failed> {
        let catch_up = self.catch_up(context, changed);
        let mut open = self.open.unwrap_or(0);
        let done = if self.mirror.resend {
            catch_up.resend(&mut progress())
        } else {
            if *changed == Changed::All {
                open = self.recover(context)?;
            }
            catch_up.run(&mut progress())
        };
        let sent = done.map_err(|error| self.failed(error))?;
        if self.open != Some(open) || sent.requests > 0 {
            self.print(context, &sent, open)?;
        }
        self.spans += sent.spans;
        self.requests += sent.requests;
        self.dead += sent.dead;
        self.open = Some(open);
        match &sent.stopped {
            Some(why) if !interrupt::asked() => {
                let patience = self.mirror.patience.filter(|patience| *patience > 0);
                let patience = patience.map(|patience| format!(" for {}", duration(patience)));
                let (to, patience) = (self.to.shown(), patience.unwrap_or_default());
                Err(Failed::Finding(format!(
                    "{to} accepted nothing{patience}: {why}"
                )))
            }
            _ => Ok(sent),
        }
    }

    fn catch_up(&self, context: &Context, changed: &Changed) -> CatchUp {
        let mut catch_up = CatchUp::new(context.store.root(), self.to.clone())
            .any_endpoint(self.mirror.any_endpoint)
            .until(interrupt::asked);
        if let Some(session) = &self.session {
            catch_up = catch_up.session(session);
        }
        if let Changed::Sessions(sessions) = changed {
            catch_up = catch_up.sessions(sessions.clone());
        }
        if let Some(state) = &self.mirror.state {
            catch_up = catch_up.state(state);
        }
        if let Some(patience) = self.mirror.patience {
            catch_up = catch_up.patience(Duration::from_nanos(patience));
        }
        catch_up
    }

    fn failed(&self, error: Error) -> Failed {
        match error {
            error @ Error::MirrorBusy { .. } => Failed::Finding(error.to_string()),
            Error::Io { path, source } if self.mirror.state.is_none() && is_forbidden(&source) => {
                let path = path.display();
                Failed::Usage(format!(
                    "{path}: {source}; for a read-only root, --state DIR stores the progress elsewhere"
                ))
            }
            error => error.into(),
        }
    }

    /// Closes what dead processes left open. Returns how many spans could not be closed, and prints
    /// why, unless the root is read-only.
    fn recover(&mut self, context: &Context) -> Result<u64, Failed> {
        let store = &context.store;
        let entries = match self.session.as_ref().map(|session| store.peek(session)) {
            // Pruned in the meantime.
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Some(entry) => vec![entry?],
            None => store.list()?,
        };
        let mut recovery = Recovery::new(store);
        let mut open = 0;
        for entry in entries.iter().take_while(|_| !interrupt::asked()) {
            let left = store.left_open(entry).len() as u64;
            match recovery.close(entry) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    open += left;
                    if !is_forbidden(&error) {
                        self.name(error.to_string());
                    }
                }
            }
        }
        Ok(open)
    }

    fn name(&mut self, why: String) {
        if !self.named.contains(&why) {
            warn(&why);
            self.named.insert(why);
        }
    }

    fn print(&self, context: &mut Context, sent: &Sent, open: u64) -> Result<(), Failed> {
        context.print(
            || self.sent_json(sent, open),
            |_| vec![self.sent_line(sent, open)],
        )?;
        context.flush()
    }

    fn sent_json(&self, sent: &Sent, open: u64) -> Value {
        let unreadable = sent.unreadable.iter();
        let unreadable = unreadable.map(|session| json!({"dir": session.dir, "why": session.why}));
        json!({
            "endpoint": self.to.shown(),
            "spans": sent.spans,
            "requests": sent.requests,
            "dead": sent.dead,
            "left_out": sent.left_out,
            "other_endpoints": sent.other_endpoints,
            "left_open": open,
            "unreadable": unreadable.collect::<Vec<_>>(),
            "stopped": sent.stopped,
        })
    }

    fn sent_line(&self, sent: &Sent, open: u64) -> String {
        let to = self.to.shown();
        let mut parts = vec![
            match sent.requests == 0 && !sent.other_endpoints.is_empty() {
                true => format!("Nothing to send to {}", line(&to)),
                false => sent_to(&to, sent.spans, sent.dead),
            },
        ];
        if open > 0 {
            let spans = plural(open, "span");
            let after = "the agent's next start or `spanledger recover` has closed them";
            parts.push(format!(
                "Left open by dead processes: {spans}, sent after {after}"
            ));
        }
        for (endpoint, sessions) in &sent.other_endpoints {
            let (were, them) = match sessions {
                1 => ("was", "it"),
                _ => ("were", "them"),
            };
            let (sessions, endpoint) = (plural(*sessions, "session"), line(endpoint));
            parts.push(format!(
                "{sessions} {were} recorded for {endpoint}; send {them} here with --any-endpoint"
            ));
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => parts.join(". ") + ".",
        }
    }

    fn print_total(&self, context: &mut Context) -> Result<(), Failed> {
        let to = self.to.shown();
        // Under a name of its own, so that adding up the passes counts nothing twice.
        let object = || {
            let (spans, requests, dead) = (self.spans, self.requests, self.dead);
            let total = json!({"spans": spans, "requests": requests, "dead": dead});
            json!({"endpoint": to, "total": total})
        };
        let text = || format!("In all: {}", sent_to(&to, self.spans, self.dead));
        context.print(object, |_| vec![text()])?;
        context.flush()
    }
}

/// Whether the root is read-only for us.
fn is_forbidden(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn sent_to(to: &str, spans: u64, dead: u64) -> String {
    let mut text = format!("{} sent to {}", plural(spans, "span"), line(to));
    if dead > 0 {
        let dead = thousands(dead);
        text.push_str(&format!(
            ", {dead} refused for good (`spanledger mirror --status` shows why)"
        ));
    }
    text
}

/// Prints the progress on a terminal, and anywhere what it waits for.
fn progress() -> impl FnMut(&Sent, Option<&str>) {
    let mut progress = Progress::new();
    let mut waiting = String::new();
    move |sent, wait| match wait {
        Some(why) if why != waiting => {
            progress.clear();
            warn(&format!("waiting: {why}"));
            why.clone_into(&mut waiting);
        }
        Some(_) => {}
        None => progress.show(&format!("{} sent", plural(sent.spans, "span"))),
    }
}
