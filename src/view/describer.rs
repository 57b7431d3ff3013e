//! The nodes of a turn with their descriptions: the same for the timeline and for transcripts.

use std::collections::HashSet;

use super::describe::{
    Description, Detail, DetailKind, Liveness, describe, stop_error, with_usage,
};
use super::permission_words::PermissionWords;
use super::text::{duration, line, plural};
use crate::cost::Cost;
use crate::session::{Branch, Hidden, Node, NodeState, Role, Step, Store, SubagentResult, Turn};
use crate::trace::{Kind, Outcome, Usage};

/// Describes the nodes of turns.
#[derive(Clone, Copy, Default)]
pub(super) struct Describer<'a> {
    /// The session is over: its open spans were left open.
    pub over: bool,
    /// A permission, and a hook that allowed or denied a call, has a row of its own, and not just words on the row of
    /// the tool call.
    pub permission_rows: bool,
    /// A prompt, catalog or rules at the start of a run has a row of its own.
    pub asset_rows: bool,
    /// Where the sessions of subagents are: a row that starts one has how it went.
    pub store: Option<&'a Store>,
    /// What rewinds have hidden: those nodes are marked.
    pub hidden: Option<&'a Hidden>,
    /// The sessions that were branched from this one: their messages are marked.
    pub branches: &'a [Branch],
}

/// A node with its description, and what is inside it.
pub(super) struct Described<'a> {
    pub node: &'a Node,
    pub description: Description,
    /// How long the span, or the subagent that starts here, took.
    pub duration: Option<u64>,
    pub inside: Vec<Step<'a>>,
}

/// The time that a turn covers, in nanoseconds since 1970.
pub(super) struct TurnTime {
    pub start: u64,
    pub end: u64,
    /// Between turns there is no time to measure against: each row shows the time of day.
    pub outside: bool,
}

impl TurnTime {
    pub fn of(turn: &Turn) -> Self {
        let all = || turn.span.iter().chain(&turn.nodes);
        let start = all().map(|node| node.start).min().unwrap_or(0);
        Self {
            start,
            end: all().map(Node::end).max().unwrap_or(start),
            outside: turn.index.is_none(),
        }
    }

    /// Where a moment lies in the turn, if that has so many equal parts.
    pub fn part(&self, ns: u64, parts: u64) -> u64 {
        let whole = self.end.saturating_sub(self.start).max(1);
        let part = ns.saturating_sub(self.start).min(whole);
        (u128::from(part) * u128::from(parts) / u128::from(whole)) as u64
    }
}

impl<'a> Describer<'a> {
    /// The top nodes of a turn.
    pub fn turn<'b>(&self, turn: &'b Turn) -> impl Iterator<Item = Described<'b>> {
        let in_open = turn.span.as_ref().is_some_and(is_open);
        self.level(turn.steps(), in_open)
    }

    /// The nodes inside a node.
    pub fn inside<'b>(
        &self,
        node: &Node,
        steps: Vec<Step<'b>>,
    ) -> impl Iterator<Item = Described<'b>> {
        self.level(steps, is_open(node))
    }

    /// One level of the tree, each node as it is asked for. `in_open`: the span that contains it is open.
    fn level<'b>(
        &self,
        steps: Vec<Step<'b>>,
        in_open: bool,
    ) -> impl Iterator<Item = Described<'b>> {
        let liveness = match self.over {
            true => Liveness::Over,
            false => Liveness::Live { in_open },
        };
        let errors = steps.iter().filter(|step| step.node.kind == Kind::Error);
        let stops = errors.filter_map(|step| Some(stop_error(step.node)?.json()));
        let stops: HashSet<&str> = stops.collect();
        let mut steps = steps.into_iter().peekable();
        std::iter::from_fn(move || {
            // The turn's title and the header show these.
            let has_row = |kind| !matches!(kind, Kind::ModelUsage | Kind::SessionTitle);
            let step = steps.find(|step| has_row(step.node.kind))?;
            let mut assets = Vec::new();
            if !self.asset_rows && step.node.starts_run() {
                while let Some(next) = steps.next_if(|next| asset(next.node).is_some()) {
                    assets.extend(asset(next.node).filter(|text| !text.is_empty()));
                }
            }
            let mut one = self.one(step, assets, liveness);
            // The error that a limit left beside the call has a row of its own.
            if stop_error(one.node).is_some_and(|error| stops.contains(error.json())) {
                let details = &mut one.description.details;
                details.retain(|detail| {
                    one.node.kind == Kind::Error || detail.kind != DetailKind::Error
                });
            }
            Some(one)
        })
    }

    fn one<'b>(&self, step: Step<'b>, assets: Vec<String>, liveness: Liveness) -> Described<'b> {
        let Step {
            node,
            mut inside,
            decision,
            ..
        } = step;
        let mut words = decision
            .as_ref()
            .map(PermissionWords::of)
            .unwrap_or_default();
        if !self.permission_rows && node.kind == Kind::ToolCall {
            inside.retain(|step| !words.covers(step) && !words.covers_hook(node, step));
        }
        let mut description = describe(node, words, liveness);
        let result = self.result(node);
        if let Some(result) = &result {
            add_result(&mut description, node, result);
        }
        if !assets.is_empty() {
            let assets = format!("  ({})", assets.join(", "));
            description.subject.push_str(&assets);
        }
        description.notes.extend(self.marks(node));
        let took = result.and_then(|result| result.duration_since(node.start));
        Described {
            node,
            description,
            duration: node.duration.or(took),
            inside,
        }
    }

    /// How the subagent went that starts at a node.
    pub fn result(&self, node: &Node) -> Option<SubagentResult> {
        self.store?.subagent(&node.subagent()?)
    }

    /// That a node is hidden, and the branches that start at a message.
    fn marks(&self, node: &Node) -> Vec<String> {
        let by = self.hidden.and_then(|hidden| hidden.by(node));
        let mut marks: Vec<_> = by.map(|by| format!("hidden by {by}")).into_iter().collect();
        if matches!(node.role(), Some(Role::User | Role::Assistant)) && !self.branches.is_empty() {
            let id = node.get("message_id").and_then(|id| id.text());
            let here =
                |branch: &&Branch| id.is_some() && branch.message_id.as_deref() == id.as_deref();
            let ids = self.branches.iter().filter(here);
            marks.extend(ids.map(|branch| {
                let id = super::text::line(&branch.session_id);
                format!("branched to {id}")
            }));
        }
        marks
    }
}

/// Duration, outcome, usage and error of a subagent.
fn add_result(description: &mut Description, node: &Node, result: &SubagentResult) {
    let interrupted = result.outcome.as_deref() == Some(Outcome::Interrupted.as_str());
    let at_least = if interrupted { "≥" } else { "" };
    let took = result.duration_since(node.start);
    let took = took.map(|ns| format!("{at_least}{}", duration(ns)));
    let took = took.or(result.is_live.then(|| "still open".to_owned()));
    let mut went = took.map_or(String::new(), |took| format!("  {took}"));
    let good = [Outcome::Ok, Outcome::Unset].map(Outcome::as_str);
    let outcome = result.outcome.as_deref();
    let bad = outcome.filter(|outcome| !good.contains(outcome));
    match bad.filter(|_| !result.is_live) {
        Some(outcome) => went.push_str(&format!("  {}", line(outcome).to_uppercase())),
        None if result.errors > 0 => {
            went.push_str(&format!("  {} inside", plural(result.errors, "error")));
        }
        None => {}
    }
    let cost = Cost::recorded(&result.usage);
    let used = Some(result.usage.clone()).filter(|used| *used != Usage::default());
    description.facts = with_usage(went, used, &cost);
    description
        .details
        .extend(result.error.clone().map(|error| Detail {
            kind: DetailKind::Error,
            text: error.into(),
            lines: 2,
        }));
}

pub(super) fn is_open(node: &Node) -> bool {
    node.state == NodeState::Open
}

/// A prompt, catalog or rules at the start of a run, with its address; an empty text for the title,
/// which has no row.
fn asset(node: &Node) -> Option<String> {
    let what = match node.kind {
        Kind::SystemPrompt => "prompt",
        Kind::ToolCatalog => "tools",
        Kind::PermissionRules => "rules",
        Kind::SessionTitle => return Some(String::new()),
        _ => return None,
    };
    Some(format!("{what} {}", node.address))
}
