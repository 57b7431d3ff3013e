//! The session of a conversation, and the rows of all tables.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::super::feed::Fed;
use super::{Message, Part, millis};
use crate::session::{Item, Node, NodeState};
use crate::trace::typed::Run;
use crate::trace::{Usage, parse_time};

/// Tokens in the five classes that chat formats have, which don't overlap, and what they cost.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Counts {
    input: u64,
    output: u64,
    reasoning: u64,
    cache_read: u64,
    cache_write: u64,
    cost_usd: f64,
}

impl Counts {
    pub(super) fn add(&mut self, usage: &Usage) {
        let or = |known: Option<u64>, whole: Option<u64>, parts: u64| {
            known.unwrap_or_else(|| whole.unwrap_or(0).saturating_sub(parts))
        };
        let [read, write, reasoning] = [
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        ]
        .map(|count| count.unwrap_or(0));
        let cached = read.saturating_add(write);
        let input = or(usage.input_uncached_tokens, usage.input_tokens, cached);
        let output = or(usage.output_text_tokens, usage.output_tokens, reasoning);
        for (sum, count) in [
            (&mut self.input, input),
            (&mut self.output, output),
            (&mut self.reasoning, reasoning),
            (&mut self.cache_read, read),
            (&mut self.cache_write, write),
        ] {
            *sum = sum.saturating_add(count);
        }
        self.cost_usd += usage.cost_usd.unwrap_or(0.0);
    }

    fn total(&self) -> u64 {
        let counts = [
            self.input,
            self.output,
            self.reasoning,
            self.cache_read,
            self.cache_write,
        ];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// As the columns of a CSV file have them.
    pub fn cells(&self) -> [String; 6] {
        let tokens = [
            self.input,
            self.output,
            self.reasoning,
            self.cache_read,
            self.cache_write,
        ];
        let [a, b, c, d, e] = tokens.map(|count| count.to_string());
        [a, b, c, d, e, self.cost_usd.to_string()]
    }

    fn to_json(self) -> Value {
        json!({
            "input": self.input,
            "output": self.output,
            "reasoning": self.reasoning,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
            "total": self.total(),
        })
    }
}

#[derive(Clone, Debug, Default)]
pub(in super::super) struct Session {
    pub id: String,
    title: Option<String>,
    agent: Option<String>,
    workspace_root: Option<String>,
    model: Map<String, Value>,
    parent_id: Option<String>,
    parent_message_id: Option<String>,
    /// The permission rules in force, and all by their digests: a trace has them once. JSON.
    permissions: String,
    rules: HashMap<String, String>,
    metadata: Map<String, Value>,
    counts: Counts,
    /// When its first segment began. An imported session was written later than it happened.
    recorded: Option<u64>,
    created: Option<u64>,
    updated: u64,
    archived: Option<u64>,
    /// The model calls that are open, with the usage that events inside them reported.
    calls: HashMap<u64, Usage>,
    /// How many usages were counted.
    counted: u64,
    /// The same when each open run and turn began.
    before: HashMap<u64, u64>,
}

impl Session {
    /// The id of a message's row.
    pub fn message_id(&self, id: &str) -> String {
        message_id(&self.id, id)
    }

    /// Notes what a node says of the session. Returns the usage that counts with it.
    pub(super) fn see(&mut self, fed: &Fed) -> Option<Usage> {
        let node = &fed.node;
        if self.id != *fed.session_id {
            self.id = fed.session_id.to_string();
        }
        if let Item::SegmentHeader(_) = node.item() {
            self.recorded.get_or_insert(millis(node.start));
            return None;
        }
        self.created.get_or_insert(millis(node.start));
        self.updated = self.updated.max(millis(node.end()));
        match node.item() {
            Item::Run(run) => self.run(&run),
            Item::SessionTitle(title) => self.title = title.title().map(String::from),
            Item::SessionStatus(status) => self.note("status", status.status()),
            Item::SessionUpdate(update) => {
                self.model("provider_id", update.provider_id());
                self.model("model_id", update.model_id());
                self.model("variant", update.variant());
                self.model("temperature", update.temperature());
                let archived = update.archived_at();
                self.archived = archived
                    .and_then(|at| parse_time(&at))
                    .map(millis)
                    .or(self.archived);
                self.note(
                    "metadata",
                    update.metadata().and_then(|value| value.value()),
                );
            }
            Item::Branch(branch) => {
                let message = branch.message_id().map(|id| self.message_id(&id));
                let child = json!({"session_id": branch.child_session_id(), "message_id": message});
                let branches = self.metadata.entry("branches").or_insert_with(|| json!([]));
                if let Value::Array(branches) = branches {
                    branches.push(child);
                }
            }
            _ => {}
        }
        let usage = self.usage_of(node).filter(|usage| !usage.is_empty())?;
        self.counted += 1;
        self.counts.add(&usage);
        Some(usage)
    }

    fn run(&mut self, run: &Run<'_>) {
        let text = |value: Option<std::borrow::Cow<'_, str>>| value.map(String::from);
        self.agent = self.agent.take().or_else(|| text(run.agent()));
        self.title = self.title.take().or_else(|| text(run.title()));
        self.workspace_root = text(run.workspace_root()).or(self.workspace_root.take());
        self.model("provider_id", run.provider_id());
        self.model("model_id", run.model_id());
        self.model("variant", run.variant());
        self.model("temperature", run.temperature());
        for name in ["external_ids", "metadata", "tags", "output_dir", "run_name"] {
            let value = run.all_fields().get(name).and_then(|value| value.value());
            self.note(name, value);
        }
        if let Some(branch) = run.branched_from() {
            let member = |name: &str| branch.get(name).and_then(|id| id.text()).map(String::from);
            self.parent_message_id = member("session_id")
                .zip(member("message_id"))
                .map(|(session, message)| message_id(&session, &message));
            self.parent_id = member("session_id");
        } else if self.parent_id.is_none() {
            self.parent_id = text(run.parent_session_id());
        }
    }

    fn model(&mut self, name: &str, value: Option<impl Into<Value>>) {
        self.model
            .extend(value.map(|value| (name.to_owned(), value.into())));
    }

    fn note(&mut self, name: &str, value: Option<impl Into<Value>>) {
        self.metadata
            .extend(value.map(|value| (name.to_owned(), value.into())));
    }

    /// Permission rules with a digest are in force. The first time the trace has them too.
    pub(super) fn rules_in_force(&mut self, digest: &str, rules: Option<&str>) {
        if let Some(rules) = rules {
            self.rules.insert(digest.to_owned(), rules.to_owned());
        }
        if let Some(known) = self.rules.get(digest) {
            self.permissions.clone_from(known);
        }
    }

    /// The usage of a node: of a model call, of an event outside of one, and of a run or turn in which nothing else
    /// was counted.
    fn usage_of(&mut self, node: &Node) -> Option<Usage> {
        let is_closed = node.state == NodeState::Closed;
        match node.item() {
            Item::ModelCall(_) if is_closed => {
                let inside = node.span_id.and_then(|span| self.calls.remove(&span));
                node.usage().filter(|usage| !usage.is_empty()).or(inside)
            }
            Item::ModelCall(_) => {
                let open = node.span_id.map(|span| (span, Usage::default()));
                self.calls.extend(open);
                None
            }
            Item::ModelUsage(usage) => {
                let call = node.within().and_then(|span| self.calls.get_mut(&span));
                let Some(inside) = call else {
                    return Some(usage.usage());
                };
                inside.merge(&usage.usage());
                None
            }
            Item::Run(_) | Item::Turn(_) if is_closed => {
                let before = node.span_id.and_then(|span| self.before.remove(&span));
                let is_first = before.is_none_or(|before| before == self.counted);
                node.usage().filter(|_| is_first)
            }
            Item::Run(_) | Item::Turn(_) => {
                self.before
                    .extend(node.span_id.map(|span| (span, self.counted)));
                None
            }
            _ => None,
        }
    }

    /// The row of `chat_sessions`.
    pub fn row(&self) -> Value {
        let counts = &self.counts;
        let created = self.created.or(self.recorded);
        let model = (!self.model.is_empty()).then(|| Value::from(self.model.clone()).to_string());
        let permissions = match self.permissions.as_str() {
            "" => "[]",
            known => known,
        };
        json!({
            "id": self.id,
            "title": self.title.as_deref().unwrap_or("New Chat"),
            "agent": self.agent.as_deref().unwrap_or("agent"),
            "workspace_id": null,
            "workspace_root": self.workspace_root,
            // The document wants one.
            "model_json": model.unwrap_or_else(|| "{}".to_owned()),
            "mode": null,
            "parent_id": self.parent_id,
            "parent_message_id": self.parent_message_id,
            "permissions_json": permissions,
            "metadata_json": Value::from(self.metadata.clone()).to_string(),
            "prompt_tokens": counts.input,
            "completion_tokens": counts.output,
            "reasoning_tokens": counts.reasoning,
            "cache_read": counts.cache_read,
            "cache_write": counts.cache_write,
            "total_tokens": counts.total(),
            "cost_usd": counts.cost_usd,
            "created_at": created,
            "updated_at": self.updated.max(created.unwrap_or(0)),
            "archived_at": self.archived,
        })
    }

    /// The row of `chat_messages`.
    pub fn message_row(&self, message: &Message, hidden: Option<u64>) -> Value {
        let mut metadata = message.metadata.clone();
        if let Some(counts) = message.counts {
            metadata.insert("usage".into(), counts.to_json());
            metadata.insert("cost_usd".into(), counts.cost_usd.into());
        }
        metadata.extend(hidden.map(|at| ("hidden_at".to_owned(), at.into())));
        json!({
            "id": message.id,
            "session_id": self.id,
            "role": message.role,
            "metadata_json": without_nulls(metadata.into()).to_string(),
            "hidden_at": hidden,
            "created_at": message.created,
            "updated_at": message.updated,
        })
    }

    /// The row of `chat_parts`.
    pub fn part_row(&self, message: &str, index: usize, part: &Part) -> Value {
        json!({
            "id": format!("{message}.{index}"),
            "message_id": message,
            "session_id": self.id,
            "index": index,
            "type": part.kind(),
            "data_json": part.data.to_string(),
            "tool_call_id": part.tool_call_id(),
            "tool_state": part.tool_state(),
            "continuation_run_id": null,
            "created_at": part.created,
            "updated_at": part.updated,
        })
    }
}

/// Agents number messages from 1, so the session is part of the id.
fn message_id(session: &str, id: &str) -> String {
    format!("{session}/{id}")
}

pub(super) fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
    }
    value
}
