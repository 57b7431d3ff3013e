//! A conversation as the chat formats have it: a session, its messages, their parts.
//!
//! Everything of a message becomes lines with its id, in the order of its parts, at their times. A `step-start`
//! begins a model call, which has the tokens of the message if it is its last.

mod assets;
mod hidden;
mod part;
mod tool;
mod usage;

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value, json};

use super::Import;
use super::history::{Fields, History, Span, fields};
use super::time::from_millis;
use crate::trace::{Kind, Outcome, SpanKind, Usage, time_text};
pub(super) use assets::ASSETS;
use assets::Assets;
use hidden::HiddenMessages;
use usage::{classes, usage};

/// The title of a session that has none.
const NO_TITLE: &str = "New Chat";

/// Writes a conversation.
pub(super) struct Chat<'a> {
    pub history: History<'a>,
    session: Fields,
    /// The members of its metadata that are events of their own.
    status: Option<Value>,
    branches: Option<Value>,
    assets: Assets,
    /// The model call that is open.
    model: Option<Span>,
    /// Tool calls that are open, by when they end.
    ends: BTreeMap<(u64, usize), ToolEnd>,
    tools: usize,
    hidden: HiddenMessages,
    counted: Usage,
}

/// How a tool call ends.
struct ToolEnd {
    span: Span,
    outcome: Outcome,
    fields: Value,
}

/// What a message of the model says about its calls.
struct Answer<'m> {
    message: &'m Message,
    usage: Option<Usage>,
    /// A call has it, or there is nothing.
    is_told: bool,
}

/// A row of a message.
struct Message {
    id: String,
    metadata: Fields,
    created: u64,
    updated: u64,
}

impl Message {
    fn of(row: &Fields, session: &str) -> io::Result<Self> {
        let id = text(row, "id").ok_or_else(|| io::Error::other("a message has no `id`"))?;
        let metadata = member_object(row, "metadata_json")?;
        let recorded = text(&metadata, "message_id");
        let id = plain_id(session, id);
        let created = time(row, "created_at")
            .ok_or_else(|| io::Error::other(format!("the message {id:?} has no `created_at`")))?;
        Ok(Self {
            id: recorded
                .filter(|recorded| *recorded == id)
                .unwrap_or(id)
                .to_owned(),
            created,
            updated: time(row, "updated_at").unwrap_or(created),
            metadata,
        })
    }
}

impl Message {
    /// Whether it waits in Grida's queue or was withdrawn from it, so the model has not got it.
    fn is_queued(&self) -> bool {
        let marks = ["queued_at", "queue_canceled_at"].into_iter();
        let mut marks = marks.filter_map(|name| self.metadata.get(name));
        marks.any(|at| !at.is_null())
    }
}

pub(super) fn text<'a>(row: &'a Fields, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str)
}

/// A time in milliseconds since 1970.
fn time(row: &Fields, name: &str) -> Option<u64> {
    row.get(name).and_then(Value::as_u64).map(from_millis)
}

/// A member that is the text of a JSON object, or an object.
pub(super) fn member_object(row: &Fields, name: &str) -> io::Result<Fields> {
    let parsed = match row.get(name) {
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        Some(Value::String(text)) => serde_json::from_str(text),
        Some(value) => Ok(value.clone()),
    };
    let id = text(row, "id").unwrap_or_default();
    match parsed {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(io::Error::other(format!(
            "`{name}` of {id:?} is no JSON object"
        ))),
        Err(error) => Err(io::Error::other(format!(
            "`{name}` of {id:?} is no JSON: {error}"
        ))),
    }
}

/// An id without the session's before it, which our exports add.
fn plain_id<'a>(session: &str, id: &'a str) -> &'a str {
    let rest = id
        .strip_prefix(session)
        .and_then(|rest| rest.strip_prefix('/'));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(id)
}

impl<'a> Chat<'a> {
    /// Begins with the session's row. A session with a parent is a subagent or a branch.
    pub fn new(
        import: &'a Import,
        format: &'static str,
        session: Fields,
        is_subagent: bool,
    ) -> io::Result<Self> {
        let id = text(&session, "id").ok_or_else(|| io::Error::other("a session has no `id`"))?;
        let mut chat = Self {
            history: History::new(import, format, id),
            status: None,
            branches: None,
            assets: Assets::default(),
            model: None,
            ends: BTreeMap::new(),
            tools: 0,
            hidden: HiddenMessages::default(),
            counted: Usage::default(),
            session,
        };
        chat.begin(is_subagent)?;
        Ok(chat)
    }

    fn begin(&mut self, is_subagent: bool) -> io::Result<()> {
        let row = &self.session;
        let created = time(row, "created_at")
            .ok_or_else(|| io::Error::other("the session has no `created_at`"))?;
        let mut run = member_object(row, "model_json")?;
        run.retain(|name, _| {
            matches!(
                name.as_str(),
                "provider_id" | "model_id" | "variant" | "temperature"
            )
        });
        let mut metadata = member_object(row, "metadata_json")?;
        self.status = metadata.remove("status");
        self.branches = metadata.remove("branches");
        for name in ["external_ids", "tags", "output_dir", "run_name"] {
            run.extend(metadata.remove(name).map(|value| (name.to_owned(), value)));
        }
        // What the agent recorded, and what other programs keep beside it.
        let own = metadata.remove("metadata");
        match (own, metadata.is_empty()) {
            (Some(own), true) => run.extend([("metadata".to_owned(), own)]),
            (own, false) => {
                metadata.extend(own.map(|own| ("metadata".to_owned(), own)));
                run.insert("metadata".into(), metadata.into());
            }
            (None, true) => {}
        }
        let title = text(row, "title").filter(|title| *title != NO_TITLE);
        let parent = text(row, "parent_id");
        let branch = text(row, "parent_message_id")
            .filter(|_| !is_subagent)
            .zip(parent);
        let branch = branch.map(|(message, parent)| json!({"session_id": parent, "message_id": plain_id(parent, message)}));
        run.extend(fields(json!({
            "agent": row.get("agent"),
            "title": title,
            "workspace_root": row.get("workspace_root"),
            "parent_session_id": parent.filter(|_| branch.is_none()),
            "branched_from": branch,
        })));
        self.history.start_run(created, run.into())
    }

    /// A message and its parts.
    pub fn message(&mut self, row: &Fields, parts: &[Fields]) -> io::Result<()> {
        let message = Message::of(row, self.history.id())?;
        if message.is_queued() {
            return Ok(());
        }
        let role = text(row, "role").unwrap_or_default();
        self.rewinds(message.created)?;
        self.turn(role, &message)?;
        match role {
            "user" => self.simple(Kind::MessageUser, &message, parts)?,
            "system" => self.simple(Kind::MessageSystem, &message, parts)?,
            "assistant" => self.assistant(&message, parts)?,
            role => {
                let why = format!("the message {:?} has the unknown role {role:?}", message.id);
                return Err(io::Error::other(why));
            }
        }
        let hidden = time(row, "hidden_at").or_else(|| time(&message.metadata, "hidden_at"));
        self.hidden.add(message.id, hidden);
        Ok(())
    }

    fn turn(&mut self, role: &str, message: &Message) -> io::Result<()> {
        let number = message.metadata.get("turn").and_then(Value::as_u64);
        let is_ours = message.metadata.contains_key("address");
        match number.and_then(|number| u32::try_from(number).ok()) {
            Some(number) if self.history.turn() == Some(number) => Ok(()),
            Some(number) => {
                self.end_tools(message.created)?;
                self.history
                    .start_turn_number(number, message.created, Outcome::Unset)
            }
            None if is_ours => self.history.end_turn(message.created, Outcome::Unset),
            None if role == "user" => {
                self.end_tools(message.created)?;
                self.history.start_turn(message.created, Outcome::Unset)
            }
            None => Ok(()),
        }
    }

    /// Tool calls that have ended by now.
    fn end_tools(&mut self, now: u64) -> io::Result<()> {
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, _), end) = first.remove_entry();
            let at = if at == u64::MAX {
                self.history.last()
            } else {
                at
            };
            self.history.close(end.span, at, end.outcome, end.fields)?;
        }
        Ok(())
    }

    /// The rewinds that have happened by now.
    fn rewinds(&mut self, now: u64) -> io::Result<()> {
        while let Some((at, rewind)) = self.hidden.next_rewind(now) {
            self.end_tools(at)?;
            self.history.event(Kind::Rewind, at, rewind)?;
        }
        Ok(())
    }

    fn assistant(&mut self, message: &Message, rows: &[Fields]) -> io::Result<()> {
        let parts: io::Result<Vec<_>> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| part::Part::of(row, message, index))
            .collect();
        let parts = parts?;
        let usage = usage(&message.metadata);
        if let Some(usage) = &usage {
            self.counted.add(usage);
        }
        let is_step = |part: &part::Part| part.kind == "step-start";
        let words = |part: &part::Part| matches!(part.kind.as_str(), "text" | "reasoning");
        let last_words = parts.iter().rposition(words);
        let mut answer = Answer {
            message,
            usage,
            is_told: !describes_call(message),
        };
        let mut steps = parts.iter().filter(|part| is_step(part)).count();
        let times: Vec<_> = parts.iter().map(|part| part.created).collect();
        for (index, part) in parts.into_iter().enumerate() {
            self.end_tools(part.created)?;
            if is_step(&part) {
                self.end_model(&mut answer, false, part.created)?;
                steps -= 1;
                let open = model(message).into();
                let span = self
                    .history
                    .open(SpanKind::Model, &part.key, part.created, open)?;
                self.model = Some(span);
                // The call was over before anything was said.
                if times.get(index + 1) != Some(&part.created) && !answer.is_told {
                    self.end_model(&mut answer, steps == 0, part.created)?;
                }
                continue;
            }
            if part.is_tool() && !answer.is_told {
                self.end_model(&mut answer, steps == 0, part.created)?;
            }
            self.part(message, part, last_words == Some(index))?;
        }
        self.end_model(&mut answer, true, message.updated)?;
        self.unstarted_call(answer)
    }

    /// A call that no part of its message has started.
    fn unstarted_call(&mut self, mut answer: Answer<'_>) -> io::Result<()> {
        let message = answer.message;
        if answer.is_told {
            return Ok(());
        }
        let only_usage = |name: &str| !message.metadata.contains_key(name);
        if ["model", "finish_reason", "error"]
            .into_iter()
            .all(only_usage)
        {
            let usage = answer.usage.take().map(|usage| fields(usage.to_json()));
            let usage = usage.unwrap_or_default().into();
            return self.history.event(Kind::ModelUsage, message.updated, usage);
        }
        let span = self
            .history
            .unopened(SpanKind::Model, &message.id, message.updated);
        self.model = Some(span);
        self.end_model(&mut answer, true, message.updated)
    }

    /// Ends the model call that is open. The last one of a message has what is known of all.
    fn end_model(&mut self, answer: &mut Answer<'_>, is_last: bool, time: u64) -> io::Result<()> {
        let Some(span) = self.model.take() else {
            return Ok(());
        };
        let message = answer.message;
        let mut call = model(message);
        call.insert("message_id".into(), message.id.clone().into());
        let mut outcome = Outcome::Unset;
        if is_last && !std::mem::replace(&mut answer.is_told, true) {
            let metadata = &message.metadata;
            let reason = metadata.get("finish_reason").cloned();
            call.extend(reason.map(|reason| ("finish_reason".to_owned(), reason)));
            if let Some(error) = text(metadata, "error") {
                call.insert("error".into(), json!({"message": error}));
                outcome = Outcome::Error;
            }
            let usage = answer.usage.take().map(|usage| fields(usage.to_json()));
            call.extend(usage.map(|usage| ("usage".to_owned(), usage.into())));
        }
        self.history.close(span, time, outcome, call.into())
    }

    /// Writes what is left, and the session's own events. `source` is kept.
    pub fn finish(
        mut self,
        source: impl FnOnce(&mut History<'a>) -> io::Result<()>,
    ) -> io::Result<History<'a>> {
        self.end_tools(u64::MAX)?;
        self.rewinds(u64::MAX)?;
        let updated = time(&self.session, "updated_at")
            .unwrap_or(0)
            .max(self.history.last());
        self.history.end_turn(updated, Outcome::Unset)?;
        if let Some(rest) = self.uncounted() {
            // Calls that are in no message, such as those for titles.
            let call = json!({"purpose": "other", "usage": fields(rest.to_json())});
            let open = json!({"purpose": "other"});
            let span = self.history.open(SpanKind::Model, "rest", updated, open)?;
            self.history.close(span, updated, Outcome::Unset, call)?;
        }
        self.last_rules(updated)?;
        if let Some(status) = self.status.take() {
            self.history
                .event(Kind::SessionStatus, updated, json!({"status": status}))?;
        }
        if let Some(Value::Array(branches)) = self.branches.take() {
            for branch in branches {
                let message = branch["message_id"]
                    .as_str()
                    .map(|id| plain_id(self.history.id(), id));
                let branch =
                    json!({"child_session_id": branch["session_id"], "message_id": message});
                self.history.event(Kind::Branch, updated, branch)?;
            }
        }
        if let Some(at) = time(&self.session, "archived_at") {
            let archived = json!({"archived_at": time_text(at, 3)});
            self.history.event(Kind::SessionUpdate, updated, archived)?;
        }
        source(&mut self.history)?;
        self.history.end_run(updated, Outcome::Unset, Value::Null)?;
        Ok(self.history)
    }

    /// What the session's row counts beyond its messages.
    fn uncounted(&self) -> Option<Usage> {
        let row = |name: &str| self.session.get(name).and_then(Value::as_u64).unwrap_or(0);
        let counted = &self.counted;
        let rest = |all: u64, counted: Option<u64>| all.saturating_sub(counted.unwrap_or(0));
        let cost = self
            .session
            .get("cost_usd")
            .and_then(Value::as_f64)
            .unwrap_or(0.0);
        let cost = cost - counted.cost_usd.unwrap_or(0.0);
        let usage = classes(
            [
                rest(row("prompt_tokens"), counted.input_uncached_tokens),
                rest(row("completion_tokens"), counted.output_text_tokens),
                rest(row("reasoning_tokens"), counted.reasoning_tokens),
                rest(row("cache_read"), counted.cache_read_tokens),
                rest(row("cache_write"), counted.cache_write_tokens),
            ],
            (cost > 1e-9).then_some(cost),
        );
        (usage != Usage::default()).then_some(usage)
    }
}

/// Whether a message has something of a model call.
fn describes_call(message: &Message) -> bool {
    let known = ["model", "usage", "finish_reason", "error"];
    known
        .iter()
        .any(|name| message.metadata.contains_key(*name))
}

/// The model of a message, and the digests of what it was sent.
fn model(message: &Message) -> Fields {
    let mut call = match message.metadata.get("model") {
        Some(Value::Object(model)) => model.clone(),
        _ => Fields::new(),
    };
    for (name, _) in ASSETS {
        let digest = message.metadata.get(name).cloned();
        call.extend(digest.map(|digest| (name.to_owned(), digest)));
    }
    call
}
