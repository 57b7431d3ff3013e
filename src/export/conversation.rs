//! The conversation of a session, for formats that are one document: what was said, one entry for each model
//! call, with the tools that it called.
//!
//! Entries are given out as soon as they are complete, so memory holds only those that go on. What later lines
//! say about them is in the [`Outline`]. So a document takes two passes: one for the outline, and one in which
//! each entry is written.

mod announced;
mod entry;
mod outline;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;

use serde_json::Value;

use announced::{Announced, is_call};
use entry::is_media;
pub(super) use entry::{Call, CallEnd, Entry, ModelEnd};
use outline::Outline;

use super::feed::{Fed, Feed};
use super::values::{CallIds, is_ok, text_of};
use crate::read::SessionReader;
use crate::request::Request;
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::typed::{
    Compaction, ContextAsset, Message, ModelCall, Run, SegmentHeader, ToolCall,
};
use crate::trace::{Kind, ReadItem};

/// So many entries wait at most for a call in the first of them, and so many bytes of text. What ends later is in
/// the outline.
const MOST_ENTRIES: usize = 1024;
const MOST_BYTES: usize = 4 << 20;

/// What is known about the whole session.
#[derive(Debug, Default)]
pub(super) struct About {
    pub session_id: String,
    pub agent: Option<String>,
    /// The version of the program.
    pub version: Option<String>,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    /// Other data about the session.
    pub metadata: Option<Value>,
    /// The last system prompt.
    pub system: Option<String>,
    /// The last catalog: `[{name, description, schema}]`.
    pub tools: Vec<Value>,
}

#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub about: About,
    outline: Outline,
    /// The entries that are not complete, and those after them.
    queue: VecDeque<Entry>,
    /// The bytes of their texts.
    bytes: usize,
    complete: Vec<Entry>,
    /// The number of the next entry, rewind or compaction.
    next: u64,
    calls: CallIds,
    /// The prompts and catalogs that the session has stored, by digest.
    assets: HashMap<String, Value>,
    /// Entries of open model calls, by span.
    models: HashMap<u64, u64>,
    /// Entries of open tool calls, by span.
    tools: HashMap<u64, u64>,
    /// The entry of the last model call, until the user speaks.
    current: Option<u64>,
    /// Calls that messages of the model ask for, by their recorded ids, until their spans open or their results come.
    announced: HashMap<String, Announced>,
}

/// The request that a model call would send by what was recorded before it.
pub(crate) fn request_before(session: &Path, call: &Node) -> io::Result<Request> {
    let mut conversation = Conversation::with_plain_ids();
    let mut entries = Vec::new();
    let mut feed = Feed::new(session.to_owned());
    let mut reader = SessionReader::open(session)?;
    let mut found = false;
    while let Some(item) = reader.next()? {
        let ReadItem::Line(line) = item else { continue };
        feed.take(&line, |fed| {
            found |= fed.node.span_id.is_some() && fed.node.span_id == call.span_id;
            if !found {
                conversation.add(&fed);
                entries.append(&mut conversation.complete);
            }
            Ok::<(), io::Error>(())
        })?;
        if found {
            break;
        }
    }
    conversation.finish();
    entries.append(&mut conversation.complete);
    let mut outline = conversation.outline;
    outline.settle();
    let entries = entries.into_iter().flat_map(|entry| outline.resolve(entry));
    let entries = entries.filter(Entry::is_in_context);
    let mut request = conversation.about.request();
    request.messages = entries.flat_map(Entry::into_messages).collect();
    let view: ModelCall<'_> = call.view();
    request.model = view.model_id().map(String::from).or(request.model);
    request.temperature = view.temperature().or(request.temperature);
    request.max_tokens = view.max_tokens().or(request.max_tokens);
    if let Some(Value::Object(params)) = view.params().and_then(|params| params.value()) {
        request.params = params;
    }
    Ok(request)
}

impl About {
    /// A request to the model without messages.
    pub fn request(&self) -> Request {
        Request {
            model: self.model.clone(),
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            system: self.system.clone(),
            tools: self.tools.clone(),
            ..Request::default()
        }
    }

    fn header(&mut self, header: &SegmentHeader<'_>) {
        let process = header.process();
        let version = process.and_then(|process| process.get("version")?.text());
        self.version = version.map(String::from).or(self.version.take());
    }

    fn run(&mut self, run: &Run<'_>) {
        self.agent = self.agent.take().or(run.agent().map(String::from));
        self.model = self.model.take().or(run.model_id().map(String::from));
        let metadata = run.metadata().and_then(|data| data.value());
        self.metadata = metadata.or(self.metadata.take());
        // An imported run has the process that it ran in; the header has the one that imported it.
        let process = run.process();
        let version = process.and_then(|process| process.get("version")?.text());
        self.version = version.map(String::from).or(self.version.take());
    }
}

impl Conversation {
    /// With ids of tool calls that Anthropic's API accepts.
    pub fn with_plain_ids() -> Self {
        let mut conversation = Self::default();
        conversation.calls.plain = true;
        conversation
    }

    /// Begins the second pass, in which entries are given out as they are at the end of the session.
    pub fn begin_again(&mut self) {
        let first = std::mem::take(self);
        self.outline = first.outline;
        self.outline.settle();
        self.calls.plain = first.calls.plain;
    }

    /// The entries that were completed since the last call.
    pub fn complete(&mut self) -> Vec<Entry> {
        let complete = std::mem::take(&mut self.complete).into_iter();
        complete
            .flat_map(|entry| self.outline.resolve(entry))
            .collect()
    }

    /// Completes all entries as they are.
    pub fn finish(&mut self) {
        self.complete.extend(self.queue.drain(..));
    }

    pub fn add(&mut self, fed: &Fed) {
        let node = &fed.node;
        if self.about.session_id != *fed.session_id {
            self.about.session_id = fed.session_id.to_string();
        }
        match node.item() {
            Item::SegmentHeader(header) => self.about.header(&header),
            Item::Run(run) => self.about.run(&run),
            Item::ContextAsset(asset) => self.asset(node, &asset),
            Item::Message(message) => self.message(fed, &message),
            Item::ModelCall(call) => self.model_call(fed, &call),
            Item::ToolCall(call) => self.tool_call(fed, &call),
            Item::Subagent(subagent) => {
                if let Some(id) = subagent.child_session_id() {
                    self.subagent(fed, id.into_owned());
                }
            }
            Item::Rewind(rewind) => {
                let number = self.number();
                self.outline.rewind(&rewind, number);
                self.current = None;
            }
            Item::Compaction(compaction) if node.state == NodeState::Closed && is_ok(node) => {
                self.compact(fed, &compaction);
            }
            _ => {}
        }
        self.give_out();
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Gives out the first entries that nothing more belongs to.
    fn give_out(&mut self) {
        while let Some(first) = self.queue.front() {
            let goes_on = first.open > 0 || self.current == Some(first.number);
            let is_full = self.queue.len() > MOST_ENTRIES || self.bytes > MOST_BYTES;
            if goes_on && !is_full {
                return;
            }
            self.current = self.current.filter(|current| *current != first.number);
            self.bytes -= first.bytes;
            self.complete.extend(self.queue.pop_front());
        }
    }

    fn push(&mut self, fed: &Fed, role: Role) -> u64 {
        let number = self.number();
        self.queue.push_back(Entry::new(fed, role, number));
        self.current = (role == Role::Assistant).then_some(number);
        number
    }

    /// Adds a message that a model is sent. If it was recorded inside of the model call, it stands before the answer.
    fn push_input(&mut self, fed: &Fed, role: Role) -> u64 {
        let model = fed.node.parent;
        let answer = model.and_then(|span| self.models.get(&span).copied());
        let at = answer.and_then(|number| self.place(number));
        let at = at.filter(|at| self.queue[*at].is_blank());
        let answer = at.and_then(|at| self.queue.remove(at));
        let input = self.push(fed, role);
        if let (Some(span), Some(mut answer)) = (model, answer) {
            answer.number = self.number();
            self.models.insert(span, answer.number);
            self.current = Some(answer.number);
            self.queue.push_back(answer);
        }
        input
    }

    /// Where an entry is in the queue, if it was not given out.
    fn place(&self, number: u64) -> Option<usize> {
        let found = self.queue.binary_search_by_key(&number, |one| one.number);
        found.ok()
    }

    /// An entry that was not given out.
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let at = self.place(number)?;
        self.queue.get_mut(at)
    }

    /// The entry of an open model call, or that of the last one.
    fn entry_of(&self, model: Option<u64>) -> Option<u64> {
        let number = model.and_then(|span| self.models.get(&span).copied());
        let is_there = |number: &u64| self.place(*number).is_some();
        number.filter(is_there).or(self.current)
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
            Value::String(prompt) => self.about.system = Some(prompt),
            Value::Array(tools) => self.about.tools = tools,
            _ => {}
        }
    }

    fn message(&mut self, fed: &Fed, message: &Message<'_>) {
        let node = &fed.node;
        let Some(role) = node.role() else { return };
        let parts = message.parts().and_then(|parts| parts.value());
        let parts = parts.as_ref().and_then(Value::as_array);
        let parts = parts.map(Vec::as_slice).unwrap_or_default();
        if role == Role::Tool {
            return self.tool_message(fed, message, parts);
        }
        let attachments = message.attachments();
        let text = node.content();
        let asks = role == Role::Assistant && parts.iter().any(is_call);
        if text.is_none() && attachments.is_none() && !asks && !parts.iter().any(is_media) {
            return;
        }
        let replaced = message.replaces();
        if replaced.is_some() {
            self.current = None;
        }
        let id = message.message_id();
        let number = match role {
            Role::Assistant | Role::Reasoning => self.answer(fed, id.as_deref()),
            role => self.push_input(fed, role),
        };
        if let Some(replaced) = replaced {
            self.outline.edit(&replaced, number);
        }
        if let Some(id) = &id {
            self.outline.id(id, number);
        }
        if let Some(entry) = self.entry(number) {
            let before = entry.bytes;
            entry.message_ids.extend(id.map(String::from));
            entry.incomplete |= node.is_incomplete();
            if let Some(text) = &text {
                entry.add_text(role, text);
            }
            entry.add_attachments(attachments);
            entry.add_media(parts);
            entry.add_metadata(message.metadata());
            let added = entry.bytes - before;
            self.bytes += added;
        }
        if asks {
            self.announce(fed, number, parts);
        }
    }

    /// The entry that a message of the model belongs to.
    fn answer(&mut self, fed: &Fed, id: Option<&str>) -> u64 {
        let of_model = fed
            .node
            .parent
            .filter(|span| self.models.contains_key(span));
        let known = self.entry_of(of_model);
        // After the results of its tools, a text is another answer. Outside of model calls, so is another message.
        let is_other = |entry: &Entry| {
            let is_another = |id: &str| entry.message_ids.last().is_some_and(|last| last != id);
            entry.model.is_none() && id.is_some_and(is_another)
        };
        let is_over =
            |entry: &mut Entry| of_model.is_none() && (entry.has_all_results() || is_other(entry));
        match known.filter(|known| !self.entry(*known).is_some_and(is_over)) {
            Some(known) => known,
            None => self.push(fed, Role::Assistant),
        }
    }

    fn model_call(&mut self, fed: &Fed, call: &ModelCall<'_>) {
        let node = &fed.node;
        let model = call.model_id().map(String::from);
        let about = &mut self.about;
        about.model = model.clone().or(about.model.take());
        about.temperature = call.temperature().or(about.temperature);
        about.max_tokens = call.max_tokens().or(about.max_tokens);
        let span = node.span_id.unwrap_or(0);
        if node.state == NodeState::Open {
            let number = self.push(fed, Role::Assistant);
            self.models.insert(span, number);
            if let Some(entry) = self.entry(number) {
                entry.model = model;
                entry.variant = call.variant().map(String::from);
                entry.open += 1;
            }
        } else if let Some(number) = self.models.remove(&span) {
            let end = ModelEnd::of(node, call);
            match self.entry(number) {
                Some(entry) => {
                    entry.add_metadata(node.get("metadata"));
                    entry.model_end = Some(end);
                    entry.open -= 1;
                }
                None => self.outline.late_model(number, end),
            }
        }
    }

    fn tool_call(&mut self, fed: &Fed, call: &ToolCall<'_>) {
        let node = &fed.node;
        let span = node.span_id.unwrap_or(0);
        if node.state != NodeState::Open {
            let id = self.calls.close(node, call);
            if let Some(number) = self.tools.remove(&span) {
                self.tool_result(number, id, CallEnd::of(node, call));
            }
            return;
        }
        let bytes = call.args().map_or(0, |args| args.json().len());
        let announced = self.claim(call);
        let is_announced = announced.is_some();
        let (number, id) = match announced {
            Some((number, id)) => (number, self.calls.open_as(node, id)),
            None => (self.entry_of_call(fed, call), self.calls.open(node, call)),
        };
        self.tools.insert(span, number);
        let Some(entry) = self.entry(number) else {
            return;
        };
        entry.bytes += bytes;
        match is_announced {
            true => entry.open_announced(&id, node, call),
            false => {
                entry.open += 1;
                entry.calls.push(Call::of(id, node, call));
            }
        }
        self.bytes += bytes;
    }

    /// The entry of a call that no message asked for.
    fn entry_of_call(&mut self, fed: &Fed, call: &ToolCall<'_>) -> u64 {
        let asked = call.model_span_id();
        let asked = asked.and_then(|id| u64::from_str_radix(&id, 16).ok());
        // After results of no call, a call is of another step.
        let goes_on = |entry: &mut Entry| entry.results.is_empty();
        let known = self.entry_of(asked);
        match known.filter(|known| self.entry(*known).is_some_and(goes_on)) {
            Some(number) => number,
            None => self.push(fed, Role::Assistant),
        }
    }

    fn tool_result(&mut self, number: u64, id: String, end: CallEnd) {
        let bytes = end.output.len();
        let Some(entry) = self.entry(number) else {
            return self.outline.late_call(id, end);
        };
        entry.open -= 1;
        entry.bytes += bytes;
        if let Some(call) = entry.calls.iter_mut().find(|call| call.id == id) {
            call.end = Some(end);
        }
        self.bytes += bytes;
    }

    fn subagent(&mut self, fed: &Fed, id: String) {
        let node = &fed.node;
        let number = node.parent.and_then(|span| self.tools.get(&span).copied());
        let call = self.calls.of(node.parent).map(String::from);
        let entry = number.and_then(|number| self.entry(number));
        let calls = entry.into_iter().flat_map(|entry| &mut entry.calls);
        if let Some(call) = calls.into_iter().find(|one| Some(&one.id) == call.as_ref()) {
            return call.subagents.push(id);
        }
        let number = match self.current {
            Some(number) => number,
            None => self.push(fed, Role::Tool),
        };
        if let Some(entry) = self.entry(number) {
            entry.subagents.push(id);
        }
    }

    /// Replaces what was compacted by the summary, if it is known which messages were kept.
    fn compact(&mut self, fed: &Fed, compaction: &Compaction<'_>) {
        let (Some(summary), Some(tail)) = (compaction.summary(), compaction.tail_start_id()) else {
            return;
        };
        let number = self.number();
        let mut entry = Entry::new(fed, Role::User, number);
        entry.text = text_of(summary);
        entry.is_summary = true;
        self.outline.summary(entry, &tail);
        self.current = None;
    }
}
