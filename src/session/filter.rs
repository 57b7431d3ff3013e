//! Which sessions and which parts of one are wanted.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::lookup::find_line;
use super::node::Node;
use super::status::Status;
use super::store::Entry;
use super::turns::Turn;
use crate::trace::Address;
use crate::trace::typed::Message;

/// Which sessions are wanted. By default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// With this status.
    pub status: Option<Status>,
    /// In this workspace, or below it.
    pub workspace: Option<PathBuf>,
    /// Last active no earlier, in nanoseconds since 1970.
    pub since: Option<u64>,
    /// With this text in the title or a message, in any case. Reads the sessions whole.
    pub text: Option<String>,
}

impl SessionFilter {
    /// Whether a session is wanted.
    pub fn matches(&self, entry: &Entry) -> bool {
        let summary = &entry.summary;
        let in_workspace = |wanted: &PathBuf| {
            let root = summary.workspace_root.as_deref().unwrap_or_default();
            Path::new(root).starts_with(wanted)
        };
        (self.agent.is_none() || self.agent == summary.agent)
            && self.status.is_none_or(|status| status == entry.status)
            && self.since.is_none_or(|since| summary.last >= since)
            && self.workspace.as_ref().is_none_or(in_workspace)
            && self.text.as_ref().is_none_or(|text| contains(entry, text))
    }
}

/// Whether the title or any message of a session contains a text, in any case.
fn contains(entry: &Entry, text: &str) -> bool {
    let text = text.to_lowercase();
    let matches = |content: &str| content.to_lowercase().contains(&text);
    let summary = &entry.summary;
    let mut known = [&summary.title, &summary.first_message]
        .into_iter()
        .flatten();
    known.any(|content| matches(content)) || any_message(&entry.dir, matches).unwrap_or(false)
}

fn any_message(dir: &Path, matches: impl Fn(&str) -> bool) -> io::Result<bool> {
    let is_message = |bytes: &[u8]| memmem::find(bytes, b",\"kind\":\"message_").is_some();
    let found = find_line(dir, is_message, &mut Vec::new(), |line| {
        let content = Message::of(line).and_then(|message| message.content()?.text());
        Ok::<_, io::Error>(content.filter(|content| matches(content)).map(drop))
    })?;
    Ok(found.is_some())
}

/// How many lines before and after an address belong to its surroundings.
const AROUND: u64 = 12;

/// Which parts of a session are wanted. By default all. Feed it the turns in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnFilter {
    /// Only this run, from 1.
    pub run: Option<usize>,
    /// Only nodes that ended no earlier, in nanoseconds since 1970, or are open.
    pub since: Option<u64>,
    /// Only nodes near this line.
    pub around: Option<Address>,
    /// Only errors, and the spans that they happened in.
    pub errors: bool,
    /// Subagents that had errors: where they start counts as one.
    pub failed_subagents: HashSet<String>,
    runs: usize,
}

impl TurnFilter {
    /// The wanted part of a turn, if there is any.
    pub fn apply(&mut self, mut turn: Turn) -> Option<Turn> {
        if let Some(wanted) = self.run {
            turn.nodes.retain(|node| {
                self.runs += usize::from(node.starts_run());
                self.runs == wanted
            });
            if self.runs != wanted && turn.nodes.is_empty() {
                return None;
            }
        }
        self.narrow(&mut turn);
        let narrows = self.since.is_some() || self.around.is_some() || self.errors;
        let failed = turn.span.as_ref().filter(|_| self.errors);
        let failed = failed.is_some_and(|span| self.wants(span) && span.is_failure());
        (!narrows || failed || !turn.nodes.is_empty()).then_some(turn)
    }

    /// How many runs the turns so far had. Counted only if one run is wanted.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Whether a node is late enough and near enough.
    fn wants(&self, node: &Node) -> bool {
        let is_near = |address: Address| {
            node.address.seg == address.seg && node.address.seq.abs_diff(address.seq) <= AROUND
        };
        self.since.is_none_or(|since| node.end() >= since) && self.around.is_none_or(is_near)
    }

    /// Removes the unwanted nodes of a turn.
    pub fn narrow(&self, turn: &mut Turn) {
        turn.nodes.retain(|node| self.wants(node));
        if self.errors {
            keep_errors(turn, &self.failed_subagents);
        }
    }
}

/// Keeps errors, and the spans that they happened in.
fn keep_errors(turn: &mut Turn, failed_subagents: &HashSet<String>) {
    let mut spans: HashSet<u64> = HashSet::new();
    let is_kept = |node: &Node, spans: &HashSet<u64>| {
        let child = node.subagent();
        let failed = child.is_some_and(|id| failed_subagents.contains(&*id));
        failed || node.is_failure() || node.span_id.is_some_and(|id| spans.contains(&id))
    };
    // A parent comes before its children, so going backwards reaches it later.
    for node in turn.nodes.iter().rev() {
        if is_kept(node, &spans) {
            spans.extend(node.within());
            spans.extend(node.span_id);
        }
    }
    turn.nodes.retain(|node| is_kept(node, &spans));
}
