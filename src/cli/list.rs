//! `list`: the sessions there are.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use clap::Args;
use memchr::memmem;
use serde_json::json;

use super::context::{Context, Failed};
use crate::ledger::segments;
use crate::reader::{Found, SegmentReader};
use crate::session::{Entry, Survey};
use crate::view;

/// List sessions, the most recently active first
///
/// Reads the first and last lines of each session only, so it is quick however long they are.
///
/// A session of which nothing can be read is told on stderr, with --json also as an object with an
/// `error`; the command then exits with 3.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger list --status interrupted\n  spanledger list --agent planner --since 2h --tree"
)]
pub(crate) struct List {
    /// Only of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only with this status: busy, idle, waiting, retrying, error, ended, interrupted
    #[arg(long)]
    status: Option<String>,
    /// Only in this workspace (or below it)
    #[arg(long, value_name = "DIR")]
    workspace: Option<String>,
    /// Only those active in the last while, such as 30m, 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = super::context::parse_age)]
    since: Option<u64>,
    /// Only those whose title or messages have this text, in any case; reads them whole
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Show subagents and branches under their parents
    #[arg(long)]
    tree: bool,
    /// At most this many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

impl List {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if let Some(status) = &self.status
            && crate::session::Status::parse(status).is_none()
        {
            return Err(Failed::Usage(format!(
                "{status:?} is no status: busy, idle, waiting, retrying, error, ended, interrupted"
            )));
        }
        let Survey {
            mut entries,
            unreadable,
        } = context.store.survey()?;
        let total = entries.len();
        entries.retain(|entry| self.wants(entry, context.style.now));
        entries.truncate(self.limit.unwrap_or(usize::MAX));
        if context.json {
            for entry in &entries {
                let mut object = entry.summary.to_json(entry.status);
                object["bytes"] = json!(entry.bytes);
                context.object(&object)?;
            }
            for session in &unreadable {
                context.object(&json!({"dir": session.dir, "error": session.why}))?;
            }
            return context.unreadable(&unreadable);
        }
        if entries.is_empty() {
            let root = context.store.root().display().to_string();
            match total {
                0 if !unreadable.is_empty() => {}
                0 => context.line(&format!("No sessions in {root}. Try `spanledger demo`."))?,
                n => context.line(&format!("None of the {n} sessions in {root} match."))?,
            }
            return context.unreadable(&unreadable);
        }
        let rows = if self.tree {
            tree(&entries)
        } else {
            entries.iter().map(|e| (0, e)).collect()
        };
        let lines = view::list(&rows, &context.style);
        context.lines(&lines)?;
        context.unreadable(&unreadable)
    }

    fn wants(&self, entry: &Entry, now: u64) -> bool {
        let summary = &entry.summary;
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| value == Some(wanted))
        };
        let text = self.text.as_ref().is_none_or(|text| {
            let text = text.to_lowercase();
            let said = |said: &str| said.to_lowercase().contains(&text);
            [&summary.title, &summary.first_message]
                .into_iter()
                .flatten()
                .any(|t| said(t))
                || says(&entry.dir, said).unwrap_or(false)
        });
        let workspace = self.workspace.as_ref().is_none_or(|wanted| {
            let root = summary.workspace_root.as_deref().unwrap_or_default();
            std::path::Path::new(root).starts_with(wanted)
        });
        is(&self.agent, summary.agent.as_deref())
            && is(&self.status, Some(entry.status.as_str()))
            && workspace
            && text
            && self
                .since
                .is_none_or(|age| summary.last >= now.saturating_sub(age))
    }
}

/// Whether any message of a session is wanted.
fn says(dir: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<bool> {
    for (_, path) in segments(dir)? {
        let mut segment = SegmentReader::open(path)?;
        let message = |bytes: &[u8]| memmem::find(bytes, b",\"kind\":\"message_").is_some();
        while let Some(found) = segment.next_where(message)? {
            let Found::Line(line) = found else { continue };
            let content = line.payload().get("content").and_then(|value| value.text());
            if content.is_some_and(|content| wanted(&content)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Parents before their subagents and branches. Each session comes once: of damaged ones that are
/// each other's parents the newest stands on top.
fn tree(entries: &[Entry]) -> Vec<(usize, &Entry)> {
    let ids: HashSet<&String> = entries.iter().map(|e| &e.summary.session_id).collect();
    let mut children: HashMap<&String, Vec<usize>> = HashMap::new();
    let mut tops = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        match parent_of(entry).filter(|parent| ids.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(at),
            None => tops.push(at),
        }
    }
    let mut shown = vec![false; entries.len()];
    let mut out = Vec::with_capacity(entries.len());
    for top in tops.into_iter().chain(0..entries.len()) {
        let mut next = vec![(0, top)];
        while let Some((depth, at)) = next.pop() {
            if !std::mem::replace(&mut shown[at], true) {
                let entry = &entries[at];
                out.push((depth, entry));
                let below = children.get(&entry.summary.session_id);
                let below = below.into_iter().flatten().rev();
                next.extend(below.map(|child| (depth + 1, *child)));
            }
        }
    }
    out
}

fn parent_of(entry: &Entry) -> Option<&String> {
    let summary = &entry.summary;
    summary
        .parent_session_id
        .as_ref()
        .or(summary.branched_from.as_ref())
}
