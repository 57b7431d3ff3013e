//! One description of a node, for every layout: the timeline, `tail`, `find`, transcripts.

mod watched;

use std::borrow::Cow;

pub(super) use self::watched::{denying_limit, stop_error};
use super::outcome::{bad_outcome, duration_of, how_it_went};
use super::permission_words::PermissionWords;
use super::stats::cost_sum;
use super::style::Tone;
use super::text::{Text, count, duration, line, thousands};
use crate::cost::Cost;
use crate::session::{Action, Item, Node, NodeState, Role};
use crate::trace::typed::{
    Attempt, Branch, Compaction, ContextAsset, Hitl, Log, ModelCall, Permission, Process, Rewind,
    Run, SegmentHeader, ToolCall, Turn,
};
use crate::trace::{Kind, Outcome, RawLine, RawValue, Usage};

/// A node in words.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// What it is, in a word.
    pub label: String,
    /// The color of the label.
    pub tone: Tone,
    /// What it belongs to: of use only without the timeline's tree.
    pub owner: String,
    /// What it is about. A layout may truncate it.
    pub subject: String,
    /// Duration, outcome and usage. A layout uses the first wording that fits, else the last.
    pub facts: Vec<String>,
    /// The rules that decided. A layout uses the first wording of each that fits, or marks that it is left
    /// out.
    pub rules: Vec<Vec<String>>,
    /// Facts that a layout puts on the row, or below it.
    pub notes: Vec<String>,
    /// Less important facts. A layout uses the first wording of each that fits, or none.
    pub extras: Vec<Vec<String>>,
    /// What the rest of the timeline shows: of use only in one line.
    pub context: Vec<String>,
    /// The text of a message.
    pub message: Option<Text>,
    /// Input, output and error.
    pub details: Vec<Detail>,
}

/// A text that belongs to a node.
#[derive(Clone, Debug)]
pub struct Detail {
    /// What it is.
    pub kind: DetailKind,
    /// The text.
    pub text: Text,
    /// How many lines to show unless everything is wanted.
    pub lines: usize,
}

/// What a text is to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailKind {
    /// The input of a tool.
    Input,
    /// The output of a tool, or a summary.
    Output,
    /// An error.
    Error,
}

impl DetailKind {
    /// The mark before the text.
    pub const fn mark(self) -> char {
        match self {
            Self::Input => '←',
            Self::Output => '→',
            Self::Error => '✗',
        }
    }

    /// The color of the text.
    pub const fn tone(self) -> Tone {
        match self {
            Self::Input => Tone::Plain,
            Self::Output => Tone::Quiet,
            Self::Error => Tone::Bad,
        }
    }
}

/// Whether a node without an end can still get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// A line by itself: what came later isn't known.
    Unknown,
    /// Its session is live.
    Live {
        /// The span that contains it is open.
        in_open: bool,
    },
    /// Its session is over: an open span was left open.
    Over,
}

/// A line in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    /// What it is, in a word.
    pub label: String,
    /// Its text, in one line and safe for a terminal.
    pub text: String,
    /// Its color.
    pub tone: Tone,
}

/// Describes a line in a few words.
///
/// ```
/// # let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"s","payload":{"tool_id":"bash","args":{"n":3}}}"#;
/// let line = spanledger::trace::RawLine::parse(bytes)?;
/// let brief = spanledger::view::brief(&line);
/// assert_eq!((brief.label.as_str(), brief.text.as_str()), ("tool", r#"bash  ← {"n":3}"#));
/// # Ok::<(), spanledger::trace::LineError>(())
/// ```
pub fn brief(raw: &RawLine<'_>) -> Brief {
    let node = Node::of_line(raw);
    let described = describe(&node, PermissionWords::default(), Liveness::Unknown);
    let failed = node.outcome().is_some_and(|outcome| {
        outcome.is_error() || matches!(outcome, Outcome::Interrupted | Outcome::Denied)
    });
    Brief {
        text: described.one_line(node.state),
        tone: if failed { Tone::Bad } else { described.tone },
        label: described.label,
    }
}

/// Describes a node. `words`: the permissions inside it that have no row of their own.
pub fn describe(node: &Node, words: PermissionWords, liveness: Liveness) -> Description {
    let mut out = Description::default();
    out.item(node, words, liveness);
    if let Some(error) = node.error() {
        out.detail(DetailKind::Error, error.into(), 2);
    }
    if liveness == (Liveness::Live { in_open: true }) && node.is_arriving() {
        out.subject = "(so far)".into();
    }
    // Nothing of it may affect the terminal.
    let texts = out.extras.iter_mut().chain(&mut out.rules).flatten();
    let texts = texts.chain(&mut out.facts).chain(&mut out.notes);
    let texts = texts.chain(&mut out.context);
    for text in texts.chain([&mut out.subject, &mut out.label, &mut out.owner]) {
        *text = line(text.trim_end()).into_owned();
    }
    out
}

impl Description {
    /// All of it in one line, safe for a terminal. The input is left out where the outcome is known.
    fn one_line(&self, state: NodeState) -> String {
        let mut parts: Vec<Cow<'_, str>> = vec![(&self.owner).into(), (&self.subject).into()];
        parts.extend(self.facts.first().map(|facts| facts.trim_start().into()));
        let extras = self.rules.iter().chain(&self.extras);
        let extras = extras.filter_map(|extra| extra.first());
        let others = self.notes.iter().chain(&self.context);
        parts.extend(extras.chain(others).map(|text| text.into()));
        parts.extend(
            self.message
                .as_ref()
                .map(|message| message.one_line().into()),
        );
        let is_error = |detail: &&Detail| detail.kind == DetailKind::Error;
        let errors = self.details.iter().filter(is_error);
        let others = self.details.iter().filter(|detail| !is_error(detail));
        for detail in errors.chain(others) {
            if detail.kind != DetailKind::Input || state == NodeState::Open {
                let (mark, text) = (detail.kind.mark(), detail.text.one_line());
                parts.push(format!("{mark} {text}").into());
            }
        }
        parts.retain(|part| !part.is_empty());
        line(parts.join("  ").trim()).into_owned()
    }

    fn detail(&mut self, kind: DetailKind, text: Text, lines: usize) {
        self.details.push(Detail { kind, text, lines });
    }

    fn named(&mut self, label: &str, tone: Tone, subject: impl Into<String>) {
        self.label = label.into();
        self.tone = tone;
        self.subject = subject.into();
    }

    fn item(&mut self, node: &Node, words: PermissionWords, liveness: Liveness) {
        let went = || how_it_went(node, liveness);
        match node.item() {
            Item::Run(run) if node.starts_run() && node.state != NodeState::Closed => {
                self.run(node.kind, &run);
            }
            Item::Run(run) => self.run_ended(node, &run),
            Item::Turn(turn) => self.turn(node, &turn, went()),
            Item::ModelCall(call) => self.model(node, &call, went()),
            Item::ToolCall(call) => self.tool(&call, went(), words),
            Item::Permission(permission) => self.permission(node, &permission, &words),
            Item::Compaction(compaction) => self.compaction(&compaction, went()),
            Item::OtherSpan(span) => {
                self.named("span", Tone::Plain, span.name().unwrap_or_default());
                self.facts = vec![went()];
            }
            Item::Message(message) => self.message(node, message.content()),
            Item::Delta(delta) => self.message(node, delta.text()),
            Item::Hitl(hitl) if node.kind == Kind::HitlRequest => {
                self.named(
                    "asks",
                    Tone::Person,
                    hitl.interrupt_id().unwrap_or_default(),
                );
                self.context(hitl.tool_id());
            }
            Item::Hitl(hitl) => self.answer(&hitl),
            Item::Subagent(child) => {
                let words = [child.agent(), child.child_session_id()];
                let words = words.map(Option::unwrap_or_default).join(" ");
                self.named("subagent", Tone::Look, words);
            }
            Item::Artifact(artifact) => {
                let words = [artifact.path(), artifact.caption()];
                self.named("artifact", Tone::Plain, joined(words));
            }
            Item::Attempt(attempt) => self.attempt(&attempt),
            Item::Rewind(rewind) => self.rewind(&rewind),
            Item::Branch(branch) => self.branch(&branch),
            Item::ContextAsset(asset) => self.asset(node.kind, &asset),
            Item::ErrorEvent(_) => self.error_event(node),
            Item::Hook(hook) => self.hook(&hook),
            Item::LoopWarning(warning) => self.loop_warning(&warning),
            Item::SessionTitle(title) => {
                self.named("title", Tone::Plain, title.title().unwrap_or_default());
            }
            Item::SessionStatus(status) => {
                self.named("status", Tone::Plain, status.status().unwrap_or_default());
                self.context(status.message());
            }
            Item::Log(log) => self.log(node, &log),
            Item::SegmentHeader(header) => self.process(&header),
            Item::Gap(gap) => {
                let (n, cause) = (count(gap.count()), gap.cause().unwrap_or_default());
                self.named("GAP", Tone::Bad, format!("{n} events missing: {cause}"));
            }
            Item::SpanUpdate(_) => self.named("update", Tone::Quiet, all_fields(node)),
            _ => self.named(node.kind_name(), Tone::Quiet, all_fields(node)),
        }
    }

    fn run(&mut self, kind: Kind, run: &Run<'_>) {
        let label = match kind {
            Kind::SessionStart => "run",
            _ => "resumed",
        };
        self.named(label, Tone::Plain, run.agent().unwrap_or_default());
        self.context(run.model_id());
        let parent = run.parent_session_id();
        self.context(parent.map(|id| format!("subagent of {id}").into()));
    }

    fn run_ended(&mut self, node: &Node, run: &Run<'_>) {
        let outcome = bad_outcome(node).unwrap_or_else(|| {
            let outcome = node.outcome_name();
            outcome.unwrap_or_default().into_owned()
        });
        let took = run.duration_ns().map(|ns| duration_of(node, ns));
        let took = took.unwrap_or_default();
        self.named("run ended", Tone::Plain, format!("{outcome}  {took}"));
        self.context(run.stop_reason());
    }

    fn turn(&mut self, node: &Node, turn: &Turn<'_>, went: String) {
        let index = turn.turn_index().or(node.turn.map(u64::from));
        let index = index.map(|n| n.to_string());
        self.named("turn", Tone::Plain, index.unwrap_or_default());
        self.facts = with_usage(went, turn.usage(), &node.cost());
        self.extra(turn.stop_reason());
    }

    fn model(&mut self, node: &Node, call: &ModelCall<'_>, mut went: String) {
        self.named("model", Tone::Work, call.model_id().unwrap_or_default());
        if let Some(purpose) = call.purpose().filter(|purpose| purpose != "main") {
            self.subject.push_str(&format!(" for {purpose}"));
        }
        if let Some(attempt) = call.attempt().filter(|n| *n > 1) {
            went.push_str(&format!("  try {attempt}"));
        }
        let usage = call.usage();
        let input = usage.as_ref().and_then(|usage| usage.input_tokens);
        self.facts = with_usage(went, usage, &node.cost());
        let ttft = call.ttft_ms().map(|ms| ms.saturating_mul(1_000_000));
        let ttft = ttft.map(|ns| format!("first token {}", duration(ns)));
        let window = call.context_window();
        let window =
            window.map(|window| format!("context {} / {}", count(input), thousands(window)));
        self.notes.extend(ttft.into_iter().chain(window));
        self.extra(call.variant());
        self.extra(call.finish_reason());
    }

    fn tool(&mut self, call: &ToolCall<'_>, mut went: String, words: PermissionWords) {
        self.named("tool", Tone::Work, call.tool_id().unwrap_or_default());
        if let Some(input) = call.command().or_else(|| call.args()) {
            self.detail(DetailKind::Input, Text::input(input), 1);
        }
        let exit_code = call.exit_code().map(|code| code.json());
        let exit_code = exit_code.filter(|code| *code != "0");
        if let Some(code) = exit_code {
            went.push_str(&format!("  exit {code}"));
        }
        self.facts = vec![words.add_to(went)];
        self.rules = words.rules;
        self.extras = words.patterns.into_iter().map(|one| vec![one]).collect();
        // More is shown of a failure.
        let failed = call.error().is_some() || exit_code.is_some();
        let lines = if failed { 2 } else { 1 };
        let outputs = [call.result(), call.stdout(), call.stderr()];
        for output in outputs.into_iter().flatten() {
            self.detail(DetailKind::Output, output.into(), lines);
        }
    }

    fn permission(&mut self, node: &Node, permission: &Permission<'_>, words: &PermissionWords) {
        let asked = words.asked.as_deref();
        let mut text = match (asked, permission.action()) {
            (Some(asked), _) => asked.to_owned(),
            (None, Some(action)) => action.into_owned(),
            (None, None) => "not decided".into(),
        };
        let took = node
            .duration
            .filter(|ns| *ns >= 1_000_000 && asked.is_none());
        let took = took.map(duration);
        let more = [
            ("  ", permission.pattern()),
            ("  by ", permission.source()),
            (", ", permission.decided_by().filter(|_| asked.is_none())),
            ("  ", took.map(Into::into)),
        ];
        for (before, word) in more {
            let word = word.map(|word| format!("{before}{word}"));
            text.push_str(&word.unwrap_or_default());
        }
        let tone = match Action::of(permission) {
            Some(Action::Ask) => Tone::Person,
            _ if asked.is_some() => Tone::Person,
            Some(Action::Deny) => Tone::Bad,
            _ => Tone::Quiet,
        };
        self.named("permission", tone, text);
        self.owner = permission.tool_id().unwrap_or_default().into_owned();
    }

    fn compaction(&mut self, compaction: &Compaction<'_>, went: String) {
        let n = count(compaction.summarized_message_count());
        self.named("compaction", Tone::Look, format!("{n} messages summarized"));
        self.facts = vec![went];
        if let Some(summary) = compaction.summary() {
            self.detail(DetailKind::Output, summary.into(), 1);
        }
    }

    fn message(&mut self, node: &Node, content: Option<RawValue<'_>>) {
        let (label, tone) = match node.role() {
            Some(Role::User) => ("user", Tone::Person),
            Some(Role::Reasoning) => ("reasoning", Tone::Quiet),
            Some(Role::System) => ("system", Tone::Quiet),
            Some(Role::Tool) => ("tools say", Tone::Quiet),
            Some(_) => ("assistant", Tone::Plain),
            None => ("tool input", Tone::Quiet),
        };
        self.named(label, tone, "");
        if node.is_incomplete() {
            self.subject = "(stopped here)".into();
        }
        self.message = match node.content() {
            Some(content) => Some(content.into_owned().into()),
            None => content.map(Into::into),
        };
        if self.message.is_none() && self.subject.is_empty() {
            let parts = node.parts().map(|part| part.to_string());
            self.subject = parts.collect::<Vec<_>>().join(", ");
        }
    }

    fn answer(&mut self, hitl: &Hitl<'_>) {
        let decision = hitl.decision().map(|value| Text::from(value).text);
        self.named("answer", Tone::Person, decision.unwrap_or_default());
        self.owner = hitl.interrupt_id().unwrap_or_default().into_owned();
        self.context(hitl.decided_by().map(|who| format!("by {who}").into()));
    }

    fn attempt(&mut self, attempt: &Attempt<'_>) {
        let words = [attempt.id(), attempt.rationale()];
        self.named("attempt", Tone::Plain, joined(words));
        self.extra(attempt.metrics().map(|value| Text::from(value).text));
    }

    fn rewind(&mut self, rewind: &Rewind<'_>) {
        let to = rewind.to_message_id().unwrap_or_default();
        self.named("rewind", Tone::Look, format!("back to {to}"));
        let snapshot = rewind.snapshot_id();
        self.extra(snapshot.map(|id| format!("snapshot {id}")));
    }

    fn branch(&mut self, branch: &Branch<'_>) {
        let from = branch.message_id().map(|id| format!("from {id}").into());
        let words = [branch.child_session_id(), from];
        self.named("branch", Tone::Look, joined(words));
    }

    /// A prompt, catalog or rules.
    fn asset(&mut self, kind: Kind, asset: &ContextAsset<'_>) {
        let label = match kind {
            Kind::SystemPrompt => "prompt",
            Kind::ToolCatalog => "tools",
            _ => "rules",
        };
        let digest = asset.digest().unwrap_or_default();
        let digest = digest.get(..12).unwrap_or(&digest);
        self.named(label, Tone::Quiet, format!("{digest} in force from here"));
        self.context(asset.text().map(|text| Text::from(text).one_line().into()));
    }

    fn log(&mut self, node: &Node, log: &Log<'_>) {
        let tone = match node.is_failure() {
            true => Tone::Bad,
            false => Tone::Look,
        };
        let fields = log.fields().into_iter().flat_map(|fields| fields.members());
        let fields = fields.map(|field| named_value(field).into());
        let words: Vec<Cow<'_, str>> = log.message().into_iter().chain(fields).collect();
        let level = log.level().unwrap_or_default();
        self.named(&level.to_lowercase(), tone, words.join("  "));
    }

    fn process(&mut self, header: &SegmentHeader<'_>) {
        let process = header.process().map(Process::from);
        let exe = process.as_ref().and_then(Process::exe).unwrap_or_default();
        let name = exe.rsplit('/').next().unwrap_or_default();
        self.named("process", Tone::Quiet, name);
        let pid = process.as_ref().and_then(Process::pid);
        self.context(pid.map(|pid| format!("pid {pid}").into()));
    }

    fn context(&mut self, text: Option<Cow<'_, str>>) {
        self.context.extend(text.map(Cow::into_owned));
    }

    fn extra<T: Into<String>>(&mut self, text: Option<T>) {
        self.extras.extend(text.map(|text| vec![text.into()]));
    }
}

/// The texts that are known, two spaces apart.
fn joined(texts: [Option<Cow<'_, str>>; 2]) -> String {
    let known: Vec<_> = texts.into_iter().flatten().collect();
    known.join("  ")
}

/// The fields of a line that has no description of its own.
fn all_fields(node: &Node) -> String {
    let fields: Vec<_> = node.members().map(named_value).collect();
    fields.join(" ")
}

fn named_value((name, value): (&str, RawValue<'_>)) -> String {
    format!("{name}={}", Text::from(value).text)
}

/// Duration, outcome and usage: with words, and shorter.
pub(super) fn with_usage(went: String, usage: Option<Usage>, cost: &Cost) -> Vec<String> {
    let Some(usage) = usage else {
        return vec![went];
    };
    let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
    let usd = cost.usd().map(|_| format!("  {}", cost_sum(cost)));
    let usd = usd.unwrap_or_default();
    vec![
        format!("{went}  {input} in, {output} out{usd}"),
        format!("{went}  {input} → {output}{usd}"),
    ]
}
