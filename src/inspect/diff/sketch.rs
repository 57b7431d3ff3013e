//! A turn as far as a comparison needs it: short texts, and hashes of long ones.

use serde_json::{Value, json};

use super::content::{Content, hash, shortened};
use crate::inspect::request_parts::request_of;
use crate::request::{self, PartRef};
use crate::session::{Digests, Item, Node, NodeState, Role, Turn};
use crate::trace::typed::{Message, ModelCall, Permission, ToolCall, owned};
use crate::trace::{Address, Outcome, RawValue, Usage};

/// How far back the model call of a message and the first attempt of a tool are looked for.
const NEAR: usize = 64;

/// A message of the user, the system or a tool.
#[derive(Clone, Debug)]
pub(super) struct InputMessage {
    pub address: Address,
    pub role: Role,
    pub content: Content,
}

/// The request of a model call, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordedRequest {
    pub digest: String,
    pub messages: Vec<PartRef>,
    /// The parts that are the prompt and the tools.
    pub prompt: Option<String>,
    pub tools: Option<String>,
    /// All other members but the model.
    pub params: Value,
}

/// A model call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub address: Address,
    pub span: Option<u64>,
    pub model: String,
    pub params: Value,
    pub digests: Digests,
    pub request: Option<RecordedRequest>,
    pub finish_reason: Option<String>,
    pub error: Option<String>,
    pub failed: bool,
    pub retries: usize,
    pub usage: Option<Usage>,
    pub duration: Option<u64>,
}

/// A tool call.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub address: Address,
    pub span: Option<u64>,
    pub name: String,
    pub args: Content,
    pub output: Content,
    pub exit_code: Option<String>,
    pub outcome: Option<Outcome>,
    pub rules: Option<String>,
    /// What was decided about it, by its permissions.
    pub decision: Option<String>,
    pub retries: usize,
    pub start: u64,
    pub end: u64,
}

impl Tool {
    pub fn is_same_call(&self, other: &Self) -> bool {
        self.name == other.name && self.args == other.args
    }

    /// Whether it gave the same result.
    pub fn is_same_result(&self, other: &Self) -> bool {
        self.output == other.output
            && self.exit_code == other.exit_code
            && self.is_ok() == other.is_ok()
            && self.is_denied() == other.is_denied()
    }

    /// The same for the same call.
    pub fn call_key(&self) -> u64 {
        hash(&(&self.name, self.args.hash))
    }

    /// The same for the same call with the same result.
    pub fn whole_key(&self) -> u64 {
        let ended = (self.is_ok(), self.is_denied());
        hash(&(self.call_key(), self.output.hash, &self.exit_code, ended))
    }

    pub fn is_ok(&self) -> bool {
        matches!(self.outcome, None | Some(Outcome::Ok | Outcome::Unset))
    }

    pub fn is_denied(&self) -> bool {
        self.outcome == Some(Outcome::Denied)
    }
}

/// A tool call that an answer asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub name: String,
    pub args: Content,
}

/// A model call with what goes into it, its answer, and the tools that follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// The messages since the call before.
    pub inputs: Vec<InputMessage>,
    pub call: Option<Call>,
    pub answer: Content,
    /// Where the answer is, if it has a line of its own.
    pub answered: Option<Address>,
    /// The calls that the answer asks for, where it lists them.
    pub asks: Vec<Ask>,
    pub tools: Vec<Tool>,
}

impl Round {
    /// Where the model call is.
    pub fn called(&self) -> Option<Address> {
        self.call.as_ref().map(|call| call.address)
    }
}

/// A subagent that started.
#[derive(Clone, Debug)]
pub(super) struct Subagent {
    pub address: Address,
    pub agent: String,
    /// The id of its session.
    pub session: String,
}

/// A turn.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnSketch {
    pub index: Option<u32>,
    pub address: Option<Address>,
    pub duration: Option<u64>,
    pub usage: Usage,
    pub digests: Digests,
    pub rounds: Vec<Round>,
    /// Calls for other purposes than the conversation, such as a title.
    pub aside: Vec<(String, Round)>,
    pub subagents: Vec<Subagent>,
}

impl TurnSketch {
    pub fn of(turn: &Turn) -> Self {
        let span = turn.span.as_ref();
        let mut sketch = Self {
            index: turn.index,
            address: span.map(|span| span.address),
            duration: span.and_then(|span| span.duration),
            usage: turn.usage(),
            digests: turn.digests.clone(),
            ..Self::default()
        };
        for node in &turn.nodes {
            sketch.add(node);
        }
        sketch
    }

    /// Whether anything in it can differ.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.aside.is_empty() && self.index.is_none()
    }

    /// What aligns it with a turn of the other session: its first messages of the user.
    pub fn key(&self) -> Option<u64> {
        let inputs = &self.rounds.first()?.inputs;
        let users = inputs.iter().filter(|message| message.role == Role::User);
        let hashes: Vec<_> = users.map(|message| message.content.hash).collect();
        (!hashes.is_empty()).then(|| hash(&hashes))
    }

    fn add(&mut self, node: &Node) {
        match node.item() {
            Item::Message(message) => self.message(node, &message),
            Item::ModelCall(call) => self.call(node, &call),
            Item::ToolCall(call) => self.tool(node, &call),
            Item::Permission(permission) => self.permission(node, &permission),
            Item::Subagent(child) => {
                let session = owned(child.child_session_id());
                self.subagents.extend(session.map(|session| Subagent {
                    address: node.address,
                    agent: owned(child.agent()).unwrap_or_default(),
                    session,
                }));
            }
            _ => {}
        }
    }

    fn last(&mut self) -> &mut Round {
        if self.rounds.is_empty() {
            self.rounds.push(Round::default());
        }
        let last = self.rounds.len() - 1;
        &mut self.rounds[last]
    }

    /// The round of the model call that a node is inside.
    fn around(&mut self, node: &Node) -> Option<&mut Round> {
        let span = node.parent?;
        let is_it = |round: &&mut Round| round.call.as_ref().is_some_and(|c| c.span == Some(span));
        let aside = self.aside.iter_mut().map(|(_, round)| round);
        let near = self.rounds.iter_mut().rev().take(NEAR);
        near.chain(aside.rev().take(NEAR)).find(is_it)
    }

    fn message(&mut self, node: &Node, message: &Message<'_>) {
        let Some(role) = node.role() else { return };
        let mut content = match (message.content(), node.content()) {
            (Some(value), _) if !node.is_arriving() => Content::of(value),
            (_, Some(text)) => Content::new(&text),
            _ => Content::default(),
        };
        match role {
            // Reasoning is not part of the answer.
            Role::Reasoning => {}
            Role::Assistant => {
                let asks = message.parts().map(asked).unwrap_or_default();
                let round = match self.around(node) {
                    Some(round) => round,
                    None => self.last(),
                };
                round.answer.add(content);
                round.answered = Some(node.address);
                round.asks.extend(asks);
            }
            Role::User | Role::System | Role::Tool => {
                if let Some(parts) = message.parts() {
                    content.hash = hash(&(content.hash, meaning(role, parts)));
                    if content.text.is_empty() {
                        content.text = responses(parts);
                    }
                }
                if let Some(files) = message.attachments() {
                    content.hash = hash(&(content.hash, files.json()));
                }
                let message = InputMessage {
                    address: node.address,
                    role,
                    content,
                };
                let round = match self.around(node) {
                    Some(round) => round,
                    None => self.next_input(),
                };
                round.inputs.push(message);
            }
        }
    }

    /// The round of the next model call.
    fn next_input(&mut self) -> &mut Round {
        let last = self.last();
        if last.call.is_some() || !last.tools.is_empty() || last.answered.is_some() {
            self.rounds.push(Round::default());
        }
        self.last()
    }

    fn call(&mut self, node: &Node, call: &ModelCall<'_>) {
        let mut new = call_of(node, call, &self.digests);
        let purpose = call.purpose().filter(|purpose| purpose != "main");
        if let Some(purpose) = purpose {
            let round = Round {
                call: Some(new),
                ..Round::default()
            };
            self.aside.push((purpose.into_owned(), round));
            return;
        }
        let retry_of = call.retry_of();
        let is_retry = |before: &Call| {
            let named = retry_of
                .as_ref()
                .and_then(|id| u64::from_str_radix(id, 16).ok());
            before.failed || (named.is_some() && named == before.span)
        };
        let last = self.last();
        if let Some(before) = &last.call
            && is_retry(before)
            && last.tools.is_empty()
            && last.answered.is_none()
        {
            new.retries = before.retries + 1;
            last.call = Some(new);
            return;
        }
        self.next_input().call = Some(new);
    }

    fn tool(&mut self, node: &Node, call: &ToolCall<'_>) {
        let tool = tool_of(node, call);
        let tools = &mut self.last().tools;
        let before = tools.iter_mut().rev().take(NEAR).find(|before| {
            !before.is_ok()
                && !before.is_denied()
                && before.is_same_call(&tool)
                && before.end <= tool.start
        });
        match before {
            Some(before) => {
                let retries = before.retries + 1;
                *before = Tool { retries, ..tool };
            }
            None => tools.push(tool),
        }
    }

    /// A permission belongs to the tool that it lies in. Other tools may have started in between. One that
    /// lies in no tool belongs to the last one.
    fn permission(&mut self, node: &Node, permission: &Permission<'_>) {
        let near = || self.rounds.iter().enumerate().rev().take(NEAR);
        let within = node.parent.and_then(|span| {
            near().find_map(|(round, one)| {
                let is_it = |tool: &Tool| tool.span == Some(span);
                Some((round, one.tools.iter().rposition(is_it)?))
            })
        });
        let tool = match within {
            Some((round, tool)) => self.rounds[round].tools.get_mut(tool),
            None => self.last().tools.last_mut(),
        };
        let Some(tool) = tool else { return };
        if permission.tool_id().as_deref() != Some(tool.name.as_str()) {
            return;
        }
        tool.rules = permission.permission_rules_digest().map(String::from);
        let decision = permission
            .decision()
            .map(|decision| Content::of(decision).text);
        tool.decision = decision.or(permission.action().map(String::from));
    }
}

/// The tool calls among the parts of an answer, without their ids.
fn asked(parts: RawValue<'_>) -> Vec<Ask> {
    let calls = parts.items().filter_map(|part| {
        let text = |name: &str| part.get(name).and_then(|value| value.text());
        let is_call = text("type").as_deref() == Some("tool_call");
        is_call.then(|| Ask {
            name: text("name").unwrap_or_default().into_owned(),
            args: part.get("arguments").map(Content::of).unwrap_or_default(),
        })
    });
    calls.collect()
}

/// The results of tools among the parts of a message, as a text.
fn responses(parts: RawValue<'_>) -> String {
    let results = parts.items().filter_map(|part| part.get("response"));
    let texts: Vec<_> = results.map(|value| Content::of(value).text).collect();
    shortened(&texts.join("\n"))
}

/// A hash of the parts of a message, without the ids of calls.
fn meaning(role: Role, parts: RawValue<'_>) -> String {
    let parts = parts.items().filter_map(|part| part.value()).collect();
    request::Message::new(&format!("{role:?}"), parts).meaning()
}

fn call_of(node: &Node, call: &ModelCall<'_>, in_force: &Digests) -> Call {
    let names = [call.provider_id(), call.model_id(), call.variant()];
    let names: Vec<_> = names.into_iter().flatten().collect();
    let outcome = node.outcome();
    Call {
        address: node.address,
        span: node.span_id,
        model: names.join("/"),
        params: json!({
            "temperature": call.temperature(),
            "max_tokens": call.max_tokens(),
            "stream": call.stream(),
            "params": call.params().and_then(|params| params.value()),
        }),
        digests: Digests {
            system_prompt: owned(call.system_prompt_digest()).or(in_force.system_prompt.clone()),
            tool_catalog: owned(call.tool_catalog_digest()).or(in_force.tool_catalog.clone()),
            permission_rules: owned(call.permission_rules_digest())
                .or(in_force.permission_rules.clone()),
        },
        request: owned(call.request_digest())
            .and_then(|digest| Some(recorded(digest, request_of(node)?))),
        finish_reason: owned(call.finish_reason()),
        error: node.error(),
        failed: node.state == NodeState::Closed
            && outcome.is_some_and(|outcome| outcome.is_error() || outcome == Outcome::Cancelled),
        retries: 0,
        usage: call.usage(),
        duration: node.duration,
    }
}

/// The request of a call. A request of another kind of API has no messages, and is compared as a whole.
fn recorded(digest: String, mut rest: Value) -> RecordedRequest {
    let messages = request::part_refs(&rest);
    let part = |value: Option<Value>| Some(value?.get("$part")?.as_str()?.to_owned());
    let mut prompt = None;
    let mut tools = None;
    if let Some(members) = rest.as_object_mut()
        && !messages.is_empty()
    {
        for name in ["system", "instructions", "system_instructions"] {
            prompt = part(members.remove(name)).or(prompt);
        }
        tools = part(members.remove("tools"));
        for name in ["messages", "input", "model"] {
            members.remove(name);
        }
    }
    RecordedRequest {
        digest,
        messages,
        prompt,
        tools,
        params: rest,
    }
}

fn tool_of(node: &Node, call: &ToolCall<'_>) -> Tool {
    let mut output = Content::default();
    let outputs = [call.result(), call.stdout(), call.stderr()];
    for value in outputs.into_iter().flatten() {
        output.add(Content::of(value));
    }
    if let Some(error) = node.error() {
        output.add(Content::new(&error));
    }
    let args = call.args().or_else(|| call.command());
    Tool {
        address: node.address,
        span: node.span_id,
        name: call.tool_id().unwrap_or_default().into_owned(),
        args: args.map(Content::of).unwrap_or_default(),
        output,
        exit_code: call.exit_code().map(|code| code.json().to_owned()),
        outcome: node.outcome(),
        rules: None,
        decision: None,
        retries: 0,
        start: node.start,
        end: node.end(),
    }
}
