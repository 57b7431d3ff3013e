//! The conversation of a session, for formats that are one document: what was said, one entry for each model
//! call, with the tools that it called.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::feed::{Fed, Feed};
use super::values::{CallIds, arguments, is_ok, output_text, text_of};
use crate::read::SessionReader;
use crate::request::{Message as RequestMessage, Request};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::typed::{Compaction, ContextAsset, Message, ModelCall, Rewind, ToolCall};
use crate::trace::{Address, Kind, ReadItem, Usage};

#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub session_id: String,
    pub agent: Option<String>,
    /// The version of the program.
    pub version: Option<String>,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    /// The last system prompt, and when it was set.
    pub system: Option<String>,
    /// The last catalog: `[{name, description, schema}]`.
    pub tools: Vec<Value>,
    pub entries: Vec<Entry>,
    calls: CallIds,
    /// The prompts and catalogs that the session has stored, by digest.
    assets: HashMap<String, Value>,
    /// Entries of model calls, by span.
    models: HashMap<u64, usize>,
    /// Entries of tool calls that are open, by span.
    tools_open: HashMap<u64, usize>,
    /// The entry of the last model call, until the user speaks.
    current: Option<usize>,
}

/// Something that was said.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub role: Option<Role>,
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    /// Subagents that were started outside of a tool call.
    pub subagents: Vec<String>,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    pub time: u64,
    pub at: Option<Address>,
    /// A rewind or an edit has removed it from the context.
    pub hidden: bool,
    /// It was not received to its end.
    pub incomplete: bool,
    /// It replaces the entries before it, up to the first that was kept.
    pub is_summary: bool,
    message_ids: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub id: String,
    pub name: String,
    pub args: Map<String, Value>,
    /// None if it did not end.
    pub output: Option<String>,
    pub ok: bool,
    /// How it ended.
    pub outcome: Option<String>,
    pub subagents: Vec<String>,
}

/// The request that a model call would send by what was recorded before it.
pub(crate) fn request_before(session: &Path, call: &Node) -> io::Result<Request> {
    let mut conversation = Conversation::with_plain_ids();
    let mut feed = Feed::new(session.to_owned());
    let mut reader = SessionReader::open(session)?;
    let mut found = false;
    while let Some(item) = reader.next()? {
        let ReadItem::Line(line) = item else { continue };
        feed.take(&line, |fed| {
            found |= fed.node.span_id.is_some() && fed.node.span_id == call.span_id;
            if !found {
                conversation.add(&fed);
            }
            Ok::<(), io::Error>(())
        })?;
        if found {
            break;
        }
    }
    let mut request = conversation.into_request();
    let view: ModelCall<'_> = call.view();
    request.model = view.model_id().map(String::from).or(request.model);
    request.temperature = view.temperature().or(request.temperature);
    request.max_tokens = view.max_tokens().or(request.max_tokens);
    if let Some(Value::Object(params)) = view.params().and_then(|params| params.value()) {
        request.params = params;
    }
    Ok(request)
}

impl Entry {
    /// What was said, and the results of the calls in it.
    fn into_messages(self) -> Vec<RequestMessage> {
        let role = match self.role {
            Some(Role::User) => "user",
            Some(Role::System) => "system",
            _ => "assistant",
        };
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(json!({"type": "text", "content": self.text}));
        }
        let mut results = Vec::new();
        for call in self.calls {
            let mut part = json!({"type": "tool_call", "id": call.id, "name": call.name});
            part["arguments"] = call.args.into();
            parts.push(part);
            let mut result = json!({"type": "tool_call_response", "id": call.id});
            result["response"] = call.output.into();
            if !call.ok {
                result["is_error"] = true.into();
            }
            results.push(RequestMessage::new("tool", vec![result]));
        }
        let own = RequestMessage::new(role, parts);
        [own].into_iter().chain(results).collect()
    }

    /// Whether a model would be sent it now.
    fn is_in_context(&self) -> bool {
        !self.hidden && (!self.text.is_empty() || !self.calls.is_empty())
    }
}

impl Conversation {
    /// With ids of tool calls that Anthropic's API accepts.
    pub fn with_plain_ids() -> Self {
        let mut conversation = Self::default();
        conversation.calls.plain = true;
        conversation
    }

    pub fn read(session: &Path) -> io::Result<Self> {
        let mut conversation = Self::default();
        let mut feed = Feed::new(session.to_owned());
        let mut reader = SessionReader::open(session)?;
        while let Some(found) = reader.next()? {
            if let ReadItem::Line(line) = found {
                feed.take(&line, |fed| {
                    conversation.add(&fed);
                    Ok::<(), io::Error>(())
                })?;
            }
        }
        feed.rest().iter().for_each(|fed| conversation.add(fed));
        Ok(conversation)
    }

    /// The request that a model would be sent now.
    pub fn into_request(self) -> Request {
        let entries = self.entries.into_iter().filter(Entry::is_in_context);
        Request {
            model: self.model,
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            system: self.system,
            tools: self.tools,
            messages: entries.flat_map(Entry::into_messages).collect(),
            ..Request::default()
        }
    }

    pub fn add(&mut self, fed: &Fed) {
        let node = &fed.node;
        self.session_id.clear();
        self.session_id.push_str(&fed.session_id);
        match node.item() {
            Item::SegmentHeader(header) => {
                let version = header
                    .process()
                    .and_then(|process| process.get("version")?.text());
                self.version = version.map(String::from).or(self.version.take());
            }
            Item::Run(run) => {
                self.agent = self.agent.take().or(run.agent().map(String::from));
                self.model = self.model.take().or(run.model_id().map(String::from));
                // An imported run has the process that it ran in; the header has the one that imported it.
                let version = run
                    .process()
                    .and_then(|process| process.get("version")?.text());
                self.version = version.map(String::from).or(self.version.take());
            }
            Item::ContextAsset(asset) => self.asset(node, &asset),
            Item::Message(message) => self.message(fed, &message),
            Item::ModelCall(call) => self.model_call(fed, &call),
            Item::ToolCall(call) => self.tool_call(fed, &call),
            Item::Subagent(subagent) => {
                if let Some(id) = subagent.child_session_id() {
                    self.subagent(node, id.into_owned());
                }
            }
            Item::Rewind(rewind) => self.rewind(&rewind),
            Item::Compaction(compaction) if node.state == NodeState::Closed && is_ok(node) => {
                self.compact(fed, &compaction);
            }
            _ => {}
        }
    }

    fn push(&mut self, fed: &Fed, role: Role) -> &mut Entry {
        self.entries.push(Entry {
            role: Some(role),
            time: fed.node.start,
            at: Some(fed.at),
            ..Entry::default()
        });
        let last = self.entries.len() - 1;
        self.current = (role == Role::Assistant).then_some(last);
        &mut self.entries[last]
    }

    /// A prompt or a catalog. Only its first line has it; later ones have its digest.
    fn asset(&mut self, node: &Node, asset: &ContextAsset<'_>) {
        let given = match node.kind {
            Kind::SystemPrompt => asset.body().map(|body| text_of(body).into()),
            Kind::ToolCatalog => asset.tools().and_then(|tools| tools.value()),
            _ => return,
        };
        let digest = asset.digest().unwrap_or_default().into_owned();
        let value = match given {
            Some(value) => self.assets.entry(digest).insert_entry(value).get().clone(),
            None => self.assets.get(&digest).cloned().unwrap_or_default(),
        };
        match value {
            Value::String(prompt) => self.system = Some(prompt),
            Value::Array(tools) => self.tools = tools,
            _ => {}
        }
    }

    fn message(&mut self, fed: &Fed, message: &Message<'_>) {
        let node = &fed.node;
        let (Some(role), Some(text)) = (node.role(), node.content()) else {
            return;
        };
        let id = message.message_id().map(String::from);
        if let Some(replaced) = message.replaces() {
            self.hide(|entry| entry.message_ids.contains(&replaced.to_string()));
        }
        let entry = match role {
            // The results of tools come with their calls.
            Role::Tool => return,
            Role::User | Role::System => self.push(fed, role),
            Role::Assistant | Role::Reasoning => self.answer(fed),
        };
        entry.message_ids.extend(id);
        entry.incomplete |= node.is_incomplete();
        let into = match role {
            Role::Reasoning => &mut entry.reasoning,
            _ => &mut entry.text,
        };
        if !into.is_empty() {
            into.push_str("\n\n");
        }
        into.push_str(&text);
    }

    /// The entry that a text of the model belongs to.
    fn answer(&mut self, fed: &Fed) -> &mut Entry {
        let of_model = fed
            .node
            .parent
            .and_then(|span| self.models.get(&span).copied());
        let is_over = |entry: &Entry| {
            !entry.calls.is_empty() && entry.calls.iter().all(|call| call.output.is_some())
        };
        // After the results of its tools, a text is another answer.
        let current = self.current.filter(|at| !is_over(&self.entries[*at]));
        match of_model.or(current) {
            Some(at) => &mut self.entries[at],
            None => self.push(fed, Role::Assistant),
        }
    }

    fn model_call(&mut self, fed: &Fed, call: &ModelCall<'_>) {
        let node = &fed.node;
        let model = call.model_id().map(String::from);
        self.model = model.clone().or(self.model.take());
        self.temperature = call.temperature().or(self.temperature);
        self.max_tokens = call.max_tokens().or(self.max_tokens);
        let span = node.span_id.unwrap_or(0);
        if node.state == NodeState::Open {
            self.push(fed, Role::Assistant).model = model;
            self.models.insert(span, self.entries.len() - 1);
        } else if let Some(at) = self.models.remove(&span) {
            self.entries[at].usage = call.usage();
        }
    }

    fn tool_call(&mut self, fed: &Fed, call: &ToolCall<'_>) {
        let node = &fed.node;
        let span = node.span_id.unwrap_or(0);
        if node.state != NodeState::Open {
            let id = self.calls.close(node, call);
            let open = self.tools_open.remove(&span);
            let entry = open.and_then(|at| self.entries.get_mut(at));
            let calls = entry.into_iter().flat_map(|entry| &mut entry.calls);
            for one in calls.filter(|one| one.id == id) {
                one.output = Some(output_text(node, call));
                one.ok = is_ok(node);
                one.outcome = node.outcome_name().map(String::from);
            }
            return;
        }
        let asked = call.model_span_id();
        let asked = asked.and_then(|id| u64::from_str_radix(&id, 16).ok());
        let asked = asked.and_then(|span| self.models.get(&span).copied());
        let id = self.calls.open(node, call);
        let entry = match asked.or(self.current) {
            Some(at) => at,
            None => {
                self.push(fed, Role::Assistant);
                self.entries.len() - 1
            }
        };
        self.tools_open.insert(span, entry);
        self.entries[entry].calls.push(Call {
            id,
            name: call.tool_id().unwrap_or_default().into_owned(),
            args: arguments(call),
            output: None,
            ok: true,
            outcome: None,
            subagents: Vec::new(),
        });
    }

    fn subagent(&mut self, node: &Node, id: String) {
        let call = self.calls.of(node.parent).map(String::from);
        let entries = self.entries.iter_mut();
        let mut calls = entries.flat_map(|entry| &mut entry.calls);
        if let Some(call) = calls.find(|one| Some(&one.id) == call.as_ref()) {
            call.subagents.push(id);
        } else if let Some(entry) = self.current.and_then(|at| self.entries.get_mut(at)) {
            entry.subagents.push(id);
        }
    }

    fn hide(&mut self, is_hidden: impl Fn(&Entry) -> bool) {
        let entries = self.entries.iter_mut().filter(|entry| is_hidden(entry));
        entries.for_each(|entry| entry.hidden = true);
        self.current = None;
    }

    /// Hides what came after the message that the conversation went back to.
    fn rewind(&mut self, rewind: &Rewind<'_>) {
        let to = rewind.to_message_id().unwrap_or_default().into_owned();
        let hidden = rewind.hidden_ids().into_iter();
        let hidden: Vec<_> = hidden.flat_map(|ids| ids.items()).map(text_of).collect();
        let kept = self.position(&to).map_or(usize::MAX, |at| at + 1);
        let later = self.entries.iter_mut().skip(kept);
        later.for_each(|entry| entry.hidden = true);
        self.hide(|entry| entry.message_ids.iter().any(|id| hidden.contains(id)));
    }

    fn position(&self, message_id: &str) -> Option<usize> {
        let has = |entry: &Entry| entry.message_ids.iter().any(|id| id == message_id);
        self.entries.iter().rposition(has)
    }

    /// Replaces what was compacted by the summary, if it is known which messages were kept.
    fn compact(&mut self, fed: &Fed, compaction: &Compaction<'_>) {
        let tail = compaction.tail_start_id().and_then(|id| self.position(&id));
        let (Some(summary), Some(tail)) = (compaction.summary(), tail) else {
            return;
        };
        self.entries[..tail]
            .iter_mut()
            .for_each(|entry| entry.hidden = true);
        self.push(fed, Role::User);
        if let Some(mut entry) = self.entries.pop() {
            entry.text = text_of(summary);
            entry.is_summary = true;
            self.entries.insert(tail, entry);
        }
        for at in self.models.values_mut().chain(self.tools_open.values_mut()) {
            *at += usize::from(*at >= tail);
        }
        self.current = None;
    }
}
