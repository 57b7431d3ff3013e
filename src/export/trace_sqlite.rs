//! `trace-sqlite`: a table of events, as jutul-agent reads and writes it. The kinds and members of its
//! document come first; our other kinds are further rows, and our other fields further members.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::feed::Fed;
use super::values::{UniqueIds, object, text_of};
use super::{Exporter, Rows, Schema, approves};
use crate::session::{Item, Node, NodeState};
use crate::trace::typed::{Compaction, Hitl, ToolCall};
use crate::trace::{Address, Outcome, time_text};

pub(super) const SCHEMA: Schema = Schema {
    version: 0,
    tables: "CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    timestamp TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_kind_idx ON events(kind);",
};

const INSERT: &str = "INSERT INTO events (timestamp, kind, payload_json) VALUES (?1, ?2, ?3)";

/// Arguments that were recorded after the call had begun.
const LATE_ARGUMENTS: &str =
    "UPDATE events SET payload_json = json_set(payload_json, '$.args', json(?2))
    WHERE id = (SELECT id FROM events
        WHERE kind = 'tool_call' AND json_extract(payload_json, '$.id') = ?1 ORDER BY id DESC LIMIT 1)";

#[derive(Debug, Default)]
pub(super) struct TraceSqlite {
    /// The tool calls that are open, by their spans.
    open: HashMap<u64, OpenCall>,
    /// The model calls that are open, with the usage that events inside them reported.
    models: HashMap<u64, Map<String, Value>>,
    /// The newest call with each recorded id, of those that are open.
    newest: HashMap<String, String>,
    ids: UniqueIds,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    name: String,
    has_arguments: bool,
    /// As a question shows them.
    arguments: Value,
}

/// The members of a row.
#[derive(Debug)]
struct Payload {
    members: Map<String, Value>,
    /// What the trace has in place of the members that were changed; null for those that were added.
    recorded: Map<String, Value>,
}

impl Payload {
    /// All fields of a node.
    fn of(node: &Node) -> Self {
        let members = match node.payload_json() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let recorded = Map::new();
        Self { members, recorded }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        if self.members.get(name) != Some(&value) {
            let before = self.members.insert(name.to_owned(), value);
            self.note(name, before.unwrap_or_default());
        }
    }

    fn remove(&mut self, name: &str) -> Option<Value> {
        let before = self.members.remove(name)?;
        self.note(name, before.clone());
        Some(before)
    }

    fn note(&mut self, name: &str, before: Value) {
        self.recorded.entry(name).or_insert(before);
    }

    /// With the place in the trace, from which an import restores the line.
    fn finish(mut self, node: &Node, at: Address) -> Value {
        let mut place = place(node, at);
        if !self.recorded.is_empty() {
            place["recorded"] = self.recorded.into();
        }
        self.members.insert("spanledger".into(), place);
        self.members.into()
    }
}

impl Exporter for TraceSqlite {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let (node, at) = (&fed.node, fed.at);
        let is_closed = node.state == NodeState::Closed;
        let mut payload = Payload::of(node);
        match node.item() {
            Item::SegmentHeader(_) => return,
            Item::Run(run) if !is_closed => {
                payload.set("session_id", &*fed.session_id);
                if payload.get("simulator").is_none() {
                    payload.set("simulator", Value::Null);
                }
                insert(node, payload, at, rows);
                if let Some(title) = run.title() {
                    let title = json!({"session_id": *fed.session_id, "title": title});
                    derived(node, "session_title", title, at, rows);
                }
                return;
            }
            Item::SessionTitle(_) => payload.set("session_id", &*fed.session_id),
            Item::Message(_) => {
                let content = node.content().map(String::from);
                let content = content.or_else(|| node.get("content").map(text_of));
                payload.set("content", content.unwrap_or_default());
                if node.is_arriving() {
                    // A line with the whole text replaces its pieces.
                    payload.members.remove("text");
                    payload.members.insert("complete".into(), false.into());
                    payload.recorded.clear();
                }
            }
            Item::ModelCall(_) if is_closed => return self.model_result(node, payload, at, rows),
            Item::ModelCall(_) => {
                let open = node.span_id.map(|span| (span, Map::new()));
                self.models.extend(open);
            }
            Item::ModelUsage(_) => return self.model_usage(node, payload, at, rows),
            Item::ToolCall(call) if is_closed => self.tool_result(node, &call, &mut payload, rows),
            Item::ToolCall(call) => self.tool_call(node, &call, &mut payload),
            Item::Compaction(compaction) if is_closed => compacted(&compaction, &mut payload),
            Item::Hitl(hitl) => self.hitl(node, &hitl, &mut payload),
            Item::Artifact(_) => self.artifact(&mut payload),
            _ => {}
        }
        insert(node, payload, at, rows);
    }
}

impl TraceSqlite {
    fn model_result(&mut self, node: &Node, payload: Payload, at: Address, rows: &mut Rows) {
        insert(node, payload, at, rows);
        let inside = node.span_id.and_then(|span| self.models.remove(&span));
        let own = node.get("usage").and_then(object);
        let used = own.filter(|own| !own.is_empty()).or(inside);
        if let Some(usage) = used.filter(|used| !used.is_empty()) {
            derived(node, "model_usage", counted(usage, node), at, rows);
        }
    }

    fn model_usage(&mut self, node: &Node, mut payload: Payload, at: Address, rows: &mut Rows) {
        let call = node.within().and_then(|span| self.models.get_mut(&span));
        let Some(inside) = call else {
            total(&mut payload);
            return insert(node, payload, at, rows);
        };
        inside.extend(payload.members.clone());
        // The call has a row of this kind when it ends.
        let mut payload = payload.finish(node, at);
        payload["spanledger"]["kind"] = node.kind_name().into();
        row(node, "model_usage_update", &payload, rows);
    }

    fn tool_call(&mut self, node: &Node, call: &ToolCall<'_>, payload: &mut Payload) {
        let recorded = call.tool_call_id().unwrap_or_default();
        let id = self.ids.take(&recorded, '#');
        payload.set("id", id.clone());
        payload.set("name", call.tool_id().unwrap_or_default());
        payload.set("args", arguments(call));
        self.newest.insert(recorded.into_owned(), id.clone());
        let open = OpenCall {
            id,
            name: call.tool_id().unwrap_or_default().into_owned(),
            has_arguments: call.args().is_some(),
            arguments: arguments(call),
        };
        self.open.extend(node.span_id.map(|span| (span, open)));
    }

    fn tool_result(
        &mut self,
        node: &Node,
        call: &ToolCall<'_>,
        payload: &mut Payload,
        rows: &mut Rows,
    ) {
        let recorded = call.tool_call_id().unwrap_or_default();
        let open = node.span_id.and_then(|span| self.open.remove(&span));
        let id = match open {
            Some(open) => {
                if !open.has_arguments && call.args().is_some() {
                    let values = vec![open.id.clone().into(), arguments(call).to_string().into()];
                    rows.sql(LATE_ARGUMENTS, values);
                }
                open.id
            }
            None => recorded.clone().into_owned(),
        };
        if self.newest.get(&*recorded) == Some(&id) {
            self.newest.remove(&*recorded);
        }
        let is_ok = matches!(node.outcome(), Some(Outcome::Ok | Outcome::Unset) | None);
        payload.set("tool_call_id", id);
        payload.set("name", call.tool_id().unwrap_or_default());
        payload.set("content", result(node, call, is_ok));
        let status = if is_ok { "success" } else { "error" };
        payload.set("status", status);
    }

    /// The id of the newest call with a recorded one.
    fn id_of(&self, recorded: &str) -> String {
        let known = self.newest.get(recorded).cloned();
        known.unwrap_or_else(|| recorded.to_owned())
    }

    fn name_call(&self, payload: &mut Payload) {
        if let Some(Value::String(id)) = payload.get("tool_call_id") {
            payload.set("tool_call_id", self.id_of(id));
        }
    }

    fn artifact(&self, payload: &mut Payload) {
        self.name_call(payload);
        // Only two numbers can be read.
        let is_size = |size: &Value| {
            let sides = size.as_array().filter(|sides| sides.len() == 2);
            sides.is_some_and(|sides| sides.iter().all(Value::is_number))
        };
        if let Some(size) = payload.remove("size_px") {
            let name = if is_size(&size) { "size_px" } else { "size" };
            payload.set(name, size);
        }
    }

    fn hitl(&self, node: &Node, hitl: &Hitl<'_>, payload: &mut Payload) {
        self.name_call(payload);
        if let Some(decision) = hitl.decision() {
            let decisions = hitl.payload().and_then(|payload| payload.get("decisions"));
            if decisions.is_none() {
                let decision = decision.value().unwrap_or_default();
                payload.set("payload", json!({"decisions": [decided(decision)]}));
            }
            return;
        }
        let pending = hitl.pending().and_then(|pending| pending.value());
        let value = match pending {
            Some(pending) if pending.get("action_requests").is_some() => pending,
            pending => {
                let call = self.asked_about(node, hitl);
                json!({"action_requests": [request(pending.unwrap_or_default(), hitl, call)]})
            }
        };
        payload.set("value", value);
    }

    /// The open call that a question is about: the one that it lies in, else the newest one with the recorded id.
    fn asked_about(&self, node: &Node, hitl: &Hitl<'_>) -> Option<&OpenCall> {
        let inside = node.within().and_then(|span| self.open.get(&span));
        inside.or_else(|| {
            let id = self.newest.get(&*hitl.tool_call_id()?)?;
            self.open.values().find(|call| call.id == *id)
        })
    }
}

/// A question in the words of jutul-agent. What it does not say of the call, the call says.
fn request(pending: Value, hitl: &Hitl<'_>, call: Option<&OpenCall>) -> Value {
    let description = pending.get("description").cloned().unwrap_or_default();
    let name = pending.get("name").and_then(Value::as_str);
    let name = name.map(String::from).or(hitl.tool_id().map(String::from));
    let of_call = || call.map_or_else(|| json!({}), |call| call.arguments.clone());
    let args = match pending {
        Value::Null => None,
        Value::Object(mut members) if members.contains_key("args") => members.remove("args"),
        Value::Object(members) if has_no_arguments(&members) => None,
        arguments => Some(arguments),
    };
    let args = match args {
        Some(args) if args.is_object() => args,
        Some(args) if !args.is_null() => json!({"input": args}),
        _ => of_call(),
    };
    let name = name.or_else(|| call.map(|call| call.name.clone()));
    json!({"name": name, "args": args, "description": description})
}

/// Whether a pending call says what is called, and not with what.
fn has_no_arguments(pending: &Map<String, Value>) -> bool {
    let known = ["name", "description", "id", "type"];
    pending.keys().all(|name| known.contains(&name.as_str()))
}

/// A decision in the words of jutul-agent.
fn decided(decision: Value) -> Value {
    if decision.get("type").is_some() {
        return decision;
    }
    match approves(&decision) {
        Some(true) => json!({"type": "approve"}),
        Some(false) => json!({"type": "reject"}),
        None => {
            let text = decision.as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| decision.to_string());
            json!({"type": "respond", "message": text})
        }
    }
}

/// The result of a call as one text.
fn result(node: &Node, call: &ToolCall<'_>, is_ok: bool) -> String {
    let error = || {
        node.error()
            .or_else(|| node.outcome_name().map(String::from))
    };
    let output = [call.result().or_else(|| call.stdout()), call.stderr()];
    let output: Vec<_> = output.into_iter().flatten().map(text_of).collect();
    let mut texts = output;
    texts.extend(error().filter(|_| !is_ok));
    texts.retain(|text| !text.is_empty());
    texts.join("\n")
}

/// Arguments are an object there.
fn arguments(call: &ToolCall<'_>) -> Value {
    match call.args().and_then(|args| args.value()) {
        Some(args) if args.is_object() => args,
        Some(other) => json!({"input": other}),
        None => match call.command() {
            Some(command) => json!({"command": text_of(command)}),
            None => json!({}),
        },
    }
}

/// Both shapes of a compaction: the document's, and that which transcripts show.
fn compacted(compaction: &Compaction<'_>, payload: &mut Payload) {
    let before = compaction.messages_before();
    let after = compaction.messages_after();
    let both = before.zip(after);
    let fewer = both.map(|(before, after)| before.saturating_sub(after));
    let summarized = compaction.summarized_message_count().or(fewer);
    let kept = payload.remove("kept");
    let offloaded = payload.remove("offloaded");
    let many = |recorded: &Option<Value>| match recorded {
        Some(Value::Array(all)) => Some(all.len() as u64),
        other => other.as_ref()?.as_u64(),
    };
    let is_offloaded = match &offloaded {
        Some(Value::Bool(is)) => *is,
        recorded => many(recorded).map_or(recorded.is_some(), |many| many > 0),
    };
    payload.set("summarized", summarized);
    payload.set("kept", many(&kept).or(after));
    payload.set("offloaded", is_offloaded);
    for (name, recorded) in [("kept_messages", kept), ("offloaded_messages", offloaded)] {
        let lists = recorded.filter(Value::is_array);
        if let Some(list) = lists {
            payload.set(name, list);
        }
    }
    payload.set("messages_before", before);
    payload.set("messages_after", after);
    payload.set("manual", compaction.manual().unwrap_or(false));
}

/// The usage of a model call, with what the provider reported.
fn counted(usage: Map<String, Value>, node: &Node) -> Value {
    let recorded = Map::new();
    let mut usage = Payload {
        members: usage,
        recorded,
    };
    if let Some(model) = node.get("model_id").and_then(|model| model.text()) {
        usage.set("model_id", &*model);
    }
    total(&mut usage);
    usage.members.into()
}

/// Adds the total, and the provider's own members.
fn total(usage: &mut Payload) {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let sum = count("input_tokens").zip(count("output_tokens"));
    let sum = sum.map(|(input, output)| input.saturating_add(output));
    if usage.get("total_tokens").is_none() {
        usage.set("total_tokens", sum);
    }
    if let Some(Value::Object(details)) = usage.remove("usage_details") {
        for (name, value) in details {
            if usage.get(&name).is_none() {
                usage.set(&name, value);
            }
        }
    }
}

fn place(node: &Node, at: Address) -> Value {
    let hex = |id: Option<u64>| id.map(|id| format!("{id:016x}"));
    json!({
        "seg": at.seg,
        "seq": at.seq,
        "turn": node.turn,
        "trace_id": node.trace_id,
        "span_id": hex(node.span_id),
        "parent_span_id": hex(node.parent),
    })
}

/// Adds the row of a node under the name of its line's kind.
fn insert(node: &Node, payload: Payload, at: Address, rows: &mut Rows) {
    let closes = node
        .kind
        .opens()
        .filter(|_| node.state == NodeState::Closed);
    let kind = closes.map_or(node.kind_name(), |span| span.closing().as_str());
    row(node, kind, &payload.finish(node, at), rows);
}

/// Adds a row whose content other rows have too.
fn derived(node: &Node, kind: &str, mut payload: Value, at: Address, rows: &mut Rows) {
    payload["spanledger"] = place(node, at);
    payload["spanledger"]["derived"] = true.into();
    row(node, kind, &payload, rows);
}

fn row(node: &Node, kind: &str, payload: &Value, rows: &mut Rows) {
    let mut time = time_text(node.end(), 6);
    time.pop();
    time.push_str("+00:00");
    rows.sql(
        INSERT,
        vec![time.into(), kind.into(), payload.to_string().into()],
    );
}
