//! The conversation of a session, as the chat formats share it: a session, its messages, their parts.
//!
//! A message of the model has everything from one message of the user to the next, unless the agent gave
//! messages ids of its own. Ids have the session's id before them, because agents number from 1.

mod model_calls;
mod part;
mod recorded;
mod rewinds;
mod session;
mod tools;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

pub(super) use part::Part;
pub(super) use session::{Counts, Session};

use super::feed::Fed;
use super::values::UniqueIds;
use crate::session::{Item, Node, NodeState, Rewinds, Role};
use crate::trace::typed::{Compaction, ContextAsset};
use crate::trace::{Address, Kind};
use model_calls::is_main;
use rewinds::MessageIds;
use tools::OpenTool;

/// A longer message goes on in another one.
const MOST_PARTS: usize = 1000;
const MOST_BYTES: usize = 4 << 20;
/// So many messages wait at most for a tool call in the first of them.
const MOST_MESSAGES: usize = 64;

const ASSISTANT: &str = "assistant";

/// What is known for good.
#[derive(Debug)]
pub(super) enum Change {
    /// A message is complete.
    Message(Message),
    /// A tool call of a complete message ended.
    Part {
        message: String,
        index: usize,
        part: Part,
    },
    /// A message was hidden, or shown again.
    Hidden {
        message: String,
        at: Option<u64>,
        now: u64,
        /// The line of the rewind.
        by: Address,
    },
    Asset(Asset),
    RunEnded,
}

/// A system prompt, a tool catalog or permission rules.
#[derive(Debug)]
pub(super) struct Asset {
    pub kind: Kind,
    pub digest: String,
    pub body: String,
    pub created: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub id: String,
    /// The id that was recorded.
    recorded: Option<String>,
    pub role: &'static str,
    pub parts: Vec<Part>,
    pub metadata: Map<String, Value>,
    pub counts: Option<Counts>,
    pub created: u64,
    pub updated: u64,
    bytes: usize,
    /// How many of its tool calls are open.
    open: usize,
    /// What follows is part of another message.
    is_over: bool,
}

impl Message {
    /// Whether it has nothing yet that others may refer to. It may still get its id.
    pub fn is_beginning(&self) -> bool {
        let thinks = |part: &Part| matches!(part.kind(), "reasoning" | "step-start");
        self.recorded.is_none() && !self.is_over && self.parts.iter().all(thinks)
    }

    fn is_full(&self) -> bool {
        self.parts.len() >= MOST_PARTS || self.bytes >= MOST_BYTES
    }
}

#[derive(Debug, Default)]
pub(super) struct Chat {
    pub session: Session,
    /// The messages that are not complete, and those after them.
    queue: VecDeque<Message>,
    /// The number of the first of them.
    first: u64,
    /// The message that goes on, for each run.
    current: HashMap<Option<u64>, u64>,
    /// Runs whose next part is the first of a model call.
    steps: HashSet<Option<u64>>,
    tools: HashMap<u64, OpenTool>,
    /// Open permissions, and the tool calls that they are about.
    permissions: HashMap<u64, u64>,
    taken: UniqueIds,
    /// When the newest message was created. No two have the same time: readers sort by it.
    newest: u64,
    /// The complete messages, in order.
    ids: Vec<MessageIds>,
    rewinds: Rewinds<u64>,
    /// When messages were hidden that still are.
    pub hidden: HashMap<String, u64>,
    changes: Vec<Change>,
}

fn millis(ns: u64) -> u64 {
    ns / 1_000_000
}

impl Chat {
    /// What was added since.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The messages that are not complete, with the texts that have begun to arrive. Nothing of these texts stays:
    /// the lines that have them whole may come after other lines.
    pub fn unfinished(&self, arriving: &[Fed]) -> Vec<Message> {
        let mut ahead = Self {
            session: self.session.clone(),
            queue: self.queue.clone(),
            first: self.first,
            current: self.current.clone(),
            steps: self.steps.clone(),
            taken: self.taken.clone(),
            newest: self.newest,
            ..Self::default()
        };
        arriving.iter().for_each(|fed| ahead.add(fed));
        let complete = |change| match change {
            Change::Message(message) => Some(message),
            _ => None,
        };
        let complete = ahead.changes.into_iter().filter_map(complete);
        let all = complete.chain(ahead.queue);
        all.filter(|message| !message.is_beginning()).collect()
    }

    /// Completes all messages as they are.
    pub fn finish(&mut self) {
        self.current.clear();
        while self.pop() {}
    }

    pub fn add(&mut self, fed: &Fed) {
        let node = &fed.node;
        let is_closed = node.state == NodeState::Closed;
        let used = self.session.see(fed);
        match node.item() {
            Item::Run(_) if is_closed && node.span_id == fed.run => {
                self.finish();
                self.changes.push(Change::RunEnded);
            }
            Item::Run(_) | Item::Turn(_) => self.end(fed.run),
            Item::Message(_) => self.message_line(fed),
            Item::ModelCall(call) if !is_main(&call) => {}
            Item::ModelCall(_) if !is_closed => {
                self.steps.insert(fed.run);
            }
            Item::ModelCall(call) => self.model_result(fed, &call, used),
            Item::ModelUsage(_) => self.usage_event(fed, used),
            Item::ToolCall(call) if is_closed => self.tool_result(fed, &call),
            Item::ToolCall(call) => self.tool_call(fed, &call),
            Item::Permission(permission) if is_closed => self.permission(node, &permission),
            Item::Permission(_) => self.permission_opened(node),
            Item::Hitl(hitl) => self.hitl(node, &hitl),
            Item::ContextAsset(asset) => self.asset(node, &asset),
            Item::Compaction(compaction) if is_closed => self.compaction(fed, &compaction),
            Item::Rewind(rewind) => self.rewind(node, &rewind),
            Item::Subagent(subagent) => {
                let data =
                    json!({"session_id": subagent.child_session_id(), "agent": subagent.agent()});
                let id = message_id(node);
                self.push(
                    fed,
                    id.as_deref(),
                    json!({"type": "data-subagent", "data": data}),
                );
            }
            Item::Delta(_) => self.tool_input(fed),
            Item::Artifact(_)
            | Item::Attempt(_)
            | Item::Verdict(_)
            | Item::ErrorEvent(_)
            | Item::LoopWarning(_)
            | Item::StateUpdate(_)
            | Item::Unknown(_) => {
                let kind = format!("data-{}", node.kind_name());
                let id = message_id(node);
                self.push(
                    fed,
                    id.as_deref(),
                    json!({"type": kind, "data": node.payload_json()}),
                );
            }
            _ => {}
        }
        while self.is_ready() && self.pop() {}
    }

    /// Whether the first message is complete.
    fn is_ready(&self) -> bool {
        let first = self.queue.front();
        first.is_some_and(|first| first.is_over && first.open == 0)
            || self.queue.len() > MOST_MESSAGES
    }

    fn pop(&mut self) -> bool {
        let Some(message) = self.queue.pop_front() else {
            return false;
        };
        for tool in self.tools.values_mut().filter(|_| message.open > 0) {
            if tool.number == self.first {
                tool.message = Some(message.id.clone());
            }
        }
        self.current.retain(|_, number| *number != self.first);
        self.first += 1;
        self.ids.push(MessageIds::of(&message));
        self.changes.push(Change::Message(message));
        true
    }

    /// Ends the message that goes on.
    fn end(&mut self, run: Option<u64>) {
        if let Some(at) = self.current_index(run) {
            self.queue[at].is_over = true;
        }
        self.current.remove(&run);
    }

    fn index(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (index < self.queue.len()).then_some(index)
    }

    fn current_index(&self, run: Option<u64>) -> Option<usize> {
        self.index(*self.current.get(&run)?)
    }

    /// The message that something belongs to: the one with its id, or the one that goes on, or a new one.
    fn message(&mut self, fed: &Fed, role: &'static str, id: Option<&str>) -> usize {
        let has_id = |message: &Message| {
            id.is_some() && message.recorded.as_deref() == id && message.role == role
        };
        let known = self
            .queue
            .iter()
            .position(|message| has_id(message) && !message.is_full());
        if let Some(known) = known {
            return known;
        }
        let current = self.current_index(fed.run).filter(|at| {
            let message = &self.queue[*at];
            message.role == role && role == ASSISTANT && !message.is_full()
        });
        if let Some(current) = current {
            match id {
                None => return current,
                Some(id) if self.queue[current].is_beginning() => {
                    self.queue[current].id = self.unique(id);
                    self.queue[current].recorded = Some(id.to_owned());
                    return current;
                }
                _ => {}
            }
        }
        self.end(fed.run);
        self.new_message(fed, role, id)
    }

    fn new_message(&mut self, fed: &Fed, role: &'static str, id: Option<&str>) -> usize {
        let now = millis(fed.node.start).max(self.newest + 1);
        self.newest = now;
        let unique = self.unique(id.unwrap_or(&fed.at.to_string()));
        let number = self.first + self.queue.len() as u64;
        self.current.insert(fed.run, number);
        self.queue.push_back(Message {
            id: unique,
            recorded: id.map(str::to_owned),
            role,
            parts: Vec::new(),
            metadata: self.place(fed, id),
            counts: None,
            created: now,
            updated: now,
            bytes: 0,
            open: 0,
            is_over: false,
        });
        self.queue.len() - 1
    }

    fn place(&self, fed: &Fed, id: Option<&str>) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("address".into(), fed.at.to_string().into());
        metadata.extend(id.map(|id| ("message_id".to_owned(), id.into())));
        metadata.extend(fed.node.turn.map(|turn| ("turn".to_owned(), turn.into())));
        metadata
    }

    /// The id of a message's row.
    fn unique(&mut self, id: &str) -> String {
        self.taken.take(&self.session.message_id(id), '#')
    }

    /// Adds a part to the model's message.
    fn push(&mut self, fed: &Fed, id: Option<&str>, data: Value) -> (usize, usize) {
        let at = self.message(fed, ASSISTANT, id);
        let now = millis(fed.node.end());
        let message = &mut self.queue[at];
        if self.steps.remove(&fed.run) {
            message
                .parts
                .push(Part::new(json!({"type": "step-start"}), now));
        }
        message.bytes += fed
            .node
            .members()
            .map(|(_, value)| value.json().len())
            .sum::<usize>();
        message.updated = message.updated.max(now);
        message.parts.push(Part::new(data, now));
        (at, message.parts.len() - 1)
    }

    fn message_line(&mut self, fed: &Fed) {
        let node = &fed.node;
        let role = match node.role() {
            Some(Role::User) => "user",
            Some(Role::System) => "system",
            Some(Role::Tool) => return self.tool_message(fed),
            _ => ASSISTANT,
        };
        let id = message_id(node);
        let mut last = None;
        for data in part::of_message(node) {
            if let Some((at, part)) = self.arriving(id.as_deref(), &data) {
                let message = &mut self.queue[at];
                // The line says whether it is complete.
                message.metadata.remove("complete");
                let arriving = &mut message.parts[part];
                arriving.data = data;
                arriving.updated = millis(node.end());
                arriving.arriving = node.is_arriving();
                last = Some(at);
                continue;
            }
            let at = match role {
                ASSISTANT => {
                    let (at, part) = self.push(fed, id.as_deref(), data);
                    self.queue[at].parts[part].arriving = node.is_arriving();
                    at
                }
                _ => {
                    let known = last.unwrap_or_else(|| self.message(fed, role, id.as_deref()));
                    self.queue[known]
                        .parts
                        .push(Part::new(data, millis(node.start)));
                    known
                }
            };
            last = Some(at);
        }
        if let Some(message) = last.map(|at| &mut self.queue[at]) {
            part::describe(node, &mut message.metadata);
        }
    }

    /// The message and the part of which a text is all, or more.
    fn arriving(&self, id: Option<&str>, data: &Value) -> Option<(usize, usize)> {
        let id = id?;
        let is_it = |part: &Part| part.arriving && part.data["type"] == data["type"];
        let its = self.queue.iter().enumerate();
        let mut its = its.filter(|(_, message)| message.recorded.as_deref() == Some(id));
        its.find_map(|(at, message)| Some((at, message.parts.iter().position(is_it)?)))
    }

    fn asset(&mut self, node: &Node, asset: &ContextAsset<'_>) {
        let body = asset
            .body()
            .or_else(|| asset.tools())
            .or_else(|| asset.rules());
        let Some(digest) = asset.digest() else {
            return;
        };
        if node.kind == Kind::PermissionRules {
            let rules = body.map(|body| body.json());
            self.session.rules_in_force(&digest, rules);
        }
        let Some(body) = body else { return };
        self.changes.push(Change::Asset(Asset {
            kind: node.kind,
            digest: digest.into_owned(),
            body: super::values::text_of(body),
            created: millis(node.start),
        }));
    }

    fn compaction(&mut self, fed: &Fed, compaction: &Compaction<'_>) {
        let tail = compaction.tail_start_id();
        let data = json!({
            "summary": compaction.summary().map(super::values::text_of).unwrap_or_default(),
            "tail_start_id": tail.map(|id| self.session.message_id(&id)),
            "auto": compaction.auto().or(compaction.manual().map(|manual| !manual)).unwrap_or(true),
            "summary_tokens": compaction.summary_tokens(),
            "summarized_message_count": compaction.summarized_message_count(),
        });
        self.end(fed.run);
        let id = message_id(&fed.node);
        let at = self.new_message(fed, ASSISTANT, id.as_deref());
        let part = json!({"type": "data-compaction", "data": data});
        self.queue[at]
            .parts
            .push(Part::new(part, millis(fed.node.end())));
        self.end(fed.run);
    }
}

/// The message that a line belongs to, if it has its id.
fn message_id(node: &Node) -> Option<Cow<'_, str>> {
    node.get("message_id").and_then(|id| id.text())
}
