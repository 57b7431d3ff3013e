//! `status`: what is running, and whether the traces are whole.

use std::collections::HashSet;
use std::rc::Rc;

use clap::Args;
use serde_json::{Value, json};

mod watch;

use super::context::{Context, Failed, damage_json, warn};
use spanledger::mirror::{Backlog, backlog_in};
use spanledger::session::{Checks, Entry, Status as SessionStatus, Store, Summary, WaitsFor};
use spanledger::trace::time_text;
use spanledger::view::text::plural;
use spanledger::view::{self, SessionCounts};

/// Show what is running, and whether the traces are whole
///
/// Reads the first and last lines of each session, which count what was masked, truncated and lost in
/// all of it. --deep reads everything and finds damage in between.
///
/// With --stalled-after, exits 1 if a live session has had no event for that long: for cron. One that waits
/// for a person, itself or in a subagent, is not stalled. Otherwise
/// exits 3 if what was read is damaged. A last line that a killed process left unfinished is counted,
/// but is no damage.
///
/// With a session, shows the status of that one, running or not: busy, idle, waiting (for approval or user_input),
/// retrying (with attempt and time), error, ended or interrupted. --watch prints each change, with --json an object a
/// line, until Ctrl-C.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger status\n  spanledger status last --json | jq -r .status\n  spanledger status --watch\n  spanledger status --stalled-after 10m || echo 'an agent hangs' | mail -s agents ops\n  spanledger status --json | jq '.live[] | {session_id, pid, doing}'"
)]
pub(crate) struct Status {
    /// Only this session: an id, a prefix of it, a directory, or `last`
    #[arg(value_name = "SESSION", conflicts_with_all = ["stalled_after", "deep"])]
    session: Option<String>,
    /// Print each change of status
    #[arg(long, conflicts_with_all = ["stalled_after", "deep"])]
    watch: bool,
    /// Exit 1 if a live session has had no event for this long, such as 10m
    #[arg(long, value_name = "AGE", value_parser = super::context::parse_age)]
    stalled_after: Option<u64>,
    /// Read everything, to find all damage
    #[arg(long)]
    deep: bool,
}

impl Status {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if self.watch {
            return watch::run(self.session.as_deref(), context);
        }
        match &self.session {
            Some(session) => one(session, context),
            None => self.all(context),
        }
    }

    fn all(&self, context: &mut Context) -> Result<(), Failed> {
        let store = Rc::clone(&context.store);
        let mirror = backlog_in(&store)?;
        let Sessions {
            counts,
            checks,
            live,
            implicit,
        } = self.find(&store)?;
        let implicit_beside = |run: &Summary| {
            let all = implicit
                .iter()
                .chain(live.iter().map(|entry| &entry.summary));
            let beside = all.filter(|one| one.is_implicit_beside(run));
            beside.map(|one| one.session_id.clone()).collect::<Vec<_>>()
        };
        let now = context.style.now;
        let waiting = waiting_for_people(&live);
        let is_stalled = |entry: &Entry| {
            let quiet = now.saturating_sub(entry.summary.last);
            let waits = waiting.contains(entry.summary.session_id.as_str());
            !waits && self.stalled_after.is_some_and(|age| quiet >= age)
        };
        let stalled = live.iter().filter(|entry| is_stalled(entry)).count();
        let bytes = store.bytes()?;
        if context.json {
            let live = live.iter();
            let live = live.map(|entry| {
                let mut object = live_json(&store, now, entry, is_stalled(entry));
                object["implicit_beside"] = implicit_beside(&entry.summary).into();
                object
            });
            let by_status = SessionStatus::ALL.into_iter().zip(counts.by_status);
            let by_status = by_status.map(|(status, n)| (status.as_str().to_owned(), json!(n)));
            let document = json!({
                "root": store.root(),
                "at": time_text(now, 6),
                "sessions": counts.sessions(),
                "bytes": bytes,
                "by_status": Value::Object(by_status.collect()),
                "live": live.collect::<Vec<_>>(),
                "stalled": stalled,
                "mirror": mirror_json(&mirror),
                "checks": checks_json(&checks),
            });
            context.document(&document)?;
        } else {
            let style = context.style.clone();
            let mut lines = view::running(&live, &implicit_beside, &is_stalled, &store, &style);
            let root = store.root().display().to_string();
            lines.push(String::new());
            lines.extend(view::root(&root, &counts, bytes, &style));
            lines.extend(mirror_line(&mirror, now));
            lines.extend(view::checks(&checks, &style));
            context.lines(&lines)?;
        }
        context.damages = checks.damages;
        context.unreadable = checks.unreadable;
        self.end(context, stalled, live.len())
    }

    /// Reads all sessions.
    fn find(&self, store: &Store) -> Result<Sessions, Failed> {
        let mut found = Sessions::default();
        let mut newest = store.newest()?;
        for entry in newest.by_ref() {
            found.checks.add(store, &entry, self.deep);
            found.counts.add(&entry);
            if entry.status.is_live() {
                found.live.push(entry);
            } else if is_implicit_of_live(store, &entry.summary) {
                found.implicit.push(entry.summary);
            }
        }
        found.checks.unreadable.extend(newest.into_unreadable());
        Ok(found)
    }

    /// Ends with the stalled sessions, if there are any.
    fn end(&self, context: &mut Context, stalled: usize, live: usize) -> Result<(), Failed> {
        let Some(age) = self.stalled_after.filter(|_| stalled > 0) else {
            return Ok(());
        };
        // Cron waits for this exit code; the damage is only printed.
        match context.report_damage() {
            Err(Failed::Damaged(damage)) => warn(&damage),
            other => other?,
        }
        let age = view::text::duration(age);
        Err(Failed::Finding(format!(
            "{stalled} of {live} live sessions without an event for {age} or longer"
        )))
    }
}

/// The status of one session.
fn one(session: &str, context: &mut Context) -> Result<(), Failed> {
    let dir = context.resolve(session)?;
    let entry = context.store.peek(&dir)?;
    let store = Rc::clone(&context.store);
    let now = context.style.now;
    context.show(
        || live_json(&store, now, &entry, false),
        |style| view::session_status(&entry, &store, style),
    )?;
    context.damages = entry.damages;
    Ok(())
}

/// What the sessions add up to.
#[derive(Default)]
struct Sessions {
    counts: SessionCounts,
    checks: Checks,
    live: Vec<Entry>,
    /// Implicit sessions of live processes that have no open span.
    implicit: Vec<Summary>,
}

/// Whether a session is an implicit one whose process is alive.
fn is_implicit_of_live(store: &Store, summary: &Summary) -> bool {
    let writer = summary.writer().filter(|_| summary.implicit().is_some());
    writer.is_some_and(|writer| store.is_alive(&writer.id))
}

/// The live sessions that wait for a person, and those whose subagents do.
fn waiting_for_people(live: &[Entry]) -> HashSet<&str> {
    let mut waiting = HashSet::new();
    let waits = live.iter().filter(|e| e.status == SessionStatus::Waiting);
    let mut next: Vec<&str> = waits.map(|e| e.summary.session_id.as_str()).collect();
    while let Some(id) = next.pop() {
        if waiting.insert(id) {
            let own = live.iter().filter(|e| e.summary.session_id == id);
            let parents = own.flat_map(|entry| entry.summary.parents());
            next.extend(parents.map(String::as_str));
        }
    }
    waiting
}

fn checks_json(checks: &Checks) -> Value {
    let damages = checks.damages.iter().map(damage_json);
    let unreadable = checks.unreadable.iter();
    let unreadable = unreadable.map(|one| json!({"dir": one.dir, "error": one.why}));
    json!({
        "whole": !checks.skipped,
        "unreadable": unreadable.collect::<Vec<_>>(),
        "damaged": checks.damages.len(),
        "damages": damages.collect::<Vec<_>>(),
        "torn": checks.torn,
        "gaps": checks.marks.gaps,
        "missing_events": checks.marks.missing,
        "masked": checks.marks.masked,
        "cut": checks.marks.cut,
        "at_least": checks.at_least,
    })
}

fn mirror_json(backlog: &Backlog) -> Value {
    json!({
        "unsent_bytes": backlog.bytes,
        "unsent_since": backlog.since.map(|since| time_text(since, 6)),
        "endpoints": backlog.endpoints,
        "marked_segments": backlog.marked,
        "dead_letters": backlog.dead_letters,
        "last_dead": backlog.last_dead.as_ref().map(|last| &last.reason),
    })
}

/// What the mirror has not sent, if there is any.
fn mirror_line(backlog: &Backlog, now: u64) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(since) = backlog.since {
        let age = view::text::duration(now.saturating_sub(since));
        let unsent = view::text::size(backlog.bytes);
        let mut text = format!("{unsent} not sent yet, the oldest {age} old");
        if !backlog.endpoints.is_empty() {
            let endpoints = backlog.endpoints.iter().map(|url| view::text::line(url));
            let endpoints: Vec<_> = endpoints.collect();
            text.push_str(&format!(", recorded for {}", endpoints.join(", ")));
        }
        parts.push(text);
    }
    if backlog.dead_letters > 0 {
        let letters = plural(backlog.dead_letters, "dead letter");
        let reason = backlog.last_dead.as_ref().map_or("", |last| &last.reason);
        parts.push(format!(
            "{letters}, the last: {} (`spanledger mirror --resend`)",
            view::text::line(reason)
        ));
    }
    (!parts.is_empty()).then(|| format!("  mirror   {}", parts.join("; ")))
}

/// Stable: outside observers rely on it. What isn't known is null.
fn live_json(store: &Store, now: u64, entry: &Entry, stalled: bool) -> Value {
    let (summary, report) = (&entry.summary, entry.report());
    let seconds = |ns: u64| now.saturating_sub(ns) as f64 / 1e9;
    let doing = summary.deepest().map(|open| {
        json!({
            "kind": open.kind.as_str(),
            "name": open.name,
            "input": open.input,
            "address": open.address.to_string(),
            "since": time_text(open.since, 6),
            "seconds": seconds(open.since),
        })
    });
    let writer = view::live_writer(summary, store);
    let process = writer.map(|writer| writer.process());
    json!({
        "session_id": summary.session_id,
        "agent": summary.agent,
        "model_id": summary.model_id,
        "parent_session_id": summary.parent_session_id,
        "status": report.status.as_str(),
        "waits_for": report.waits_for.map(WaitsFor::as_str),
        "attempt": report.attempt,
        "next_at": report.next_at,
        "message": report.message,
        "pid": process.as_ref().and_then(|process| process.pid()),
        "host": process.as_ref().and_then(|process| process.host()),
        "implicit": summary.implicit(),
        "doing": doing,
        "waiting_for": summary.pending.keys().collect::<Vec<_>>(),
        "last_event": time_text(summary.last, 6),
        "last_event_seconds": seconds(summary.last),
        "stalled": stalled,
        "bytes": entry.bytes,
    })
}
