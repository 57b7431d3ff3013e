//! `prune`: lets go of old sessions.

use std::collections::HashMap;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed};
use crate::ledger::{self, Removal, time_text};
use crate::reader::about;
use crate::session::{Entry, Retention, Survey};
use crate::view::text::{line, plural, size};

/// Remove old sessions: whole ones only, and never one that is live
///
/// Each limit that is given is heeded: a session goes if any of them says so. A session and its
/// subagents, and theirs, are a family, which goes or stays as a whole and is as new as its newest
/// member. A subagent that ran under several sessions makes them one family; one whose parent is
/// gone has its own, and one whose parent can't be read stays. A family stays while a process that
/// wrote to any of it lives, while somebody holds the lock of any of it, and, unless --force, while
/// the mirror still has to send something of it. Each session is renamed away and then removed, so
/// that nobody ever sees half of it. If one can't be removed, the rest of its family stays, and the
/// command exits with 2. With --json, the reason of what is kept is live, owed, locked, family or
/// failed.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("limit").required(true).multiple(true),
    after_help = "Examples:\n  spanledger prune --older-than 30d --dry-run\n  spanledger prune --max-size 1GB --keep 1000"
)]
pub(crate) struct Prune {
    /// Remove families last active longer ago than this, such as 30d
    #[arg(long, value_name = "AGE", group = "limit", value_parser = super::context::parse_age)]
    older_than: Option<u64>,
    /// Keep this many sessions, those last active; their subagents stay with them and don't count
    #[arg(long, value_name = "N", group = "limit")]
    keep: Option<usize>,
    /// Keep this much, of the families last active, such as 500MB or 1GiB
    #[arg(long, value_name = "SIZE", group = "limit", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Also remove what the mirror still has to send
    #[arg(long)]
    force: bool,
}

impl Prune {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let root = context.store.root().to_owned();
        let Survey {
            entries,
            unreadable,
        } = context.store.survey()?;
        let leftovers = match self.dry_run {
            true => (0, 0),
            false => ledger::remove_leftovers(&root).map_err(about(&root))?,
        };
        let sizes: HashMap<_, _> = entries
            .iter()
            .map(|entry| (entry.dir.clone(), ledger::dir_size(&entry.dir)))
            .collect();
        let size_of = |entry: &Entry| sizes.get(&entry.dir).copied().unwrap_or(0);
        let retention = Retention {
            older_than: self.older_than,
            keep: self.keep,
            max_size: self.max_size,
        };
        let is_unreadable = |dir: &Path| unreadable.iter().any(|session| session.dir == dir);
        let (mut removed, mut kept) = (Tally::default(), Tally::default());
        let mut bytes = 0;
        let mut failed = None;
        for family in retention.over(&entries, &size_of, context.style.now) {
            let top = &family.top().summary.session_id;
            // Whoever cuts this short leaves the session, and not its subagents without it.
            let from_below: Vec<_> = family.members().iter().rev().map(|e| &e.dir).collect();
            let of_unreadable = family.members().iter().any(|entry| {
                let mut parents = entry.summary.parents().iter();
                parents.any(|id| is_unreadable(&context.store.dir(id)))
            });
            let done = match self.dry_run {
                _ if of_unreadable => Ok(vec![Removal::Family; from_below.len()]),
                true => ledger::can_remove_sessions(&root, &from_below, self.force),
                false => ledger::remove_sessions(&root, &from_below, self.force),
            };
            let done = done.map_err(|error| Failed::Usage(format!("{top}: {error}")))?;
            for (entry, done) in family.members().iter().zip(done.iter().rev()) {
                let mut object = json!({
                    "session_id": entry.summary.session_id,
                    "parent_session_id": entry.summary.parent_session_id,
                    "family": top,
                    "last": time_text(entry.summary.last, 6),
                    "bytes": size_of(entry),
                });
                if let Removal::Removed { bytes: freed } = done {
                    bytes += freed;
                    object["bytes"] = json!(freed);
                    self.say(context, entry, None, *freed)?;
                    removed.add(object);
                } else if let Some((word, why)) = reason(done) {
                    object["reason"] = json!(word);
                    if let Removal::Failed { why } = done {
                        object["why"] = json!(why);
                        failed = Some(format!("{}: {why}", line(&entry.summary.session_id)));
                    }
                    self.say(context, entry, Some(&why), size_of(entry))?;
                    kept.add(object);
                }
            }
        }
        if context.json {
            context.document(&json!({
                "dry_run": self.dry_run,
                "removed": removed.sessions,
                "families": removed.families,
                "kept": kept.sessions,
                "kept_families": kept.families,
                "bytes": bytes,
                "leftovers": leftovers.0,
                "leftover_bytes": leftovers.1,
            }))?;
        } else {
            self.sum_up(context, &removed, &kept, bytes, leftovers)?;
        }
        if let Some(failed) = failed {
            return Err(Failed::Usage(failed));
        }
        // Nobody knows how old these are, or whether somebody still writes them: they stay.
        context.unreadable(&unreadable)
    }

    fn say(
        &self,
        context: &mut Context,
        entry: &Entry,
        kept: Option<&str>,
        bytes: u64,
    ) -> Result<(), Failed> {
        if context.json {
            return Ok(());
        }
        let id = line(&entry.summary.session_id).into_owned();
        let verb = match (kept, self.dry_run) {
            (Some(_), _) => "kept",
            (None, true) => "would remove",
            (None, false) => "removed",
        };
        let last = context.style.moment(entry.summary.last);
        let of = match &entry.summary.parent_session_id {
            Some(parent) => format!(", subagent of {}", line(parent)),
            None => String::new(),
        };
        let why = kept.map(|why| format!(": {why}")).unwrap_or_default();
        let text = format!("{verb} {id}  {}, last active {last}{of}{why}", size(bytes));
        context.line(&text)
    }

    fn sum_up(
        &self,
        context: &mut Context,
        removed: &Tally,
        kept: &Tally,
        bytes: u64,
        leftovers: (usize, u64),
    ) -> Result<(), Failed> {
        if leftovers.0 > 0 {
            context.line(&format!(
                "removed what an earlier prune left of {} sessions, {}",
                leftovers.0,
                size(leftovers.1)
            ))?;
        }
        let verb = match self.dry_run {
            true => "to remove",
            false => "removed",
        };
        let sessions = plural(removed.sessions.len() as u64, "session");
        let mut text = format!("{sessions}{} {verb}, {}", removed.of(), size(bytes));
        if !kept.sessions.is_empty() {
            text.push_str(&format!("; {}{} kept", kept.sessions.len(), kept.of()));
        }
        context.line(&text)
    }
}

/// What became of sessions, and of how many families they are.
#[derive(Default)]
struct Tally {
    sessions: Vec<Value>,
    families: usize,
}

impl Tally {
    /// Those of a family come one after the other.
    fn add(&mut self, session: Value) {
        let before = self.sessions.last().map(|last| &last["family"]);
        self.families += usize::from(before != Some(&session["family"]));
        self.sessions.push(session);
    }

    /// Of how many families, where that isn't one for each.
    fn of(&self) -> String {
        match self.families {
            n if n == self.sessions.len() => String::new(),
            1 => " of 1 family".into(),
            n => format!(" of {n} families"),
        }
    }
}

/// Why a session stayed: a word, and the same for people.
fn reason(done: &Removal) -> Option<(&'static str, String)> {
    Some(match done {
        Removal::Live => ("live", "a process that wrote to it lives".into()),
        Removal::Owed { segments } => (
            "owed",
            format!("the mirror still has to send {segments} of its segments (--force)"),
        ),
        Removal::Locked => ("locked", "somebody else holds its lock".into()),
        Removal::Family => ("family", "another of its family stays".into()),
        Removal::Failed { why } => ("failed", why.clone()),
        // Whoever was quicker said so.
        _ => return None,
    })
}

/// A size such as `500MB` (thousands) or `1GiB` (1024s), in bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is no size: expected a number and B, KB, MB, GB, TB or KiB, MiB, GiB, TiB, such as 1GB"
        )
    };
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let number: f64 = text[..at].parse().map_err(|_| wrong())?;
    let unit = match text[at..].trim().to_ascii_lowercase().as_str() {
        "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    Ok((number * unit) as u64)
}
