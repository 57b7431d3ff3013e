//! The output of `status`.

use super::header::{implicit_beside, implicit_text, named_span, paint_status};
use super::style::Style;
use super::text::{cut, line, plural, size, thousands};
use crate::session::{Checks, Entry, Status, StatusReport, Store, Summary, WaitsFor, Writer};

/// The newest live writer of a session.
pub fn live_writer<'a>(summary: &'a Summary, store: &Store) -> Option<&'a Writer> {
    let mut writers = summary.writers.values().rev();
    writers.find(|writer| store.is_alive(&writer.id))
}

/// Sessions that are running: two lines each, and one more if it waits for a person or if its process
/// recorded something outside every run. `implicit`: the implicit sessions beside one.
pub fn running(
    live: &[Entry],
    implicit: &dyn Fn(&Summary) -> Vec<String>,
    stalled: &dyn Fn(&Entry) -> bool,
    store: &Store,
    style: &Style,
) -> Vec<String> {
    if live.is_empty() {
        return vec!["Nothing is running.".into()];
    }
    live.iter()
        .flat_map(|entry| {
            let stalled = stalled(entry);
            let beside = implicit(&entry.summary);
            running_session(entry, &beside, stalled, store, style)
        })
        .collect()
}

/// The lines of a session that is running.
fn running_session(
    entry: &Entry,
    implicit: &[String],
    stalled: bool,
    store: &Store,
    style: &Style,
) -> Vec<String> {
    let summary = &entry.summary;
    let mut report = entry.report();
    if !summary.pending.is_empty() {
        // The questions have a row below.
        report.waits_for = None;
    }
    let status = &status_words(&report);
    let id = line(&summary.session_id).into_owned();
    let room = style.width.saturating_sub(id.len() + status.len() + 4);
    let about = cut(&about(summary, store, style), room).into_owned();
    let status = paint_status(entry.status, status, style);
    let mut head = format!("{}  {status}  {about}", style.bold(&id));
    if stalled {
        head.push_str(&format!("  {}", style.red("STALLED")));
    }
    let mut out = vec![head];
    if let Some(open) = summary.deepest() {
        let mut doing = format!(
            "  {} for {} since {} at {}",
            named_span(open.kind, &open.name),
            style.ago(open.since),
            style.clock(open.since),
            open.address,
        );
        if let Some(input) = &open.input {
            doing.push_str(&format!("  ← {}", line(input)));
        }
        out.push(cut(&doing, style.width).into_owned());
    }
    if !summary.pending.is_empty() {
        let waits = summary.pending.iter();
        let waits = waits.map(|(id, at)| format!("{} (asked at {at})", line(id)));
        let waits = waits.collect::<Vec<_>>().join(", ");
        let waits = format!("  waiting for a person: {waits}");
        out.push(style.magenta(&cut(&waits, style.width)));
    }
    if let Some(text) = implicit_beside(implicit) {
        let text = format!("  outside: {text}");
        out.push(style.yellow(&cut(&text, style.width)));
    }
    out
}

/// A status with its reason.
fn status_words(report: &StatusReport) -> String {
    let mut text = report.status.as_str().to_owned();
    if let Some(what) = report.waits_for {
        text.push_str(match what {
            WaitsFor::UserInput => " for user input",
            _ => " for approval",
        });
    }
    if let Some(attempt) = report.attempt {
        text.push_str(&format!(", attempt {attempt}"));
    }
    if let Some(next) = &report.next_at {
        text.push_str(&format!(", next at {}", line(next)));
    }
    if let Some(message) = &report.message {
        text.push_str(&format!(": {}", line(message)));
    }
    text
}

/// One session, running or not: its status and why, and what it is doing.
pub fn session_status(entry: &Entry, store: &Store, style: &Style) -> Vec<String> {
    let summary = &entry.summary;
    let status = status_words(&entry.report());
    let about = about(summary, store, style);
    let id = line(&summary.session_id).into_owned();
    let mut out = vec![
        format!(
            "{}  {}",
            style.bold(&id),
            paint_status(entry.status, &status, style)
        ),
        cut(&format!("  {about}"), style.width).into_owned(),
    ];
    if entry.status.is_live()
        && let Some(open) = summary.deepest()
    {
        let name = named_span(open.kind, &open.name);
        let doing = format!("  {name} for {} at {}", style.ago(open.since), open.address);
        out.push(cut(&doing, style.width).into_owned());
    }
    out
}

/// One row of `status --watch`.
pub fn status_change(time: u64, entry: &Entry, style: &Style) -> String {
    let status = status_words(&entry.report());
    let id = line(&entry.summary.session_id).into_owned();
    let room = style.width.saturating_sub(id.len() + 12);
    let status = paint_status(entry.status, &cut(&status, room), style);
    format!("{}  {id}  {status}", style.clock(time))
}

/// The agent of a live session, its process and its last event.
fn about(summary: &Summary, store: &Store, style: &Style) -> String {
    let agent = summary.agent.as_deref();
    let agent = agent.map(|agent| line(agent).into_owned());
    let implicit = || implicit_text(summary).map(|text| format!("implicit, {text}"));
    let agent = agent.or_else(implicit);
    let mut parts = vec![agent.unwrap_or_else(|| "(no run)".into())];
    let pid = live_writer(summary, store).and_then(Writer::pid);
    parts.extend(pid.map(|pid| format!("pid {pid}")));
    parts.push(format!("last event {} ago", style.ago(summary.last)));
    let parent = summary.parent_session_id.as_ref();
    parts.extend(parent.map(|parent| format!("subagent of {}", line(parent))));
    parts.join(", ")
}

/// How many sessions a root has.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionCounts {
    /// In the order of [`Status::ALL`].
    pub by_status: [u64; Status::ALL.len()],
    /// Those whose process died while something was open.
    pub dead: u64,
    /// Those that no run named.
    pub implicit: u64,
}

impl SessionCounts {
    /// Counts one.
    pub fn add(&mut self, entry: &Entry) {
        let is_dead = !entry.status.is_live() && !entry.summary.open.is_empty();
        self.by_status[entry.status as usize] += 1;
        self.dead += u64::from(is_dead);
        self.implicit += u64::from(entry.summary.implicit().is_some());
    }

    /// How many there are.
    pub fn sessions(&self) -> u64 {
        self.by_status.iter().sum()
    }
}

/// The root, its size and its sessions.
pub fn root(root: &str, counts: &SessionCounts, bytes: u64, style: &Style) -> Vec<String> {
    let SessionCounts {
        by_status,
        dead,
        implicit,
    } = *counts;
    let live = Status::ALL.into_iter().zip(by_status);
    let live = live.filter(|(status, _)| status.is_live());
    let live: u64 = live.map(|(_, n)| n).sum();
    let mut out = vec![
        format!("  root     {}", line(root)),
        format!(
            "  size     {} in {}, {live} of them live",
            size(bytes),
            plural(counts.sessions(), "session"),
        ),
    ];
    if implicit > 0 {
        let sessions = plural(implicit, "session");
        let have = if implicit == 1 { "has" } else { "have" };
        out.push(style.yellow(&format!(
            "  implicit {sessions} {have} spans or events outside every run: `spanledger list` names their processes"
        )));
    }
    if dead > 0 {
        out.push(style.yellow(&format!(
            "  open     {} whose process died: `spanledger recover` closes what it left open, `spanledger mirror --once` also sends it",
            plural(dead, "session"),
        )));
    }
    out
}

/// Whether the traces are whole: one line unless something is wrong.
pub fn checks(checks: &Checks, style: &Style) -> Vec<String> {
    let at_least = if checks.at_least { "at least " } else { "" };
    let marks = &checks.marks;
    let mut wrong = Vec::new();
    if !checks.damages.is_empty() {
        let places = plural(checks.damages.len() as u64, "damaged place");
        wrong.push(style.red(&format!("  damage   {places}")));
    }
    if !checks.unreadable.is_empty() {
        let sessions = plural(checks.unreadable.len() as u64, "session");
        wrong.push(style.red(&format!("  damage   {sessions} can't be read")));
    }
    if marks.gaps > 0 {
        let gaps = format!("{at_least}{}", thousands(marks.gaps));
        let missing = plural(marks.missing, "event");
        wrong.push(style.red(&format!("  gaps     {gaps}, {missing} missing")));
    }
    if checks.torn > 0 {
        let text = match checks.torn {
            1 => "1 file ends mid-line (its process was killed)".to_owned(),
            n => format!("{n} files end mid-line (their processes were killed)"),
        };
        wrong.push(format!("  torn     {text}"));
    }
    if wrong.is_empty() {
        wrong.push("  health   ok".into());
    }
    if marks.masked > 0 || marks.cut > 0 || checks.at_least {
        let masked = plural(marks.masked, "value");
        wrong.push(format!(
            "  masked   {at_least}{masked}; {} truncated",
            thousands(marks.cut)
        ));
    }
    if checks.skipped {
        wrong.push(
            style.dim(
                "  read     the first and last lines of each session; --deep reads everything",
            ),
        );
    }
    wrong
}
