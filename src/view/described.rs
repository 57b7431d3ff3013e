//! The nodes of a turn with their descriptions: the same for the timeline and for transcripts.

use std::collections::HashSet;

use super::describe::{Description, DetailKind, Liveness, describe, stop_error, with_usage};
use super::verdict::Verdict;
use crate::session::{Branch, Hidden, Node, NodeState, Role, Step, Turn};
use crate::trace::{Kind, Usage};

/// What a subagent used, by its session's id.
pub(super) type Used<'a> = &'a dyn Fn(&str) -> Option<Usage>;

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
    /// What a subagent used.
    pub used: Option<Used<'a>>,
    /// What rewinds have hidden: those nodes are marked.
    pub hidden: Option<&'a Hidden>,
    /// The sessions that were branched from this one: their messages are marked.
    pub branches: &'a [Branch],
}

/// A node with its description, and what is inside it.
pub(super) struct Described<'a> {
    pub node: &'a Node,
    pub description: Description,
    pub inside: Vec<Step<'a>>,
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
        let mut verdict = decision.as_ref().map(Verdict::of).unwrap_or_default();
        if !self.permission_rows && node.kind == Kind::ToolCall {
            inside.retain(|step| !verdict.covers(step) && !verdict.covers_hook(node, step));
        }
        let mut description = describe(node, verdict, liveness);
        if let (Some(used), Some(id)) = (self.used, node.subagent()) {
            let used = used(&id).filter(|used| *used != Usage::default());
            description.facts = with_usage(String::new(), used);
        }
        if !assets.is_empty() {
            let assets = format!("  ({})", assets.join(", "));
            description.subject.push_str(&assets);
        }
        description.notes.extend(self.marks(node));
        Described {
            node,
            description,
            inside,
        }
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
