//! `status`: what is running, and how the traces are.

use std::path::Path;

use clap::Args;
use memchr::memmem::Finder;
use serde_json::{Value, json};

use super::context::{Context, Failed};
use crate::ledger::{segments, time_text};
use crate::mirror::{Owed, owed_in};
use crate::reader::{Damage, Found, SegmentReader};
use crate::session::{Entry, Status as Standing};
use crate::view;

/// Show what is running, and how the traces are
///
/// Reads the first and last lines of each session. Damage, gaps, and what was masked or cut can
/// only be told by reading everything: that is what --deep does.
///
/// With --stalled-after, exits 1 if a live session has had no event for that long: for cron. With
/// --deep, exits 3 if a trace is damaged.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger status\n  spanledger status --stalled-after 10m || echo 'an agent hangs' | mail -s agents ops\n  spanledger status --json | jq '.live[] | {session_id, pid, doing}'"
)]
pub(crate) struct Status {
    /// Exit 1 if a live session has had no event for this long, such as 10m
    #[arg(long, value_name = "AGE", value_parser = super::context::parse_age)]
    stalled_after: Option<u64>,
    /// Read everything, to count damage, gaps, masks and cuts
    #[arg(long)]
    deep: bool,
}

/// What only reading everything tells.
#[derive(Default)]
struct Deep {
    damages: Vec<Damage>,
    torn: u64,
    gaps: u64,
    missing: u64,
    masked: u64,
    cut: u64,
}

impl Status {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let entries = context.store.list()?;
        let live: Vec<_> = entries.iter().filter(|e| e.status.is_live()).collect();
        let now = context.style.now;
        let is_stalled = |entry: &Entry| {
            let quiet = now.saturating_sub(entry.summary.last);
            self.stalled_after.is_some_and(|age| quiet >= age)
        };
        let stalled: Vec<_> = live.iter().filter(|entry| is_stalled(entry)).collect();
        let bytes: u64 = context.store.dirs()?.iter().map(|dir| dir_bytes(dir)).sum();
        let mirror = owed_in(&context.store)?;
        let deep = match self.deep {
            true => Some(self.read_all(context)?),
            false => None,
        };
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
                "stalled": stalled.len(),
                "mirror": mirror_json(&mirror),
                "deep": deep.as_ref().map(Deep::to_json),
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
            match &deep {
                Some(deep) => lines.extend(deep.lines()),
                None => lines.push(style.dim(
                    "  checks   not done: damage, gaps, masks and cuts are counted by --deep, which reads everything",
                )),
            }
            context.lines(&lines)?;
        }
        if let Some(deep) = &deep {
            context.damaged(&deep.damages)?;
        }
        context.flush()?;
        match (stalled.len(), self.stalled_after) {
            (0, _) | (_, None) => Ok(()),
            (n, Some(age)) => Err(Failed::Finding(format!(
                "{n} of {} live sessions without an event for {} or longer",
                live.len(),
                view::text::duration(age),
            ))),
        }
    }

    fn read_all(&self, context: &Context) -> Result<Deep, Failed> {
        let mut deep = Deep::default();
        let masked = Finder::new("[masked rule=");
        let cut = Finder::new("\"$cut\"");
        for dir in context.store.dirs()? {
            let Ok(found) = segments(&dir) else { continue };
            for (_, path) in found {
                let mut reader = SegmentReader::open(&path)?;
                let mut writer = None;
                while let Some(found) = reader.next()? {
                    let line = match found {
                        Found::Damaged(damage) => {
                            deep.damages.push(damage);
                            continue;
                        }
                        Found::Line(line) => line,
                    };
                    let bytes = line.as_bytes();
                    deep.masked += masked.find_iter(bytes).count() as u64;
                    deep.cut += cut.find_iter(bytes).count() as u64;
                    let said = |name: &str| line.payload().get(name);
                    match line.kind.as_ref() {
                        "gap" => {
                            deep.gaps += 1;
                            deep.missing += said("count").and_then(|n| n.u64()).unwrap_or(0);
                        }
                        "segment" => writer = said("writer").and_then(|w| w.value()),
                        _ => {}
                    }
                }
                let writer = writer.as_ref().and_then(Value::as_str);
                let alive = writer.is_some_and(|writer| context.store.is_alive(writer));
                deep.torn += u64::from(reader.tail() > 0 && !alive);
            }
        }
        Ok(deep)
    }
}

impl Deep {
    fn to_json(&self) -> Value {
        let damages = self.damages.iter().map(|damage| {
            json!({
                "path": damage.path,
                "offset": damage.offset,
                "bytes": damage.bytes,
                "why": damage.why.to_string(),
            })
        });
        json!({
            "damaged": self.damages.len(),
            "damages": damages.collect::<Vec<_>>(),
            "torn": self.torn,
            "gaps": self.gaps,
            "missing_events": self.missing,
            "masked": self.masked,
            "cut": self.cut,
        })
    }

    fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "  damage   {} places; {} torn tails of dead writers",
                self.damages.len(),
                self.torn
            ),
            format!(
                "  gaps     {}, with {} events missing",
                self.gaps, self.missing
            ),
            format!(
                "  masked   {} times in lines; {} values cut",
                self.masked, self.cut
            ),
        ]
    }
}

fn mirror_json(owed: &Owed) -> Value {
    json!({
        "owed_bytes": owed.bytes,
        "owed_since": owed.since.map(|since| time_text(since, 6)),
        "marked_segments": owed.marked,
        "dead_letters": owed.dead_letters,
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
        said.push(format!(
            "{} dead letters: `spanledger mirror --resend`",
            owed.dead_letters
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
