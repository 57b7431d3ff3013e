//! `status`: what is running, and whether the traces are whole.

use std::collections::{BTreeSet, HashSet};
use std::io;

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, damage_json, warn};
use spanledger::mirror::{Backlog, backlog, backlog_in};
use spanledger::session::{Checks, Entry, Status as SessionStatus};
use spanledger::trace::time_text;
use spanledger::view;
use spanledger::view::text::plural;

/// Show what is running, and whether the traces are whole
///
/// Reads the first and last lines of each session, which count what was masked, truncated and lost in
/// all of it. --deep reads everything and finds damage in between.
///
/// With --stalled-after, exits 1 if a live session has had no event for that long: for cron. One that waits
/// for a person, itself or in a subagent, is not stalled. Otherwise
/// exits 3 if what was read is damaged. A last line that a killed process left unfinished is counted,
/// but is no damage.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger status\n  spanledger status --stalled-after 10m || echo 'an agent hangs' | mail -s agents ops\n  spanledger status --json | jq '.live[] | {session_id, pid, doing}'"
)]
pub(crate) struct Status {
    /// Exit 1 if a live session has had no event for this long, such as 10m
    #[arg(long, value_name = "AGE", value_parser = super::context::parse_age)]
    stalled_after: Option<u64>,
    /// Read everything, to find all damage
    #[arg(long)]
    deep: bool,
}

impl Status {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let survey = context.store.survey()?;
        let checks = Checks::run(&context.store, &survey, self.deep);
        let entries = survey.entries;
        let live: Vec<_> = entries.iter().filter(|e| e.status.is_live()).collect();
        let now = context.style.now;
        let waiting = waiting_for_people(&live);
        let is_stalled = |entry: &Entry| {
            let quiet = now.saturating_sub(entry.summary.last);
            let waits = waiting.contains(entry.summary.session_id.as_str());
            !waits && self.stalled_after.is_some_and(|age| quiet >= age)
        };
        let stalled = live.iter().filter(|entry| is_stalled(entry)).count();
        let bytes = context.store.bytes()?;
        let mirror = backlog_in(&context.store)?;
        let endpoints = match mirror.bytes {
            0 => BTreeSet::new(),
            _ => unsent_endpoints(context, &entries)?,
        };
        if context.json {
            let live = live.iter();
            let live = live.map(|entry| live_json(context, entry, is_stalled(entry)));
            let document = json!({
                "root": context.store.root(),
                "at": time_text(now, 6),
                "sessions": entries.len(),
                "bytes": bytes,
                "by_status": by_status(&entries),
                "live": live.collect::<Vec<_>>(),
                "stalled": stalled,
                "mirror": mirror_json(&mirror, &endpoints),
                "checks": checks_json(&checks),
            });
            context.document(&document)?;
        } else {
            let style = context.style.clone();
            let alive = |writer: &str| context.store.is_alive(writer);
            let mut lines = view::running(&live, &alive, &is_stalled, &style);
            let root = context.store.root().display().to_string();
            lines.push(String::new());
            lines.extend(view::root(&root, &entries, bytes, &style));
            lines.extend(mirror_line(&mirror, &endpoints, now));
            lines.extend(view::checks(&checks, &style));
            context.lines(&lines)?;
        }
        let damaged = context.report_damage(&checks.damages, &checks.unreadable);
        self.end(damaged, stalled, live.len())
    }

    /// Ends with the stalled sessions, else with the damage.
    fn end(&self, damaged: Result<(), Failed>, stalled: usize, live: usize) -> Result<(), Failed> {
        let Some(age) = self.stalled_after.filter(|_| stalled > 0) else {
            return damaged;
        };
        // Cron waits for this exit code; the damage is only printed.
        match damaged {
            Err(Failed::Damaged(damage)) => warn(&damage),
            other => other?,
        }
        let age = view::text::duration(age);
        Err(Failed::Finding(format!(
            "{stalled} of {live} live sessions without an event for {age} or longer"
        )))
    }
}

/// The live sessions that wait for a person, and those whose subagents do.
fn waiting_for_people<'a>(live: &[&'a Entry]) -> HashSet<&'a str> {
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

/// The endpoints that sessions with unsent lines were recorded for.
fn unsent_endpoints(context: &Context, entries: &[Entry]) -> Result<BTreeSet<String>, Failed> {
    let mut endpoints = BTreeSet::new();
    for entry in entries {
        let writers = entry.summary.writers.values();
        let own: Vec<_> = writers
            .filter_map(|writer| writer.endpoint.clone())
            .collect();
        if own.is_empty() {
            continue;
        }
        let unsent = match backlog(&context.store, &entry.dir) {
            Ok(backlog) => backlog.bytes > backlog.no_endpoint,
            // Pruned in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        };
        endpoints.extend(own.into_iter().filter(|_| unsent));
    }
    Ok(endpoints)
}

fn checks_json(checks: &Checks) -> Value {
    let damages = checks.damages.iter().map(damage_json);
    let unreadable = checks.unreadable.iter();
    let unreadable = unreadable.map(|one| json!({"dir": one.dir, "error": one.why}));
    json!({
        "whole": checks.whole,
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

fn mirror_json(backlog: &Backlog, endpoints: &BTreeSet<String>) -> Value {
    json!({
        "unsent_bytes": backlog.bytes,
        "unsent_since": backlog.since.map(|since| time_text(since, 6)),
        "endpoints": endpoints,
        "marked_segments": backlog.marked,
        "dead_letters": backlog.dead_letters,
        "last_dead": backlog.last_dead.as_ref().map(|last| &last.reason),
    })
}

/// What the mirror has not sent, if there is any.
fn mirror_line(backlog: &Backlog, endpoints: &BTreeSet<String>, now: u64) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(since) = backlog.since {
        let age = view::text::duration(now.saturating_sub(since));
        let unsent = view::text::size(backlog.bytes);
        let mut text = format!("{unsent} not sent yet, the oldest {age} old");
        if !endpoints.is_empty() {
            let endpoints: Vec<_> = endpoints.iter().map(|url| view::text::line(url)).collect();
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
fn live_json(context: &Context, entry: &Entry, stalled: bool) -> Value {
    let summary = &entry.summary;
    let now = context.style.now;
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
    let writer = view::live_writer(summary, &|writer| context.store.is_alive(writer));
    let process = writer.map(|writer| writer.process());
    json!({
        "session_id": summary.session_id,
        "agent": summary.agent,
        "model_id": summary.model_id,
        "parent_session_id": summary.parent_session_id,
        "status": entry.status.as_str(),
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

fn by_status(entries: &[Entry]) -> Value {
    let count = |status: SessionStatus| entries.iter().filter(|e| e.status == status).count();
    let statuses = SessionStatus::ALL.iter();
    let counts = statuses.map(|status| (status.as_str().to_owned(), json!(count(*status))));
    Value::Object(counts.collect())
}
