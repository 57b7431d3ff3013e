//! One description of a node, for every layout: the timeline, `tail`, `find`, transcripts.

use std::borrow::Cow;

use super::style::Style;
use super::text::{self, cost, count, duration, line};
use super::verdict::Verdict;
use crate::session::{Node, NodeState};
use crate::trace::typed::{
    Artifact, Attempt, Compaction, ContextAsset, Delta, Gap, Hitl, Log, Message, ModelCall,
    OtherSpan, Permission, Process, Run, SegmentHeader, SessionStatus, SessionTitle, Subagent,
    ToolCall, Turn,
};
use crate::trace::{Kind, Outcome, RawLine, RawValue, SpanKind, Usage};

/// How much of a value is used in one line.
const ENOUGH: usize = 2_000;

/// A node in words.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Detail {
    /// `←` input, `→` output, `✗` error.
    pub mark: char,
    /// Its color.
    pub tone: Tone,
    /// The text.
    pub text: Text,
    /// How many lines to show unless everything is wanted.
    pub lines: usize,
}

/// A text, or its head.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
    /// Where the rest is, if this is only the head.
    pub elsewhere: Option<String>,
}

/// The color of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Less important.
    Quiet,
    /// A person's part.
    Person,
    /// Calls.
    Work,
    /// Failures.
    Bad,
    /// Needs attention.
    Look,
}

impl Tone {
    /// A text in the tone's color.
    pub fn paint(self, style: &Style, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Quiet => style.dim(text),
            Self::Person => style.magenta(text),
            Self::Work => style.cyan(text),
            Self::Bad => style.red(text),
            Self::Look => style.yellow(text),
        }
    }
}

/// Whether a node without an end can still get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    let described = describe(&node, Verdict::default(), Liveness::Unknown);
    let failed = matches!(
        node.outcome(),
        Some(Outcome::Error | Outcome::Interrupted | Outcome::Denied)
    );
    Brief {
        text: described.one_line(node.state),
        tone: if failed { Tone::Bad } else { described.tone },
        label: described.label,
    }
}

/// Describes a node. `verdict`: the permissions inside it that have no row of their own.
pub fn describe(node: &Node, verdict: Verdict, liveness: Liveness) -> Description {
    let mut out = Description::default();
    match node.kind {
        kind if kind.opens().is_some() => out.span(node, verdict, liveness),
        Kind::SessionEnd | Kind::Interrupted => out.run_ended(node),
        Kind::MessageUser
        | Kind::MessageAssistant
        | Kind::MessageReasoning
        | Kind::MessageSystem
        | Kind::MessageTool
        | Kind::MessageDelta
        | Kind::ToolInputDelta => out.message(node),
        _ => out.event(node),
    }
    if let Some(error) = node.error() {
        out.detail(Tone::Bad, '✗', error.into(), 2);
    }
    if liveness == (Liveness::Live { in_open: true }) && node.is_arriving() {
        out.subject = "(so far)".into();
    }
    // Nothing of it may affect the terminal.
    let texts = out.extras.iter_mut().flatten().chain(&mut out.facts);
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
        let extras = self.extras.iter().filter_map(|extra| extra.first());
        parts.extend(extras.chain(&self.context).map(|text| text.into()));
        parts.extend(
            self.message
                .as_ref()
                .map(|message| message.one_line().into()),
        );
        let is_error = |detail: &&Detail| detail.mark == '✗';
        let errors = self.details.iter().filter(is_error);
        let others = self.details.iter().filter(|detail| !is_error(detail));
        for detail in errors.chain(others) {
            if detail.mark != '←' || state == NodeState::Open {
                parts.push(format!("{} {}", detail.mark, detail.text.one_line()).into());
            }
        }
        parts.retain(|part| !part.is_empty());
        line(parts.join("  ").trim()).into_owned()
    }

    fn detail(&mut self, tone: Tone, mark: char, text: Text, lines: usize) {
        self.details.push(Detail {
            mark,
            tone,
            text,
            lines,
        });
    }

    fn named(&mut self, label: &str, tone: Tone, subject: Option<Cow<'_, str>>) {
        self.label = label.into();
        self.tone = tone;
        self.subject = subject.unwrap_or_default().into_owned();
    }

    fn span(&mut self, node: &Node, verdict: Verdict, liveness: Liveness) {
        let went = how_it_went(node, liveness);
        match node.kind.opens() {
            Some(SpanKind::Run) if node.state == NodeState::Closed => self.run_ended(node),
            Some(SpanKind::Run) => self.run(node),
            Some(SpanKind::Turn) => {
                let turn: Turn<'_> = node.view();
                let index = turn.turn_index().or(node.turn.map(u64::from));
                self.named("turn", Tone::Plain, index.map(|n| n.to_string().into()));
                self.facts = with_usage(went, turn.usage());
                self.extra(turn.stop_reason());
            }
            Some(SpanKind::Model) => self.model(&node.view(), went),
            Some(SpanKind::Tool) => self.tool(&node.view(), went, verdict),
            Some(SpanKind::Permission) => self.permission(node),
            Some(SpanKind::Compaction) => {
                let compaction: Compaction<'_> = node.view();
                let n = count(compaction.summarized_message_count());
                let text = format!("{n} messages summarized");
                self.named("compaction", Tone::Look, Some(text.into()));
                self.facts = vec![went];
                if let Some(summary) = compaction.summary() {
                    self.detail(Tone::Quiet, '→', summary.into(), 1);
                }
            }
            _ => {
                self.named("span", Tone::Plain, node.view::<OtherSpan<'_>>().name());
                self.facts = vec![went];
            }
        }
    }

    fn run(&mut self, node: &Node) {
        let label = match node.kind {
            Kind::SessionStart => "run",
            _ => "resumed",
        };
        let run: Run<'_> = node.view();
        self.named(label, Tone::Plain, run.agent());
        self.context.extend(run.model_id().map(Cow::into_owned));
        let parent = run.parent_session_id();
        let parent = parent.map(|id| format!("subagent of {id}"));
        self.context.extend(parent);
    }

    fn run_ended(&mut self, node: &Node) {
        let run: Run<'_> = node.view();
        let outcome = bad_outcome(node).unwrap_or_else(|| {
            let outcome = node.outcome_name();
            outcome.unwrap_or_default().into_owned()
        });
        let took = run.duration_ns().map(duration).unwrap_or_default();
        let text = format!("{outcome}  {took}");
        self.named("run ended", Tone::Plain, Some(text.into()));
        self.context.extend(run.stop_reason().map(Cow::into_owned));
    }

    fn model(&mut self, call: &ModelCall<'_>, mut went: String) {
        self.named("model", Tone::Work, call.model_id());
        if let Some(purpose) = call.purpose().filter(|purpose| purpose != "main") {
            self.subject.push_str(&format!(" for {purpose}"));
        }
        if let Some(attempt) = call.attempt().filter(|n| *n > 1) {
            went.push_str(&format!("  try {attempt}"));
        }
        self.facts = with_usage(went, call.usage());
        self.extra(call.variant());
        self.extra(call.finish_reason());
    }

    fn tool(&mut self, call: &ToolCall<'_>, went: String, verdict: Verdict) {
        self.named("tool", Tone::Work, call.tool_id());
        if let Some(input) = call.command().or_else(|| call.args()) {
            self.detail(Tone::Plain, '←', Text::input(input), 1);
        }
        self.facts = vec![verdict.add_to(went)];
        self.extras = verdict.extras;
        // More is shown of a failure.
        let failed =
            call.error().is_some() || call.exit_code().is_some_and(|code| code.json() != "0");
        let lines = if failed { 2 } else { 1 };
        let outputs = [call.result(), call.stdout(), call.stderr()];
        for output in outputs.into_iter().flatten() {
            self.detail(Tone::Quiet, '→', output.into(), lines);
        }
    }

    fn permission(&mut self, node: &Node) {
        let made: Permission<'_> = node.view();
        let mut text = match made.action() {
            Some(action) => action.into_owned(),
            None => "not decided".into(),
        };
        if let Some(pattern) = made.pattern() {
            text.push_str(&format!("  {pattern}"));
        }
        if let Some(source) = made.source() {
            text.push_str(&format!("  by {source}"));
        }
        if let Some(who) = made.decided_by() {
            text.push_str(&format!(", {who}"));
        }
        if let Some(ns) = node.duration.filter(|ns| *ns >= 1_000_000) {
            text.push_str(&format!("  {}", duration(ns)));
        }
        let tone = match made.action().as_deref() {
            Some("deny") => Tone::Bad,
            Some("ask") => Tone::Person,
            _ => Tone::Quiet,
        };
        self.named("permission", tone, Some(text.into()));
        self.owner = made.tool_id().unwrap_or_default().into_owned();
    }

    fn message(&mut self, node: &Node) {
        let (label, tone) = match node.kind {
            Kind::MessageUser => ("user", Tone::Person),
            Kind::MessageReasoning => ("reasoning", Tone::Quiet),
            Kind::MessageSystem => ("system", Tone::Quiet),
            Kind::MessageTool => ("tools say", Tone::Quiet),
            Kind::ToolInputDelta => ("tool input", Tone::Quiet),
            _ => ("assistant", Tone::Plain),
        };
        self.named(label, tone, None);
        if node.is_incomplete() {
            self.subject = "(stopped here)".into();
        }
        let message: Message<'_> = node.view();
        let delta: Delta<'_> = node.view();
        let content = || message.content().or_else(|| delta.text());
        self.message = match node.content() {
            Some(content) => Some(content.into_owned().into()),
            None => content().map(Into::into),
        };
        if self.message.is_none() && self.subject.is_empty() {
            let parts = node.parts().map(|part| part.to_string());
            self.subject = parts.collect::<Vec<_>>().join(", ");
        }
    }

    fn event(&mut self, node: &Node) {
        match node.kind {
            Kind::HitlRequest => {
                let asked: Hitl<'_> = node.view();
                self.named("asks", Tone::Person, asked.interrupt_id());
                self.context.extend(asked.tool_id().map(Cow::into_owned));
            }
            Kind::HitlResponse => {
                let answer: Hitl<'_> = node.view();
                let decision = answer.decision().map(|value| Text::from(value).text.into());
                self.named("answer", Tone::Person, decision);
                self.owner = answer.interrupt_id().unwrap_or_default().into_owned();
                let who = answer.decided_by().map(|who| format!("by {who}"));
                self.context.extend(who);
            }
            Kind::Subagent => {
                let child: Subagent<'_> = node.view();
                let words =
                    [child.agent(), child.child_session_id()].map(Option::unwrap_or_default);
                self.named("subagent", Tone::Look, Some(words.join(" ").into()));
            }
            Kind::Artifact => {
                let artifact: Artifact<'_> = node.view();
                let words = [artifact.path(), artifact.caption()];
                self.named("artifact", Tone::Plain, joined(words));
            }
            Kind::Attempt => {
                let attempt: Attempt<'_> = node.view();
                let words = [attempt.id(), attempt.rationale()];
                self.named("attempt", Tone::Plain, joined(words));
                let metrics = attempt.metrics().map(|value| vec![Text::from(value).text]);
                self.extras.extend(metrics);
            }
            Kind::SystemPrompt | Kind::ToolCatalog | Kind::PermissionRules => self.asset(node),
            Kind::Error => self.named("error", Tone::Bad, None),
            Kind::SessionTitle => {
                let title = node.view::<SessionTitle<'_>>().title();
                self.named("title", Tone::Plain, title);
            }
            Kind::SessionStatus => {
                let status: SessionStatus<'_> = node.view();
                self.named("status", Tone::Plain, status.status());
                self.context.extend(status.message().map(Cow::into_owned));
            }
            Kind::Log => self.log(&node.view()),
            _ => self.own_line(node),
        }
    }

    /// A prompt, catalog or rules.
    fn asset(&mut self, node: &Node) {
        let asset: ContextAsset<'_> = node.view();
        let (label, body) = match node.kind {
            Kind::SystemPrompt => ("prompt", asset.body()),
            Kind::ToolCatalog => ("tools", asset.tools()),
            _ => ("rules", asset.rules()),
        };
        let digest = asset.digest().unwrap_or_default();
        let digest = digest.get(..12).unwrap_or(&digest);
        let text = format!("{digest} in force from here");
        self.named(label, Tone::Quiet, Some(text.into()));
        self.context
            .extend(body.map(|body| Text::from(body).one_line()));
    }

    fn log(&mut self, log: &Log<'_>) {
        let level = log.level().unwrap_or_default();
        let tone = match level.as_ref() {
            "ERROR" => Tone::Bad,
            _ => Tone::Look,
        };
        let fields = log.fields().into_iter().flat_map(|fields| fields.members());
        let fields = fields.map(|(key, value)| format!("{key}={}", Text::from(value).text).into());
        let words: Vec<Cow<'_, str>> = log.message().into_iter().chain(fields).collect();
        self.named(&level.to_lowercase(), tone, Some(words.join("  ").into()));
    }

    /// A line that only the recorder writes, or one of an unknown kind.
    fn own_line(&mut self, node: &Node) {
        match node.kind {
            Kind::Segment => {
                let process = node.view::<SegmentHeader<'_>>().process();
                let process = process.map(Process::from);
                let exe = process.as_ref().and_then(Process::exe).unwrap_or_default();
                let name = exe.rsplit('/').next().unwrap_or_default();
                self.named("process", Tone::Quiet, Some(name.into()));
                let pid = process.as_ref().and_then(Process::pid);
                self.context.extend(pid.map(|pid| format!("pid {pid}")));
            }
            Kind::Gap => {
                let gap: Gap<'_> = node.view();
                let (n, cause) = (count(gap.count()), gap.cause().unwrap_or_default());
                let text = format!("{n} events missing: {cause}");
                self.named("GAP", Tone::Bad, Some(text.into()));
            }
            kind => {
                let field = |(key, value): (&str, RawValue<'_>)| {
                    format!("{key}={}", Text::from(value).text)
                };
                let fields = node.members().map(field).collect::<Vec<_>>().join(" ");
                let label = match kind {
                    Kind::SpanUpdate => "update",
                    _ => node.kind_name(),
                };
                self.named(label, Tone::Quiet, Some(fields.into()));
            }
        }
    }

    fn extra(&mut self, text: Option<Cow<'_, str>>) {
        self.extras.extend(text.map(|text| vec![text.into_owned()]));
    }
}

/// The texts that are known, two spaces apart.
fn joined(texts: [Option<Cow<'_, str>>; 2]) -> Option<Cow<'static, str>> {
    let known: Vec<_> = texts.into_iter().flatten().collect();
    Some(known.join("  ").into())
}

/// Duration, outcome and usage: with words, and shorter.
fn with_usage(went: String, usage: Option<Usage>) -> Vec<String> {
    let Some(usage) = usage else {
        return vec![went];
    };
    let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
    let usd = usage.cost_usd;
    let usd = usd.map_or_else(String::new, |usd| format!("  {}", cost(Some(usd))));
    vec![
        format!("{went}  {input} in, {output} out{usd}"),
        format!("{went}  {input} → {output}{usd}"),
    ]
}

/// The outcome in capitals, unless it is ok or unset.
pub(super) fn bad_outcome(node: &Node) -> Option<String> {
    let good = [Outcome::Ok, Outcome::Unset].map(Outcome::as_str);
    let name = node.outcome_name()?;
    (!good.contains(&&*name)).then(|| name.to_uppercase())
}

/// How long a span took, and how it ended if not well.
fn how_it_went(node: &Node, liveness: Liveness) -> String {
    let mut text = String::new();
    match (node.state, node.duration) {
        (NodeState::Open, _) => text.push_str(match liveness {
            Liveness::Unknown => "",
            Liveness::Live { .. } => "  still open",
            Liveness::Over => "  left open",
        }),
        // What was denied took no time of its own.
        _ if node.outcome() == Some(Outcome::Denied) => {}
        (_, Some(ns)) => text.push_str(&format!("  {}", duration(ns))),
        _ => {}
    }
    if let Some(outcome) = bad_outcome(node) {
        text.push_str(&format!("  {outcome}"));
    }
    let code = node.view::<ToolCall<'_>>().exit_code();
    if let Some(code) = code.map(|code| code.json()).filter(|code| *code != "0") {
        text.push_str(&format!("  exit {code}"));
    }
    text
}

impl Text {
    /// The input of a tool: an object with one text is that text.
    fn input(value: RawValue<'_>) -> Self {
        let mut members = value.members();
        match (members.next(), members.next()) {
            (Some((name, only)), None) if !name.starts_with('$') && only.text().is_some() => {
                only.into()
            }
            _ => value.into(),
        }
    }

    fn one_line(&self) -> String {
        let text: String = self.text.chars().take(ENOUGH).collect();
        match &self.elsewhere {
            Some(elsewhere) => format!("{text}… ({elsewhere})"),
            None => text,
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self {
            text,
            elsewhere: None,
        }
    }
}

impl From<RawValue<'_>> for Text {
    /// A text as it is, other JSON as text, and the head of a value that was moved to a blob or cut.
    fn from(value: RawValue<'_>) -> Self {
        if let Some(text) = value.text() {
            return text.into_owned().into();
        }
        let Some(marker) = value.marker() else {
            return value.json().to_owned().into();
        };
        let size = |bytes: Option<u64>| text::size(bytes.unwrap_or(0));
        let elsewhere = match (&marker.blob, &marker.cut) {
            (Some(_), _) => Some(format!("{} in all, in a blob", size(marker.bytes))),
            (None, Some(cut)) => Some(format!("{} were cut", size(cut.bytes))),
            (None, None) => None,
        };
        Self {
            text: marker.head.unwrap_or_default().into_owned(),
            elsewhere,
        }
    }
}
