//! `prune`: removes old sessions.

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed};
use spanledger::ledger::Removal;
use spanledger::session::{Pruned, Retention};
use spanledger::trace::time_text;
use spanledger::view::text::{line, plural, size};

/// Remove old sessions: whole ones only, and never a live one
///
/// A session is removed if it is over any of the given limits. A session and its subagents, and theirs,
/// are a family, which is kept or removed as a whole and is as new as its newest member. A subagent that
/// ran under several sessions makes them one family; one whose parent is gone has its own, and one
/// whose parent can't be read is kept. A family is kept while a process that wrote to any of it is
/// alive, while another process holds the lock of any of it, and, without --force, while any of it is
/// not exported yet. Each session is renamed and then removed, so that no reader sees half of it. If one
/// can't be removed, the rest of its family is kept, and the command exits with 2. With --json, the
/// reason of what is kept is live, owed, locked, family or failed.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("limit").required(true).multiple(true),
    after_help = "Examples:\n  spanledger prune --older-than 30d --dry-run\n  spanledger prune --max-size 1GB --keep 1000"
)]
pub(crate) struct Prune {
    /// Remove families last active longer ago than this, such as 30d
    #[arg(long, value_name = "AGE", group = "limit", value_parser = super::context::parse_age)]
    older_than: Option<u64>,
    /// Keep this many sessions, those last active; their subagents are kept with them and don't count
    #[arg(long, value_name = "N", group = "limit")]
    keep: Option<usize>,
    /// Keep this much, of the families last active, such as 500MB or 1GiB
    #[arg(long, value_name = "SIZE", group = "limit", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Also remove what is not exported yet
    #[arg(long)]
    force: bool,
}

impl Prune {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let store = context.store.clone();
        let survey = store.survey()?;
        let leftovers = match self.dry_run {
            true => (0, 0),
            false => store.remove_leftovers()?,
        };
        let retention = Retention {
            older_than: self.older_than,
            keep: self.keep,
            max_size: self.max_size,
        };
        let (mut removed, mut kept) = (Tally::default(), Tally::default());
        let mut failed = None;
        let flags = (self.dry_run, self.force);
        retention.apply(&store, &survey, context.style.now, flags, |pruned| {
            let mut object = json!({
                "session_id": pruned.entry.summary.session_id,
                "parent_session_id": pruned.entry.summary.parent_session_id,
                "family": pruned.family,
                "last": time_text(pruned.entry.summary.last, 6),
                "bytes": pruned.bytes,
            });
            let reason = reason(&pruned.removal);
            if let Removal::Failed { why } = &pruned.removal {
                object["why"] = json!(why);
                let id = line(&pruned.entry.summary.session_id);
                failed = Some(format!("{id}: {why}"));
            }
            match (&pruned.removal, &reason) {
                (Removal::Removed { .. }, _) => removed.add(object, pruned.bytes),
                (_, Some((word, _))) => {
                    object["reason"] = json!(word);
                    kept.add(object, pruned.bytes);
                }
                // Another process was faster.
                _ => return Ok(()),
            }
            self.print(context, &pruned, reason.map(|(_, why)| why).as_deref())
        })?;
        if context.json {
            context.document(&json!({
                "dry_run": self.dry_run,
                "removed": removed.sessions,
                "families": removed.families,
                "kept": kept.sessions,
                "kept_families": kept.families,
                "bytes": removed.bytes,
                "leftovers": leftovers.0,
                "leftover_bytes": leftovers.1,
            }))?;
        } else {
            self.sum_up(context, &removed, &kept, leftovers)?;
        }
        if let Some(failed) = failed {
            return Err(Failed::Usage(failed));
        }
        // Their age isn't known, nor whether they are live: they are kept.
        context.unreadable = survey.unreadable;
        Ok(())
    }

    fn print(
        &self,
        context: &mut Context,
        pruned: &Pruned<'_>,
        kept: Option<&str>,
    ) -> Result<(), Failed> {
        if context.json {
            return Ok(());
        }
        let summary = &pruned.entry.summary;
        let id = line(&summary.session_id);
        let verb = match (kept, self.dry_run) {
            (Some(_), _) => "kept",
            (None, true) => "would remove",
            (None, false) => "removed",
        };
        let last = context.style.moment(summary.last);
        let of = match &summary.parent_session_id {
            Some(parent) => format!(", subagent of {}", line(parent)),
            None => String::new(),
        };
        let why = kept.map(|why| format!(": {why}")).unwrap_or_default();
        let bytes = size(pruned.bytes);
        context.line(&format!(
            "{verb} {id}  {bytes}, last active {last}{of}{why}"
        ))
    }

    fn sum_up(
        &self,
        context: &mut Context,
        removed: &Tally,
        kept: &Tally,
        leftovers: (usize, u64),
    ) -> Result<(), Failed> {
        if leftovers.0 > 0 {
            let (n, bytes) = (plural(leftovers.0 as u64, "session"), size(leftovers.1));
            context.line(&format!(
                "removed what an earlier prune left of {n}, {bytes}"
            ))?;
        }
        let verb = match self.dry_run {
            true => "to remove",
            false => "removed",
        };
        let sessions = plural(removed.sessions.len() as u64, "session");
        let mut text = format!("{sessions}{} {verb}, {}", removed.of(), size(removed.bytes));
        if !kept.sessions.is_empty() {
            text.push_str(&format!("; {}{} kept", kept.sessions.len(), kept.of()));
        }
        context.line(&text)
    }
}

/// Sessions, and how many families they are.
#[derive(Default)]
struct Tally {
    sessions: Vec<Value>,
    families: usize,
    bytes: u64,
}

impl Tally {
    /// The members of a family come one after the other.
    fn add(&mut self, session: Value, bytes: u64) {
        let before = self.sessions.last().map(|last| &last["family"]);
        self.families += usize::from(before != Some(&session["family"]));
        self.sessions.push(session);
        self.bytes += bytes;
    }

    /// Of how many families, if that is not one for each.
    fn of(&self) -> String {
        match self.families {
            n if n == self.sessions.len() => String::new(),
            1 => " of 1 family".into(),
            n => format!(" of {n} families"),
        }
    }
}

/// Why a session is kept: a word, and the same for people.
fn reason(removal: &Removal) -> Option<(&'static str, String)> {
    Some(match removal {
        Removal::Live => ("live", "still running".into()),
        Removal::Owed { .. } => (
            "owed",
            "not exported yet (--force removes it anyway)".into(),
        ),
        Removal::Locked => ("locked", "another process holds its lock".into()),
        Removal::Family => ("family", "belongs to a session that is kept".into()),
        Removal::Failed { why } => ("failed", why.clone()),
        _ => return None,
    })
}

/// A size such as `500MB` (thousands) or `1GiB` (1024s), in bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || "write a number and B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 1GB".to_owned();
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
