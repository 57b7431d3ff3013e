//! `status`: what is running, and how the traces are.

use std::io;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, tell};
use crate::Marks;
use crate::ledger::{NotALine, segments, time_text};
use crate::mirror::{Owed, owed_in};
use crate::reader::Damage;
use crate::session::{Entry, Status as Standing, Survey, Unreadable};
use crate::view::text::plural;
use crate::view::{self, Style};

/// Show what is running, and how the traces are
///
/// Reads the first and last lines of each session: these tell what was masked, cut and lost in all
/// of it. Damage in between is found by --deep, which reads everything.
///
/// With --stalled-after, exits 1 if a live session has had no event for that long: for cron. Else
/// exits 3 if what was read is damaged; a last line that a dying process left unfinished is counted, but
/// is no damage.
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

/// How the traces are.
struct Checks {
    /// Everything was read, and not just the first and last lines.
    whole: bool,
    damages: Vec<Damage>,
    torn: u64,
    marks: Marks,
    /// There may be more: lines were not read, and their writers did not count.
    at_least: bool,
    unreadable: Vec<Unreadable>,
}

impl Status {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let survey = context.store.survey()?;
        let checks = self.checks(context, &survey);
        let entries = survey.entries;
        let live: Vec<_> = entries.iter().filter(|e| e.status.is_live()).collect();
        let now = context.style.now;
        let is_stalled = |entry: &Entry| {
            let quiet = now.saturating_sub(entry.summary.last);
            self.stalled_after.is_some_and(|age| quiet >= age)
        };
        let stalled = live.iter().filter(|entry| is_stalled(entry)).count();
        let bytes: u64 = context.store.dirs()?.iter().map(|dir| dir_bytes(dir)).sum();
        let mirror = owed_in(&context.store)?;
        if context.json {
            let live: Vec<_> = live
                .iter()
                .map(|entry| live_json(context, entry, is_stalled(entry)))
                .collect();
            let document = json!({
                "root": context.store.root(),
                "at": time_text(now, 6),
                "sessions": entries.len(),
                "bytes": bytes,
                "by_status": by_status(&entries),
                "live": live,
                "stalled": stalled,
                "mirror": mirror_json(&mirror),
                "checks": checks.to_json(),
            });
            context.document(&document)?;
        } else {
            let style = context.style.clone();
            let alive = |writer: &str| context.store.is_alive(writer);
            let mut lines = view::running(&live, &alive, &is_stalled, &style);
            let root = context.store.root().display().to_string();
            lines.push(String::new());
            lines.extend(view::root(&root, &entries, bytes, &style));
            lines.extend(mirror_line(&mirror, now));
            lines.extend(checks.lines(&style));
            context.lines(&lines)?;
        }
        let damaged = context.damaged_or_unreadable(&checks.damages, &checks.unreadable);
        match (stalled, self.stalled_after) {
            (0, _) | (_, None) => damaged,
            (n, Some(age)) => {
                // Cron waits for this one; the damage is told beside it.
                match damaged {
                    Err(Failed::Damaged(damage)) => {
                        tell(&damage);
                    }
                    other => other?,
                }
                Err(Failed::Finding(format!(
                    "{n} of {} live sessions without an event for {} or longer",
                    live.len(),
                    view::text::duration(age),
                )))
            }
        }
    }

    fn checks(&self, context: &Context, survey: &Survey) -> Checks {
        let mut checks = Checks {
            whole: true,
            damages: Vec::new(),
            torn: 0,
            marks: Marks::default(),
            at_least: false,
            unreadable: survey.unreadable.clone(),
        };
        for entry in &survey.entries {
            if !self.deep || entry.whole {
                checks.take(entry);
                continue;
            }
            match context.store.read(&entry.dir) {
                Ok(entry) => checks.take(&entry),
                // Pruned while we looked.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => checks.unreadable.push(Unreadable::new(&entry.dir, &error)),
            }
        }
        checks
    }
}

impl Checks {
    fn take(&mut self, entry: &Entry) {
        self.whole &= entry.whole;
        let (torn, damages): (Vec<_>, Vec<_>) = entry
            .damages
            .iter()
            .cloned()
            .partition(|damage| damage.why == NotALine::Torn);
        self.torn += torn.len() as u64;
        self.damages.extend(damages);
        let (marks, known) = entry.summary.marks();
        self.marks.add(&marks);
        self.at_least |= !known;
    }

    fn to_json(&self) -> Value {
        let damages = self.damages.iter().map(|damage| {
            json!({
                "path": damage.path,
                "offset": damage.offset,
                "bytes": damage.bytes,
                "why": damage.why.to_string(),
            })
        });
        let unreadable = self.unreadable.iter();
        let unreadable = unreadable.map(|one| json!({"dir": one.dir, "error": one.why}));
        json!({
            "whole": self.whole,
            "unreadable": unreadable.collect::<Vec<_>>(),
            "damaged": self.damages.len(),
            "damages": damages.collect::<Vec<_>>(),
            "torn": self.torn,
            "gaps": self.marks.gaps,
            "missing_events": self.marks.missing,
            "masked": self.marks.masked,
            "cut": self.marks.cut,
            "at_least": self.at_least,
        })
    }

    fn lines(&self, style: &Style) -> Vec<String> {
        let at_least = if self.at_least { "at least " } else { "" };
        let mut damage = format!(
            "  damage   {}, {}",
            plural(self.damages.len() as u64, "place"),
            plural(self.torn, "torn end"),
        );
        if !self.unreadable.is_empty() {
            let n = self.unreadable.len() as u64;
            damage.push_str(&format!(", {} that can't be read", plural(n, "session")));
        }
        let found = !self.damages.is_empty() || !self.unreadable.is_empty();
        let gaps = format!(
            "  gaps     {at_least}{}, {} missing",
            view::text::thousands(self.marks.gaps),
            plural(self.marks.missing, "event"),
        );
        let red = |bad: bool, text: &str| {
            if bad {
                style.red(text)
            } else {
                text.to_owned()
            }
        };
        let mut lines = vec![
            red(found, &damage),
            red(self.marks.gaps > 0, &gaps),
            format!(
                "  masked   {at_least}{} in lines; {} cut",
                plural(self.marks.masked, "time"),
                plural(self.marks.cut, "value"),
            ),
        ];
        if !self.whole {
            lines.push(style.dim(
                "  read     the first and last lines of each session; --deep reads everything",
            ));
        }
        lines
    }
}

fn mirror_json(owed: &Owed) -> Value {
    json!({
        "owed_bytes": owed.bytes,
        "owed_since": owed.since.map(|since| time_text(since, 6)),
        "marked_segments": owed.marked,
        "dead_letters": owed.dead_letters,
        "last_dead": owed.last_dead.as_ref().map(|last| &last.reason),
    })
}

/// What the mirror owes, where it does.
fn mirror_line(owed: &Owed, now: u64) -> Option<String> {
    let mut said = Vec::new();
    if let Some(since) = owed.since {
        let age = view::text::duration(now.saturating_sub(since));
        said.push(format!(
            "{} not sent yet, the oldest {age} old",
            view::text::size(owed.bytes)
        ));
    }
    if owed.dead_letters > 0 {
        let letters = plural(owed.dead_letters, "dead letter");
        let reason = owed.last_dead.as_ref().map_or("", |last| &last.reason);
        said.push(format!(
            "{letters}, the last: {} (`spanledger mirror --resend`)",
            view::text::line(reason)
        ));
    }
    (!said.is_empty()).then(|| format!("  mirror   {}", said.join("; ")))
}

/// Stable: outside observers rely on it. What isn't known is null.
fn live_json(context: &Context, entry: &Entry, stalled: bool) -> Value {
    let summary = &entry.summary;
    let now = context.style.now;
    let seconds = |ns: u64| now.saturating_sub(ns) as f64 / 1e9;
    let doing = summary.deepest().map(|open| {
        json!({
            "kind": open.kind,
            "name": open.name,
            "input": open.input,
            "address": open.address.to_string(),
            "since": time_text(open.since, 6),
            "seconds": seconds(open.since),
        })
    });
    let writer = view::live_writer(summary, &|writer| context.store.is_alive(writer));
    let process = |name: &str| writer.map(|writer| writer.process()[name].clone());
    json!({
        "session_id": summary.session_id,
        "agent": summary.agent,
        "model_id": summary.model_id,
        "parent_session_id": summary.parent_session_id,
        "status": entry.status.as_str(),
        "pid": process("pid"),
        "host": process("host"),
        "doing": doing,
        "waiting_for": summary.pending.keys().collect::<Vec<_>>(),
        "last_event": time_text(summary.last, 6),
        "last_event_seconds": seconds(summary.last),
        "stalled": stalled,
        "bytes": entry.bytes,
    })
}

fn by_status(entries: &[Entry]) -> Value {
    let all = [
        Standing::Busy,
        Standing::Idle,
        Standing::Waiting,
        Standing::Retrying,
        Standing::Error,
        Standing::Ended,
        Standing::Interrupted,
    ];
    let count = |status: Standing| entries.iter().filter(|e| e.status == status).count();
    let counts = all.map(|status| (status.as_str().to_owned(), json!(count(status))));
    Value::Object(counts.into_iter().collect())
}

/// The size of a session's segments.
pub(super) fn segment_bytes(dir: &Path) -> u64 {
    let found = segments(dir).unwrap_or_default();
    let sizes = found.iter().filter_map(|(_, path)| path.metadata().ok());
    sizes.map(|meta| meta.len()).sum()
}

/// The size of everything in a session's directory.
fn dir_bytes(dir: &Path) -> u64 {
    crate::ledger::dir_size(dir)
}
